"""How a shard behaves: one frozen object, logged as an event whenever it changes."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

__all__ = ["ShardSettings"]

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSettings:
    """What an owner may choose; times in seconds.

    Parameters
    ----------
    objective
        Keep copies fresh, or keep the wrong share of copies small.
    estimator
        ``gamma``: value averaged over a belief.  ``plug_in``: value at the belief's mean.
        ``counts``: value at the estimate from counts of polls and changes (CGM §4.2).
    learning
        What makes up for what a poll teaches.  ``gradient``: how much better a page could be kept
        once more is known of it (`recrawl.core.price.teaching_gain`), for pages without signals.
        ``bonus``: a factor that fades as a page becomes known.
    learning_bonus
        How large that factor is; see `recrawl.core.value.learning_bonus`.
    belief_half_life
        After which evidence about a page's rate counts half, whatever happened.
    memory_changes_max, memory_changes_min
        Changes of a page after which it does; as many as suit the corpus, at most and at least
        (`recrawl.core.belief.memory`).
    prior_shape, prior_period
        Belief about a page before anything is known of the corpus.
    last_modified
        Whether Last-Modified dates are taken as true.
    discovery_horizon
        Seconds for which the first fetch of a page is worth something.
    discovery_share
        Of orders kept for pages never fetched, whatever they are worth.
    audit_share
        Of orders spent at hash-chosen moments, to measure what is claimed.
    signal_precision, signal_precision_weight
        Of a source never heard of, and how many signals that counts for.
    signal_delay, signal_delay_weight
        Likewise: seconds from a change to its signal.
    signal_rate_seconds
        How many seconds of counting the signal rate of a source's other pages is worth.
    signal_evidence_max
        Signals that what is known of a source may count for; then the past is halved.
    request_half_life, request_prior_rate, request_prior_seconds
        Of importance learned from requests; see `recrawl.core.requests.RequestImportance`.
    lease_seconds, lease_seconds_max
        How long an order is held for its fetcher, and at most with extensions.
    lease_grace_seconds
        How long after its end an order is remembered, so that late reports count once.
    group_delay, group_in_flight_max, group_burst
        Politeness of groups without a policy of their own.
    backoff_seconds, backoff_seconds_max
        Wait after a first transient error of a page; doubles with each.
    breaker_errors, breaker_seconds, breaker_seconds_max
        After so many transient errors in a row a group rests; doubles with each more.
    disallowed_seconds
        After which a disallowed page is looked at again.
    gone_polls_max
        Polls in a row that find a page gone before it is given up.
    sources_per_page_max
        Further sources of a page are not heard.
    limits_max, kinds_max, groups_max, sources_max
        Distinct sets of limits; kinds, groups and sources of signals that have a number.
    picker
        ``scan`` looks at every page for each decision, ``sweep`` keeps a near-term wheel;
        ``auto`` scans up to ``scan_pages_max`` pages.
    scan_pages_max
        See ``picker``.
    sweep_seconds
        Of one pass over all pages; None: a third of a percent of the mean time between fetches.
    orders_max
        Orders of one decision.
    pool_max
        Pages waiting in the picker.
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
    signal_evidence_max: float = 200.0
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
        if not 0 < self.memory_changes_min <= self.memory_changes_max:
            raise ValueError(
                f"memory_changes_min must be positive and at most {self.memory_changes_max:g}, as "
                f"many as are remembered at most, got {self.memory_changes_min!r}"
            )
        for name in ("prior_shape", "prior_period", "signal_precision", "signal_precision_weight"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        for name in ("lease_seconds", "lease_seconds_max", "group_in_flight_max", "group_burst"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        for name in ("group_delay", "lease_seconds", "lease_seconds_max", "lease_grace_seconds"):
            # In milliseconds they have 32 bits.
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
        """Return the settings as they are logged."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return logged settings; names that this version does not know are an error."""
        return cls.from_kept(json.loads(text))

    @classmethod
    def from_kept(cls, kept: Mapping[str, Any]) -> Self:
        """Return settings of a log or a snapshot, of this version or an older one."""
        # What was not there yet is as if it were not: nothing was forgotten by changes.
        return cls(**{"memory_changes_max": math.inf, **kept})


_CHOICES = {
    "objective": ("freshness", "fragments"),
    "estimator": ("gamma", "plug_in", "counts"),
    "learning": ("gradient", "bonus"),
    "last_modified": ("ignore", "trust"),
    "picker": ("auto", "scan", "sweep"),
}
