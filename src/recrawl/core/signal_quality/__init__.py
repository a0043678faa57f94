"""What a hint that a page changed is worth: rates, their estimation, and learning whom to trust."""

from recrawl.core.signal_quality.ageing import aged_by_signal, effective_elapsed
from recrawl.core.signal_quality.learning import (
    PooledPrecision,
    SourceCounts,
    SourceDelay,
    SourceDelays,
    precision_after_fetch,
    signal_rate,
)
from recrawl.core.signal_quality.rates import (
    SignalRates,
    false_chance,
    from_precision_and_recall,
    from_recall,
    merged_source,
    signal_exponent,
)

__all__ = [
    "PooledPrecision",
    "SignalRates",
    "SourceCounts",
    "SourceDelay",
    "SourceDelays",
    "aged_by_signal",
    "effective_elapsed",
    "false_chance",
    "from_precision_and_recall",
    "from_recall",
    "merged_source",
    "precision_after_fetch",
    "signal_exponent",
    "signal_rate",
]
