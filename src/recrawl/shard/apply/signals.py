"""Apply signals: each ages its page to the time at which it would be as likely to be stale.

A new source may be unreliable, so only a few of its signals age pages before fetches have tested as
many.  The others wait: they count once the source is tested.  Whenever that happens, or a source
proves much less reliable than it was, the signals of all pages are weighed anew (`reage_pages`).
"""

import math

import numpy as np

from recrawl.core.arrays import FlagArray
from recrawl.core.kernel import table_kernel
from recrawl.core.signal_quality.ageing import elapsed_after_signal_of
from recrawl.shard.apply.pages import page_slot_of, seconds_of
from recrawl.shard.events import Signals, SourcesSet
from recrawl.shard.state.codes import link_row_of, rebuild_word
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import (
    I64,
    SOURCE_DELAY_GIVEN,
    SOURCE_HEARD,
    SOURCE_PRECISION_GIVEN,
    Links,
    Pages,
    Priors,
    Registers,
    Sources,
)
from recrawl.shard.state.trust import (
    delay_of,
    false_chance_of,
    is_tested,
    next_precision_of,
    precision_of,
)
from recrawl.shard.state.words import (
    SECONDS_MAX,
    last_of,
    log2_period_of,
    number_of,
    shape_of,
    with_last,
)

__all__ = [
    "age_by_signal",
    "aged_last_of",
    "apply_signals",
    "note_precision",
    "reage_pages",
    "set_sources",
]

_FREE = int(PageStatus.FREE)
_NEW = int(PageStatus.NEW)
_COUNT_MAX = 65_535
# Largest number of signals of a source that age the same copy, per signal of a new source that
# counts before it is tested.
_SIGNALS_PER_TEST = 2.0
# Claimed times are accepted up to this far ahead of the shard's time.
_AHEAD_MS_MAX = 86_400_000


@table_kernel
def aged_last_of(word: np.uint64, rules: Rules, at: float, precision: float) -> int:
    """Return the effective last fetch of a page after one more signal of this precision."""
    # With the shape and period of the word's codes, which the due time uses, too.
    shape = rules.shapes[shape_of(word)]
    seconds = shape * math.exp2(log2_period_of(word))
    elapsed = max(at - float(last_of(word)), 0.0)
    aged = elapsed_after_signal_of(shape, seconds, elapsed, precision)
    return int(max(at - min(aged, float(SECONDS_MAX)), 1.0))


@table_kernel
def age_by_signal(pages: Pages, rules: Rules, slot: int, at: float, precision: float) -> None:
    """Move a page's effective last fetch back for one signal of this precision."""
    word = pages.word[slot]
    pages.word[slot] = with_last(word, aged_last_of(word, rules, at, precision))


@table_kernel
def _link_of(
    pages: Pages, links: Links, registers: Registers, rules: Rules, slot: int, source: int
) -> int:
    """Return a page's link to a source: a row of links, -1 for the page's own columns, -2 for none.

    A new link is made unless the page has its largest number of sources.
    """
    n = number_of(pages.n_sources[slot])
    if n == 0:
        pages.n_sources[slot] = 1
        pages.source[slot] = source
        return -1
    if pages.source[slot] == source:
        return -1
    for k in range(1, n):
        row = link_row_of(links, slot, k)
        if links.source[row] == source:
            return row
    if n >= rules.sources_max:
        return -2
    row = link_row_of(links, slot, n)
    if links.key[row] == np.uint64(0):
        registers.n_links[0] += 1
    links.key[row] = np.uint64(1) + np.uint64(slot) * np.uint64(8) + np.uint64(n)
    links.source[row] = source
    links.n_signals[row] = 0
    links.signal_count[row] = 0.0
    links.claimed_at[row] = 0
    pages.n_sources[slot] = n + 1
    return row


