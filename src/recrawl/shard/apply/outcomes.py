"""Apply the outcomes of fetches: the only place where a shard learns of changes."""

import math

import numpy as np
from numpy.typing import NDArray

from recrawl.core.belief.codes import decode_of, encode_of
from recrawl.core.belief.gamma import after_change_of
from recrawl.core.belief.memory import kept_share_of, memory_lost_of, surprise_of
from recrawl.core.kernel import table_kernel
from recrawl.core.signal_quality.learning import precision_after_change_of
from recrawl.core.signal_quality.shift import SHIFT_FACTOR, SHIFT_WEIGHT, shift_evidence_of
from recrawl.shard.apply.leases import (
    charge_of,
    close_lease,
    lease_row_of,
    refund_order,
    trip_breaker,
)
from recrawl.shard.apply.pages import page_slot_of, seconds_of
from recrawl.shard.apply.signals import age_by_signal, note_precision
from recrawl.shard.events import Outcomes
from recrawl.shard.state.codes import link_row_of, prior_of, rate_of, ratio_of_code, rebuild_word
from recrawl.shard.state.rules import COUNTS, Rules
from recrawl.shard.state.status import LeaseStage, PageStatus, Reason, Transition, Verdict
from recrawl.shard.state.tables import (
    SOURCE_PRECISION_GIVEN,
    Groups,
    Leases,
    Links,
    Pages,
    Priors,
    Registers,
    Sources,
)
from recrawl.shard.state.trust import SIGNALS_COUNTED_MAX, false_chance_of, precision_of
from recrawl.shard.state.words import (
    is_held,
    last_of,
    log2_period_of,
    number_of,
    shape_of,
    with_held,
    with_last,
)

__all__ = ["VOID", "apply_outcomes"]

# How far the last time in a log may be behind a report: owners log the time about every second.
_LOG_BEHIND_MS_MAX = 10_000
# Stands for the transition of a void outcome.
VOID = 255

# Kernels take plain integers for constants, not members of an enum.
_ACTIVE = int(PageStatus.ACTIVE)
_GONE = int(PageStatus.GONE)
_MOVED = int(PageStatus.MOVED)
_DISALLOWED = int(PageStatus.DISALLOWED)
_RETIRED = int(PageStatus.RETIRED)
_V_CHANGED = int(Verdict.CHANGED)
_V_REVERTED = int(Verdict.REVERTED)
_V_GONE = int(Verdict.GONE)
_V_MOVED = int(Verdict.MOVED)
_V_DISALLOWED = int(Verdict.DISALLOWED)
_V_ERROR = int(Verdict.TRANSIENT_ERROR)
_V_WRONG = int(Verdict.WRONG_ANSWER)
_T_NONE = int(Transition.NONE)
_T_NEW = int(Transition.NEW)
_T_CHANGED = int(Transition.CHANGED)
_T_REVERTED = int(Transition.REVERTED)
_T_GONE = int(Transition.GONE)
_T_MOVED = int(Transition.MOVED)
_T_RETURNED = int(Transition.RETURNED)
_T_RETIRED = int(Transition.RETIRED)
_IN_FLIGHT = int(LeaseStage.IN_FLIGHT)
_EXPIRED = int(LeaseStage.EXPIRED)
_CLOSED = int(LeaseStage.CLOSED)
_AUDIT = int(Reason.AUDIT)

_SURPRISE_CODES = 127.0


@table_kernel
def _limit_evidence(sources: Sources, source: int, rules: Rules) -> None:
    """Scale the evidence about a source down to half of its limit, once it exceeds the limit."""
    if sources.total[source] > rules.signal_evidence_max:
        kept = 0.5 * rules.signal_evidence_max / sources.total[source]
        sources.true[source] *= kept
        sources.total[source] *= kept


