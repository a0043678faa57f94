"""The kinds of webs on which policies are compared, with all that decides them.

What is here is version 2 and stays as it is: another seed, horizon or budget is another version.

Each track has two halves.  The open webs are for developing policies, and may be looked at as often
as you like; on the webs that are held out policies are judged.  Made-up webs that are held out have
seeds of their own, recorded ones hosts of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recrawl.errors import ReadError
from recrawl.refreshbench.recorded import hourly_web, terms_web, texts_web, traces_web
from recrawl.sim import (
    Times,
    Web,
    Windows,
    papers_web,
    realistic_web,
    signals_paper_web,
    signals_web,
)

__all__ = ["QUICK_BUDGETS", "QUICK_WEBS", "TRACKS", "VERSION", "Track", "track_named"]

VERSION = "2"
"""Of webs, budgets and scores together; results of one version can be compared."""

HOUR = 3_600.0
DAY = 86_400.0
# The first seeds of the open webs and of those that are held out.  Five defaults of recrawl were
# chosen with the open webs in view (docs/adr/0020-memory-is-learned-from-surprises.md), nothing
# with the others.
_OPEN_SEED, _HELD_OUT_SEED = 1_000, 52_000
_N_WEBS, _N_HELD_OUT = 5, 5
# What a quick run looks at, of tracks that are made up: these webs, and these budgets.
QUICK_WEBS = 2
QUICK_BUDGETS = (0, 2)
# What oracles are told.
_RATES = "each page's change rate"
_SIGNALS = "each page's change rate, and how complete and how often false its signals are"
_COUNTS = "how often each page changes in all, and not when"


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One kind of web, and the budgets that policies are given on it.

    Parameters
    ----------
    name, about
        A word, and a sentence.
    make
        Returns a web by its number; it is given the folder of recorded data.
    n_webs, n_held_out
        Open webs of this kind, and webs that are held out; a recorded track has one of each.
    fetches_per_page_day
        Budgets from scarce to ample, for the average page.
    very_stale_seconds
        A copy that has been stale for longer is very stale.
    n_parts
        Parts of whole hosts into which the pages of a web are divided, for intervals.
    oracle_knows
        Knowledge of the oracle, as the end of a sentence without its full stop.  The oracle is
        not an upper bound where more could be known.
    has_content
        Whether pages change in part, so that fragment staleness says more than staleness.
    needs
        Files of recorded data.
    """

    name: str
    about: str
    make: Callable[[int, Path], Web]
    n_webs: int = _N_WEBS
    n_held_out: int = _N_HELD_OUT
    fetches_per_page_day: tuple[float, float, float, float]
    very_stale_seconds: float
    oracle_knows: str
    n_parts: int = 1
    has_content: bool = False
    needs: tuple[str, ...] = ()

    @property
    def is_recorded(self) -> bool:
        """Whether its web is what real pages did, and there are files to be had for it."""
        return bool(self.needs)

    def webs(self, *, held_out: bool) -> range:
        """Return the numbers of the webs that are held out, or of the open ones."""
        if held_out:
            return range(self.n_webs, self.n_webs + self.n_held_out)
        return range(self.n_webs)

    def is_there(self, folder: Path | None) -> bool:
        """Return whether the track can be run with the data of a folder."""
        if folder is None:
            return not self.needs
        return all((folder / name).is_file() for name in self.needs)

    def web(self, number: int, folder: Path | None = None) -> Web:
        """Return one of the track's webs.

        Parameters
        ----------
        number
            Number of the web: from 0 for an open web, from ``n_webs`` for a held-out one; see
            `webs`.
        folder
            Folder with the recorded data; only tracks that need files use it.

        Raises
        ------
        ReadError
            If the files are not what they should be.
        """
        n_webs = self.n_webs + self.n_held_out
        if not 0 <= number < n_webs:
            raise ValueError(f"number must be from 0 to {n_webs - 1}, got {number!r}")
        if not self.is_there(folder):
            raise ValueError(f"folder must have {', '.join(self.needs)}, got {folder!r}")
        if not self.is_recorded:
            return self.make(number, folder or Path())
        try:
            return self.make(number, folder or Path())
        except Exception as error:
            # Whatever is wrong with a file: its format, a column, or numbers that do not match.
            reason = f"{type(error).__name__}: {error}"
            files = ", ".join(self.needs)
            raise ReadError(
                f"{self.name} cannot be made of {files} in {folder}: {reason}"
            ) from error

    def budget(self, number: int, web: Web) -> float:
        """Return one of the budgets, in fetches per second of all pages of a web together."""
        return self.fetches_per_page_day[number] * web.n_pages / DAY


def _seed(number: int) -> int:
    """Return the seed of a made-up web."""
    if number < _N_WEBS:
        return _OPEN_SEED + number
    return _HELD_OUT_SEED + number - _N_WEBS


