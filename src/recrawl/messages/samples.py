"""The state of a corpus at one moment, and its series over time.

Everything can be added up over partitions: freshness is a sum and the number of pages that it is a
sum over, and a histogram is the counts of fixed ranges.  Ratios and percentiles come last.
"""

import math
from dataclasses import asdict, dataclass, field, fields
from itertools import accumulate
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AUDITS",
    "COUNTS",
    "DURATION_EDGES_SECONDS",
    "FRESHNESS_EDGES",
    "FRESHNESS_KNOWN_WORDS",
    "HISTOGRAMS",
    "HOSTS_SAMPLED_MAX",
    "KINDS_SAMPLED_MAX",
    "POLLS_PER_PAGE_MIN",
    "RESULTS",
    "SOURCES_SAMPLED_MAX",
    "STATES",
    "STEPS",
    "Figures",
    "Histogram",
    "Sample",
    "Samples",
    "SourceFigures",
    "SourceSamples",
    "is_freshness_known",
]

HOSTS_SAMPLED_MAX: Final = 200
"""Number of hosts in a sample: those with the most pages."""
KINDS_SAMPLED_MAX: Final = 200
"""Number of kinds in a sample: those with the most pages."""
SOURCES_SAMPLED_MAX: Final = 200
"""Number of sources in a sample: those with the most signals."""

RESULTS: Final = ("first", "unchanged", "changed", "gone", "disallowed", "failed", "wrong_answer")
"""Results of fetches; every reported fetch has one of them.  ``first`` is the first copy of a page,
``gone`` a page that was not found or has moved, ``failed`` an error that may be transient, and
``wrong_answer`` an answer that was not the page."""

POLLS_PER_PAGE_MIN: Final = 2.0
"""Number of polls per page from which on an estimate of freshness is more than the first guess.  A
poll is a fetch that shows whether a page has changed; the first fetch of a page does not."""
FRESHNESS_KNOWN_WORDS: Final = "once most pages have been fetched three times"
"""When the freshness of pages is known, in words."""


def is_freshness_known(n_polls: float, n_pages: float) -> bool:
    """Return whether pages were fetched often enough to say how fresh their copies are.

    Until then an estimate rests on how often pages change in general, and faces show that it is
    not known yet.

    Parameters
    ----------
    n_polls
        Number of polls of the pages so far.
    n_pages
        Number of the pages, without those that are never fetched.
    """
    return n_polls >= POLLS_PER_PAGE_MIN * n_pages > 0


STATES: Final = ("n_pages", "n_modelled", "fresh_pages", "weight", "fresh_weight", "n_due")
"""Figures that describe one moment."""
AUDITS: Final = ("n_audited", "n_audited_fresh", "audited_modelled", "audited_variance")
"""Figures of audits."""
COUNTS: Final = (*RESULTS, "spent", *AUDITS)
"""Figures that only grow: they count from the creation of the corpus on."""

