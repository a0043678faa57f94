"""What a corpus shows of itself: changes, consumers, pages, hosts, sources, statistics."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from recrawl.messages.enums import Transition
from recrawl.messages.samples import is_freshness_known

__all__ = [
    "AuditRow",
    "AuditTable",
    "AuditedFreshness",
    "Consumer",
    "HostTable",
    "HostView",
    "LastChange",
    "PageChange",
    "PageRows",
    "Passage",
    "PassageChanges",
    "SourceRow",
    "SourceTable",
    "Stats",
]


class PassageChanges(NamedTuple):
    """The passages of a page's new version, compared with the version before."""

    kept: tuple[int, ...]
    """Hashes of passages that both versions have."""
    added: tuple[int, ...]
    """Hashes of passages that only the new version has."""
    removed: tuple[int, ...]
    """Hashes of passages that only the old version has."""
    added_text: tuple[str | None, ...] | None = None
    """Texts of ``added``; None if texts are not kept, or for a text beyond the limit."""


class PageChange(NamedTuple):
    """One change of a page."""

    cursor: str
    """Cursor to continue after this change."""
    url: str
    what: Transition
    at_ms: int
    """Time at which recrawl learned of it, in milliseconds since 1970; it never decreases."""
    doc_id: str | None = None
    """Name that you gave the page; None once the page is no longer tracked."""
    metadata: dict[str, Any] | None = None
    """JSON object that you gave with the page; None once the page is no longer tracked."""
    key: str | None = None
    """Key of the page, in a corpus grouped by key."""
    passages: PassageChanges | None = None
    """Passages that this version keeps, adds and lacks, if you report bodies or texts; None for a
    change without any, such as a page that is gone."""
    kind: str | None = None
    """Kind of the page now; None if it has none, or is no longer tracked."""
    sequence: str = ""
    """Number of the change as text.  No two changes of a corpus have the same, and of two changes
    of a page the later one has the greater text."""


class Consumer(NamedTuple):
    """A named consumer of the change feed."""

    name: str
    cursor: str
    """Place that was committed last."""
    committed_at_ms: int
    n_behind: int
    """Number of changes in the feed after its place."""
    n_missed: int
    """Number of changes after its place that the feed no longer has; at least so many."""
    problem: str | None
    """Reason why it cannot continue; None if it can."""
    kept_used: float = 0.0
    """How near its next change is to being removed from the feed: its share of the time or the
    number of changes that the feed keeps.  At 1 it may be lost; 0 if there is no next change."""


class PageRows(NamedTuple):
    """Some pages of a corpus, and where to continue."""

    batch: pa.RecordBatch
    cursor: str | None
    """Cursor of the next rows; None after the last page."""


class HostView(NamedTuple):
    """How a host is fetched from; the defaults of the corpus for a host that is not known."""

    host: str
    n_pages: int
    delay_seconds: float
    """Time between two fetches."""
    in_flight_max: int
    """Number of fetches at the same time."""
    burst: int
    """Number of fetches that may follow each other without a delay."""
    blocked_until_ms: int | None
    """Time before which the host is not fetched from; None if it may be."""
    is_closed: bool
    """Whether nothing is fetched from the host."""
    is_unlimited: bool
    """Whether pages added to the host are never limited as newcomers."""
    standby_seconds: float | None = None
    """Seconds by which this may be behind, if a standby of the partition says it; None if its owner
    does."""
    is_split: bool = False
    """Whether the host has so many pages that they are in several partitions."""
    in_flight: int = 0
    """Number of fetches that are under way."""
    n_errors: int = 0
    """Number of transient errors in a row."""


class HostTable(NamedTuple):
    """The hosts with the most pages, most first."""

    rows: list[HostView]
    n_hosts: int
    """Number of all hosts with pages, also those without a row."""


class Passage(NamedTuple):
    """A part of a page's text."""

    number: int
    """Hash of the text."""
    text: str | None
    """None if the feed of changes does not have the text."""


class LastChange(NamedTuple):
    """The last change of a page in the feed of changes, and its passages."""

    at_ms: int
    """Time at which recrawl learned of it, in milliseconds since 1970."""
    what: Transition
    removed: tuple[Passage, ...] | None
    """Passages that only the version before had; None if no passages were reported."""
    added: tuple[Passage, ...] | None
    """Passages that only the new version has; None if no passages were reported."""
    n_kept: int
    """Number of passages that both versions have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """One source of signals on one host."""

    source: str
    group: str
    n_signals: int
    precision: float
    """Share of its signals that announce a change; an assumed value until fetches have shown it."""
    n_judged: float
    """Number of signals that fetches have confirmed or refuted, discounted by age."""
    is_given: bool
    """Whether the configuration sets the precision."""
    delay_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a dictionary, for JSON."""
        return asdict(self)


