"""How many changes are found when pages are visited by the square root of their estimated rate."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from lab.change_days import (
    CACHE,
    OTA,
    TRACES,
    ChangeDays,
    Stretches,
    cache_hours,
    ota_days,
    trace_days,
)
from lab.claim import Check, Claim, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.tables import Cell, Table
from recrawl.core.arrays import CountArray, FloatArray
from recrawl.papers.change_rate import naive_change_rate, regular_change_rate

__all__ = ["CLAIM"]

UNIFORM, NAIVE, IMPROVED = "uniform", "naive", "improved"
NAIVE_ALL, IMPROVED_ALL = "naive, none dropped", "improved, none dropped"
KNOWN = "rates known"
_PAPER = {UNIFORM: 1.0, NAIVE: 1.93, IMPROVED: 2.28}


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Histories, and how many days apart uniform visits are."""

    name: str
    read: Callable[[], ChangeDays]
    every: int


CORPORA = (
    Corpus(name="git histories, weekly", read=trace_days, every=7),
    # Of the paper's visits 2 147 589 in 9.26 million found a change, 23 %: here every 77 days do.
    Corpus(name="git histories, every 11 weeks", read=trace_days, every=77),
    Corpus(name="terms of service, weekly", read=ota_days, every=7),
    Corpus(name="general web, every 7 hours", read=cache_hours, every=7),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """As in the paper: 13 visits of each page on average, of which the first 5 are uniform.

    Each page is watched from a random day of its history on, drawn ``n_draws`` times.
    """

    n_visits: int = 13
    n_warm_up: int = 5
    n_draws: int = 10
    seed: int = 1


SETTINGS = {Scale.QUICK: Settings(n_draws=1), Scale.FULL: Settings()}


def n_found_after(stretches: Stretches, n_visits: CountArray, start: int) -> int:
    """Return how many visits find a change after day ``start``.

    Parameters
    ----------
    stretches
        The pages, just visited at the end of the days before ``start``.
    n_visits
        Of each page, evenly spaced, the last one at the end.
    start
        The first day.
    """
    # A visit finds what happened on days that had ended by then.
    ended = stretches.day + 1 - start
    n = n_visits[stretches.page]
    later = (ended > 0) & (n > 0)
    visit = -(-ended[later] * n[later] // (stretches.n_days - start))
    page = stretches.page[later]
    is_new = np.ones(page.size, np.bool_)
    is_new[1:] = (page[1:] != page[:-1]) | (visit[1:] != visit[:-1])
    return int(np.count_nonzero(is_new))


def shared_visits(weight: FloatArray, n_visits: int, offset: float) -> CountArray:
    """Return whole numbers of visits in proportion to a weight, ``n_visits`` in all.

    What is left over of one page goes to the next; ``offset``, 0 to 1, says where that begins.
    """
    running = np.cumsum(weight) * (n_visits / weight.sum())
    running[-1] = n_visits
    visits: CountArray = np.diff(np.floor(running + offset).astype(np.int64), prepend=0)
    return visits


def found_by_policy(stretches: Stretches, settings: Settings, seed: int) -> dict[str, int]:
    """Return the visits that found a change, under each policy."""
    every = stretches.n_days // settings.n_visits
    start = every * settings.n_warm_up
    n_found = stretches.n_found(every, start)
    naive = naive_change_rate(n_found, float(start))
    improved = regular_change_rate(settings.n_warm_up, n_found, float(every))
    never = n_found == 0
    rates = {
        UNIFORM: np.ones(stretches.n_pages),
        NAIVE: naive,
        IMPROVED: improved,
        NAIVE_ALL: np.where(never, 1 / start, naive),
        IMPROVED_ALL: np.where(never, 1 / start, improved),
        KNOWN: stretches.n_changes / stretches.n_days,
    }
    offset = float(np.random.default_rng(seed).random())
    n_left = stretches.n_pages * (settings.n_visits - settings.n_warm_up)
    found = {}
    for name, rate in rates.items():
        n_visits = shared_visits(np.sqrt(rate), n_left, offset)
        found[name] = int(n_found.sum()) + n_found_after(stretches, n_visits, start)
    return found


def measure(scale: Scale) -> dict[str, Table]:
    """Return the changes found by each policy on each corpus."""
    settings = SETTINGS[scale]
    rows: list[dict[str, Cell]] = []
    histories = {corpus.read: corpus.read() for corpus in CORPORA}
    for corpus in CORPORA:
        history = histories[corpus.read]
        totals: dict[str, int] = {}
        n_visits = n_changes = n_pages = 0
        for k in range(settings.n_draws):
            seed = settings.seed + k
            stretches = history.stretches(corpus.every * settings.n_visits, seed)
            n_pages = stretches.n_pages
            n_visits += n_pages * settings.n_visits
            n_changes += stretches.page.size
            for name, n in found_by_policy(stretches, settings, seed).items():
                totals[name] = totals.get(name, 0) + n
        rows += [
            {
                "corpus": corpus.name,
                "policy": name,
                "n_pages": n_pages,
                "found_per_visit": n / n_visits,
                "found_of_all": n / n_changes,
                "over_uniform": n / totals[UNIFORM],
            }
            for name, n in totals.items()
        ]
    return {"found": Table.of(rows)}


def judge(tables: Tables) -> tuple[Check, ...]:
    """Ask for the paper's order on each corpus, pages without a change dropped and not."""
    found = tables["found"]
    checks = []
    for corpus in found.distinct("corpus"):
        for naive_name, improved_name, how in (
            (NAIVE, IMPROVED, "naive and improved"),
            (NAIVE_ALL, IMPROVED_ALL, "none dropped"),
        ):
            naive = found.value("over_uniform", corpus=corpus, policy=naive_name)
            improved = found.value("over_uniform", corpus=corpus, policy=improved_name)
            checks.append(
                Check(
                    what=f"{corpus}: found over uniform, {how}",
                    found=f"{naive:.1%}, {improved:.1%}",
                    wanted="100 % < naive < improved (paper 193 %, 228 %)",
                    holds=1.0 < naive < improved,
                )
            )
    return tuple(checks)


def said(tables: Tables) -> dict[str, str]:
    """Return what uniform weekly visits find of git histories, and the most that rates buy."""
    found = tables["found"]
    uniform = found.value("found_of_all", corpus=CORPORA[0].name, policy=UNIFORM)
    known = found.where(policy=KNOWN).floats("over_uniform").max()
    return {"uniform": f"{100 * uniform:.0f} %", "known": f"{100 * known:.0f} %"}


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw what each policy finds, over what uniform visits do."""
    found = tables["found"]
    corpora = found.distinct("corpus")
    figure, (panel,) = panels(width=8.6, height=4.2)
    colours = {
        UNIFORM: "#9e9e9e",
        NAIVE: COLOURS[0],
        NAIVE_ALL: COLOURS[4],
        IMPROVED: OURS,
        IMPROVED_ALL: COLOURS[3],
        KNOWN: "black",
    }
    width = 0.13
    at = np.arange(len(corpora) + 1)
    for k, (name, colour) in enumerate(colours.items()):
        heights = [_PAPER.get(name, np.nan)]
        heights += [found.value("over_uniform", corpus=c, policy=name) for c in corpora]
        panel.bar(at + (k - 2.5) * width, heights, width * 0.92, color=colour, label=name)
    panel.axhline(1.0, color="#888888", lw=1.0)
    panel.set_xticks(at, labels=["the paper", *(c.replace(", ", ",\n") for c in corpora)])
    panel.set_ylabel("changes found, over uniform visits")
    panel.set_ylim(0.0, 2.5)
    panel.legend(loc="upper right", ncols=2)
    return {"": figure}


CLAIM = Claim(
    id="G-T1",
    kind=Kind.ORDER,
    paper="CGM",
    figures="table I",
    title="changes found by visiting in proportion to √rate",
    says=(
        "720 000 pages are visited 13 times on average, weekly for the first 5 visits, then in "
        "proportion to the square root of the estimated rate.  Over weekly visits (100 %) the "
        "naive estimator finds 193 % of the changes, the improved one 228 %."
    ),
    tolerance=(
        "On each corpus, uniform < naive < improved in the number of changes found: by the letter "
        "of the paper, where a page not found changed in the warm-up has a rate of 0 and is not "
        "visited again, and also if it has that time for a period."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    captions={
        "": (
            'Changes found in 13 visits per page, over those that uniform visits find.  "None '
            'dropped": pages not found changed in the warm-up have that time for a period '
            'instead of a rate of 0.  "Rates known": by the rate over the whole stretch.'
        )
    },
    remark=(
        "Nowhere is the gain near the paper's, not even with rates known ({known} at most).  Its "
        "pages were more unlike: 23 % of uniform visits found a change, and visits by rate twice "
        "as many, so many pages changed daily and most hardly ever.  Git histories are like that "
        "in the first respect when visited every 11 weeks.  "
        "Settled after a first look: visits every 11 weeks, and the variant that drops no page."
    ),
    said=said,
    fails_because=(
        "By the letter of the paper, git histories visited weekly are better off with uniform "
        "visits, which find {uniform} of all changes anyway: most pages do not change in the "
        "warm-up, are dropped, and what they do later is lost.  On terms of service the two "
        "estimators draw.  With visits as scarce as the paper's, and on general web pages, the "
        "order is the paper's; and so it is everywhere if no page is dropped."
    ),
    failing=(
        "git histories, weekly: found over uniform, naive and improved",
        "terms of service, weekly: found over uniform, naive and improved",
    ),
    needs=(TRACES, OTA, CACHE),
)