FRESHNESS_EDGES: Final = tuple(i / 20 for i in range(21))
"""Ranges of the probability that a copy is fresh."""
_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
DURATION_EDGES_SECONDS: Final = (
    *(0.0, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 4 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY, 60 * _DAY, 90 * _DAY),
    *(180 * _DAY, 365 * _DAY, 3 * 365 * _DAY, 10 * 365 * _DAY, math.inf),
)
"""Ranges of durations; there are as many of them as of `FRESHNESS_EDGES`."""
HISTOGRAMS: Final = ("freshness", "copy_age", "change_interval", "due_wait")
"""Names of histograms of pages: by the probability that the copy is fresh, the time since its last
fetch, the mean time between changes, and the time since a due page became due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of a corpus, a partition, a host or a kind; each can be added to another's."""

    n_pages: float
    n_modelled: float
    """Pages whose freshness is estimated: those that are fetched from time to time."""
    fresh_pages: float
    """Expected number of fresh copies among them."""
    weight: float
    """Sum of their importance."""
    fresh_weight: float
    """Sum of the importance of each, times the probability that its copy is fresh."""
    n_due: float
    """Pages that are worth the price now or have reached a limit, without those in flight."""
    results: dict[str, int]
    """Reported fetches by result: names of `RESULTS`."""
    spent: float
    """Budget that reported fetches have used, in fetches or cost."""
    n_audited: int
    n_audited_fresh: int
    audited_modelled: float = 0.0
    """Sum of the modelled freshness of the audited copies, just before they were fetched."""
    audited_variance: float = 0.0
    """Variance of ``n_audited_fresh`` if the model is right."""

    @property
    def freshness(self) -> float:
        """Modelled share of fresh copies; nan without pages."""
        return self.fresh_pages / self.n_modelled if self.n_modelled else math.nan

    @property
    def weighted_freshness(self) -> float:
        """Modelled share of fresh copies, weighted by importance; nan without pages."""
        return self.fresh_weight / self.weight if self.weight else math.nan

    @property
    def is_freshness_known(self) -> bool:
        """Whether enough fetches have shown how often the pages change."""
        n_polls = self.results["unchanged"] + self.results["changed"] + self.results["gone"]
        return is_freshness_known(n_polls, self.n_modelled)

    @property
    def n_fetches(self) -> int:
        """Number of reported fetches."""
        return sum(self.results.values())

    @property
    def n_changed(self) -> int:
        """Number of fetches that found a change of a page."""
        return self.results["changed"]

    def __add__(self, other: "Figures") -> "Figures":
        """Return the figures of both together."""
        sums = {
            name: getattr(self, name) + getattr(other, name) for name in (*STATES, "spent", *AUDITS)
        }
        results = {name: self.results[name] + other.results[name] for name in RESULTS}
        return Figures(**sums, results=results)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFigures:
    """What is known of one source of signals on one host."""

    source: str
    host: str
    n_signals: int
    """Number of its signals since the corpus was created."""
    precision: float
    """Share of its signals that announce a change."""
    recall: float
    """Share of the changes of its pages that it announces; nan if unknown."""
    delay_seconds: float
    """Time from a change to its signal."""
    n_judged: float
    """Number of signals that fetches have confirmed or refuted, discounted by age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Numbers of pages in fixed ranges; histograms with the same ranges are added up."""

    edges: tuple[float, ...]
    """Ends of the ranges, one more than there are ranges; each range includes its lower end."""
    counts: tuple[float, ...]

    def __add__(self, other: "Histogram") -> "Histogram":
        """Return the histogram of the pages of both."""
        if self.edges != other.edges:
            raise ValueError("histograms with different ranges cannot be added up")
        pairs = zip(self.counts, other.counts, strict=True)
        return Histogram(edges=self.edges, counts=tuple(a + b for a, b in pairs))

    @property
    def total(self) -> float:
        """Number of pages in all ranges."""
        return sum(self.counts)

    def quantile(self, share: float) -> float:
        """Return the value that a share of the pages is at or below; nan without pages.

        Within a range, pages are taken as evenly spread; in a range without an upper end, at its
        lower end.

        Parameters
        ----------
        share
            Share of the pages, 0 to 1; 0.5 for the median.

        Examples
        --------
        >>> round(Histogram(edges=(0.0, 10.0, 20.0), counts=(30.0, 10.0)).quantile(0.5), 3)
        6.667
        """
        wanted = share * self.total
        if not self.total:
            return math.nan
        for i, up_to in enumerate(accumulate(self.counts)):
            if up_to >= wanted and self.counts[i]:
                low, high = self.edges[i], self.edges[i + 1]
                if math.isinf(high):
                    return low
                return high - (high - low) * (up_to - wanted) / self.counts[i]
        return self.edges[-2]


def _no_histograms() -> dict[str, Histogram]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The state of a corpus at one moment.

    A corpus with more than `recrawl.shard.figures.PAGES_SUMMED_MAX` pages in a partition estimates
    what depends on single pages from about as many of them.
    """

    at_ms: int
    """Time, in milliseconds since 1970."""
    total: Figures
    partitions: dict[int, Figures]
    """Figures of each partition, by its number."""
    hosts: dict[str, Figures]
    """Figures of the hosts with the most pages, most first; at most `HOSTS_SAMPLED_MAX`."""
    n_hosts: int
    """Number of all hosts with pages."""
    kinds: dict[str, Figures]
    """Figures of the kinds, most pages first; the empty name is that of pages without a kind."""
    sources: list[SourceFigures]
    """Sources with the most signals, most first; at most `SOURCES_SAMPLED_MAX`."""
    n_sources: int
    """Number of all sources that have signalled."""
    price: float
    """Price that the value of a fetch must reach; the mean over partitions, weighted by pages."""
    budget_unit: Literal["fetches", "cost"]
    budget_per_second: float | None
    """Budget allowed per second; None if unlimited, 0 if it is per run."""
    in_flight: int
    """Orders that a fetcher holds."""
    n_signals: int
    """Signals since the corpus was created."""
    histograms: dict[str, Histogram] = field(default_factory=_no_histograms)
    """Histograms of pages, by the names in `HISTOGRAMS`."""
    n_partitions_away: int = 0
    """Partitions of a cluster that could not be reached, so that nothing of them is counted."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries and numbers, for JSON."""
        return asdict(self)