@table_kernel
def _notice_shift(
    sources: Sources, rules: Rules, source: int, n: int, log_freshness: float, changed: bool
) -> bool:
    """Count a judged interval for or against a shift of a source's precision.

    Return whether the evidence is now sufficient; the belief is then the precision after the shift,
    and weighs little.
    """
    if rules.signal_shift_evidence == math.inf:
        return False
    precision = precision_of(sources, source, rules)
    for is_better in (False, True):
        if is_better:
            shifted = 1.0 - (1.0 - precision) / SHIFT_FACTOR
            before = float(sources.better_evidence[source])
        else:
            shifted = precision / SHIFT_FACTOR
            before = float(sources.worse_evidence[source])
        evidence = shift_evidence_of(before, precision, shifted, n, log_freshness, changed)
        if evidence >= rules.signal_shift_evidence and (
            sources.total[source] + rules.precision_prior_total > SHIFT_WEIGHT
        ):
            sources.total[source] = SHIFT_WEIGHT - rules.precision_prior_total
            sources.true[source] = shifted * SHIFT_WEIGHT - rules.precision_prior_true
            sources.worse_evidence[source] = np.float32(0.0)
            sources.better_evidence[source] = np.float32(0.0)
            return True
        if is_better:
            sources.better_evidence[source] = np.float32(evidence)
        else:
            sources.worse_evidence[source] = np.float32(evidence)
    return False


@table_kernel
def _observe_signals(
    pages: Pages,
    links: Links,
    sources: Sources,
    registers: Registers,
    rules: Rules,
    slot: int,
    elapsed: float,
    changed: bool,
) -> float:
    """Learn the precision of a page's sources; return the chance that all signals were false."""
    false_chance = 1.0
    n_sources = number_of(pages.n_sources[slot])
    for k in range(n_sources):
        row = link_row_of(links, slot, k) if k > 0 else 0
        n = number_of(links.n_signals[row]) if k > 0 else number_of(pages.n_signals[slot])
        if n > 0:
            source = links.source[row] if k > 0 else pages.source[slot]
            _limit_evidence(sources, source, rules)
            false_chance *= false_chance_of(sources, source, rules, n)
    if false_chance == 1.0:
        return 1.0
    if rules.estimator == COUNTS:
        log_fresh = -elapsed * rate_of(pages, rules, slot)[0]
    else:
        shape, seconds = decode_of(pages.belief_shape[slot], pages.belief_seconds[slot])
        log_fresh = -shape * math.log1p(elapsed / seconds)
    for k in range(n_sources):
        row = link_row_of(links, slot, k) if k > 0 else 0
        n = number_of(links.n_signals[row]) if k > 0 else number_of(pages.n_signals[slot])
        source = links.source[row] if k > 0 else pages.source[slot]
        if n == 0 or sources.flags[source] & SOURCE_PRECISION_GIVEN:
            continue
        n = min(n, SIGNALS_COUNTED_MAX)
        sources.n_tested[source] += np.float32(1.0)
        own = false_chance_of(sources, source, rules, n)
        others = math.log(max(false_chance / own, 1e-300)) if own > 0.0 else 0.0
        if _notice_shift(sources, rules, source, n, log_fresh + others, changed):
            note_precision(sources, registers, rules, source)
            continue
        if not changed:
            sources.total[source] += n
            note_precision(sources, registers, rules, source)
            continue
        if log_fresh + others < -1e-12:
            true, total = precision_after_change_of(
                sources.true[source] + rules.precision_prior_true,
                sources.total[source] + rules.precision_prior_total,
                n,
                log_fresh + others,
            )
            sources.true[source] = true - rules.precision_prior_true
            sources.total[source] = total - rules.precision_prior_total
        else:
            # Only this source's signals can explain the change, so one of them was true.
            sources.true[source] += 1.0
            sources.total[source] += n
        note_precision(sources, registers, rules, source)
    return false_chance


