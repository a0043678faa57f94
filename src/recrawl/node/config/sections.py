"""The sections of a corpus's configuration, one frozen object each: what may be chosen, and why.

The text beneath a field is what the reference page says of it.  A field that sets one of
`recrawl.shard.ShardSettings` names it and takes its default from there.
"""

# A call that returns a field is no default made once for all.
# ruff: noqa: RUF009

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from recrawl.errors import ConfigError
from recrawl.node.config.values import (
    PARTITIONS_MAX,
    Count,
    Duration,
    Flags,
    Number,
    PerSecond,
    Positive,
    Probability,
    Rate,
    Share,
    WholeNumber,
    read_fields,
)
from recrawl.shard.settings import ShardSettings
from recrawl.urls.patterns import Pattern

__all__ = [
    "AuditConfig",
    "BudgetConfig",
    "CapacityConfig",
    "ChangesConfig",
    "DiscoveryConfig",
    "ErrorsConfig",
    "HostConfig",
    "LearningConfig",
    "LeasesConfig",
    "LedgerConfig",
    "PatternConfig",
    "PickerConfig",
    "PolitenessConfig",
    "RequestsConfig",
    "ShapeConfig",
    "SignalsConfig",
    "SnapshotsConfig",
    "shard_fields",
]

_DEFAULTS = ShardSettings()


def _of_shard(name: str) -> Any:
    """Return a field that sets one of the shard's settings, whose default it has."""
    return field(default=getattr(_DEFAULTS, name), metadata={"shard": name})


