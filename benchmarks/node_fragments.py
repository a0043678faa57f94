"""Measure how much less stale fragments are if a corpus learns from the sketches of its fetches.

The same as `benchmarks.fragments` for real pages, but with the whole of recrawl: a corpus in a
folder, which gets the sketch of each version through `Outcome.sketch` and learns the divergence
curves by itself.  Nothing else tells it how much of a page has changed.
"""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import recrawl
from benchmarks.fragments import (
    BUDGETS,
    YEAR,
    Objective,
    Staleness,
    VersionReader,
    compare_runs,
    first_fetches,
    read_sketched_histories,
    staleness_of,
)
from lab.recorded import data_folder
from lab.text_histories import TEXT_HISTORIES, Counts, Floats, Histories
from recrawl.core.divergence import Sketches, pack_sketch
from recrawl.corpus import CorpusConfig

_START_MS = 1_700_000_000_000
_FETCHED_AT_ONCE = 10


class StepClock:
    """A clock that stands at a time of the simulated year."""

    def __init__(self) -> None:
        self.ms = _START_MS

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return self.ms

    def running_ms(self) -> int:
        """Return the same, which never decreases."""
        return self.ms

    def sleep(self, seconds: float) -> None:
        """Move on by a number of seconds."""
        self.ms += round(1000 * seconds)


def _config(objective: Objective) -> CorpusConfig:
    sections: dict[str, Any] = {
        "corpus": {"objective": objective},
        "politeness": {"delay": 0, "in_flight_max": 1_000, "burst": 1_000},
        # Pages are added when their history begins, which is not how a corpus grows.
        "protection": {"new_pages_share": 1, "new_domain_share": 1},
    }
    return CorpusConfig.from_dict(sections)


class CorpusRun:
    """A corpus that fetches recorded pages.

    Parameters
    ----------
    web, sketches
        Versions of the pages, and the sketch of each version.
    corpus
        An empty corpus.
    clock
        Clock of the corpus.
    """

    def __init__(
        self, web: Histories, sketches: Sketches, corpus: recrawl.Corpus, clock: StepClock
    ) -> None:
        self._contents = VersionReader(web)
        self._web, self._sketches = web, sketches
        self._corpus, self._clock = corpus, clock
        self.log: list[tuple[Counts, Floats, Counts]] = []

    def begin(self, page: Counts, at: Floats) -> None:
        """Add pages, and fetch them for the first time."""
        self._corpus.add([self._url(row) for row in page.tolist()])
        self._report(page, at, [0] * page.size)

    def fetch(self, now: float) -> None:
        """Fetch the pages that the corpus orders."""
        self._clock.ms = _START_MS + round(1000 * now)
        orders = self._corpus.lease(_FETCHED_AT_ONCE)
        page = np.array([int(order.url.split("//p")[1].split(".")[0]) for order in orders], int)
        self._report(page, np.full(page.size, now), [order.handle for order in orders])

    @staticmethod
    def _url(page: int) -> str:
        return f"https://p{page}.example/"

    def _report(self, page: Counts, at: Floats, handles: list[int]) -> None:
        version = self._contents.read(page, at)
        outcomes = [
            recrawl.Outcome(
                handle=handle,
                url=None if handle else self._url(row),
                digest=hashlib.sha256(str(self._web.digest[found]).encode()).digest(),
                sketch=self._sketch(found),
                fetched_at_ms=_START_MS + round(1000 * seconds),
            )
            for row, found, seconds, handle in zip(
                page.tolist(), version.tolist(), at.tolist(), handles, strict=True
            )
        ]
        self._corpus.report(outcomes)
        self.log.append((page, at, version))

    def _sketch(self, version: int) -> bytes:
        hashes, offsets, n_fragments = self._sketches
        own = hashes[offsets[version] : offsets[version + 1]]
        return pack_sketch(own, n_fragments=int(n_fragments[version]))


def run(
    web: Histories, sketches: Sketches, fetches_per_page: float, objective: Objective, folder: Path
) -> Staleness:
    """Fetch with a corpus for a year, and return the staleness of its copies."""
    start = first_fetches(web)
    clock = StepClock()
    with recrawl.open(folder, _config(objective), clock=clock) as corpus:
        fetching = CorpusRun(web, sketches, corpus, clock)
        n_rounds = int(fetches_per_page * web.n_pages / _FETCHED_AT_ONCE)
        beginning = np.argsort(start, kind="stable")
        begun = 0
        for now in YEAR * np.arange(n_rounds) / n_rounds:
            clock.ms = _START_MS + round(1000 * now)
            ready = int(np.searchsorted(start[beginning], now, side="right"))
            if ready > begun:
                rows = beginning[begun:ready]
                fetching.begin(rows, start[rows])
                begun = ready
            if now > 0.0:
                fetching.fetch(float(now))
    return staleness_of(
        web, *(np.concatenate(column) for column in zip(*fetching.log, strict=True))
    )


def _some_pages(web: Histories, n_pages: int) -> Histories:
    """Return the histories of the first pages; versions keep their rows."""
    end = int(web.offsets[n_pages])
    return Histories(
        offsets=web.offsets[: n_pages + 1],
        at=web.at[:end],
        digest=web.digest[:end],
        cluster=web.cluster[:n_pages],
        ends_at=web.ends_at[:n_pages],
        compare=web.compare,
    )


def measure(n_pages: int | None = None, budgets: tuple[float, ...] = BUDGETS) -> dict[str, object]:
    """Compare both objectives on real histories."""
    path = data_folder() / TEXT_HISTORIES
    if not path.is_file():
        return {"real": f"{path.name} is not in {path.parent}; set RECRAWL_DATA"}
    web, sketches = read_sketched_histories(path)
    web = web if n_pages is None else _some_pages(web, n_pages)
    found = []
    for budget in budgets:
        with tempfile.TemporaryDirectory() as folder:
            freshness = run(web, sketches, budget, "freshness", Path(folder) / "freshness")
            fragments = run(web, sketches, budget, "fragments", Path(folder) / "fragments")
        found.append(compare_runs(web, budget, freshness, fragments, n_resamples=2_000))
    return {"real": found}