@table_kernel
def _observe_counts(pages: Pages, slot: int, elapsed: float, changed: bool, at: int) -> None:
    """Count a poll, for the estimator that uses counts; both halve before a byte overflows."""
    n_polls = number_of(pages.belief_shape[slot]) >> 8
    n_changed = number_of(pages.belief_shape[slot]) & 0xFF
    seconds = decode_of(0, pages.belief_seconds[slot])[1] if n_polls > 0 else 0.0
    if n_polls >= 254:
        n_polls //= 2
        n_changed //= 2
        seconds *= 0.5
    n_polls += 1
    if changed:
        n_changed += 1
    pages.belief_shape[slot] = (n_polls << 8) | n_changed
    pages.belief_seconds[slot] = encode_of(1.0, seconds + elapsed, slot, at)[1]


@table_kernel
def _update_memory(
    pages: Pages, registers: Registers, rules: Rules, slot: int, fresh_chance: float, changed: bool
) -> None:
    """Update the length of memory, and the page's last surprise, by one poll."""
    surprise = surprise_of(fresh_chance, changed)
    before = float(pages.surprise[slot]) / _SURPRISE_CODES
    lost = memory_lost_of(registers.memory_lost[0], surprise, before, rules.memory_lost_max)
    registers.memory_lost[0] = lost
    pages.surprise[slot] = round(_SURPRISE_CODES * surprise)


@table_kernel
def _observe_belief(
    pages: Pages,
    registers: Registers,
    prior: tuple[float, float],
    rules: Rules,
    slot: int,
    elapsed: float,
    changed: bool,
    false_chance: float,
    seen: tuple[int, float],
) -> None:
    """Update the belief about a page's rate by one poll."""
    at, modified_age = seen
    shape, seconds = decode_of(pages.belief_shape[slot], pages.belief_seconds[slot])
    if false_chance == 1.0:
        fresh_chance = math.exp(-shape * math.log1p(elapsed / seconds))
        _update_memory(pages, registers, rules, slot, fresh_chance, changed)
    else:
        # A source whose precision is overestimated would look like bursts of changes.
        pages.surprise[slot] = 0
    memory = rules.memory_changes_max * math.exp2(-registers.memory_lost[0])
    kept = kept_share_of(elapsed, elapsed * shape / seconds, rules.belief_half_life, memory)
    faded_shape = prior[0] + (shape - prior[0]) * kept
    faded_seconds = prior[1] + (seconds - prior[1]) * kept
    if changed and 0.0 <= modified_age < elapsed:
        # No change during the last ``modified_age`` seconds, and one just before.
        new_shape = faded_shape + (1.0 if false_chance == 1.0 else 0.0)
        new_seconds = faded_seconds + modified_age
    elif changed:
        new_shape, new_seconds = after_change_of(faded_shape, faded_seconds, elapsed, false_chance)
    else:
        new_shape, new_seconds = faded_shape, faded_seconds + elapsed
    shape_code, seconds_code = encode_of(new_shape, new_seconds, slot, at)
    # Coding an unchanged shape again would only add noise.
    if abs(new_shape - shape) > 1e-6 * shape:
        pages.belief_shape[slot] = shape_code
    pages.belief_seconds[slot] = seconds_code


@table_kernel
def _clear_signals(pages: Pages, links: Links, slot: int) -> None:
    pages.n_signals[slot] = 0
    for k in range(1, number_of(pages.n_sources[slot])):
        links.n_signals[link_row_of(links, slot, k)] = 0


@table_kernel
def _delay_until(pages: Pages, slot: int, until: float) -> None:
    pages.not_before[slot] = int(min(max(until, 1.0), 2.0**31 - 1))


@table_kernel
def _interpret_verdict(pages: Pages, slot: int, verdict: int) -> tuple[bool, int, int]:
    """Return whether a verdict counts as a change, the page's new status and the transition."""
    before = pages.status[slot]
    if verdict in (_V_GONE, _V_MOVED):
        if before == _RETIRED:
            return False, _RETIRED, _T_NONE
        status = _GONE if verdict == _V_GONE else _MOVED
        transition = _T_GONE if verdict == _V_GONE else _T_MOVED
        return before != status, status, transition if before != status else _T_NONE
    if pages.fetched_at[slot] == 0:
        return verdict == _V_CHANGED, _ACTIVE, _T_NEW
    if before in (_GONE, _MOVED, _RETIRED):
        return True, _ACTIVE, _T_RETURNED
    if verdict == _V_CHANGED:
        return True, _ACTIVE, _T_CHANGED
    return False, _ACTIVE, _T_REVERTED if verdict == _V_REVERTED else _T_NONE