STEPS: Final = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
"""Steps of series, in milliseconds: minutes are kept for a day, hours for a month, days for ten
years."""

_Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """Figures of a corpus, a host or a kind over time; one row for each minute, hour or day.

    Rows without any sample are left out.  Counts are those of the row's own span, not from the
    beginning on; figures of a moment are the mean over the samples of the span.
    """

    step: str
    """Length of a row: one of `STEPS`."""
    at_ms: NDArray[np.int64]
    """Begin of each row, in milliseconds since 1970, ascending."""
    n_partitions: NDArray[np.int64]
    """Number of partitions that have a sample in the row; the figures are of these alone."""
    n_pages: _Column
    n_modelled: _Column
    """Pages whose freshness is estimated."""
    fresh_pages: _Column
    """Expected number of fresh copies among them."""
    weight: _Column
    """Sum of their importance."""
    fresh_weight: _Column
    """Sum of the importance of each, times the probability that its copy is fresh."""
    n_due: _Column
    results: dict[str, _Column]
    """Number of reported fetches by result: names of `RESULTS`."""
    spent: _Column
    """Budget that reported fetches have used, in fetches or cost."""
    n_audited: _Column
    n_audited_fresh: _Column
    audited_modelled: _Column
    """Sum of the modelled freshness of the audited copies, just before they were fetched."""
    audited_variance: _Column
    """Variance of ``n_audited_fresh`` if the model is right."""
    price: _Column
    """Price that the value of a fetch must reach; nan for a host or a kind."""
    budget_per_second: _Column
    """Budget allowed per second, inf if unlimited; nan for a host or a kind."""
    in_flight: _Column
    """Orders that a fetcher holds; nan for a host or a kind."""
    n_signals: _Column
    """Number of signals; nan for a host or a kind."""
    histograms: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """Mean numbers of pages by range, one row for each span; empty for a host or a kind.  The names
    are those of `HISTOGRAMS`."""
    n_partitions_away: int = 0
    """Partitions of a cluster that could not be reached, so that nothing of them is counted."""
    first_ms: int | None = None
    """Time of the first sample of the corpus, from which on there are counts; None if unknown."""

    @property
    def freshness(self) -> _Column:
        """Modelled share of fresh copies; nan without pages."""
        return _share(self.fresh_pages, self.n_modelled)

    @property
    def weighted_freshness(self) -> _Column:
        """Modelled share of fresh copies, weighted by importance; nan without pages."""
        return _share(self.fresh_weight, self.weight)

    @property
    def n_fetches(self) -> _Column:
        """Number of reported fetches."""
        total: _Column = np.sum([self.results[name] for name in RESULTS], axis=0)
        return total

    def histogram(self, name: str, row: int = -1) -> Histogram:
        """Return a histogram of one row; the last one by default."""
        edges = FRESHNESS_EDGES if name == "freshness" else DURATION_EDGES_SECONDS
        return Histogram(edges=edges, counts=tuple(self.histograms[name][row].tolist()))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, arrays and numbers, for JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceSamples:
    """What was known of one source of signals on one host over time."""

    step: str
    """Length of a row: one of `STEPS`."""
    at_ms: NDArray[np.int64]
    """Begin of each row, in milliseconds since 1970, ascending."""
    n_signals: _Column
    """Number of its signals in the row's span."""
    precision: _Column
    """Mean share of its signals that announce a change."""
    recall: _Column
    """Mean share of the changes of its pages that it announces; nan if unknown."""
    delay_seconds: _Column
    """Mean time from a change to its signal."""
    n_judged: _Column
    """Mean number of signals that fetches have confirmed or refuted, discounted by age."""
    first_ms: int | None = None
    """Time of the first sample of the corpus, from which on there are counts; None if unknown."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, arrays and numbers, for JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def _share(part: _Column, whole: _Column) -> _Column:
    share: _Column = np.divide(part, whole, out=np.full(whole.size, math.nan), where=whole > 0)
    return share
