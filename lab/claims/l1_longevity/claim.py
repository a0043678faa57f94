"""How long the content of recorded pages lives, which their change rates do not say."""

from dataclasses import dataclass

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from lab.claim import Claim, Figures, Kind, Scale, Tables
from lab.claims.l1_longevity.fragments import Presence, presence_of
from lab.drawing import COLOURS, OURS, panels
from lab.policies.longevity.corpora import Corpus, recorded_texts
from lab.tables import Table
from lab.text_histories import TEXT_HISTORIES, Counts, Floats, TextHistories
from recrawl.core.divergence import churn_lifetime, scroll_lifetime

__all__ = ["CLAIM"]

_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of a run: windows of 30 snapshots, two days apart.

    The two pages shown change at nearly every snapshot; ``n_stripes`` of their fragments are
    drawn.  Lifetimes are of pages that change at about a quarter of the snapshots.
    """

    corpus: Corpus
    frequent: float = 0.85
    n_stays_min: int = 60
    n_stripes: int = 110
    rate: float = 0.25
    rate_within: float = 0.1
    n_items: int = 10


SETTINGS = {
    Scale.QUICK: Settings(corpus=Corpus(page_stride=4)),
    Scale.FULL: Settings(corpus=Corpus(n_windows_max=2)),
}
GROUPS = ("K = 1", "K = 2", "K > 2")


def _windows(texts: TextHistories, corpus: Corpus) -> list[tuple[int, float]]:
    """Return page and start of each window, evenly in the time observed."""
    length = corpus.n_snapshots * corpus.apart_days * _DAY
    windows = []
    for page in range(texts.offsets.size - 1):
        at = texts.at[texts.offsets[page] : texts.offsets[page + 1]]
        n = min(corpus.n_windows_max, int((at[-1] - at[0]) / length))
        gap = (at[-1] - at[0] - n * length) / (n + 1)
        windows += [(page, float(at[0] + gap + k * (length + gap))) for k in range(n)]
    return windows


def measure(scale: Scale) -> Tables:
    """Follow the fragments of all recorded pages."""
    settings = SETTINGS[scale]
    corpus = settings.corpus
    texts = recorded_texts(corpus.page_stride)
    windows = _windows(texts, corpus)
    seen = [
        presence_of(
            texts,
            page,
            start=start,
            n_snapshots=corpus.n_snapshots,
            apart_seconds=corpus.apart_days * _DAY,
        )
        for page, start in windows
    ]
    frequency, longevity, n_stays = _longevity(seen)
    known = n_stays > 0
    return {
        **_two_pages(seen, frequency, longevity, n_stays, settings),
        "frequency": Table.of_columns(
            {"change_share": frequency[known], "longevity": longevity[known].round(2)}
        ),
        "correlation": _correlation(frequency[known], longevity[known]),
        "shares": _shares(seen),
        "lifetimes": _lifetimes(seen, frequency, settings),
        "models": _models(settings),
    }


def _longevity(seen: list[Presence]) -> tuple[Floats, Floats, Counts]:
    """Return change share, mean stay and number of stays of each window."""
    frequency = np.array([window.change_share for window in seen])
    longevity, n_stays = np.full(len(seen), np.nan), np.zeros(len(seen), np.int64)
    for k, window in enumerate(seen):
        begins, ends = window.runs()
        n_stays[k] = begins.size
        if begins.size:
            longevity[k] = (ends - begins).mean()
    return frequency, longevity, n_stays


def _correlation(frequency: Floats, longevity: Floats) -> Table:
    linear = np.corrcoef(frequency, longevity)[0, 1]
    logarithmic = np.corrcoef(frequency, np.log(longevity))[0, 1]
    return Table.of(
        [{"windows": frequency.size, "linear": float(linear), "with_log": float(logarithmic)}]
    )


def _two_pages(
    seen: list[Presence],
    frequency: Floats,
    longevity: Floats,
    n_stays: Counts,
    settings: Settings,
) -> dict[str, Table]:
    """Return the frequently changing pages whose content stays shortest and longest."""
    fits = (frequency >= settings.frequent) & (n_stays >= settings.n_stays_min)
    chosen = np.flatnonzero(fits)
    pages = {
        "A": chosen[np.argmin(longevity[chosen])],
        "B": chosen[np.argmax(longevity[chosen])],
    }
    stripes: list[dict[str, str | int]] = []
    curves: list[dict[str, str | float]] = []
    for name, k in pages.items():
        present = seen[k].is_present
        step = max(1, present.shape[0] // settings.n_stripes)
        n = present.shape[1]
        for row, fragment in enumerate(present[::step]):
            at = np.flatnonzero(fragment)
            stripes.append({"page": name, "row": row, "first": int(at[0]), "last": int(at[-1])})
        for b in range(n):
            both = (present[:, 0] & present[:, b]).sum()
            either = (present[:, 0] | present[:, b]).sum()
            curves.append(
                {
                    "page": name,
                    "snapshot": b,
                    "divergence": float(1 - both / either),
                    "change_share": float(frequency[k]),
                    "longevity": float(longevity[k]),
                }
            )
    return {"stripes": Table.of(stripes), "curves": Table.of(curves)}


def _shares(seen: list[Presence]) -> Table:
    survived = [window.updates_survived() for window in seen]
    of_pages = [(k == 1).mean() for k in survived if k.size]
    dominant = np.array([_dominant(k) for k in survived if k.size])
    pooled = np.concatenate(survived)
    row: dict[str, float] = {
        "stays": pooled.size,
        "churn_of_stays": float((pooled == 1).mean()),
        "churn_mean_of_pages": float(np.mean(of_pages)),
    }
    for number, group in enumerate(GROUPS):
        row[f"pages with {group}"] = float((dominant == number).mean())
    return Table.of([row])


def _dominant(survived: Counts) -> int:
    """Return the group of the most common number of updates survived."""
    return min(int(np.bincount(survived)[1:].argmax()), 2)


def _lifetimes(seen: list[Presence], frequency: Floats, settings: Settings) -> Table:
    alike = np.flatnonzero(np.abs(frequency - settings.rate) <= settings.rate_within)
    stays: dict[int, list[tuple[Counts, Counts]]] = {0: [], 1: [], 2: []}
    for k in alike:
        survived = seen[k].updates_survived()
        if survived.size:
            begins, ends = seen[k].runs()
            stays[_dominant(survived)].append((ends - begins, survived))
    ages = np.arange(1, settings.corpus.n_snapshots)
    rows: list[dict[str, str | float]] = []
    for number, group in enumerate(GROUPS):
        if not stays[number]:
            continue
        lived = np.concatenate([lives for lives, _ in stays[number]])
        weight = np.bincount(np.concatenate([k for _, k in stays[number]]))[1:]
        sizes = np.arange(1, weight.size + 1)
        # Each model has the distribution of K that the pages of its group have.
        model = weight @ scroll_lifetime(settings.rate, ages[None, :], n_items=sizes[:, None])
        for age, modelled in zip(ages, model / weight.sum(), strict=True):
            rows.append(
                {
                    "group": group,
                    "windows": len(stays[number]),
                    "age": int(age),
                    "actual": float((lived <= age).mean()),
                    "model": float(modelled),
                }
            )
    return Table.of(rows)


def _models(settings: Settings) -> Table:
    age = np.linspace(0.0, 80.0, 81)
    scroll = scroll_lifetime(settings.rate, age, n_items=settings.n_items)
    return Table.of_columns(
        {"age": age, "churn": churn_lifetime(settings.rate, age), "scroll": scroll}
    )


def draw(tables: Tables) -> Figures:
    """Draw the paper's five figures in three."""
    return {
        "pages": _draw_pages(tables),
        "frequency": _draw_frequency(tables),
        "lifetimes": _draw_lifetimes(tables),
    }