class SourceTable(NamedTuple):
    """The sources with the most signals, most first."""

    rows: list[SourceRow]
    n_sources: int
    """Number of all sources that have signalled, also those without a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedFreshness:
    """The share of randomly chosen copies that were fresh, with Wilson's 95 % interval."""

    n_audited: int
    n_fresh: int
    ratio: float | None
    """None before the first audit."""
    ratio_low: float
    ratio_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """Audited freshness of a corpus, a kind or a host, beside what the model expected."""

    part: str
    """What the row is about: "corpus", "kind" or "host"."""
    name: str
    """Name of the kind or host; empty for the corpus, and for pages without a kind."""
    n_pages: int
    n_audited: int
    """Audits that showed whether the copy was fresh, from the creation of the corpus on; not those
    of recrawl 0.1.0, for which nobody wrote down what the model expected."""
    n_fresh: int
    audited: float | None
    """Share of audited copies that were fresh; None before the first audit."""
    audited_low: float
    """Begin of Wilson's 95 % interval of the audited freshness."""
    audited_high: float
    modelled: float | None
    """Mean modelled freshness of the same copies, each just before it was fetched."""
    difference: float | None
    """Audited less modelled freshness."""
    difference_low: float
    """Begin of the interval of the difference.  With a chance of 95 % all intervals of a table
    contain the true differences, at every time that they are looked at."""
    difference_high: float
    disagrees: bool
    """Whether the interval does not contain 0, and the difference is at least 0.01."""
    modelled_sum: float
    """Sum of the modelled freshness of audited copies."""
    variance_sum: float
    """Variance of ``n_fresh`` if the model is right."""

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a dictionary, for JSON."""
        return asdict(self)


class AuditTable(NamedTuple):
    """Audits of a corpus: the row of all pages, then kinds, then the largest hosts."""

    rows: list[AuditRow]
    n_judged: int
    """Number of rows with audits, for which the intervals of differences are corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Statistics of a corpus or a part of it; orders and events count from its creation on."""

    at_ms: int
    n_pages: int
    pages_by_status: dict[str, int]
    """Number of pages by status: names of `recrawl.shard.PageStatus` in lower case."""
    n_groups: int
    """Number of groups (hosts or domains) with pages."""
    in_flight: int
    """Orders that a fetcher holds; those whose lease has run out do not count."""
    n_leases: int
    """Orders in memory: in flight, or ended so recently that a late report would count."""
    n_ordered: int
    n_outcomes: int
    n_polls: int
    """Outcomes that showed whether a page had changed; the first fetch of a page does not."""
    n_changed: int
    memory_changes: float | None
    """Number of changes after which earlier evidence about a page's rate counts half, as learned;
    the mean over shards.  None if evidence never loses weight."""
    n_signals: int
    n_void: int
    """Rows of events that were ignored."""
    audited: AuditedFreshness
    freshness_modelled: float
    """Estimated share of fresh copies; a page that was never fetched counts as not fresh."""
    weighted_freshness_modelled: float
    """The same, each copy weighted by its importance."""
    is_sampled: bool
    """Whether freshness and ``n_due`` are estimated from a sample of the pages."""
    n_due: int
    """Pages that are worth the price now or have reached a limit, without those in flight."""
    n_early: int
    """Pages that are not due yet, but that a lease returns while budget is left."""
    backlog: int
    """Number of due pages that could be ordered at once, as far as the picker counts them."""
    budget: str
    """The budget in the unit of the user: "20,000 fetches/day", "50 EUR/month"."""
    budget_unit: Literal["fetches", "cost"]
    budget_per_second: float | None
    """None if unlimited; 0 if the budget is per run."""
    budget_period_seconds: float | None
    """Unit of time in which the user gave the budget, such as 86,400 for a day; None if unknown or
    not per time."""
    run_budget: float | None
    """Budget of each named run; None if the budget is not per run."""
    cost_per_fetch: str | None
    """Price of a fetch if the budget is money, such as "0.0005 EUR"."""
    credit: float | None
    """Budget that may be spent at once, of the run ``run`` if it is per run; None if unlimited."""
    credit_text: str | None
    """The same with its unit, rounded down: "13 fetches"."""
    price: float
    """Price that the value of a fetch must reach; the mean over shards, weighted by pages."""
    price_is_fixed: bool
    oldest_fetch_at_ms: int | None
    """Time of the oldest copy's fetch, in milliseconds since 1970."""
    run: str | None = None
    """Name of the run that pays for leases without a name: today's date; None if the budget is not
    per run."""
    window: str | None = None
    """Hours in which pages are leased (``budget.between``), with their time zone; None for all."""
    window_wait_seconds: float | None = None
    """Seconds until these hours begin; None within them, or if there are none."""
    clock_held_back_seconds: float = 0.0
    """Seconds by which the system clock is ahead of the corpus, because it jumped while the corpus
    was open; 0 if it did not."""
    n_texts: int = 0
    """Outcomes with a body or a text, which recrawl compared."""
    n_baselines: int = 0
    """Those that could not be compared with the text before, because another version of recrawl or
    other settings had read that: no change was reported."""
    n_template_changes: int = 0
    """Changes of parts that most pages of a host share, which do not count as changes of pages."""
    n_wrong_answers: int = 0
    """Outcomes whose body was not the page."""
    wrong_answers: dict[str, int] = field(default_factory=dict)
    """The same by kind: names of `recrawl.content.WrongAnswer` in lower case."""
    n_partitions_away: int = 0
    """Partitions of a cluster that could not be reached, so that nothing of them is counted."""

    @property
    def is_freshness_known(self) -> bool:
        """Whether enough fetches have shown how often pages change; see `is_freshness_known`."""
        n_left_alone = sum(self.pages_by_status.get(name, 0) for name in ("disallowed", "retired"))
        return is_freshness_known(self.n_polls, self.n_pages - n_left_alone)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries and numbers, for JSON."""
        return asdict(self)
