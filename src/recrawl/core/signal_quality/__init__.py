"""Signals that a page changed: their rates and effect, and the learned precision of sources."""

from typing import TYPE_CHECKING

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
from recrawl.deprecated_names import find_moved_names

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

# Names of recrawl 0.1.0.
_MOVED = {
    "PooledPrecision": "recrawl.core.signal_quality.PrecisionLearner",
    "SignalFit": "recrawl.papers.signal_quality.SignalFit",
    "SignalledPolls": "recrawl.papers.signal_quality.SignalledPolls",
    "SourceDelay": "recrawl.core.signal_quality.DelayLearner",
    "aged_by_signal": "recrawl.core.signal_quality.elapsed_after_signal",
    "counted_quality": "recrawl.papers.signal_quality.count_quality",
    "fit_signals": "recrawl.papers.signal_quality.fit_signals",
    "merged_source": "recrawl.core.signal_quality.merge_sources",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