@table_kernel
def _ended_ms(now_ms: int, fetched_at_ms: int) -> int:
    """Return when a fetch ended, at the earliest, for the delay of its host.

    Usually that is now.  A node that has lost the partition and does not know it yet reports later
    than the last time in the log, because its ticks are void.
    """
    return max(now_ms, min(fetched_at_ms, now_ms + _LOG_BEHIND_MS_MAX))


@table_kernel
def _settle_order(
    pages: Pages,
    groups: Groups,
    leases: Leases,
    registers: Registers,
    order: int,
    page: int,
    ended_ms: int,
) -> int:
    """Close the order of a report; return the order's reason, or -1 if the report is void."""
    row = lease_row_of(leases, registers, order)
    if row < 0 or leases.page[row] != page:
        return -1
    stage = leases.stage[row]
    if stage == _IN_FLIGHT:
        close_lease(pages, groups, leases, registers, row, _CLOSED, ended_ms)
    elif stage == _EXPIRED:
        leases.stage[row] = _CLOSED
    else:
        return -1
    return number_of(leases.reason[row])


@table_kernel
def _back_off(pages: Pages, rules: Rules, slot: int, now: int, retry_after: float) -> None:
    """Delay a page after an error or a wrong answer, longer with each one in a row."""
    errors = number_of(pages.errors[slot])
    # For a page that is gone the column counts the polls that found it gone; this is none.
    if errors < 255 and pages.status[slot] not in (_GONE, _MOVED, _RETIRED):
        errors += 1
        pages.errors[slot] = errors
    wait = min(rules.backoff * 2.0 ** min(max(errors - 1, 0), 30), rules.backoff_max)
    if retry_after > 0.0:
        wait = min(max(wait, retry_after), rules.backoff_max)
    _delay_until(pages, slot, now + wait)


@table_kernel
def _note_disallowed(
    pages: Pages, registers: Registers, rules: Rules, slot: int, now: int, is_ordered: bool
) -> None:
    """Leave a page that robots.txt forbids alone for a while; nothing of the budget was used."""
    if pages.status[slot] != _RETIRED:
        pages.status[slot] = _DISALLOWED
    _delay_until(pages, slot, now + rules.disallowed)
    if is_ordered:
        refund_order(pages, registers, slot)


@table_kernel
def _observe(
    pages: Pages,
    links: Links,
    sources: Sources,
    priors: Priors,
    registers: Registers,
    rules: Rules,
    slot: int,
    verdict: int,
    changed: bool,
    seen: tuple[int, float],
) -> None:
    """Learn from a poll; ``seen`` is its time, and the age of the content or -1 if unknown."""
    fetched = seen[0]
    elapsed = float(fetched) - float(pages.fetched_at[slot])
    false_chance = 1.0
    if verdict != _V_REVERTED:
        false_chance = _observe_signals(
            pages, links, sources, registers, rules, slot, elapsed, changed
        )
    if rules.estimator == COUNTS:
        _observe_counts(pages, slot, elapsed, changed, fetched)
        return
    prior = prior_of(priors, pages.kind[slot], slot, registers.rebased_to[0])
    _observe_belief(pages, registers, prior, rules, slot, elapsed, changed, false_chance, seen)


