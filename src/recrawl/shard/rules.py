"""The settings of a shard as kernels take them: numbers and small tables."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.price.due_table import DueCodes
from recrawl.shard.settings import ShardSettings

__all__ = ["ESTIMATORS", "PATIENCES", "Rules", "has_patience", "log2_bonus", "patience", "rules_of"]

ESTIMATORS = {"gamma": 0, "plug_in": 1, "counts": 2}

# Patience with what polls teach for each poll that pages have had on average, and at most.
_PATIENCE_PER_POLL = 2.0
_PATIENCE_MAX = 32.0
PATIENCES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""All that `patience` returns."""


class Rules(NamedTuple):
    """What events are applied by; times in seconds."""

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
    """log(1 + items) of the levels that have a class of their own, after those of signals."""


def rules_of(settings: ShardSettings, codes: DueCodes) -> Rules:
    """Return settings as rules."""
    return Rules(
        ESTIMATORS[settings.estimator],
        settings.objective == "fragments",
        settings.belief_half_life,
        settings.memory_changes_max,
        # What is never forgotten is not learned to be forgotten either.
        math.log2(settings.memory_changes_max / settings.memory_changes_min)
        if settings.memory_changes_max < math.inf
        else 0.0,
        settings.last_modified == "trust",
        settings.signal_precision * settings.signal_precision_weight,
        settings.signal_precision_weight,
        settings.signal_delay,
        settings.signal_delay_weight,
        settings.signal_rate_seconds,
        settings.signal_evidence_max,
        min(settings.request_half_life, 1e18) / math.log(2),
        settings.request_prior_rate,
        settings.request_prior_seconds,
        settings.backoff_seconds,
        settings.backoff_seconds_max,
        settings.breaker_errors,
        settings.breaker_seconds,
        settings.breaker_seconds_max,
        settings.disallowed_seconds,
        settings.gone_polls_max,
        settings.sources_per_page_max,
        codes.shape_log2_min,
        codes.shape_log2_step,
        codes.shapes(),
        codes.recall,
        codes.precision,
        np.log1p(np.asarray(codes.scroll_items, np.float64)),
    )


def log2_bonus(settings: ShardSettings, codes: DueCodes) -> NDArray[np.float64]:
    """Return log2 of what a poll's teaching multiplies the value by, for each shape code."""
    if settings.estimator != "gamma" or settings.learning != "bonus":
        return np.zeros(codes.n_shapes)
    bonus: NDArray[np.float64] = np.log2(1 + settings.learning_bonus / codes.shapes())
    return bonus


def has_patience(settings: ShardSettings) -> bool:
    """Return whether due times depend on `patience`."""
    return settings.estimator == "gamma" and settings.learning == "gradient"


def patience(n_polls: int, n_pages: int) -> float:
    """Return for how long what polls teach counts, as `recrawl.core.price.teaching_due_elapsed`.

    It grows with what is known, as the plan to be improved is nearer to its best; in steps, a
    power of two each, or 0.
    """
    wanted = min(_PATIENCE_PER_POLL * n_polls / max(n_pages, 1), _PATIENCE_MAX)
    return math.exp2(round(math.log2(wanted))) if wanted >= 0.75 else 0.0
