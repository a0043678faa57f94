"""Build a page's word from its belief, signals, curve, importance, requests and cost."""

import math

import numpy as np
from numpy.typing import NDArray

from recrawl.core.belief.codes import decode_of
from recrawl.core.kernel import table_kernel
from recrawl.core.requests import decayed_counts_of
from recrawl.core.signal_quality.rates import merged_precision_of
from recrawl.shard.state.rules import COUNTS, PLUG_IN, Rules
from recrawl.shard.state.tables import Links, Pages, Priors, Sources
from recrawl.shard.state.trust import precision_of
from recrawl.shard.state.words import (
    last_of,
    number_of,
    scale_code_of,
    weight_code_of,
    with_bounded,
    with_codes,
)

__all__ = [
    "LOG2_CODE_ONE",
    "evident_last_of",
    "link_row_of",
    "log2_code_of",
    "log2_of_code",
    "prior_of",
    "rate_of",
    "ratio_code_of",
    "ratio_of_code",
    "rebuild_word",
    "signal_totals_of",
]

# Codes of importance, cost and weights of kinds: log2 from 2^-32 to 2^32.
_LOG2_CODES = 1024.0
_LOG2_MIN = -32.0
LOG2_CODE_ONE = 32_768
_RATIO_CODES = 16.0
_RATIO_ONE = 200.0


@table_kernel
def log2_code_of(quantity: float) -> int:
    """Return the 16-bit code of an importance or a cost."""
    if not quantity > 0.0:
        return 0
    code = (math.log2(quantity) - _LOG2_MIN) * _LOG2_CODES + 0.5
    return int(min(max(code, 1.0), 65_535.0))


@table_kernel
def log2_of_code(code: int) -> float:
    """Return log2 of the importance or cost of a code; -inf for 0."""
    if code == 0:
        return -math.inf
    return code / _LOG2_CODES + _LOG2_MIN


@table_kernel
def ratio_code_of(ratio: float) -> int:
    """Return the 8-bit code of a ratio of rates."""
    code = math.log2(max(ratio, 1e-9)) * _RATIO_CODES + _RATIO_ONE + 0.5
    return int(min(max(code, 1.0), 255.0))


@table_kernel
def ratio_of_code(code: int) -> float:
    """Return the ratio of a code; 1 for an unknown ratio (code 0)."""
    if code == 0:
        return 1.0
    return math.exp2((code - _RATIO_ONE) / _RATIO_CODES)


@table_kernel
def prior_of(priors: Priors, kind: int, slot: int, rebased_to: int) -> tuple[float, float]:
    """Return the prior that a page's belief is relative to."""
    if slot < rebased_to:
        return priors.shape[kind], priors.seconds[kind]
    return priors.old_shape[kind], priors.old_seconds[kind]


