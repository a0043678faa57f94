"""The settings of a shard in the form that kernels take: numbers and small tables."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.price.due_table import DueCodes
from recrawl.shard.settings import ShardSettings

__all__ = [
    "COUNTS",
    "ESTIMATORS",
    "GAMMA",
    "LEARNING_HORIZONS",
    "PLUG_IN",
    "Rules",
    "has_learning_horizon",
    "learning_horizon",
    "log2_bonus",
    "rules_of",
]

GAMMA, PLUG_IN, COUNTS = 0, 1, 2
"""Values of `Rules.estimator`."""
ESTIMATORS = {"gamma": GAMMA, "plug_in": PLUG_IN, "counts": COUNTS}

# Learning horizon for each poll that pages have had on average, and its limit.
_HORIZON_PER_POLL = 2.0
_HORIZON_MAX = 32.0
LEARNING_HORIZONS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""All values that `learning_horizon` returns."""


class Rules(NamedTuple):
    """Parameters for applying events; times in seconds."""

    estimator: int
    is_fragments: bool
    belief_half_life: float
    memory_changes_max: float
    memory_lost_max: float
    trusts_last_modified: bool
    precision_prior_true: float
    precision_prior_total: float
    delay_prior: float
    delay_prior_weight: float
    signal_rate_seconds: float
    signal_evidence_max: float
    signal_shift_evidence: float
    untested_signals_max: float
    new_pages_share: float
    new_domain_share: float
    growth_share: float
    newcomer_max: float
    request_time_constant: float
    request_prior_rate: float
    request_prior_seconds: float
    backoff: float
    backoff_max: float
    breaker_errors: int
    breaker: float
    breaker_max: float
    disallowed: float
    gone_polls_max: int
    sources_max: int
    shape_log2_min: float
    shape_log2_step: float
    shapes: NDArray[np.float64]
    recall: NDArray[np.float64]
    precision: NDArray[np.float64]
    log_scroll_items: NDArray[np.float64]
    """log(1 + items) of each level of scrolling pages; their classes follow those of signals."""


def rules_of(settings: ShardSettings, codes: DueCodes) -> Rules:
    """Return settings as rules, each value of the type that its field names.

    A setting may be written as 30 or as 30.0: without the cast, numba would compile every kernel
    that takes the rules once for each combination of types it meets.
    """
    is_memory_bounded = settings.memory_changes_max < math.inf
    return Rules(
        estimator=ESTIMATORS[settings.estimator],
        is_fragments=settings.objective == "fragments",
        belief_half_life=float(settings.belief_half_life),
        memory_changes_max=float(settings.memory_changes_max),
        # Unbounded memory cannot be shortened: there is nothing to shorten it from.
        memory_lost_max=math.log2(settings.memory_changes_max / settings.memory_changes_min)
        if is_memory_bounded
        else 0.0,
        trusts_last_modified=settings.last_modified == "trust",
        precision_prior_true=float(settings.signal_precision * settings.signal_precision_weight),
        precision_prior_total=float(settings.signal_precision_weight),
        delay_prior=float(settings.signal_delay),
        delay_prior_weight=float(settings.signal_delay_weight),
        signal_rate_seconds=float(settings.signal_rate_seconds),
        signal_evidence_max=float(settings.signal_evidence_max),
        signal_shift_evidence=float(settings.signal_shift_evidence),
        untested_signals_max=float(settings.untested_signals_max),
        new_pages_share=float(settings.new_pages_share),
        new_domain_share=float(settings.new_domain_share),
        growth_share=float(settings.growth_share),
        newcomer_max=min(float(settings.newcomer_seconds_max), 1e9),
        request_time_constant=min(settings.request_half_life, 1e18) / math.log(2),
        request_prior_rate=float(settings.request_prior_rate),
        request_prior_seconds=float(settings.request_prior_seconds),
        backoff=float(settings.backoff_seconds),
        backoff_max=float(settings.backoff_seconds_max),
        breaker_errors=int(settings.breaker_errors),
        breaker=float(settings.breaker_seconds),
        breaker_max=float(settings.breaker_seconds_max),
        disallowed=float(settings.disallowed_seconds),
        gone_polls_max=int(settings.gone_polls_max),
        sources_max=int(settings.sources_per_page_max),
        shape_log2_min=float(codes.shape_log2_min),
        shape_log2_step=float(codes.shape_log2_step),
        shapes=_own_copy(codes.shapes()),
        recall=_own_copy(codes.recall),
        precision=_own_copy(codes.precision),
        log_scroll_items=np.log1p(np.asarray(codes.scroll_items, np.float64)),
    )


def _own_copy(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a writable, contiguous copy: numba compiles again for a read-only array."""
    return np.array(values, np.float64)


def log2_bonus(settings: ShardSettings, codes: DueCodes) -> NDArray[np.float64]:
    """Return log2 of the factor that learning adds to the value, for each shape code."""
    if settings.estimator != "gamma" or settings.learning != "bonus":
        return np.zeros(codes.n_shapes)
    bonus: NDArray[np.float64] = np.log2(1 + settings.learning_bonus / codes.shapes())
    return bonus


def has_learning_horizon(settings: ShardSettings) -> bool:
    """Return whether due times depend on `learning_horizon`."""
    return settings.estimator == "gamma" and settings.learning == "gradient"


def learning_horizon(n_polls: int, n_pages: int) -> float:
    """Return the learning horizon, as `recrawl.core.price.learning_due_elapsed` takes it.

    It grows with the mean number of polls per page, because the plan that a poll improves comes
    closer to the best one.  It is a power of two, or 0.
    """
    wanted = min(_HORIZON_PER_POLL * n_polls / max(n_pages, 1), _HORIZON_MAX)
    return math.exp2(round(math.log2(wanted))) if wanted >= 0.75 else 0.0
