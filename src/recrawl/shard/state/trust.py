"""Quality of the sources of signals: precision and delay of the next signal, from counts."""

import math

from recrawl.core.kernel import table_kernel
from recrawl.core.signal_quality.learning import log_false_chance_of
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.tables import SOURCE_DELAY_GIVEN, SOURCE_PRECISION_GIVEN, Sources

__all__ = [
    "SIGNALS_COUNTED_MAX",
    "delay_of",
    "false_chance_of",
    "is_tested",
    "next_precision_of",
    "precision_of",
]

SIGNALS_COUNTED_MAX = 1_000
"""Largest number of signals of one source about one copy that count as evidence."""

# No precision is certain, whether given or learned.
_PRECISION_MAX = 0.999


@table_kernel
def next_precision_of(sources: Sources, source: int, rules: Rules, n_before: int) -> float:
    """Return the precision of a signal that follows others about the same copy of a page.

    See `recrawl.core.signal_quality.learning.log_false_chance_of`: if those were false, this one
    is more likely to be false, too.
    """
    if sources.flags[source] & SOURCE_PRECISION_GIVEN:
        return min(float(sources.given_precision[source]), _PRECISION_MAX)
    true = sources.true[source] + rules.precision_prior_true
    total = sources.total[source] + rules.precision_prior_total
    return float(min(max(true / (total + n_before), 0.0), _PRECISION_MAX))


@table_kernel
def precision_of(sources: Sources, source: int, rules: Rules) -> float:
    """Return the precision of a source's signals, as given or learned."""
    return next_precision_of(sources, source, rules, 0)


@table_kernel
def false_chance_of(sources: Sources, source: int, rules: Rules, n: int) -> float:
    """Return the chance that ``n`` signals of a source about the same copy are all false."""
    if sources.flags[source] & SOURCE_PRECISION_GIVEN:
        return float((1.0 - precision_of(sources, source, rules)) ** n)
    total = sources.total[source] + rules.precision_prior_total
    true = sources.true[source] + rules.precision_prior_true
    true = min(max(true, 0.0), _PRECISION_MAX * total)
    return math.exp(log_false_chance_of(true, total, min(n, SIGNALS_COUNTED_MAX)))


@table_kernel
def is_tested(sources: Sources, source: int, rules: Rules) -> bool:
    """Return whether the precision of a source was given, or enough of its signals were tested."""
    if sources.flags[source] & SOURCE_PRECISION_GIVEN:
        return True
    return bool(sources.n_tested[source] >= rules.untested_signals_max)


@table_kernel
def delay_of(sources: Sources, source: int, rules: Rules) -> float:
    """Return the mean delay of a source's signals in seconds, as given or learned."""
    if sources.flags[source] & SOURCE_DELAY_GIVEN:
        return float(sources.given_delay[source])
    seconds = sources.delay_seconds[source] + rules.delay_prior * rules.delay_prior_weight
    return float(seconds / (sources.n_delays[source] + rules.delay_prior_weight))