def _unlike_rates(number: int, folder: Path) -> Web:
    del folder
    return papers_web(_seed(number))


def _signals(number: int, folder: Path) -> Web:
    del folder
    return signals_web(_seed(number))


def _papers_signals(number: int, folder: Path) -> Web:
    """Return the web of Signals' experiments with a day as its unit of time.

    Its pages have nothing in common, so each is a host of its own.
    """
    del folder
    web = signals_paper_web(_seed(number), 200, horizon=400.0)
    n_pages = web.n_pages
    return web._replace(
        horizon=DAY * web.horizon,
        group=np.arange(n_pages),
        change_rate=web.change_rate / DAY,
        changes=Times(web.changes.offsets, DAY * web.changes.at),
        signals=web.signals._replace(
            at=DAY * web.signals.at, claimed_at=DAY * web.signals.claimed_at
        ),
        false_rate=web.false_rate / DAY,
        outages=Windows.none(n_pages),
        group_delay=np.zeros(n_pages),
    )


def _lively(number: int, folder: Path) -> Web:
    del folder
    return realistic_web(_seed(number), 1_000)


TRACKS = (
    Track(
        name="unlike-rates",
        about="500 pages that change at random, at log-normal rates, for 2000 hours; no signals.",
        make=_unlike_rates,
        fetches_per_page_day=(0.1, 0.25, 0.75, 2.0),
        very_stale_seconds=DAY,
        oracle_knows=_RATES,
    ),
    Track(
        name="signals",
        about="300 pages on 15 hosts for 2000 hours; most hosts signal changes, well or badly.",
        make=_signals,
        fetches_per_page_day=(0.08, 0.24, 0.72, 2.2),
        very_stale_seconds=DAY,
        oracle_knows=_SIGNALS,
    ),
    Track(
        name="papers-signals",
        about="200 pages of the Signals paper for 400 days, each with signals of its own quality.",
        make=_papers_signals,
        fetches_per_page_day=(0.1, 0.2, 0.5, 1.0),
        very_stale_seconds=2 * DAY,
        oracle_knows=_SIGNALS,
    ),
    Track(
        name="lively",
        about="1000 pages for a year with the traits of recorded ones: bursts, weekends, flapping, "
        "site-wide changes, failures, sitemaps, content that changes in part.",
        make=_lively,
        fetches_per_page_day=(0.006, 0.018, 0.055, 0.16),
        very_stale_seconds=7 * DAY,
        oracle_knows="each page's base rate of change, and how complete and how often false "
        "its signals are; not bursts, weekends, site-wide changes, how much livelier new pages "
        "are, or how late signals come",
        has_content=True,
    ),
    Track(
        name="terms",
        about="Pages of terms of service, fetched twice a day for eight months.",
        make=terms_web,
        n_webs=1,
        n_held_out=1,
        fetches_per_page_day=(0.02, 0.06, 0.2, 0.6),
        very_stale_seconds=7 * DAY,
        oracle_knows=_COUNTS,
        n_parts=12,
        needs=("ota_crawl_log.parquet", "ota_crawl_log_pages.csv"),
    ),
    Track(
        name="hourly",
        about="Pages of all kinds, fetched every hour for a month.",
        make=hourly_web,
        n_webs=1,
        n_held_out=1,
        fetches_per_page_day=(0.5, 1.5, 5.0, 12.0),
        very_stale_seconds=DAY,
        oracle_knows=_COUNTS,
        n_parts=12,
        needs=("nolan_cache500.csv",),
    ),
    Track(
        name="traces",
        about="Up to 60 pages of each of some public repositories, for two years.",
        make=traces_web,
        n_webs=1,
        n_held_out=1,
        fetches_per_page_day=(0.006, 0.018, 0.055, 0.16),
        very_stale_seconds=14 * DAY,
        oracle_knows=_COUNTS,
        n_parts=12,
        needs=("change_traces.parquet",),
    ),
    Track(
        name="texts",
        about="Pages of public repositories with all their versions, for a year each.",
        make=texts_web,
        n_webs=1,
        n_held_out=1,
        fetches_per_page_day=(0.01, 0.03, 0.08, 0.25),
        very_stale_seconds=7 * DAY,
        oracle_knows=_COUNTS,
        n_parts=12,
        has_content=True,
        needs=("text_histories.parquet", "text_histories_pages.csv"),
    ),
)
"""All tracks: four that are made up, then four that were recorded."""


def track_named(name: str) -> Track:
    """Return a track.

    Examples
    --------
    >>> track_named("signals").fetches_per_page_day
    (0.08, 0.24, 0.72, 2.2)
    """
    for track in TRACKS:
        if track.name == name:
            return track
    raise ValueError(f"name must be one of {[track.name for track in TRACKS]}, got {name!r}")