def _draw_pages(tables: Tables) -> Figure:
    figure, axes = panels(2, 2, height=2.9, width=9.0)
    for column, name in enumerate("AB"):
        stripes = tables["stripes"].where(page=name)
        curve = tables["curves"].where(page=name)
        row = stripes.floats("row")
        # A stripe ends when the snapshot after its last comes.
        ends = np.stack([stripes.floats("first"), stripes.floats("last") + 1], axis=1)
        lines = [[(x0, y), (x1, y)] for (x0, x1), y in zip(ends, row, strict=True)]
        colour = COLOURS[column]
        above, below = axes[column], axes[2 + column]
        above.add_collection(LineCollection(lines, colors=colour, linewidths=0.7))
        above.set_xlim(0, 30)
        above.set_ylim(float(row.max()) + 1, -1)
        above.grid(visible=False)
        share, stay = (float(curve.floats(key)[0]) for key in ("change_share", "longevity"))
        above.set_title(f"Page {name}: {share:.0%} of snapshots differ, stays of {stay:.1f}")
        above.set_ylabel("fragments, by first appearance")
        at, divergence = curve.floats("snapshot"), curve.floats("divergence")
        below.plot(at, divergence, color=colour)
        below.fill_between(at, divergence, divergence[-1], color=colour, alpha=0.15)
        below.set_xlim(0, 30)
        below.set_ylim(0, 1)
        below.set_xlabel("snapshots, two days each")
        below.set_ylabel("divergence of the copy")
    return figure


