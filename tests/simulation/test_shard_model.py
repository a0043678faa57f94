"""Random sequences of events, compared with a model made of dictionaries."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from recrawl.core.belief.codes import decode_of
from recrawl.shard import events as ev
from recrawl.shard.settings import ShardSettings
from recrawl.shard.shard import Shard
from recrawl.shard.state.snapshot import Snapshot
from recrawl.shard.state.status import LeaseStage, Verdict
from recrawl.shard.state.words import log2_weight_of
from tests.conftest import JIT_DISABLED
from tests.reference.shard_model import ShardModel, facts_of
from tests.reference.shards import ms, write_snapshot

SETTINGS = ShardSettings(
    lease_grace_seconds=200,
    lease_seconds_max=900,
    group_delay=2.0,
    group_in_flight_max=1,
    backoff_seconds=10,
    backoff_seconds_max=200,
    breaker_errors=2,
    breaker_seconds=20,
    breaker_seconds_max=100,
    disallowed_seconds=50,
    gone_polls_max=3,
    sources_per_page_max=3,
    belief_half_life=5e5,
    prior_period=5e4,
)
# A step of a belief's seconds is 0.034 %, one of its shape 0.017 %.
STEP = math.log(2) / 2048

pick = st.integers(0, 10**6)
some_picks = st.lists(pick, min_size=1, max_size=6)
moment = st.integers(-1000, 1000)
verdicts = st.sampled_from([*Verdict, Verdict.UNCHANGED, Verdict.CHANGED, Verdict.GONE, 8])


class ShardAgainstModel(RuleBasedStateMachine):
    """Applies events to a shard and its model, and compares all comparable state."""

    @initialize()
    def begin(self) -> None:
        self.shard = Shard(SETTINGS)
        self.model = ShardModel(SETTINGS)
        self.log: list[ev.Event] = []
        self.snapshot: tuple[Snapshot, str, np.ndarray, int] | None = None
        self.clock = 0
        self.named: list[int] = [0, -1, 1 << 32]
        self.happen(ev.Claimed, owner=1, epoch=1, at_ms=ms(0))

    def happen(self, kind: type[ev.Event], /, **columns: Any) -> None:
        self.apply(ev.event_of(kind, **columns))

    def apply(self, event: ev.Event) -> None:
        self.log.append(event)
        self.is_new = True
        valid = self.shard.apply(event).valid
        assert valid.tolist() == self.model.apply(event), event

    def pages(self, picks: list[int]) -> list[int]:
        return [self.named[k % len(self.named)] for k in picks]

    def orders(self, picks: list[int]) -> list[int]:
        top = self.model.next_order + 1
        return [k % (top + 1) for k in picks]

    # ------------------------------------------------------------ owner

    @rule(seconds=st.one_of(moment, st.integers(0, 50)))
    def time_passes(self, seconds: int) -> None:
        self.clock += max(seconds, -20)
        epoch = self.model.epoch
        self.happen(ev.Ticked, epoch=epoch, at_ms=ms(self.clock), price=1.0)

    @rule(back=st.integers(-1, 2), seconds=moment)
    def somebody_claims(self, back: int, seconds: int) -> None:
        at = ms(self.clock + min(seconds, 10))
        self.happen(ev.Claimed, owner=9, epoch=self.model.epoch + 1 - back, at_ms=at)

    @rule(seconds=moment, n=st.integers(0, 3))
    def a_zombie_decides(self, seconds: int, n: int) -> None:
        old = self.model.epoch - 1
        at = ms(self.clock + seconds)
        self.happen(ev.Ticked, epoch=old, at_ms=at, price=1.0)
        order = self.model.next_order + np.arange(n)
        page = np.array(self.pages(list(range(n))), np.int64)
        self.happen(
            ev.Ordered, epoch=old, at_ms=at, order=order, page=page, expires_at_ms=at, reason=0
        )
        self.happen(ev.LeasesExpired, epoch=old, at_ms=at, order=order - 1)

    @rule(amount=st.integers(0, 50), period=st.sampled_from([0, 1, 60]), unit=st.integers(0, 1))
    def the_budget_is_set(self, amount: int, period: int, unit: int) -> None:
        self.happen(
            ev.BudgetSet,
            amount=amount,
            period_seconds=period,
            burst_seconds=2.0,
            unit=unit,
            price_mode=0,
            price=0,
        )

    @rule(group=st.integers(0, 4), most=st.integers(0, 3), delay=st.integers(0, 9000))
    def a_group_gets_a_policy(self, group: int, most: int, delay: int) -> None:
        self.happen(
            ev.GroupsSet,
            group=group,
            delay_ms=delay,
            in_flight_max=most,
            burst=most,
            blocked_until_ms=ms(delay / 100) if delay % 3 == 0 else 0,
            is_closed=delay % 2,
        )

    @rule(shape=st.floats(0.2, 3), days=st.floats(0.1, 50), kind=st.integers(0, 2))
    def a_prior_is_learned(self, shape: float, days: float, kind: int) -> None:
        epoch = self.model.epoch
        self.happen(ev.PriorsSet, epoch=epoch, kind=kind, shape=shape, seconds=days * 86_400)

    @rule(kind=st.integers(0, 3), weight=st.sampled_from([0.25, 1.0, 8.0]), back=st.integers(0, 1))
    def a_kind_is_weighed(self, kind: int, weight: float, back: int) -> None:
        self.happen(ev.KindsWeighted, epoch=self.model.epoch - back, kind=kind, weight=weight)

    # ------------------------------------------------------------ pages

    @rule(n=st.integers(1, 80), group=st.integers(0, 4), kind=st.integers(0, 2), late=moment)
    def pages_are_added(self, n: int, group: int, kind: int, late: int) -> None:
        if len(self.model.pages) > 300:
            n = 1
        page = self.shard.free_pages(n)
        self.named += page[:6].tolist()
        self.happen(
            ev.PagesAdded,
            page=page,
            group=group + np.arange(n) % 2,
            kind=kind,
            importance=1 + np.arange(n),
            cost=2.0 ** (np.arange(n) % 3),
            at_ms=ms(self.clock + late),
        )

    @rule(picks=some_picks)
    def pages_are_removed(self, picks: list[int]) -> None:
        self.happen(ev.PagesRemoved, page=self.pages(picks))

    @rule(picks=some_picks, number=st.integers(1, 4))
    def owners_change_their_mind(self, picks: list[int], number: int) -> None:
        page = self.pages(picks)
        self.happen(ev.ImportanceSet, page=page, importance=number)
        self.happen(ev.CostsSet, page=page, cost=2.0**number)
        self.happen(ev.KindsSet, page=page, kind=number % 3)

    # ------------------------------------------------------------ orders

    @rule(picks=some_picks, lasts=st.integers(-5, 400), ahead=moment)
    def pages_are_ordered(self, picks: list[int], lasts: int, ahead: int) -> None:
        at = ms(self.clock + min(ahead, 5))
        self.happen(
            ev.Ordered,
            epoch=self.model.epoch,
            at_ms=at,
            order=self.model.next_order + np.arange(len(picks)),
            page=self.pages(picks),
            expires_at_ms=at + 1000 * lasts,
            reason=lasts % 4,
        )

    @rule(n=st.integers(0, 20))
    def the_shard_decides(self, n: int) -> None:
        before = self.shard.digest()
        orders = self.shard.decide(ms(self.clock), n)
        assert self.shard.digest() == before
        self.named += orders.page.tolist()
        self.apply(orders)

    @rule(picks=some_picks, verdict=verdicts, ago=moment, retry=st.sampled_from([0, 0, 30]))
    def orders_are_reported(self, picks: list[int], verdict: int, ago: int, retry: int) -> None:
        orders = self.orders(picks)
        held = [self.model.leases.get(order) for order in orders]
        page = [lease.page if lease else self.named[0] for lease in held]
        self.report(page, orders, verdict, ago, retry)

    @rule(picks=some_picks, verdict=verdicts, ago=moment)
    def pages_are_reported_without_an_order(self, picks: list[int], verdict: int, ago: int) -> None:
        self.report(self.pages(picks), [0] * len(picks), verdict, ago, 0)

    def report(self, page: list[int], order: list[int], verdict: int, ago: int, retry: int) -> None:
        self.happen(
            ev.Outcomes,
            page=page,
            order=order,
            fetched_at_ms=ms(self.clock - ago / 50),
            verdict=verdict,
            divergence=np.nan,
            last_modified_at_ms=0,
            status_class=2,
            retry_after_seconds=retry,
        )

    @rule(picks=some_picks, seconds=moment)
    def leases_are_extended(self, picks: list[int], seconds: int) -> None:
        until = ms(self.clock + seconds)
        self.happen(ev.LeasesExtended, order=self.orders(picks), expires_at_ms=until)

    @rule(picks=some_picks)
    def leases_are_given_back(self, picks: list[int]) -> None:
        self.happen(ev.LeasesReleased, order=self.orders(picks))

    @rule()
    def leases_run_out(self) -> None:
        expected = [
            order
            for order, lease in self.model.leases.items()
            if lease.stage == LeaseStage.IN_FLIGHT
            and lease.expires_at <= max(self.model.now, int(ms(self.clock)))
        ]
        overdue = self.shard.overdue(int(ms(self.clock)))
        assert set(overdue.order.tolist()) <= set(expected)
        self.apply(overdue)

    # ------------------------------------------------------------ signals

    @rule(picks=some_picks, source=st.integers(0, 5), ago=moment, claimed=st.booleans())
    def signals_arrive(self, picks: list[int], source: int, ago: int, claimed: bool) -> None:
        self.happen(
            ev.Signals,
            page=self.pages(picks),
            source=source,
            at_ms=ms(self.clock - ago / 50),
            claimed_at_ms=ms(self.clock - ago / 20) if claimed else 0,
        )

    @rule(source=st.integers(0, 5), precision=st.sampled_from([0.2, 0.9, math.nan]))
    def the_quality_of_a_source_is_given(self, source: int, precision: float) -> None:
        self.happen(ev.SourcesSet, source=source, precision=precision, delay_seconds=math.nan)

    # ------------------------------------------------------------ faults

    @rule(picks=some_picks)
    def old_events_arrive_again(self, picks: list[int]) -> None:
        for k in picks:
            self.apply(self.log[k % len(self.log)])

    @rule()
    def a_snapshot_begins(self) -> None:
        snapshot = self.shard.snapshot("")
        data = np.zeros(snapshot.n_bytes, np.uint8)
        self.snapshot = snapshot, self.shard.digest(), data, len(self.log)

    @rule(n=st.integers(1, 60))
    def pieces_are_written(self, n: int) -> None:
        if self.snapshot is not None:
            snapshot, _, data, _ = self.snapshot
            for _, piece in zip(range(n), snapshot, strict=False):
                data[piece.offset : piece.offset + piece.data.size] = piece.data

    @rule()
    def the_shard_restarts_from_its_snapshot(self) -> None:
        if self.snapshot is None:
            return
        snapshot, digest, data, position = self.snapshot
        for piece in snapshot:
            data[piece.offset : piece.offset + piece.data.size] = piece.data
        restored, _ = Shard.restore(snapshot.manifest, data)
        assert restored.digest() == digest
        restored.apply_all(self.log[position:])
        assert restored.digest() == self.shard.digest()
        self.shard, self.snapshot = restored, None

    # ------------------------------------------------------------ laws

    @invariant()
    def integers_are_equal(self) -> None:
        if not hasattr(self, "shard"):
            return
        facts, expected = facts_of(self.shard), self.model.facts()
        for name in expected:
            assert facts[name] == expected[name], name
        registers = self.shard.tables.registers
        assert registers.credit[0] == pytest.approx(self.model.credit, abs=1e-9)

    @invariant()
    def words_weigh_what_their_page_and_kind_do(self) -> None:
        if not hasattr(self, "shard"):
            return
        for number, page in self.model.pages.items():
            word = self.shard.tables.pages.word[number & 0xFFFFFFFF]
            weight = page.importance / page.cost * self.model.weight.get(page.kind, 1.0)
            assert abs(log2_weight_of(word) - math.log2(weight)) < 0.052, number

    @invariant()
    def beliefs_are_within_a_code(self) -> None:
        if not hasattr(self, "shard"):
            return
        columns = self.shard.tables.pages
        for number, page in self.model.pages.items():
            slot = number & 0xFFFFFFFF
            mine = decode_of(columns.belief_shape[slot], columns.belief_seconds[slot])
            for x, y in zip(mine, page.belief, strict=True):
                assert abs(math.log(x / y)) <= STEP * (1.05 * page.n_written + 0.01), number
        for number, source in self.model.sources.items():
            if number < self.shard.tables.sources.true.size:
                true = float(self.shard.tables.sources.true[number])
                assert true == pytest.approx(source.true, rel=0.01, abs=0.01)
        self.model.take_beliefs(self.shard)

    def teardown(self) -> None:
        if hasattr(self, "shard"):
            again = Shard(SETTINGS)
            again.apply_all(ev.decode_events(ev.encode_events(self.log)))
            assert again.digest() == self.shard.digest()
            copy, _ = Shard.restore(*write_snapshot(self.shard.snapshot("")))
            assert copy.digest() == self.shard.digest()


ShardAgainstModel.TestCase.settings = hypothesis_settings(
    max_examples=10 if JIT_DISABLED else 60, stateful_step_count=40, deadline=None
)
TestShardAgainstModel = ShardAgainstModel.TestCase