@table_kernel
def link_row_of(links: Links, slot: int, k: int) -> int:
    """Return the row of a page's k-th further source, or the empty row where it would go."""
    key = np.uint64(1) + np.uint64(slot) * np.uint64(8) + np.uint64(k)
    mask = np.uint64(links.key.size - 1)
    # Fibonacci hashing of 32 bits: the product fits in 64.
    low = (key ^ (key >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
    row = ((low * np.uint64(0x9E3779B1)) >> np.uint64(12)) & mask
    while links.key[row] != np.uint64(0) and links.key[row] != key:
        row = (row + np.uint64(1)) & mask
    return int(np.int64(row))


@table_kernel
def signal_totals_of(
    pages: Pages, links: Links, sources: Sources, rules: Rules, slot: int, now: float
) -> tuple[float, float]:
    """Return a page's true signals per second (Σ γp), and its ageing by signals per second.

    The ageing is Σ γ (-log(1-p)); both sums are over the page's sources.
    """
    seconds = max(now - float(pages.first_seen[slot]), 1.0) + rules.signal_rate_seconds
    true_rate = 0.0
    ageing = 0.0
    for k in range(number_of(pages.n_sources[slot])):
        if k == 0:
            source = pages.source[slot]
            count = float(pages.signal_count[slot])
        else:
            row = link_row_of(links, slot, k)
            source = links.source[row]
            count = float(links.signal_count[row])
        precision = precision_of(sources, source, rules)
        true_rate += count / seconds * precision
        ageing -= count / seconds * math.log1p(-precision)
    return true_rate, ageing


@table_kernel
def evident_last_of(pages: Pages, links: Links, sources: Sources, rules: Rules, slot: int) -> float:
    """Return from when on the copy of a page may have changed, in shard seconds.

    That is its effective last fetch, which signals move back, unless none of the signals since the
    fetch is evidence: a page can be due because somebody wants it, and is then no less fresh.
    """
    last = float(last_of(pages.word[slot]))
    fetched = float(pages.fetched_at[slot])
    if last >= fetched:
        return last
    for k in range(number_of(pages.n_sources[slot])):
        row = link_row_of(links, slot, k) if k > 0 else 0
        n = number_of(links.n_signals[row]) if k > 0 else number_of(pages.n_signals[slot])
        source = number_of(links.source[row]) if k > 0 else number_of(pages.source[slot])
        if n > 0 and precision_of(sources, source, rules) > 0.0:
            return last
    return fetched


@table_kernel
def _nearest(levels: NDArray[np.float64], share: float) -> int:
    low = 0
    high = levels.size - 1
    while high > low:
        middle = (low + high) // 2
        if share <= 0.5 * (levels[middle] + levels[middle + 1]):
            high = middle
        else:
            low = middle + 1
    return low


@table_kernel
def _signal_class_of(rules: Rules, change_rate: float, true_rate: float, ageing: float) -> int:
    recall = true_rate / (change_rate + true_rate)
    if not recall >= 0.5 * rules.recall[0]:
        return 0
    precision = merged_precision_of(ageing / true_rate)
    column = _nearest(rules.precision, precision)
    return 1 + _nearest(rules.recall, recall) * rules.precision.size + column


@table_kernel
def rate_of(pages: Pages, rules: Rules, slot: int) -> tuple[float, float]:
    """Return a page's unsignalled changes per second, and the belief shape to value it with."""
    if rules.estimator == COUNTS:
        # CGM §4.2: r̂ = -log((n - X + 0.5)/(n + 0.5)), over the mean interval
        n_polls = float(pages.belief_shape[slot] >> 8)
        n_changed = float(pages.belief_shape[slot] & 0xFF)
        _, seconds = decode_of(0, pages.belief_seconds[slot])
        unchanged = (n_polls - n_changed + 0.5) / (n_polls + 0.5)
        # A page that never changed counts as half a change; the seconds of a page never polled
        # are its prior's.
        expected = max(-math.log(unchanged), 0.5 / (n_polls + 0.5))
        return expected * max(n_polls, 1.0) / seconds, rules.shapes[rules.shapes.size - 1]
    shape, seconds = decode_of(pages.belief_shape[slot], pages.belief_seconds[slot])
    if rules.estimator == PLUG_IN:
        return shape / seconds, rules.shapes[rules.shapes.size - 1]
    return shape / seconds, shape


@table_kernel
def rebuild_word(
    pages: Pages,
    links: Links,
    sources: Sources,
    priors: Priors,
    rules: Rules,
    slot: int,
    now: float,
) -> None:
    """Recompute the codes in a page's word; its instant and ``held`` stay."""
    rate, shape = rate_of(pages, rules, slot)
    # Cost 0 takes the smallest code, which avoids NaN for a page of importance 0.
    log2_cost = log2_of_code(max(number_of(pages.cost[slot]), 1))
    log2_weight = log2_of_code(pages.importance[slot]) - log2_cost
    log2_weight += log2_of_code(priors.weight[pages.kind[slot]])
    if pages.requested_at[slot] > 0:
        log2_weight += math.log2(_request_factor_of(pages, rules, slot, now))
    class_code = 0
    if pages.n_sources[slot] > 0:
        true_rate, ageing = signal_totals_of(pages, links, sources, rules, slot, now)
        if true_rate > 0.0:
            class_code = _signal_class_of(rules, rate, true_rate, ageing)
    period = 1.0 / rate
    if rules.is_fragments:
        # A curve d∞(1 - e^(-λ_D t)), λ_D = ratio × change rate, has the ordinary value with
        # weight × d∞ at the period over the ratio.
        period /= ratio_of_code(pages.ratio[slot])
        if pages.ceiling[slot] > 0:
            log2_weight += math.log2(pages.ceiling[slot] / 255.0)
        if class_code == 0 and pages.curve[slot] > 1 and rules.log_scroll_items.size > 0:
            class_code = (
                1
                + rules.recall.size * rules.precision.size
                + _nearest(rules.log_scroll_items, math.log1p(pages.curve[slot]))
            )
    shape_code = (math.log2(shape) - rules.shape_log2_min) / rules.shape_log2_step + 0.5
    word = with_codes(
        pages.word[slot],
        scale_code_of(period),
        weight_code_of(log2_weight),
        class_code,
        int(min(max(shape_code, 0.0), rules.shapes.size - 1.0)),
    )
    bounded = pages.limits[slot] > 0 or pages.not_before[slot] > 0
    pages.word[slot] = with_bounded(word, bounded)


@table_kernel
def _request_factor_of(pages: Pages, rules: Rules, slot: int, now: float) -> float:
    """Return the request rate of a page, relative to the prior rate."""
    elapsed = max(now - float(pages.requested_at[slot]), 0.0)
    requests, seconds = decayed_counts_of(
        float(pages.requests[slot]),
        float(pages.request_seconds[slot]),
        elapsed,
        rules.request_time_constant,
    )
    prior = rules.request_prior_rate * rules.request_prior_seconds
    rate = (requests + prior) / (seconds + rules.request_prior_seconds)
    return rate / rules.request_prior_rate