def shard_fields(section: type) -> dict[str, str]:
    """Return, of a section's fields that set one of the shard's, which: shard's name to own."""
    return {f.metadata["shard"]: f.name for f in fields(section) if "shard" in f.metadata}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeConfig:
    """What the corpus is: how it is divided, and what is to be kept low."""

    partitions: Count = 1
    """Parts that the corpus is divided into, each with its own log and pages.  Fixed when the
    corpus is made."""
    group_by: Literal["host", "domain"] = "host"
    """What one politeness rule covers: a host, or all hosts of a registrable domain.  Fixed when
    the corpus is made."""
    objective: Literal["freshness", "fragments"] = _of_shard("objective")
    """Keep copies fresh, or keep the wrong share of copies small."""

    def __post_init__(self) -> None:
        read_fields(self)
        if self.partitions > PARTITIONS_MAX:
            raise ConfigError(f"partitions must be at most {PARTITIONS_MAX}, got {self.partitions}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerConfig:
    """Where the log of everything that happened is kept."""

    kind: Literal["rocksdb", "kafka"] = "rocksdb"
    """In the corpus's own folder, or in a topic of Kafka."""
    durability: Literal["sync", "os"] = "sync"
    """Of RocksDB.  "sync": what is acknowledged is on the disk.  "os": it is with the operating
    system, which loses it if the machine stops, though not if the program does."""
    bootstrap: str | None = None
    """Of Kafka: brokers to begin with, as "host:port,host:port"."""
    topic: str | None = None
    """Of Kafka: with one partition for each of the corpus's."""
    replication: Count = 3
    """Of Kafka: copies of the topic, if it has to be made."""
    client_settings: Flags = field(default_factory=dict)
    """Of Kafka: passed to the client as they are, as for "security.protocol"."""

    def __post_init__(self) -> None:
        read_fields(self)
        if self.kind == "kafka":
            for name in ("bootstrap", "topic"):
                if getattr(self, name) is None:
                    raise ConfigError(f'{name} must be given where kind is "kafka"')
            if self.durability != "sync":
                raise ConfigError('durability must not be given where kind is "kafka"')
        else:
            for name in ("bootstrap", "topic", "client_settings"):
                if getattr(self, name):
                    raise ConfigError(f'{name} must not be given unless kind is "kafka"')


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetConfig:
    """What may be spent.  Without a rate or a price the corpus keeps the budget it has."""

    rate: Rate | None = None
    """So much per time, as "30/h", or for each run of the program, as "100/run"."""
    unit: Literal["fetches", "cost"] = "fetches"
    """What the rate counts: fetches, or their cost as pages have it."""
    burst: Duration = 60.0
    """For how long what was not spent is kept: what may be spent at once is the rate times this,
    or one fetch.  Does not matter to a rate for each run."""
    price: Number | None = None
    """A fixed price: a page is fetched when that is worth so much, in seconds of staleness of a
    page of importance 1.  Given a rate too, no more than that is spent.  Without, the price is
    what spends the rate."""

    def __post_init__(self) -> None:
        read_fields(self)
        if not self.burst < float("inf"):
            raise ConfigError(f"burst must be finite, got {self.burst!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolitenessConfig:
    """How often a group of pages may be asked, unless its host says otherwise."""

    delay: Duration = _of_shard("group_delay")
    """From the end of one fetch to the next.  Where several may be in flight: from the start of
    one to the start of the next."""
    in_flight_max: Count = _of_shard("group_in_flight_max")
    """Fetches at the same time."""
    burst: Count = _of_shard("group_burst")
    """Fetches that may follow each other at once where several may be in flight."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningConfig:
    """How it is learned how often pages change."""

    estimator: Literal["gamma", "plug_in", "counts"] = _of_shard("estimator")
    """Where a page's value is taken.  "gamma": averaged over what is believed of its rate.
    "plug_in": at the mean of that.  "counts": at the estimate from counts of polls and changes."""
    teaching: Literal["gradient", "bonus"] = _of_shard("learning")
    """How it counts that a poll also teaches.  "gradient": by how much better the page could be
    kept once more is known.  "bonus": by a factor that fades as a page becomes known."""
    teaching_bonus: Number = _of_shard("learning_bonus")
    """How large that factor is at first: it is 1 + this / shape of the belief."""
    half_life: Duration = _of_shard("belief_half_life")
    """After which evidence about a page's rate counts half, whatever happened."""
    memory_max: Positive = _of_shard("memory_changes_max")
    """Changes of a page after which evidence about its rate counts half, at most.  Where pages
    change in bursts fewer are remembered; recrawl learns how many, down to ``memory_min``."""
    memory_min: Positive = _of_shard("memory_changes_min")
    """The least of them; the same as ``memory_max`` where it is not to be learned."""
    prior_shape: Positive = _of_shard("prior_shape")
    """Of the belief about a page before anything is known of the corpus: below 1 where many pages
    hardly ever change."""
    prior_period: Duration = _of_shard("prior_period")
    """Of the same belief: mean time between changes."""
    last_modified: Literal["ignore", "trust"] = _of_shard("last_modified")
    """Whether Last-Modified dates are taken as true."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryConfig:
    """What the first fetch of a page is worth."""

    horizon: Duration = _of_shard("discovery_horizon")
    """For which the first fetch of a page is worth something."""
    share: Share = _of_shard("discovery_share")
    """Of orders, kept for pages never fetched whatever they are worth."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig:
    """How the freshness that is claimed is measured."""

    share: Share = _of_shard("audit_share")
    """Of orders, spent on pages chosen by hash."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalsConfig:
    """What is believed of a source of signals before it is known."""

    precision: Probability = _of_shard("signal_precision")
    """Share of signals that announce a real change, of a source never heard of."""
    precision_weight: Positive = _of_shard("signal_precision_weight")
    """How many signals that counts for."""
    delay: Duration = _of_shard("signal_delay")
    """From a change to its signal, of a source never heard of."""
    delay_weight: Number = _of_shard("signal_delay_weight")
    """How many signals that counts for."""
    rate_weight: Duration = _of_shard("signal_rate_seconds")
    """How long a count of a page's signals must run to outweigh that there were none."""
    evidence_max: Number = _of_shard("signal_evidence_max")
    """Signals that what is known of a source may count for; then the past is halved."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsConfig:
    """How importance is learned from requests for the copies."""

    half_life: Duration = _of_shard("request_half_life")
    """After which requests count half."""
    prior_rate: PerSecond = _of_shard("request_prior_rate")
    """Requests for a page before any was seen."""
    prior_weight: Duration = _of_shard("request_prior_seconds")
    """How long a page must be watched to count as much as that."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesConfig:
    """How long an order is held for the fetcher that took it."""

    length: Duration = _of_shard("lease_seconds")
    """After which a page that nothing was heard of is ordered again."""
    length_max: Duration = _of_shard("lease_seconds_max")
    """The same with extensions, at most."""
    grace: Duration = _of_shard("lease_grace_seconds")
    """How long after its end an order is remembered, so that late reports count once."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorsConfig:
    """What is done about pages and groups that fail."""

    backoff: Duration = _of_shard("backoff_seconds")
    """Wait after a first transient error of a page; doubles with each."""
    backoff_max: Duration = _of_shard("backoff_seconds_max")
    """The longest such wait."""
    breaker_errors: WholeNumber = _of_shard("breaker_errors")
    """Transient errors in a row after which a group rests."""
    breaker: Duration = _of_shard("breaker_seconds")
    """How long it rests; doubles with each more."""
    breaker_max: Duration = _of_shard("breaker_seconds_max")
    """The longest such rest."""
    disallowed: Duration = _of_shard("disallowed_seconds")
    """After which a page that the site's rules close is looked at again."""
    gone_polls_max: WholeNumber = _of_shard("gone_polls_max")
    """Polls in a row that find a page gone before it is given up."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityConfig:
    """How much of what can grow a shard takes; what is beyond is refused."""

    kinds_max: Count = _of_shard("kinds_max")
    """Kinds of pages."""
    groups_max: Count = _of_shard("groups_max")
    """Groups that one politeness rule covers each."""
    sources_max: Count = _of_shard("sources_max")
    """Sources of signals."""
    sources_per_page_max: Count = _of_shard("sources_per_page_max")
    """Sources that are heard of one page, 8 at most."""
    limits_max: Count = _of_shard("limits_max")
    """Distinct sets of shortest and longest age and promise, 65535 at most."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerConfig:
    """How pages that are due are found."""

    kind: Literal["auto", "scan", "sweep"] = _of_shard("picker")
    """Whether to look at every page for each decision ("scan"), or to keep what is soon due at
    hand ("sweep").  "auto": scan while there are few pages."""
    scan_pages_max: WholeNumber = _of_shard("scan_pages_max")
    """How many pages are few."""
    sweep: Duration | None = _of_shard("sweep_seconds")
    """Length of one pass over all pages.  Not given: a third of a percent of the mean time between
    fetches."""
    orders_max: Count = _of_shard("orders_max")
    """Orders of one decision."""
    pool_max: Count = _of_shard("pool_max")
    """Pages that wait, due and not yet ordered, at most."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsConfig:
    """How much of the log has to be read again when a corpus is opened."""

    every: Duration = 900.0
    """A snapshot is taken after so long, if anything happened; and sooner where the log has grown
    to a quarter of what a snapshot takes."""
    every_records: Count = 100_000
    """And after so many records of the log."""
    keep: Count = 2
    """Snapshots kept; the log is kept from the oldest of them on."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesConfig:
    """How far back whoever follows the changes of a corpus may be."""

    kept_max: Count = 10_000_000
    """Changes kept in each partition."""
    kept_for: Duration = 30 * 86_400.0
    """And for how long."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternConfig:
    """Pages whose URL matches, and what holds for them.  The first pattern that matches counts."""

    match: str
    """A path such as "/product/*", or a host and a path such as "shop.example.com/product/*";
    "*" stands for anything."""
    kind: str | None = None
    """Name of the kind of page, whose change rates are learned together; the pattern's own text
    unless given."""
    importance: Number | None = None
    """Of a page, relative to others.  Not given: 1, or what the page was added with."""
    cost: Positive | None = None
    """Of a fetch, relative to others.  Not given: 1, or what the page was added with."""
    min_age: Duration | None = None
    """Not fetched again sooner."""
    max_age: Duration | None = None
    """Fetched again at the latest after so long, as far as the budget allows."""
    stale_for: Duration | None = None
    """With stale_probability, a promise: a copy is stale for longer than this …"""
    stale_probability: Probability | None = None
    """… with this probability at most, as far as the budget allows."""
    share: Share | None = None
    """Of the budget, kept for these pages.  The shares of all patterns are 1 together at most."""

    def __post_init__(self) -> None:
        read_fields(self)
        try:
            Pattern(self.match)
        except ValueError as error:
            raise ConfigError(f"match must be a pattern of URLs: {error}") from None
        if self.min_age is not None and self.max_age is not None and self.max_age < self.min_age:
            raise ConfigError(
                f"max_age must be at least min_age ({self.min_age:g} s), got {self.max_age:g} s"
            )
        if (self.stale_for is None) != (self.stale_probability is None):
            raise ConfigError("stale_for must be given together with stale_probability")

    @property
    def kind_name(self) -> str:
        """Name of the kind of page."""
        return self.match if self.kind is None else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """How often one host may be asked; what is not given is as in [politeness]."""

    delay: Duration | None = None
    """See politeness.delay."""
    in_flight_max: Count | None = None
    """See politeness.in_flight_max."""
    burst: Count | None = None
    """See politeness.burst."""

    def __post_init__(self) -> None:
        read_fields(self)
