"""Settings of a shard: one frozen object, logged as an event whenever it changes."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

__all__ = ["ShardSettings"]

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSettings:
    """Settings that the owner of a shard chooses; times in seconds.

    Parameters
    ----------
    objective
        ``freshness``: as many fresh copies as possible.  ``fragments``: as small an outdated share
        of each copy as possible.
    estimator
        Estimator of change rates.  ``gamma``: value averaged over a belief.  ``plug_in``: value at
        the belief's mean.  ``counts``: value at the estimate from counts of polls and
        changes (CGM §4.2).
    learning
        How the information that a poll gives adds to its value.  ``gradient``: by how much better a
        page could be kept fresh once more is known of it (`recrawl.core.price.knowledge_gradient`),
        for pages without signals.
        ``bonus``: by a factor that fades as polls accumulate.
    learning_bonus
        Size of that factor; see `recrawl.core.value.learning_bonus`.
    belief_half_life
        Seconds after which evidence about a page's change rate counts half.
    memory_changes_max, memory_changes_min
        Largest and smallest number of a page's changes after which evidence counts half; the shard
        learns the number from the corpus (`recrawl.core.belief.memory`).
    prior_shape, prior_period
        Prior belief about a page of a corpus of which nothing is known.
    last_modified
        ``trust``: Last-Modified dates are taken as true.
    discovery_horizon
        Seconds for which the first fetch of a page is worth something.
    discovery_share
        Share of orders reserved for pages never fetched, whatever their value.
    audit_share
        Share of orders for pages chosen by hash, to measure freshness without bias.
    signal_precision, signal_precision_weight
        Precision assumed of a new source, and number of signals that this prior counts for.
    signal_delay, signal_delay_weight
        Seconds from a change to its signal assumed of a new source, and weight of this prior.
    signal_rate_seconds
        Seconds of counting that the prior of a page's signal rate is worth.
    signal_evidence_max
        Largest number of signals that the evidence about a source counts for; beyond it the
        evidence is halved.
    signal_shift_evidence
        Evidence that the precision of a source has fallen or risen, as the log of a likelihood
        ratio, at which the shard discards most of what it knows of the source; infinite for never.
    untested_signals_max
        Number of signals of a new source that move pages forward before fetches have tested as
        many; infinite for no limit.
    new_pages_share
        Largest share of orders for newcomers: pages added beyond the normal growth of the shard or
        of their domain.  It counts only while other pages are due; 1 for no limit.
    new_domain_share
        Largest share of orders for the newcomers of one domain, likewise.
    growth_share
        Share by which a shard or a domain grows normally in thirty days.
    newcomer_seconds_max
        Seconds after which a page is no newcomer any more, however fast its domain grows.
    request_half_life, request_prior_rate, request_prior_seconds
        Parameters of importance learned from requests; see
        `recrawl.core.requests.RequestImportance`.
    lease_seconds, lease_seconds_max
        Seconds for which an order is held for its fetcher, and the most with extensions.
    lease_grace_seconds
        Seconds after its end for which an order is remembered, so that a late report counts once.
    group_delay, group_in_flight_max, group_burst
        Default politeness of groups.
    backoff_seconds, backoff_seconds_max
        Wait after the first transient error of a page, doubled with each further one, and its
        limit.
    breaker_errors, breaker_seconds, breaker_seconds_max
        Number of transient errors in a row after which a group rests, the rest, doubled with each
        further error, and its limit.
    disallowed_seconds
        Seconds after which a disallowed page is tried again.
    gone_polls_max
        Number of polls in a row that find a page gone before it is given up.
    sources_per_page_max
        Largest number of sources of one page; signals of further ones are ignored.
    limits_max, kinds_max, groups_max, sources_max
        Largest numbers of distinct sets of limits, kinds of pages, groups and sources.
    picker
        ``scan`` looks at every page for each decision; ``sweep`` passes over the pages slowly and
        keeps those soon due in a timing wheel; ``auto`` scans up to ``scan_pages_max`` pages and
        sweeps beyond.
    scan_pages_max
        Largest number of pages that ``auto`` scans.
    sweep_seconds
        Seconds of one pass over all pages; None for 0.3 % of the mean time between fetches.
    orders_max
        Largest number of orders of one decision.
    pool_max
        Largest number of pages waiting in the picker.
    """

    objective: Literal["freshness", "fragments"] = "freshness"
    estimator: Literal["gamma", "plug_in", "counts"] = "gamma"
    learning: Literal["gradient", "bonus"] = "gradient"
    learning_bonus: float = 0.5
    belief_half_life: float = 730 * DAY
    memory_changes_max: float = 200.0
    memory_changes_min: float = 3.0
    prior_shape: float = 0.5
    prior_period: float = 50 * DAY
    last_modified: Literal["ignore", "trust"] = "ignore"
    discovery_horizon: float = 30 * DAY
    discovery_share: float = 0.0
    audit_share: float = 0.0
    signal_precision: float = 0.25
    signal_precision_weight: float = 4.0
    signal_delay: float = 60.0
    signal_delay_weight: float = 2.0
    signal_rate_seconds: float = DAY
    signal_evidence_max: float = 1_000.0
    signal_shift_evidence: float = 7.0
    untested_signals_max: float = 16.0
    new_pages_share: float = 0.2
    new_domain_share: float = 0.05
    growth_share: float = 1.0
    newcomer_seconds_max: float = 90 * DAY
    request_half_life: float = 30 * DAY
    request_prior_rate: float = 1 / DAY
    request_prior_seconds: float = 7 * DAY
    lease_seconds: float = 300.0
    lease_seconds_max: float = DAY
    lease_grace_seconds: float = 900.0
    group_delay: float = 1.0
    group_in_flight_max: int = 1
    group_burst: int = 1
    backoff_seconds: float = 300.0
    backoff_seconds_max: float = 7 * DAY
    breaker_errors: int = 5
    breaker_seconds: float = 300.0
    breaker_seconds_max: float = DAY
    disallowed_seconds: float = 7 * DAY
    gone_polls_max: int = 5
    sources_per_page_max: int = 4
    limits_max: int = 65_535
    kinds_max: int = 4_096
    groups_max: int = 1 << 28
    sources_max: int = 1 << 28
    picker: Literal["auto", "scan", "sweep"] = "auto"
    scan_pages_max: int = 100_000
    sweep_seconds: float | None = None
    orders_max: int = 100_000
    pool_max: int = 4_000_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, int | float) and not isinstance(value, int | float):
                raise ValueError(f"{field.name} must be a number, got {value!r}")
            if isinstance(value, int | float) and not 0 <= value <= math.inf:
                raise ValueError(f"{field.name} must not be negative, got {value!r}")
        for name in ("signal_precision", "discovery_share", "audit_share"):
            if not getattr(self, name) < 1:
                raise ValueError(f"{name} must be below 1, got {getattr(self, name)!r}")
        for name in ("new_pages_share", "new_domain_share"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} must be above 0 and at most 1, got {getattr(self, name)!r}"
                )
        if not 0 < self.memory_changes_min <= self.memory_changes_max:
            raise ValueError(
                "memory_changes_min must be positive and at most memory_changes_max "
                f"({self.memory_changes_max:g}), got {self.memory_changes_min!r}"
            )
        for name in ("prior_shape", "prior_period", "signal_precision", "signal_precision_weight"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        for name in ("lease_seconds", "lease_seconds_max", "group_in_flight_max", "group_burst"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        for name in ("group_delay", "lease_seconds", "lease_seconds_max", "lease_grace_seconds"):
            # Columns hold them as milliseconds in 32 bits.
            if not getattr(self, name) <= 4e6:
                raise ValueError(f"{name} must be at most 4e6, got {getattr(self, name)!r}")
        if self.limits_max > 65_535:
            raise ValueError(f"limits_max must be at most 65535, got {self.limits_max!r}")
        if self.sources_per_page_max > 8:
            raise ValueError(
                f"sources_per_page_max must be at most 8, got {self.sources_per_page_max!r}"
            )
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}")

    def to_json(self) -> str:
        """Return the settings as JSON for the log."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return settings from logged JSON; a name unknown to this version is an error."""
        return cls.from_stored(json.loads(text))

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Self:
        """Return settings from a log or a snapshot of this version or an older one."""
        # Versions without these settings did not forget by changes, limited neither newcomers nor
        # new sources, and did not look for shifts of precision.
        before = {
            "memory_changes_max": math.inf,
            "signal_shift_evidence": math.inf,
            "untested_signals_max": math.inf,
            "new_pages_share": 1.0,
            "new_domain_share": 1.0,
        }
        return cls(**{**before, **stored})


_CHOICES = {
    "objective": ("freshness", "fragments"),
    "estimator": ("gamma", "plug_in", "counts"),
    "learning": ("gradient", "bonus"),
    "last_modified": ("ignore", "trust"),
    "picker": ("auto", "scan", "sweep"),
}