def _draw_frequency(tables: Tables) -> Figure:
    table, correlation = tables["frequency"], tables["correlation"]
    figure, (panel,) = panels()
    panel.plot(
        table.floats("change_share"),
        table.floats("longevity"),
        ".",
        ms=3.5,
        alpha=0.6,
        color=COLOURS[0],
    )
    panel.set_yscale("log")
    panel.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    panel.set_xlabel("change frequency: share of snapshots that differ from the one before")
    panel.set_ylabel("longevity: mean stay, snapshots")
    linear, with_log = (float(correlation.floats(key)[0]) for key in ("linear", "with_log"))
    panel.set_title(f"Correlation {linear:.2f}, with the logarithm {with_log:.2f}")
    return figure


def _draw_lifetimes(tables: Tables) -> Figure:
    figure, (left, right) = panels(2)
    models = tables["models"]
    for kind, colour in (("churn", COLOURS[0]), ("scroll", OURS)):
        label = kind if kind == "churn" else "scroll, K = 10"
        left.plot(models.floats("age"), models.floats(kind), color=colour, label=label)
    left.set_xlabel("lifetime, snapshots")
    left.set_ylabel("share of fragments gone by then")
    left.set_title("Models, .25 changes per snapshot")
    left.legend(loc="lower right")
    table = tables["lifetimes"]
    for group, colour in zip(table.distinct("group"), (*COLOURS[:2], OURS), strict=False):
        lived = table.where(group=group)
        n = int(lived.floats("windows")[0])
        right.plot(
            lived.floats("age"), lived.floats("actual"), color=colour, label=f"{group} ({n})"
        )
        right.plot(lived.floats("age"), lived.floats("model"), "--", color=colour, lw=1.1)
    right.set_xlabel("lifetime, snapshots")
    right.set_ylim(0, 1)
    shares = tables["shares"]
    of_stays, of_pages = (
        float(shares.floats(key)[0]) for key in ("churn_of_stays", "churn_mean_of_pages")
    )
    right.set_title(f"Churn: {of_stays:.0%} of fragments, {of_pages:.0%} by page")
    right.legend(loc="lower right", title="most common K (pages)")
    return figure


CLAIM = Claim(
    id="L-1..5",
    kind=Kind.FIGURE,
    paper="Longevity",
    figures="figs 1–5",
    title="change rates do not say how long content lives",
    says=(
        "Pages A and B change equally often; what A shows is gone at the next change, what B "
        "shows stays for weeks (figs 1, 2).  Over 10 000 pages change frequency and longevity "
        "are not strongly correlated (.67, fig. 3).  Churn and scroll have unlike lifetimes "
        "(fig. 4), and real pages with λ = .25 follow the model (fig. 5); 67 % of fragments that "
        "are not static churn, 33 % scroll."
    ),
    measure=measure,
    draw=draw,
    captions={
        "pages": (
            "Of recorded pages that change at nearly every snapshot, the one whose content stays "
            "shortest (A) and the one whose content stays longest (B).  Each stripe is a "
            "fragment from its first appearance to its last; a sample.  Below, the divergence "
            "of the copy of snapshot 0; the shaded area is what a fetch is worth at the end."
        ),
        "frequency": (
            "Each point is a page in a window of 30 snapshots.  The paper prints a correlation "
            "of .67; here it is negative, as one expects where every change takes something "
            "away.  At equal frequency longevity differs by a factor of ten and more."
        ),
        "lifetimes": (
            "Left: the two models at .25 changes per snapshot.  Right: fragments of recorded "
            "pages that change at .15 to .35 of the snapshots, by how many updates most of a "
            "page's fragments survive (lines), and the model with the same distribution of K "
            "(dashes).  Fragments present at the first or last snapshot are left out, as in the "
            "paper, which cuts long lives."
        ),
    },
    remark=(
        "Shares depend on what is counted: a time stamp makes new fragments at every change, so "
        "that counting fragments overstates churn.  A page's fragments are followed by their "
        "hashes below the page's threshold, a sample of about 200."
    ),
    needs=(TEXT_HISTORIES,),
)
