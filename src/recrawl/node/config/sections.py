"""The sections of a corpus's configuration, one frozen object each.

The text beneath a field is its description on the reference page and in recrawl.toml.  A field
that sets one of `recrawl.shard.ShardSettings` names it and takes its default from there.
"""

# `_of_shard` returns a field, not a default value shared by all objects.
# ruff: noqa: RUF009

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from recrawl.errors import ConfigError
from recrawl.node.clock import GAP_SECONDS_MAX
from recrawl.node.config.time_windows import zone_of
from recrawl.node.config.values import (
    PARTITIONS_MAX,
    Count,
    Duration,
    Flags,
    Money,
    Number,
    PerSecond,
    Positive,
    Probability,
    Rate,
    Share,
    TimeWindows,
    WholeNumber,
    read_fields,
)
from recrawl.shard.settings import ShardSettings
from recrawl.urls.patterns import Pattern

__all__ = [
    "BURST_SECONDS_MIN",
    "AuditConfig",
    "BudgetConfig",
    "CapacityConfig",
    "ChangesConfig",
    "ClockConfig",
    "DiscoveryConfig",
    "ErrorsConfig",
    "HostConfig",
    "LearningConfig",
    "LeasesConfig",
    "LedgerConfig",
    "PatternConfig",
    "PickerConfig",
    "PolitenessConfig",
    "ProtectionConfig",
    "RequestsConfig",
    "ScrubConfig",
    "ShapeConfig",
    "SignalsConfig",
    "SnapshotsConfig",
    "shard_fields",
]

_DEFAULTS = ShardSettings()
BURST_SECONDS_MIN = 60.0
"""Least time for which unspent budget is saved up, unless ``budget.burst`` is set."""


def _of_shard(name: str) -> Any:
    """Return a field that sets the shard setting of this name and has its default."""
    return field(default=getattr(_DEFAULTS, name), metadata={"shard": name})