@table_kernel
def apply_signals(
    pages: Pages,
    links: Links,
    sources: Sources,
    priors: Priors,
    registers: Registers,
    rules: Rules,
    event: Signals,
    valid: FlagArray,
) -> None:
    """Count signals and age their pages.

    Void are a claimed time no later than one that the source claimed before, one before the last
    fetch, which has seen that change, and one more than a day ahead.  Without a claimed time the
    time of arrival counts.
    """
    now_ms = registers.now[0]
    for i in range(event.page.size):
        slot = page_slot_of(pages, event.page[i], registers.n_slots[0])
        if slot < 0:
            continue
        source = number_of(event.source[i])
        at = seconds_of(event.at_ms[i], now_ms)
        is_claimed = event.claimed_at_ms[i] > 0
        claim_ms = event.claimed_at_ms[i] if is_claimed else event.at_ms[i]
        if claim_ms > now_ms + _AHEAD_MS_MAX:
            if is_claimed:
                continue
            claim_ms = now_ms
        # The claim is stored unclamped: clamped to a later time, the same claim would seem new.
        claim = seconds_of(claim_ms, claim_ms)
        claimed = min(claim, seconds_of(now_ms, now_ms))
        link = _link_of(pages, links, registers, rules, slot, source)
        if link == -2:
            continue
        before = pages.claimed_at[slot] if link == -1 else links.claimed_at[link]
        if claim <= before:
            continue
        if link == -1:
            pages.claimed_at[slot] = claim
        else:
            links.claimed_at[link] = claim
        fetched = number_of(pages.fetched_at[slot])
        if claimed <= fetched:
            continue
        if link == -1:
            pages.n_signals[slot] = min(number_of(pages.n_signals[slot]) + 1, _COUNT_MAX)
            pages.signal_count[slot] += np.float32(1.0)
            n_signals = number_of(pages.n_signals[slot])
        else:
            links.n_signals[link] = min(number_of(links.n_signals[link]) + 1, _COUNT_MAX)
            links.signal_count[link] += np.float32(1.0)
            n_signals = number_of(links.n_signals[link])
        pages.heard_at[slot] = at
        sources.flags[source] |= np.uint8(SOURCE_HEARD)
        sources.n_signals[source] += 1.0
        registers.n_signals[0] += 1
        precision = next_precision_of(sources, source, rules, n_signals - 1)
        if is_claimed:
            sources.delay_seconds[source] += max(at - claimed, 0)
            sources.n_delays[source] += 1.0
        elif fetched > 0:
            # A delayed signal may announce a change that the fetch has seen.
            delay = delay_of(sources, source, rules)
            if delay > 0.0:
                precision *= -math.expm1(-(at - fetched) / delay)
        rebuild_word(pages, links, sources, priors, rules, slot, float(at))
        # Hundreds of false signals about one copy must not add up to a likely change.
        is_counted = n_signals <= _SIGNALS_PER_TEST * rules.untested_signals_max
        if pages.status[slot] != _NEW and (
            is_counted and _may_age(pages, sources, rules, slot, source)
        ):
            age_by_signal(pages, rules, slot, float(at), precision)
        valid[i] = True


@table_kernel
def _may_age(pages: Pages, sources: Sources, rules: Rules, slot: int, source: int) -> bool:
    """Return whether a signal ages its page now; count it if its source is not tested yet."""
    if is_tested(sources, source, rules):
        return True
    if last_of(pages.word[slot]) < number_of(pages.fetched_at[slot]):
        return True
    if sources.n_untested[source] >= rules.untested_signals_max + sources.n_tested[source]:
        return False
    sources.n_untested[source] += np.float32(1.0)
    return True


@table_kernel
def note_precision(sources: Sources, registers: Registers, rules: Rules, source: int) -> None:
    """Have all signals weighed anew if a source is now tested, or only half as precise as it was.

    Called after a fetch has changed the evidence about the source.
    """
    precision = precision_of(sources, source, rules)
    used = float(sources.precision_used[source])
    if used == 0.0:
        if not is_tested(sources, source, rules):
            return
    elif precision > 0.5 * used:
        sources.precision_used[source] = max(precision, used)
        return
    sources.precision_used[source] = precision
    registers.n_to_reage[0] = registers.n_slots[0]


