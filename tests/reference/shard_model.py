"""A model of a shard: dictionaries of pages, orders and groups, one row at a time.

It implements the effect of events on all integer state a second time, as plainly as possible.
Beliefs are floats: compare them within one code for each time that the shard has written a belief
since `take_beliefs`.
"""

# Methods take all columns of a row, also those they do not need.

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recrawl.core.belief.codes import decode_of
from recrawl.core.belief.gamma import GammaBelief, after_poll, expected_freshness
from recrawl.core.signal_quality.learning import precision_after_change_of
from recrawl.shard import events as ev
from recrawl.shard.settings import ShardSettings
from recrawl.shard.shard import Shard
from recrawl.shard.state.codes import link_row_of
from recrawl.shard.state.status import LeaseStage, PageStatus, Verdict
from recrawl.shard.state.tables import GROUP_CLOSED, GROUP_HAS_POLICY
from recrawl.shard.state.words import EPOCH_SECONDS

DAY_MS = 86_400_000


@dataclass
class Heard:
    """Signals of one source about a page."""

    source: int
    n_signals: int = 0
    count: float = 0.0
    claimed_at: int = 0


@dataclass
class ModelPage:
    group: int
    kind: int
    first_seen: int
    belief: tuple[float, float]
    surprise: float = 0.0
    status: PageStatus = PageStatus.NEW
    errors: int = 0
    fetched_at: int = 0
    not_before: int = 0
    heard_at: int = 0
    heard: list[Heard] = field(default_factory=list)
    cost: float = 1.0
    importance: float = 1.0
    order: int = 0
    """Order in flight; 0 for none."""
    n_written: int = 1
    """Number of times that the shard has written its belief since the last comparison."""


@dataclass
class ModelLease:
    page: int
    group: int
    ordered_at: int
    expires_at: int
    stage: LeaseStage
    reason: int


@dataclass
class ModelGroup:
    delay_ms: int
    in_flight_max: int
    burst: int
    in_flight: int = 0
    ready_at: int = 0
    blocked_until: int = 0
    n_errors: int = 0
    is_closed: bool = False
    is_own: bool = False
    n_pages: int = 0


@dataclass
class ModelSource:
    true: float = 0.0
    total: float = 0.0
    given: float | None = None
    shift: list[float] = field(default_factory=lambda: [0.0, 0.0])


