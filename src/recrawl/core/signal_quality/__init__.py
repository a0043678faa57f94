"""Signals that a page changed: their rates and effect, and the learned precision of sources."""

from recrawl.core.signal_quality.ageing import effective_elapsed, elapsed_after_signal
from recrawl.core.signal_quality.learning import (
    DelayLearner,
    PrecisionLearner,
    SourceCounts,
    SourceDelays,
    precision_after_fetch,
    signal_rate,
)
from recrawl.core.signal_quality.rates import (
    SignalRates,
    false_chance,
    from_precision_and_recall,
    from_recall,
    merge_sources,
    signal_exponent,
)

__all__ = [
    "DelayLearner",
    "PrecisionLearner",
    "SignalRates",
    "SourceCounts",
    "SourceDelays",
    "effective_elapsed",
    "elapsed_after_signal",
    "false_chance",
    "from_precision_and_recall",
    "from_recall",
    "merge_sources",
    "precision_after_fetch",
    "signal_exponent",
    "signal_rate",
]