@table_kernel
def _enter_status(pages: Pages, rules: Rules, slot: int, status: int) -> bool:
    """Set a page's status; return whether it was gone often enough to be given up."""
    if status == _ACTIVE:
        pages.errors[slot] = 0
        if pages.status[slot] == _RETIRED:
            pages.word[slot] = with_held(pages.word[slot], False)
    elif pages.status[slot] == status:
        pages.errors[slot] = min(number_of(pages.errors[slot]) + 1, 255)
    else:
        pages.errors[slot] = 1
    pages.status[slot] = status
    if status in (_ACTIVE, _RETIRED):
        return False
    # Not while another order for it is in flight: a retired page never is.
    is_in_flight = is_held(pages.word[slot])
    return not is_in_flight and number_of(pages.errors[slot]) >= rules.gone_polls_max


@table_kernel
def _note_fetch(pages: Pages, registers: Registers, slot: int, fetched: int) -> None:
    pages.fetched_at[slot] = fetched
    pages.not_before[slot] = 0
    if registers.growth_until[0] == 0 and pages.newcomer_until[slot] > 0:
        # While a shard is filled, only first fetches are limited (`apply.newcomers`).
        pages.newcomer_until[slot] = 0


@table_kernel
def _fresh_chance_of(pages: Pages, rules: Rules, slot: int, at: int) -> float:
    """Return the probability that the copy of a page has not changed, as its word says."""
    word = pages.word[slot]
    shape = float(rules.shapes[shape_of(word)])
    period = math.exp2(log2_period_of(word))
    if rules.is_fragments:
        # The period is that of the divergence.
        period *= ratio_of_code(pages.ratio[slot])
    age = max(float(at - last_of(word)), 0.0) / period
    return math.exp(-shape * math.log1p(age / shape))


@table_kernel
def _count_audit(
    pages: Pages,
    groups: Groups,
    priors: Priors,
    registers: Registers,
    rules: Rules,
    slot: int,
    fetched: int,
    changed: bool,
) -> None:
    """Count an audit, and what the model expected of it; call it before the word changes."""
    fresh = 0 if changed else 1
    chance = _fresh_chance_of(pages, rules, slot, fetched)
    variance = chance * (1.0 - chance)
    group = pages.group[slot]
    groups.n_audited[group] += np.uint32(1)
    groups.n_audited_fresh[group] += np.uint32(fresh)
    groups.audited_modelled[group] += chance
    groups.audited_variance[group] += variance
    kind = pages.kind[slot]
    priors.n_audited[kind] += 1
    priors.n_audited_fresh[kind] += fresh
    priors.audited_modelled[kind] += chance
    priors.audited_variance[kind] += variance
    registers.n_audited[0] += 1
    registers.n_audited_fresh[0] += fresh
    registers.audited_modelled[0] += chance
    registers.audited_variance[0] += variance


@table_kernel
def _count_result(
    pages: Pages,
    groups: Groups,
    priors: Priors,
    registers: Registers,
    slot: int,
    verdict: int,
    changed: bool,
    is_ordered: bool,
) -> None:
    """Count a fetch by its result, and what it has spent; call it before the page changes."""
    group, kind = pages.group[slot], pages.kind[slot]
    if verdict == _V_DISALLOWED:
        groups.n_disallowed[group] += np.uint32(1)
        priors.n_disallowed[kind] += 1
        return  # nothing was fetched
    if is_ordered:
        charge = charge_of(pages, registers, slot)
        groups.spent[group] += charge
        priors.spent[kind] += charge
    if verdict == _V_ERROR:
        groups.n_failed[group] += np.uint32(1)
        priors.n_failed[kind] += 1
    elif verdict == _V_WRONG:
        groups.n_wrong_answer[group] += np.uint32(1)
        priors.n_wrong_answer[kind] += 1
    elif verdict in (_V_GONE, _V_MOVED):
        groups.n_gone[group] += np.uint32(1)
        priors.n_gone[kind] += 1
    elif pages.fetched_at[slot] == 0:
        groups.n_first[group] += np.uint32(1)
        priors.n_first[kind] += 1
    elif changed:
        groups.n_changed[group] += np.uint32(1)
        priors.n_changed[kind] += 1
    else:
        groups.n_unchanged[group] += np.uint32(1)
        priors.n_unchanged[kind] += 1