class ShardModel:
    """A shard's state in dictionaries."""

    def __init__(self, settings: ShardSettings) -> None:
        self.settings = settings
        self.now = 0
        self.epoch = 0
        self.pages: dict[int, ModelPage] = {}
        self.free: list[int] = []
        """Page numbers of free slots; the last one is used first."""
        self.n_slots = 0
        self.leases: dict[int, ModelLease] = {}
        self.first_order = 1
        self.next_order = 1
        self.groups: dict[int, ModelGroup] = {}
        self.sources: dict[int, ModelSource] = {}
        shape = settings.prior_shape
        self.prior = [(shape, shape * settings.prior_period)]
        """Prior of each kind."""
        self.memory_lost = 0.0
        self.weight: dict[int, float] = {}
        """Weights of kinds that have one."""
        self.rate = self.credit = self.credit_max = math.inf
        self.by_cost = False
        self.counts = dict.fromkeys(("ordered", "outcomes", "changed", "signals", "void"), 0)

    def apply(self, event: ev.Event) -> list[bool]:
        """Apply a batch; return which rows were valid."""
        # Time moves to the latest decision of a batch before any of its rows is applied.
        if isinstance(event, ev.Ordered | ev.LeasesExpired):
            mine = [
                int(at) for at, e in zip(event.at_ms, event.epoch, strict=True) if e == self.epoch
            ]
            self._advance_time(max(mine, default=0))
            if mine and isinstance(event, ev.Ordered):
                self._forget_leases()
        if isinstance(event, ev.PagesAdded | ev.KindsSet):
            self._add_kinds(int(event.kind.max(initial=0)) + 1)
        if isinstance(event, ev.PriorsSet):
            valid = self._set_priors(event)
        elif isinstance(event, ev.KindsWeighted):
            valid = self._weigh_kinds(event)
        else:
            act = getattr(self, f"_on_{type(event).__name__.lower()}")
            valid = [
                bool(act(*(column[i].item() for column in event))) for i in range(event[0].size)
            ]
        if isinstance(event, ev.Ticked) and any(valid):
            self._forget_leases()
        self.counts["void"] += valid.count(False)
        return valid

    # ---------------------------------------------------------------- time and owner

    def _seconds(self, at_ms: int) -> int:
        return max(min(at_ms, self.now) // 1000 - EPOCH_SECONDS, 1)

    def _advance_time(self, at_ms: int) -> None:
        if at_ms > self.now:
            if self.now > 0:
                self.credit = min(
                    self.credit + self.rate * ((at_ms - self.now) / 1000), self.credit_max
                )
            self.now = at_ms

    def _on_claimed(self, owner: int, epoch: int, at_ms: int) -> bool:
        if epoch <= self.epoch:
            return False
        self.epoch = epoch
        self._advance_time(at_ms)
        return True

    def _on_ticked(self, epoch: int, at_ms: int, price: float) -> bool:
        if epoch != self.epoch:
            return False
        self._advance_time(at_ms)
        return True

    def _on_budgetset(
        self, amount: float, period: float, burst: float, unit: int, price_mode: int, price: float
    ) -> bool:
        self.by_cost = unit == 1
        if period == 0:
            self.rate, self.credit_max, self.credit = 0.0, amount, amount
        else:
            self.rate = amount / period
            self.credit_max = max(self.rate * burst, 1.0)
            self.credit = min(self.credit, self.credit_max)
        return True

    # ---------------------------------------------------------------- pages

    def _on_pagesadded(
        self, page: int, group: int, kind: int, importance: float, cost: float, at_ms: int
    ) -> bool:
        if page != (self.free[-1] if self.free else self.n_slots):
            return False
        if self.free:
            self.free.pop()
        else:
            self.n_slots += 1
        prior = self.prior[kind]
        self.pages[page] = ModelPage(
            group, kind, self._seconds(at_ms), prior, cost=cost, importance=importance
        )
        self.group(group).n_pages += 1
        return True

    def _on_pagesremoved(self, page: int) -> bool:
        if page not in self.pages:
            return False
        self.group(self.pages.pop(page).group).n_pages -= 1
        slot, generation = page & 0xFFFFFFFF, page >> 32
        self.free.append(slot | ((generation + 1) % 256) << 32)
        return True

    def _on_importanceset(self, page: int, importance: float) -> bool:
        if page in self.pages:
            self.pages[page].importance = importance
        return page in self.pages

    def _on_costsset(self, page: int, cost: float) -> bool:
        if page in self.pages:
            self.pages[page].cost = cost
        return page in self.pages

    def _on_kindsset(self, page: int, kind: int) -> bool:
        if page not in self.pages:
            return False
        self._move(self.pages[page], self.prior[kind])
        self.pages[page].kind = kind
        return True

    def _move(self, page: ModelPage, new: tuple[float, float]) -> None:
        (a, b), (old_a, old_b) = page.belief, self.prior[page.kind]
        page.belief = (
            max(a - old_a, 0) + new[0],
            max(b - old_b, 0) + min(b / old_b, 1) * new[1],
        )
        page.n_written += 1

    def _add_kinds(self, n: int) -> None:
        # The shard doubles its table, and new kinds start with the prior of kind 0.
        if n > len(self.prior):
            n = max(n, 2 * len(self.prior))
            self.prior += [self.prior[0]] * (n - len(self.prior))

    def _set_priors(self, event: ev.PriorsSet) -> list[bool]:
        valid = [e == self.epoch for e in event.epoch]
        if any(valid):
            self._add_kinds(int(event.kind[np.array(valid)].max()) + 1)
        new = list(self.prior)
        for i in np.flatnonzero(valid):
            new[int(event.kind[i])] = float(event.shape[i]), float(event.seconds[i])
        if any(valid):
            for page in self.pages.values():
                self._move(page, new[page.kind])
        self.prior = new
        return valid

    def _weigh_kinds(self, event: ev.KindsWeighted) -> list[bool]:
        valid = [e == self.epoch for e in event.epoch]
        for i in np.flatnonzero(valid):
            self._add_kinds(int(event.kind[np.array(valid)].max()) + 1)
            self.weight[int(event.kind[i])] = float(event.weight[i])
        return valid

    # ---------------------------------------------------------------- groups and orders

    def group(self, group: int) -> ModelGroup:
        """Return a group, with default politeness unless it has a policy of its own."""
        own = self.settings
        return self.groups.setdefault(
            group,
            ModelGroup(round(own.group_delay * 1000), own.group_in_flight_max, own.group_burst),
        )

    def _on_groupsset(
        self,
        group: int,
        delay_ms: int,
        in_flight_max: int,
        burst: int,
        blocked_until: int,
        is_closed: int,
    ) -> bool:
        if in_flight_max == 0:
            return False
        mine = self.group(group)
        burst = max(burst, 1)
        old = mine.delay_ms, mine.in_flight_max, mine.burst
        if mine.ready_at > 0 and old != (delay_ms, in_flight_max, burst):
            if max(mine.in_flight_max, in_flight_max) == 1:
                mine.ready_at += delay_ms - mine.delay_ms
            else:
                mine.ready_at = self.now + delay_ms * (burst if in_flight_max > 1 else 1)
        mine.delay_ms, mine.in_flight_max, mine.burst = delay_ms, in_flight_max, burst
        mine.blocked_until, mine.is_closed, mine.is_own = blocked_until, is_closed > 0, True
        return True

    def _on_ordered(
        self, epoch: int, at_ms: int, order: int, page: int, expires_at: int, reason: int
    ) -> bool:
        if epoch != self.epoch or order != self.next_order:
            return False
        self.next_order += 1
        at = max(at_ms, self.now)
        mine = self.pages.get(page)
        if mine is None or mine.order or mine.status == PageStatus.RETIRED:
            self.leases[order] = ModelLease(page, 0, at, at, LeaseStage.CLOSED, reason)
            return False
        expires_at = max(expires_at, at)
        self.leases[order] = ModelLease(
            page, mine.group, at, expires_at, LeaseStage.IN_FLIGHT, reason
        )
        mine.order = order
        group = self.group(mine.group)
        group.in_flight += 1
        if group.in_flight_max > 1:
            group.ready_at = max(group.ready_at, at) + group.delay_ms
        self.credit -= mine.cost if self.by_cost else 1.0
        self.counts["ordered"] += 1
        return True

    def _end(self, order: int, stage: LeaseStage, ended_ms: int = 0) -> None:
        lease = self.leases[order]
        lease.stage = stage
        group = self.group(lease.group)
        group.in_flight -= 1
        if group.in_flight_max <= 1:
            ended_ms = max(self.now, min(ended_ms, self.now + 10_000))
            group.ready_at = max(group.ready_at, ended_ms + group.delay_ms)
        if lease.page in self.pages:
            self.pages[lease.page].order = 0

    def _is_in_flight(self, order: int) -> bool:
        return order in self.leases and self.leases[order].stage == LeaseStage.IN_FLIGHT

    def _on_leasesextended(self, order: int, expires_at: int) -> bool:
        if not self._is_in_flight(order):
            return False
        lease = self.leases[order]
        latest = lease.ordered_at + round(self.settings.lease_seconds_max * 1000)
        lease.expires_at = max(min(expires_at, latest), lease.ordered_at)
        return True

    def _on_leasesreleased(self, order: int) -> bool:
        if not self._is_in_flight(order):
            return False
        self._end(order, LeaseStage.CLOSED)
        return True

    def _on_leasesexpired(self, epoch: int, at_ms: int, order: int) -> bool:
        if epoch != self.epoch or not self._is_in_flight(order):
            return False
        self._end(order, LeaseStage.EXPIRED)
        return True

    def _forget_leases(self) -> None:
        grace = round(self.settings.lease_grace_seconds * 1000)
        while self.first_order < self.next_order:
            lease = self.leases[self.first_order]
            if lease.stage == LeaseStage.IN_FLIGHT or lease.expires_at + grace > self.now:
                break
            del self.leases[self.first_order]
            self.first_order += 1

    # ---------------------------------------------------------------- outcomes

    def _on_outcomes(
        self,
        page: int,
        order: int,
        fetched_at_ms: int,
        verdict: int,
        divergence: float,
        last_modified_at_ms: int,
        status_class: int,
        retry_after: float,
    ) -> bool:
        reported_ms = fetched_at_ms
        if order > 0:
            lease = self.leases.get(order)
            if lease is None or lease.page != page or lease.stage == LeaseStage.CLOSED:
                return False
            if lease.stage == LeaseStage.IN_FLIGHT:
                self._end(order, LeaseStage.CLOSED, fetched_at_ms)
            lease.stage = LeaseStage.CLOSED
            fetched_at_ms = max(fetched_at_ms, lease.ordered_at)
        mine = self.pages.get(page)
        if mine is None or verdict > max(Verdict):
            return False
        now = self._seconds(self.now)
        group = self.group(mine.group)
        if verdict in (Verdict.TRANSIENT_ERROR, Verdict.WRONG_ANSWER):
            self._back_off(mine, now, retry_after)
        if verdict == Verdict.TRANSIENT_ERROR:
            ended_ms = max(self.now, min(reported_ms, self.now + 10_000))
            self._pause_group(group, retry_after, ended_ms)
        elif verdict != Verdict.WRONG_ANSWER:
            group.n_errors = 0
        if verdict == Verdict.DISALLOWED:
            if mine.status != PageStatus.RETIRED:
                mine.status = PageStatus.DISALLOWED
            mine.not_before = now + int(self.settings.disallowed_seconds)
        if verdict >= Verdict.DISALLOWED:
            self.counts["outcomes"] += 1
            return True
        fetched = self._seconds(fetched_at_ms)
        if fetched <= mine.fetched_at:
            return False
        self.counts["outcomes"] += 1
        status, changed = self._interpret_verdict(mine, Verdict(verdict))
        if mine.fetched_at > 0:
            self._learn(mine, fetched - mine.fetched_at, changed, Verdict(verdict))
            self.counts["changed"] += changed
        mine.fetched_at, mine.not_before = fetched, 0
        self._enter(mine, status)
        for heard in mine.heard:
            heard.n_signals = 0
        if mine.status != PageStatus.RETIRED and mine.heard and mine.heard_at > fetched:
            mine.heard[0].n_signals = 1
        return True

    def _back_off(self, mine: ModelPage, now: int, retry_after: float) -> None:
        own = self.settings
        if mine.status not in (PageStatus.GONE, PageStatus.MOVED, PageStatus.RETIRED):
            mine.errors += 1
        wait = min(own.backoff_seconds * 2 ** max(mine.errors - 1, 0), own.backoff_seconds_max)
        mine.not_before = now + int(min(max(wait, retry_after), own.backoff_seconds_max))

    def _pause_group(self, group: ModelGroup, retry_after: float, ended_ms: int) -> None:
        own = self.settings
        is_resting = group.blocked_until > ended_ms
        group.n_errors += not is_resting
        rest = min(retry_after, own.breaker_seconds_max)
        beyond = group.n_errors - own.breaker_errors
        if beyond >= 0 and not is_resting:
            rest = max(rest, min(own.breaker_seconds * 2**beyond, own.breaker_seconds_max))
        if rest > 0:
            group.blocked_until = max(group.blocked_until, ended_ms + int(rest * 1000))

    def _interpret_verdict(self, mine: ModelPage, verdict: Verdict) -> tuple[PageStatus, bool]:
        if verdict in (Verdict.GONE, Verdict.MOVED):
            if mine.status == PageStatus.RETIRED:
                return PageStatus.RETIRED, False
            status = PageStatus.GONE if verdict == Verdict.GONE else PageStatus.MOVED
            return status, mine.status != status
        if mine.fetched_at > 0 and mine.status in (
            PageStatus.GONE,
            PageStatus.MOVED,
            PageStatus.RETIRED,
        ):
            return PageStatus.ACTIVE, True
        return PageStatus.ACTIVE, verdict == Verdict.CHANGED

    def _enter(self, mine: ModelPage, status: PageStatus) -> None:
        if status == PageStatus.ACTIVE:
            mine.errors = 0
        else:
            mine.errors = min(mine.errors + 1, 255) if mine.status == status else 1
            if not mine.order and mine.errors >= self.settings.gone_polls_max:
                status = PageStatus.RETIRED
        mine.status = status

    # ---------------------------------------------------------------- beliefs and signals

    def _learn(self, mine: ModelPage, elapsed: int, changed: bool, verdict: Verdict) -> None:
        false_chance = 1.0
        if verdict != Verdict.REVERTED:
            false_chance = self._learn_sources(mine, elapsed, changed)
        prior = self.prior[mine.kind]
        expected = elapsed * mine.belief[0] / mine.belief[1]
        fresh_chance = float(expected_freshness(GammaBelief.of(*mine.belief), elapsed))
        surprise = changed - (1 - fresh_chance) if false_chance == 1 else 0.0
        self._remember(mine, surprise)
        memory = self.settings.memory_changes_max / 2**self.memory_lost
        kept = 2 ** (-elapsed / self.settings.belief_half_life - expected / memory)
        faded = [p + (x - p) * kept for x, p in zip(mine.belief, prior, strict=True)]
        after = after_poll(
            GammaBelief(np.array(faded[:1]), np.array(faded[1:])), elapsed, changed, false_chance
        )
        mine.belief = float(after.shape[0]), float(after.seconds[0])
        mine.n_written += 1

    def _remember(self, mine: ModelPage, surprise: float) -> None:
        own = self.settings
        echo = surprise * mine.surprise - 0.1 * surprise**2
        octaves = math.log2(own.memory_changes_max / own.memory_changes_min)
        self.memory_lost = min(max(self.memory_lost + 0.05 * echo, 0.0), octaves)
        mine.surprise = surprise

    def _false_chance(self, heard: Heard) -> float:
        """Return the chance that all signals of a source about one copy are false."""
        own, source = self.settings, self.sources.setdefault(heard.source, ModelSource())
        if source.given is not None:
            return (1 - self.precision(heard.source)) ** heard.n_signals
        weight = own.signal_precision_weight
        true, total = source.true + own.signal_precision * weight, source.total + weight
        return math.prod(1 - true / (total + j) for j in range(heard.n_signals))

    def precision(self, source: int) -> float:
        """Return the precision of a source."""
        own, mine = self.settings, self.sources.setdefault(source, ModelSource())
        if mine.given is not None:
            return min(mine.given, 0.999)
        prior = own.signal_precision * own.signal_precision_weight
        learned = (mine.true + prior) / (mine.total + own.signal_precision_weight)
        return min(max(learned, 0.0), 0.999)

    def _learn_sources(self, mine: ModelPage, elapsed: int, changed: bool) -> float:
        heard = [h for h in mine.heard if h.n_signals]
        most = self.settings.signal_evidence_max
        for h in heard:
            source = self.sources.setdefault(h.source, ModelSource())
            if source.total > most:
                source.true, source.total = source.true * most / source.total / 2, most / 2
        chances = [self._false_chance(h) for h in heard]
        false_chance = math.prod(chances)
        shape, seconds = mine.belief
        log_fresh = -shape * math.log1p(elapsed / seconds)
        own = self.settings
        prior = own.signal_precision * own.signal_precision_weight
        for h in heard:
            source = self.sources[h.source]
            if source.given is not None:
                continue
            mine_false = self._false_chance(h)
            others = log_fresh + math.log(max(false_chance / mine_false, 1e-300))
            if self._shifts(h, others, changed):
                continue
            if not changed:
                source.total += h.n_signals
                continue
            true, total = precision_after_change_of(
                source.true + prior, source.total + own.signal_precision_weight, h.n_signals, others
            )
            source.true, source.total = true - prior, total - own.signal_precision_weight
        return false_chance

    def _shifts(self, heard: Heard, log_freshness: float, changed: bool) -> bool:
        """Return whether a source's precision has shifted by a factor of 4, up or down."""
        own, source = self.settings, self.sources[heard.source]
        weight = own.signal_precision_weight
        precision = self.precision(heard.source)
        for k, shifted in enumerate((precision / 4, 1 - (1 - precision) / 4)):
            chances = []
            for p in (precision, shifted):
                unchanged = (1 - min(p, 0.999)) ** heard.n_signals * math.exp(log_freshness)
                chances.append(max(1 - unchanged, 1e-12) if changed else unchanged)
            ratio = math.log(max(chances[1], 1e-300) / max(chances[0], 1e-300))
            evidence = max(source.shift[k] + min(max(ratio, -2.0), 2.0), 0.0)
            if evidence >= own.signal_shift_evidence and source.total + weight > 16:
                source.total = 16 - weight
                source.true = 16 * shifted - own.signal_precision * weight
                source.shift = [0.0, 0.0]
                return True
            source.shift[k] = evidence
        return False

    def _on_sourcesset(self, source: int, precision: float, delay: float) -> bool:
        given = precision if 0 <= precision <= 1 else None
        self.sources.setdefault(source, ModelSource()).given = given
        return True

    def _on_signals(self, page: int, source: int, at_ms: int, claimed_at_ms: int) -> bool:
        mine = self.pages.get(page)
        if mine is None or claimed_at_ms > self.now + DAY_MS:
            return False
        claimed_ms = claimed_at_ms or at_ms
        if claimed_ms > self.now + DAY_MS:
            claimed_ms = self.now
        heard = next((h for h in mine.heard if h.source == source), None)
        if heard is None:
            if len(mine.heard) >= self.settings.sources_per_page_max:
                return False
            heard = Heard(source)
            mine.heard.append(heard)
        claim = max(claimed_ms // 1000 - EPOCH_SECONDS, 1)
        if claim <= heard.claimed_at:
            return False
        heard.claimed_at = claim
        if min(claim, self._seconds(self.now)) <= mine.fetched_at:
            return False
        heard.n_signals += 1
        heard.count += 1
        mine.heard_at = self._seconds(at_ms)
        self.counts["signals"] += 1
        return True

    # ---------------------------------------------------------------- comparing

    def take_beliefs(self, shard: Shard) -> None:
        """Take over a shard's beliefs, as floats and codes drift apart from poll to poll."""
        columns = shard.tables.pages
        for number, page in self.pages.items():
            slot = number & 0xFFFFFFFF
            page.belief = decode_of(columns.belief_shape[slot], columns.belief_seconds[slot])
            page.surprise = columns.surprise[slot] / 127
            page.n_written = 0
        self.memory_lost = float(shard.tables.registers.memory_lost[0])
        for number, source in self.sources.items():
            if number < shard.tables.sources.true.size:
                source.true = float(shard.tables.sources.true[number])
                source.total = float(shard.tables.sources.total[number])
                source.shift = [
                    float(shard.tables.sources.worse_evidence[number]),
                    float(shard.tables.sources.better_evidence[number]),
                ]

    def facts(self) -> dict[str, Any]:
        """Return all integer state in one dictionary."""
        return {
            "now": self.now,
            "epoch": self.epoch,
            "n_slots": self.n_slots,
            "free": self.free[::-1],
            "orders": (self.first_order, self.next_order),
            "in_flight": sum(x.stage == LeaseStage.IN_FLIGHT for x in self.leases.values()),
            "counts": self.counts,
            "leases": {n: _row(x) for n, x in self.leases.items()},
            "groups": {n: _row(x) for n, x in self.groups.items() if x != self._untouched()},
            "pages": {
                number: (
                    page.group,
                    page.kind,
                    page.first_seen,
                    int(page.status),
                    page.errors,
                    page.fetched_at,
                    page.not_before,
                    page.heard_at,
                    bool(page.order) or page.status == PageStatus.RETIRED,
                    [(h.source, h.n_signals, h.count, h.claimed_at) for h in page.heard],
                )
                for number, page in self.pages.items()
            },
        }

    def _untouched(self) -> ModelGroup:
        own = self.settings
        return ModelGroup(round(own.group_delay * 1000), own.group_in_flight_max, own.group_burst)


def _row(record: ModelLease | ModelGroup) -> tuple[int, ...]:
    return tuple(int(value) for value in vars(record).values())


def facts_of(shard: Shard) -> dict[str, Any]:
    """Return the integer state of a shard, in the form of `ShardModel.facts`."""
    t = shard.tables
    r = {name: column[0].item() for name, column in t.registers._asdict().items()}
    free, slot = [], r["free_slot"]
    while slot:
        free.append(slot - 1 | int(t.pages.generation[slot - 1]) << 32)
        slot = int(t.pages.word[slot - 1]) & 0x7FFFFFFF
    assert len(free) == r["n_free"]
    live = np.flatnonzero(t.pages.status[: r["n_slots"]] != PageStatus.FREE)
    assert live.size == r["n_pages"]
    mask = t.leases.page.size - 1
    leases = {}
    for order in range(r["first_order"], r["next_order"]):
        row = {name: column[order & mask].item() for name, column in t.leases._asdict().items()}
        leases[order] = tuple(
            row[name] for name in ("page", "group", "ordered_at", "expires_at", "stage", "reason")
        )
    names = ("ordered", "outcomes", "changed", "signals", "void")
    return {
        "now": r["now"],
        "epoch": r["epoch"],
        "n_slots": r["n_slots"],
        "free": free,
        "orders": (r["first_order"], r["next_order"]),
        "in_flight": r["in_flight"],
        "counts": {name: r[f"n_{name}"] for name in names},
        "leases": leases,
        "groups": _groups_of(shard),
        "pages": {_page_of(shard, s): _facts_of_page(shard, s) for s in live.tolist()},
    }


def _groups_of(shard: Shard) -> dict[int, tuple[int, ...]]:
    groups = shard.tables.groups
    names = ("delay_ms", "in_flight_max", "burst", "in_flight", "ready_at", "blocked_until")
    columns = [getattr(groups, name) for name in (*names, "n_errors")]
    columns += [(groups.flags & GROUP_CLOSED) > 0, groups.flags & GROUP_HAS_POLICY, groups.n_pages]
    rows = [tuple(row) for row in np.stack(columns, axis=1).tolist()]
    untouched = _row(ShardModel(shard.settings)._untouched())
    return {number: row for number, row in enumerate(rows) if row != untouched}


def _page_of(shard: Shard, slot: int) -> int:
    return int(ev.page_of(slot, shard.tables.pages.generation[slot]))


def _facts_of_page(shard: Shard, slot: int) -> tuple[Any, ...]:
    t = shard.tables
    row = {name: column[slot].item() for name, column in t.pages._asdict().items()}
    first = ("source", "n_signals", "signal_count", "claimed_at")
    heard = [tuple(row[name] for name in first)] if row["n_sources"] else []
    for k in range(1, row["n_sources"]):
        link = link_row_of(t.links, slot, k)
        heard.append(tuple(getattr(t.links, name)[link].item() for name in first))
    names = ("group", "kind", "first_seen", "status", "errors", "fetched_at", "not_before")
    held = bool(row["word"] & 0x80000000)
    return (*(row[name] for name in names), row["heard_at"], held, heard)