@table_kernel
def _reaged_last_of(pages: Pages, links: Links, sources: Sources, rules: Rules, slot: int) -> int:
    """Return the effective last fetch of a page by all its signals, as precise as sources are now.

    -1 for a page without signals since its fetch, or with signals that are not tested and wait.
    """
    fetched = number_of(pages.fetched_at[slot])
    log_false = 0.0
    is_all_tested = True
    n_all = 0
    for k in range(number_of(pages.n_sources[slot])):
        row = link_row_of(links, slot, k) if k > 0 else 0
        n = number_of(links.n_signals[row]) if k > 0 else number_of(pages.n_signals[slot])
        if n == 0:
            continue
        source = number_of(links.source[row]) if k > 0 else number_of(pages.source[slot])
        n_counted = int(min(float(n), _SIGNALS_PER_TEST * rules.untested_signals_max))
        log_false += math.log(max(false_chance_of(sources, source, rules, n_counted), 1e-300))
        is_all_tested &= is_tested(sources, source, rules)
        n_all += n
    word = pages.word[slot]
    if n_all == 0 or (last_of(word) >= fetched and not is_all_tested):
        return -1
    shape = rules.shapes[shape_of(word)]
    seconds = shape * math.exp2(log2_period_of(word))
    at = max(number_of(pages.heard_at[slot]), fetched)
    elapsed = float(at - fetched)
    # All signals as if they had come with the last one: see `elapsed_after_signal_of`.
    aged = elapsed + (seconds + elapsed) * math.expm1(min(-log_false / shape, 700.0))
    return int(max(at - min(aged, float(SECONDS_MAX)), 1.0))


@table_kernel
def reage_pages(
    pages: Pages,
    links: Links,
    sources: Sources,
    priors: Priors,
    registers: Registers,
    rules: Rules,
    n_slots: int,
    changed: I64,
) -> int:
    """Weigh the signals of the next ``n_slots`` slots anew; return the number of pages changed.

    A page whose signals waited is aged by them.  One that was aged by signals that have turned out
    to be less precise becomes younger again.
    """
    n = 0
    now = float(seconds_of(registers.now[0], registers.now[0]))
    for _ in range(min(n_slots, registers.n_to_reage[0])):
        slot = registers.reage_from[0]
        if slot >= registers.n_slots[0]:
            slot = 0
        registers.reage_from[0] = slot + 1
        registers.n_to_reage[0] -= 1
        if pages.n_sources[slot] == 0 or pages.status[slot] in (_FREE, _NEW):
            continue
        fetched = number_of(pages.fetched_at[slot])
        last = last_of(pages.word[slot])
        reaged = _reaged_last_of(pages, links, sources, rules, slot)
        if reaged > 0 and (reaged > last or last >= fetched) and reaged != last:
            pages.word[slot] = with_last(pages.word[slot], reaged)
            rebuild_word(pages, links, sources, priors, rules, slot, now)
            changed[n] = slot
            n += 1
    return n


@table_kernel
def set_sources(sources: Sources, event: SourcesSet, valid: FlagArray) -> None:
    """Set the quality of sources where given; otherwise it is learned from now on."""
    for i in range(event.source.size):
        source = event.source[i]
        flags = sources.flags[source] & np.uint8(SOURCE_HEARD)
        if 0.0 <= event.precision[i] <= 1.0:
            flags |= np.uint8(SOURCE_PRECISION_GIVEN)
            sources.given_precision[source] = event.precision[i]
        if event.delay_seconds[i] >= 0.0:
            flags |= np.uint8(SOURCE_DELAY_GIVEN)
            sources.given_delay[source] = event.delay_seconds[i]
        sources.flags[source] = flags
        valid[i] = True