def shard_fields(section: type) -> dict[str, str]:
    """Return the names of a section's fields by the shard setting that each sets."""
    return {f.metadata["shard"]: f.name for f in fields(section) if "shard" in f.metadata}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeConfig:
    """The structure of the corpus, and what it optimizes."""

    partitions: Count = 1
    """Number of parts of the corpus, each with its own log and pages.  ``recrawl resize`` changes
    it later."""
    group_by: Literal["host", "domain", "key"] = "host"
    """Pages that share one politeness rule (a group): those of a host, those of all hosts of a
    registrable domain, such as example.co.uk, or those to which you give the same key.  With
    "key", a page is identified by its key and its URL.  Cannot be changed later."""
    group_pages_max: WholeNumber = 10_000_000
    """Number of pages above which a group is split: later pages of it go to several partitions,
    which take turns at fetching from it.  0 for never.  Without effect in one partition."""
    objective: Literal["freshness", "fragments"] = _of_shard("objective")
    """Goal.  "freshness": as many copies as possible equal their page.  "fragments": as little text
    as possible in the copies is outdated, which needs the content of each fetch: its body, its
    sketch, or its divergence from the copy before."""

    def __post_init__(self) -> None:
        read_fields(self)
        if self.partitions > PARTITIONS_MAX:
            raise ConfigError(f"partitions must be at most {PARTITIONS_MAX}, got {self.partitions}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerConfig:
    """Storage of the log, which records every event of the corpus."""

    kind: Literal["rocksdb", "kafka"] = "rocksdb"
    """Where the log is stored: in the folder of the corpus (RocksDB), or in a Kafka topic."""
    durability: Literal["sync", "os"] = "sync"
    """RocksDB only.  "sync": data is on the disk before a call returns.  "os": data is left to the
    operating system, which loses the latest if the machine stops, but not if the program does."""
    bootstrap: str | None = None
    """Kafka only.  Brokers to connect to first, as "host:port,host:port"."""
    topic: str | None = None
    """Kafka only.  Topic of the log, with as many partitions as the corpus."""
    replication: Count = 3
    """Kafka only.  Number of copies of the topic: recrawl creates it with as many, and refuses a
    topic with fewer."""
    in_sync_min: Count | None = None
    """Kafka only.  Number of brokers that have a record when it counts as written; recrawl refuses
    a topic whose min.insync.replicas is lower.  Default: 2 if replication is 3 or more, else 1."""
    weaker_topic: Literal["refuse", "accept"] = "refuse"
    """Kafka only.  Whether to refuse or to accept a topic that has fewer copies than configured, or
    that may elect a leader without the newest records."""
    give_up_after: Duration = 60.0
    """Kafka only.  How long a call waits for brokers that do not answer, before it fails."""
    client_settings: Flags = field(default_factory=dict)
    """Kafka only.  Settings passed to the client unchanged, such as "security.protocol"."""

    def __post_init__(self) -> None:
        read_fields(self)
        if self.kind == "kafka":
            for name in ("bootstrap", "topic"):
                if getattr(self, name) is None:
                    raise ConfigError(f'{name} must be given where kind is "kafka"')
            if self.durability != "sync":
                raise ConfigError('durability must not be given where kind is "kafka"')
            if self.in_sync_min is not None and self.in_sync_min > self.replication:
                raise ConfigError(
                    f"in_sync_min must be at most replication ({self.replication}), "
                    f"got {self.in_sync_min}"
                )
            if not 0 < self.give_up_after < float("inf"):
                raise ConfigError(f"give_up_after must be positive, got {self.give_up_after!r}")
        else:
            for name in ("bootstrap", "topic", "in_sync_min", "client_settings"):
                if getattr(self, name):
                    raise ConfigError(f'{name} must not be given unless kind is "kafka"')


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetConfig:
    """The fetch budget.  `recrawl set --budget` changes the rate, here too if it is set here."""

    rate: Rate | None = None
    """Number of fetches per unit of time, such as "30/h" or "20000/day", per named run, such as
    "100/run", or money, such as "50 EUR/month", with cost_per_fetch.  Unlimited if not set."""
    unit: Literal["fetches", "cost"] = "fetches"
    """Unit of the rate: fetches, or the sum of the costs of the fetched pages."""
    cost_per_fetch: Money | None = None
    """Price of one fetch if the rate is money, such as "0.0005 EUR"; for a page with a cost of its
    own, this times its cost."""
    burst: Duration | None = None
    """How long unspent budget is saved up.  The most that can be spent at once is the rate times
    this duration, and at least one fetch.  Has no effect on a rate per run.  Default: the unit of
    the rate, so one day for "20000/day", and at least a minute."""
    between: TimeWindows | None = None
    """Hours of the day in which pages may be leased, such as "01:00-05:00" or ["22:00-02:00",
    "12:00-13:00"].  Outside of them budget is saved up, as far as burst allows.  Always if not
    set."""
    time_zone: str = "UTC"
    """Time zone of ``between``, and of the date that names a run, such as "Europe/Berlin"."""
    price: Number | None = None
    """Fixed price of a fetch, for experts: recrawl fetches a page once a fetch is expected to save
    this many seconds of staleness, times the importance of the page.  A rate limits spending in
    addition.  If not set, recrawl adjusts the price so that the rate is spent."""

    def __post_init__(self) -> None:
        read_fields(self)
        if self.burst is not None and not self.burst < float("inf"):
            raise ConfigError(f"burst must be finite, got {self.burst!r}")
        try:
            zone_of(self.time_zone)
        except ValueError as error:
            raise ConfigError(f"time_zone {error}") from None
        currency = None if self.rate is None else self.rate.currency
        paid_in = None if self.cost_per_fetch is None else self.cost_per_fetch.currency
        if currency is not None and currency != paid_in:
            got = "nothing" if paid_in is None else repr(str(self.cost_per_fetch))
            raise ConfigError(
                f"cost_per_fetch must be given in {currency}, as rate is {str(self.rate)!r}, "
                f"got {got}.  Set it in recrawl.toml, such as cost_per_fetch = "
                f'"0.0005 {currency}"'
            )

    @property
    def amount(self) -> float:
        """Fetches or cost in each unit of the rate; money is converted to cost."""
        if self.rate is None:
            return float("inf")
        if self.rate.currency is None or self.cost_per_fetch is None:
            return self.rate.amount
        return self.cost_per_fetch.amount_of(self.rate)

    @property
    def is_in_cost(self) -> bool:
        """Whether the budget counts the cost of fetches, not their number."""
        return self.unit == "cost" or (self.rate is not None and self.rate.currency is not None)

    @property
    def burst_seconds(self) -> float:
        """How long unspent budget is saved up: ``burst``, or the unit of the rate."""
        if self.burst is not None:
            return self.burst
        unit = None if self.rate is None else self.rate.per_seconds
        return max(unit or 0.0, BURST_SECONDS_MIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolitenessConfig:
    """Limits on fetching from one host (or domain or key, see corpus.group_by)."""

    delay: Duration = _of_shard("group_delay")
    """Pause between the end of one fetch and the start of the next.  If in_flight_max is above 1:
    pause between the starts of two fetches."""
    in_flight_max: Count = _of_shard("group_in_flight_max")
    """Maximum number of fetches at the same time."""
    burst: Count = _of_shard("group_burst")
    """Number of fetches that may start without a pause, if in_flight_max is above 1."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningConfig:
    """How recrawl learns how often pages change."""

    estimator: Literal["gamma", "plug_in", "counts"] = _of_shard("estimator")
    """Change rate used to value a page.  "gamma": the average over all rates that are likely, given
    what was observed.  "plug_in": their mean.  "counts": the ratio of changes to polls."""
    teaching: Literal["gradient", "bonus"] = _of_shard("learning")
    """Extra value of a fetch because it also shows how often the page changes.  "gradient": the
    freshness gained by knowing more.  "bonus": a factor that shrinks as more is known."""
    teaching_bonus: Number = _of_shard("learning_bonus")
    """Size of that bonus: the factor is 1 + teaching_bonus / shape of the distribution of rates."""
    half_life: Duration = _of_shard("belief_half_life")
    """Time after which an observation of a page counts half."""
    memory_max: Positive = _of_shard("memory_changes_max")
    """Maximum number of changes of a page after which an observation counts half.  For pages that
    change in bursts recrawl learns a smaller number, down to ``memory_min``."""
    memory_min: Positive = _of_shard("memory_changes_min")
    """Minimum of that number.  Set it equal to ``memory_max`` to switch this learning off."""
    prior_shape: Positive = _of_shard("prior_shape")
    """Shape of the prior distribution of change rates, before any page was observed.  Use a value
    below 1 if many pages hardly ever change."""
    prior_period: Duration = _of_shard("prior_period")
    """Mean time between changes in that prior distribution."""
    last_modified: Literal["ignore", "trust"] = _of_shard("last_modified")
    """Whether to believe Last-Modified dates of servers."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryConfig:
    """The value of fetching a page for the first time."""

    horizon: Duration = _of_shard("discovery_horizon")
    """Value of a first fetch: as much as keeping the copy fresh for this long."""
    share: Share = _of_shard("discovery_share")
    """Share of fetches reserved for pages never fetched before, whatever their value."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig:
    """Fetches of randomly chosen pages, which measure the freshness that recrawl estimates."""

    share: Share = _of_shard("audit_share")
    """Share of fetches spent on such audits."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalsConfig:
    """Assumptions about a new source of signals, until recrawl has learned how reliable it is."""

    precision: Probability = _of_shard("signal_precision")
    """Assumed share of signals that announce a real change."""
    precision_weight: Positive = _of_shard("signal_precision_weight")
    """Number of observed signals that outweighs the assumed precision."""
    delay: Duration = _of_shard("signal_delay")
    """Assumed time from a change to its signal."""
    delay_weight: Number = _of_shard("signal_delay_weight")
    """Number of observed signals that outweighs the assumed delay."""
    rate_weight: Duration = _of_shard("signal_rate_seconds")
    """Length of observation of a page's signals that outweighs the assumption that it has none."""
    evidence_max: Number = _of_shard("signal_evidence_max")
    """Maximum number of signals that recrawl remembers of a source.  Beyond it, older signals
    count half.  A source that suddenly becomes much better or worse is noticed earlier."""
    shift_evidence: Number = _of_shard("signal_shift_evidence")
    """How sure recrawl must be that a source has become better or worse before it forgets what the
    source was: the logarithm of the odds.  inf never forgets."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionConfig:
    """How much of the budget one site can take by adding pages, or by false signals."""

    new_pages_share: Share = _of_shard("new_pages_share")
    """Maximum share of fetches for newcomers: pages that were added faster than the corpus or their
    domain grows normally.  It holds only while other pages are due.  1 for no limit."""
    new_domain_share: Share = _of_shard("new_domain_share")
    """Maximum share of fetches for the newcomers of one registrable domain, such as example.co.uk
    with all its hosts.  A domain with more pages may have more.  1 for no limit."""
    normal_growth: Positive = _of_shard("growth_share")
    """Share by which a corpus, and each domain, grows normally in 30 days.  Pages beyond it are
    newcomers for some time."""
    newcomer_max: Duration = _of_shard("newcomer_seconds_max")
    """Maximum of that time."""
    untested_signals: Number = _of_shard("untested_signals_max")
    """Number of signals of a new source that recrawl follows before fetches have tested as many.
    The others count once these are tested."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsConfig:
    """How recrawl learns the importance of pages from requests of your users for them."""

    half_life: Duration = _of_shard("request_half_life")
    """Time after which a request counts half."""
    prior_rate: PerSecond = _of_shard("request_prior_rate")
    """Assumed rate of requests for a page, before any was reported."""
    prior_weight: Duration = _of_shard("request_prior_seconds")
    """Length of observation of a page that outweighs the assumed rate."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesConfig:
    """How long a page is reserved for the fetcher that leased it."""

    length: Duration = _of_shard("lease_seconds")
    """Time to report an order.  After it, the page may be leased again."""
    length_max: Duration = _of_shard("lease_seconds_max")
    """Maximum of that time, including extensions."""
    grace: Duration = _of_shard("lease_grace_seconds")
    """How long after that a late report still counts."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorsConfig:
    """What recrawl does about failing pages and hosts."""

    backoff: Duration = _of_shard("backoff_seconds")
    """Pause after the first temporary error of a page; doubles with each further error."""
    backoff_max: Duration = _of_shard("backoff_seconds_max")
    """Maximum of that pause."""
    breaker_errors: WholeNumber = _of_shard("breaker_errors")
    """Number of temporary errors in a row after which a whole host (or domain) is paused."""
    breaker: Duration = _of_shard("breaker_seconds")
    """Length of that pause; doubles with each further error."""
    breaker_max: Duration = _of_shard("breaker_seconds_max")
    """Maximum of that pause."""
    disallowed: Duration = _of_shard("disallowed_seconds")
    """Time after which a page that robots.txt disallows is tried again."""
    gone_polls_max: WholeNumber = _of_shard("gone_polls_max")
    """Number of fetches in a row that find a page gone before recrawl stops fetching it."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityConfig:
    """Maximum sizes of internal tables of each partition.  recrawl refuses what is beyond."""

    kinds_max: Count = _of_shard("kinds_max")
    """Maximum number of kinds of page."""
    groups_max: Count = _of_shard("groups_max")
    """Maximum number of hosts (or domains or keys, see corpus.group_by)."""
    sources_max: Count = _of_shard("sources_max")
    """Maximum number of sources of signals."""
    sources_per_page_max: Count = _of_shard("sources_per_page_max")
    """Maximum number of sources of signals for one page; not above 8."""
    limits_max: Count = _of_shard("limits_max")
    """Maximum number of different combinations of min_age, max_age and staleness limits; not above
    65535."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerConfig:
    """How recrawl finds the pages that are due."""

    kind: Literal["auto", "scan", "sweep"] = _of_shard("picker")
    """Method.  "scan": examine every page at each lease.  "sweep": keep a queue of pages that are
    due soon.  "auto": scan a small corpus, sweep a large one."""
    scan_pages_max: WholeNumber = _of_shard("scan_pages_max")
    """Number of pages up to which "auto" scans."""
    sweep: Duration | None = _of_shard("sweep_seconds")
    """Time in which a sweep visits all pages once.  Default: 1/300 of the mean time between fetches
    of a page."""
    orders_max: Count = _of_shard("orders_max")
    """Maximum number of pages of one lease."""
    pool_max: Count = _of_shard("pool_max")
    """Maximum number of pages that are due and wait to be leased."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsConfig:
    """When recrawl saves its state, so that opening a corpus replays only the log since then."""

    every: Duration = 900.0
    """Time between two snapshots.  A snapshot is taken sooner if the log has grown to a quarter of
    the size of a snapshot, and not at all if nothing happened."""
    every_records: Count = 100_000
    """Number of log records after which a snapshot is taken in any case."""
    keep: Count = 2
    """Number of snapshots kept.  The log, and with it the history that `recrawl explain` shows, is
    kept back to the oldest of them, and up to 4 MiB from before."""
    shared: str | None = None
    """Kafka only.  Storage that all machines reach, to which each snapshot is copied: a folder such
    as "/mnt/shared/recrawl", or a URI such as "s3://bucket/recrawl?region=eu-central-1" or
    "gs://bucket/recrawl".  The log is then kept back to the second-newest snapshot that was read
    back from there, instead of ``keep``."""
    shared_keep: Count = 4
    """Number of snapshots kept in shared storage, at least 2."""
    shared_days: WholeNumber = 7
    """Number of days of which the last snapshot is kept in shared storage as well, for `recrawl
    restore --at`."""

    def __post_init__(self) -> None:
        read_fields(self)
        if self.shared_keep < 2:
            raise ConfigError(f"shared_keep must be at least 2, got {self.shared_keep}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubConfig:
    """How often recrawl reads all its files, to find blocks that the disk has damaged."""

    every: Duration = 3 * 86_400.0
    """Time between two such readings, by the process that writes the corpus; "never" switches them
    off.  `recrawl doctor --scrub` reads everything at once."""
    bytes_per_second: Count = 10_000_000
    """Maximum speed of reading, so that it does not delay other work."""

    def __post_init__(self) -> None:
        if str(self.every) == "never":
            object.__setattr__(self, "every", float("inf"))
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockConfig:
    """How far recrawl trusts the clock of the machine."""

    gap_max: Duration = GAP_SECONDS_MAX
    """Maximum time since the last change of the corpus.  If the clock says that it was longer ago,
    the corpus is not opened for writing until `recrawl doctor --accept-clock` confirms it.  A clock
    that jumps ahead by more than this while a program runs is never followed."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesConfig:
    """How long the changes that `recrawl changes` prints are kept."""

    kept_max: Count = 10_000_000
    """Maximum number of changes kept in each partition."""
    kept_for: Duration = 30 * 86_400.0
    """Maximum age of the changes kept."""

    def __post_init__(self) -> None:
        read_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternConfig:
    """Settings of all pages whose URL matches a pattern, including pages added later.

    If several patterns match a page, the first one applies.
    """

    match: str
    """Pattern of URLs: a path such as "/product/*", or a host and a path such as
    "shop.example.com/product/*"; "*" matches anything."""
    kind: str | None = None
    """Name of the kind of page.  recrawl learns a typical change rate for each kind.  Default: the
    pattern itself."""
    importance: Number | None = None
    """Importance of a page, relative to others.  Default: 1, or the value of `recrawl add`."""
    cost: Positive | None = None
    """Cost of a fetch, relative to others.  Default: 1, or the value of `recrawl add`."""
    min_age: Duration | None = None
    """Minimum time between two fetches of a page."""
    max_age: Duration | None = None
    """Maximum time between two fetches of a page, as far as the budget allows."""
    stale_for: Duration | None = None
    """Staleness limit, together with stale_probability: copies that are outdated for longer than
    this time are to be rare."""
    stale_probability: Probability | None = None
    """Maximum probability that a copy is outdated for longer than stale_for, as far as the budget
    allows."""
    share: Share | None = None
    """Share of the budget reserved for these pages.  The shares of all patterns must not add up to
    more than 1."""

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
        """Name of the kind of page: ``kind``, or the pattern if it is not set."""
        return self.match if self.kind is None else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """Limits on fetching from this host; [politeness] applies where a setting is missing."""

    delay: Duration | None = None
    """See politeness.delay."""
    in_flight_max: Count | None = None
    """See politeness.in_flight_max."""
    burst: Count | None = None
    """See politeness.burst."""
    unlimited: bool | None = None
    """Whether the share of the budget for pages added to this host is never limited, see
    [protection].  `recrawl set --host HOST --unlimited` does the same."""

    def __post_init__(self) -> None:
        read_fields(self)