@table_kernel
def apply_outcomes(
    pages: Pages,
    links: Links,
    sources: Sources,
    groups: Groups,
    leases: Leases,
    priors: Priors,
    registers: Registers,
    rules: Rules,
    event: Outcomes,
    transitions: NDArray[np.uint8],
) -> None:
    """Learn from fetches in the order reported; ``transitions`` of void rows are not written.

    Void are a second report of an order, a report of an order no longer remembered, an outcome no
    later than the last one known, and outcomes of pages that have been removed.
    """
    now_ms = registers.now[0]
    now = seconds_of(now_ms, now_ms)
    for i in range(event.page.size):
        reason = ordered_at = 0
        order, page = event.order[i], event.page[i]
        ended_ms = _ended_ms(now_ms, event.fetched_at_ms[i])
        if order > 0:
            ordered_at = leases.ordered_at[order & (leases.page.size - 1)]
            reason = _settle_order(pages, groups, leases, registers, order, page, ended_ms)
        slot = page_slot_of(pages, event.page[i], registers.n_slots[0])
        verdict = number_of(event.verdict[i])
        if reason < 0 or slot < 0 or verdict > _V_WRONG:
            continue
        group = pages.group[slot]
        if verdict == _V_ERROR:
            trip_breaker(groups, group, ended_ms, rules, float(event.retry_after_seconds[i]))
        elif verdict != _V_WRONG:
            # A wrong answer shows neither that the host works nor that it fails.
            groups.n_errors[group] = 0
        if verdict in (_V_ERROR, _V_WRONG):
            _back_off(pages, rules, slot, now, float(event.retry_after_seconds[i]))
        if verdict == _V_DISALLOWED:
            _note_disallowed(pages, registers, rules, slot, now, event.order[i] > 0)
        is_ordered = event.order[i] > 0
        if verdict >= _V_DISALLOWED:
            _count_result(pages, groups, priors, registers, slot, verdict, False, is_ordered)
            rebuild_word(pages, links, sources, priors, rules, slot, float(now))
            registers.n_outcomes[0] += 1
            transitions[i] = _T_NONE
            continue
        # The fetcher's clock may be wrong: the fetch was between its order and now.
        fetched = seconds_of(max(event.fetched_at_ms[i], ordered_at), now_ms)
        if fetched <= pages.fetched_at[slot]:
            continue
        registers.n_outcomes[0] += 1
        changed, status, transition = _interpret_verdict(pages, slot, verdict)
        _count_result(pages, groups, priors, registers, slot, verdict, changed, is_ordered)
        if pages.fetched_at[slot] > 0:
            modified_age = -1.0
            if rules.trusts_last_modified and event.last_modified_at_ms[i] > 0:
                modified = seconds_of(event.last_modified_at_ms[i], now_ms)
                modified_age = max(float(fetched - modified), 0.0)
            seen = (fetched, modified_age)
            _observe(pages, links, sources, priors, registers, rules, slot, verdict, changed, seen)
            registers.n_polls[0] += 1
            registers.n_changed[0] += 1 if changed else 0
            if reason == _AUDIT:
                _count_audit(pages, groups, priors, registers, rules, slot, fetched, changed)
        _clear_signals(pages, links, slot)
        _note_fetch(pages, registers, slot, fetched)
        pages.word[slot] = with_last(pages.word[slot], fetched)
        is_given_up = _enter_status(pages, rules, slot, status)
        rebuild_word(pages, links, sources, priors, rules, slot, float(fetched))
        if is_given_up:
            pages.status[slot] = _RETIRED
            pages.word[slot] = with_held(pages.word[slot], True)
            transition = _T_RETIRED
        elif pages.n_sources[slot] > 0 and number_of(pages.heard_at[slot]) > fetched:
            # A signal arrived between the fetch and its report: the fetch has not seen its change.
            pages.n_signals[slot] = 1
            precision = precision_of(sources, pages.source[slot], rules)
            age_by_signal(pages, rules, slot, float(pages.heard_at[slot]), precision)
        transitions[i] = transition
