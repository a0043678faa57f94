"""What a worker does next follows from what it has, and from who should have what."""

from typing import Any

from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.members.membership import Members
from recrawl.cluster.placement import Place
from recrawl.cluster.roles import (
    LostClaims,
    MoveKind,
    OwnershipNews,
    PartitionMove,
    UnownedPartitions,
    WorkerState,
    next_moves,
    partitions_text,
)
from recrawl.cluster.rules import OperatorRules, drain_message, pin_message
from recrawl.messages.partitions import OwnedPartition


def heartbeat(worker: str, owned: tuple[int, ...] = (), **fields: object) -> Heartbeat:
    held = {i: OwnedPartition(1) for i in owned}
    return Heartbeat(worker=worker, instance="x", started_at_ms=1, owned=held, **fields)  # type: ignore[arg-type]


def members(*others: Heartbeat, is_frozen: bool = False) -> Members:
    return Members((heartbeat("me"), *others), is_frozen)


def state(
    *,
    opened: tuple[int, ...] = (),
    owned: tuple[int, ...] = (),
    standbys: dict[int, float] | None = None,
    busy: tuple[int, ...] = (),
    waiting: tuple[int, ...] = (),
    unowned: dict[int, float] | None = None,
) -> WorkerState:
    return WorkerState(
        worker="me",
        open_partitions=opened,
        owned=owned,
        standby_seconds=standbys or {},
        busy=busy,
        waiting=waiting,
        unowned_seconds=unowned or {},
    )


MINE, FOLLOWED, NOT_MINE = Place("me", "you"), Place("you", "me"), Place("you", "they")


def test_a_worker_follows_before_it_claims() -> None:
    places = [MINE, FOLLOWED, NOT_MINE]
    follow = [PartitionMove(MoveKind.FOLLOW, i) for i in (0, 1)]
    assert next_moves(state(), places, members()) == follow
    assert next_moves(state(busy=(0,)), places, members()) == follow[1:]
    assert next_moves(state(waiting=(1,)), places, members()) == follow[:1]
    near = state(standbys={0: 0.4, 1: 0.4})
    assert next_moves(near, places, members()) == [PartitionMove(MoveKind.CLAIM, 0)]
    assert next_moves(state(standbys={0: 1.4, 1: 0.4}), places, members()) == []
    near = state(standbys={0: 0.4, 1: 0.4}, waiting=(0,))
    assert next_moves(near, places, members()) == []


def test_an_owner_goes_on_until_it_reads_the_claim_of_another() -> None:
    places = [NOT_MINE, FOLLOWED]
    assert next_moves(state(opened=(0, 1), owned=(0, 1)), places, members()) == []
    lost = state(opened=(0, 1), owned=(0,))
    down = [PartitionMove(MoveKind.STEP_DOWN, 1)]
    assert next_moves(lost, places, members()) == down
    assert next_moves(lost, places, members(is_frozen=True)) == down


def test_nothing_is_claimed_or_given_up_while_the_view_is_frozen() -> None:
    places = [MINE, NOT_MINE, FOLLOWED]
    ready = heartbeat("they", standby_seconds={1: 0.1})
    frozen = members(heartbeat("you", (1,)), ready, is_frozen=True)
    assert next_moves(state(standbys={0: 0.1, 1: 0.1}), places, frozen) == []


def test_a_copy_is_kept_until_the_new_standby_is_ready() -> None:
    has_it = state(standbys={0: 0.1})
    owner = heartbeat("you", (0,))
    give_up = [PartitionMove(MoveKind.GIVE_UP, 0)]
    behind, ready = (heartbeat("they", standby_seconds={0: lag}) for lag in (60.0, 0.2))
    assert next_moves(has_it, [NOT_MINE], members(owner)) == []
    assert next_moves(has_it, [NOT_MINE], members(owner, behind)) == []
    assert next_moves(has_it, [NOT_MINE], members(ready)) == []  # nobody owns it
    assert next_moves(has_it, [NOT_MINE], members(owner, ready)) == give_up
    assert next_moves(has_it, [Place("you", None)], members(owner)) == give_up


def test_after_a_lost_claim_a_worker_waits_longer_each_time() -> None:
    lost = LostClaims()
    now, waits = 0.0, []
    for _ in range(8):
        waits.append(lost.note_failure(3, now))
        assert lost.partitions_that_wait(now + waits[-1] - 0.01) == {3}
        now += waits[-1]
        assert lost.partitions_that_wait(now) == set()
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    # A claim that held for a minute begins anew.
    assert lost.note_failure(3, now + 61) == 2


