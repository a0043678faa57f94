"""Fitting signal quality to a complete history of a page."""

from recrawl.papers.signal_quality.fit import (
    SignalFit,
    SignalledPolls,
    count_quality,
    fit_signals,
)

__all__ = ["SignalFit", "SignalledPolls", "count_quality", "fit_signals"]