def test_decisions_of_operators_are_read_in_their_order() -> None:
    rules = OperatorRules()
    messages = [
        drain_message("a", is_drained=True),
        drain_message("b", is_drained=True),
        drain_message("a", is_drained=False),
        pin_message(3, "c"),
        pin_message(4, "c"),
        pin_message(4, None),
        ("pin/99999999", b"c"),
        ("pin/x", b"c"),
        ("pin/5", b"c" * 200),
        ("drain/c", b"what"),
    ]
    assert all(rules.hear(*message) for message in messages)
    assert not rules.hear("price/1", b"")
    assert rules.placement.drained == {"b"}
    assert rules.placement.pins == {3: "c"}


def test_a_standby_claims_what_nobody_owns_until_the_owner_has_restored_it() -> None:
    claim = [PartitionMove(MoveKind.CLAIM, 0)]
    restarted, ready = heartbeat("you"), heartbeat("you", standby_seconds={0: 0.2})

    def moves(seconds: float, you: Heartbeat, place: Place = FOLLOWED) -> list[PartitionMove]:
        has_it = state(standbys={0: 0.1}, unowned={0: seconds})
        return next_moves(has_it, [place], members(you))

    assert moves(0.9, restarted) == []
    assert moves(1.0, restarted) == claim
    assert moves(5.9, ready) == []  # the owner is about to claim it
    assert moves(6.0, ready) == claim
    far = state(standbys={0: 1.1}, unowned={0: 60.0})
    assert next_moves(far, [FOLLOWED], members(restarted)) == []


def test_a_copy_without_a_place_is_claimed_if_there_is_no_other() -> None:
    claim = [PartitionMove(MoveKind.CLAIM, 0)]
    owner, standby = heartbeat("you"), heartbeat("they")

    def moves(seconds: float, *others: Heartbeat) -> list[PartitionMove]:
        has_it = state(standbys={0: 0.1}, unowned={0: seconds})
        return next_moves(has_it, [NOT_MINE], members(*others))

    assert moves(0.9, owner, standby) == []
    assert moves(1.0, owner, standby) == claim
    has_copy: dict[str, Any] = {"standby_seconds": {0: 0.2}}
    assert moves(60.0, owner, heartbeat("they", **has_copy)) == []  # it stands in
    assert moves(60.0, heartbeat("you", **has_copy), standby) == []
    # Of several copies without a place, one is claimed.
    assert moves(60.0, owner, standby, heartbeat("aunt", **has_copy)) == []
    assert moves(60.0, owner, standby, heartbeat("uncle", **has_copy)) == claim
    has_it = state(standbys={0: 0.1}, unowned={0: 60.0})
    for unable in (heartbeat("me", can_own=False), heartbeat("me", is_leaving=True)):
        others = Members((unable, owner, standby), is_frozen=False)
        assert next_moves(has_it, [NOT_MINE], others) == []


def test_a_partition_is_unowned_if_nobody_tells_otherwise() -> None:
    unowned = UnownedPartitions()
    you = heartbeat("you", (1,))
    assert unowned.update(3, (0,), members(you), 10.0) == {2: 0.0}
    assert unowned.update(3, (), members(you), 11.5) == {0: 0.0, 2: 1.5}
    leaving = Members((heartbeat("me"),), False, (heartbeat("you", (0, 1)),))
    assert unowned.update(3, (), leaving, 12.0) == {2: 2.0}
    assert unowned.update(3, (), members(is_frozen=True), 13.0) == {}
    assert unowned.update(3, (0, 1), members(), 14.0) == {2: 0.0}


def test_moves_of_a_second_are_told_together() -> None:
    news = OwnershipNews()
    assert news.update([], 0.0) is None
    assert news.update([3], 1.0) is None
    assert news.update([3, 0, 5], 1.9) is None
    assert news.update([3, 0, 5], 2.0) == (
        "this worker took partitions 0, 3, 5; it now owns partitions 0, 3, 5"
    )
    assert news.update([3, 0, 5], 9.0) is None
    assert news.update([0, 7], 10.0) is None
    assert news.update([0, 3, 5], 10.5) is None  # they came back
    assert news.update([0, 7], 20.0) is None
    assert news.update([0, 7], 21.0) == (
        "this worker took partition 7 and gave away partitions 3, 5; it now owns partitions 0, 7"
    )
    assert news.update([], 22.0, ends=True) == (
        "this worker gave away partitions 0, 7; it now owns no partition"
    )
    assert partitions_text(range(22)).endswith("18, 19 and 2 more")
