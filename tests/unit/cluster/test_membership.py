"""A worker counts others as gone only if it could have heard them."""

import json

import pytest

from recrawl.cluster.members.heartbeats import HEARTBEAT_BYTES_MAX, Heartbeat, check_address
from recrawl.cluster.members.membership import WORKERS_MAX, Membership
from recrawl.messages.partitions import OwnedPartition


def beat(worker: str, *, start: int = 1, is_leaving: bool = False) -> Heartbeat:
    return Heartbeat(
        worker=worker, instance=f"{worker}-{start}", started_at_ms=start, is_leaving=is_leaving
    )


class Reader:
    """A worker ``a`` that hears heartbeats of each second."""

    def __init__(self) -> None:
        self.membership = Membership("a", (1, "a-1"))
        self.now = 100.0

    def hear(self, *beats: Heartbeat, seconds: float = 1.0) -> tuple[tuple[str, ...], bool]:
        self.now += seconds
        for one in beats:
            self.membership.hear(one, self.now)
        members = self.membership.members(self.now)
        return members.names, members.is_frozen

    def hear_for(self, seconds: int, *beats: Heartbeat) -> tuple[tuple[str, ...], bool]:
        found: tuple[tuple[str, ...], bool] = ((), True)
        for _ in range(seconds):
            found = self.hear(*beats)
        return found


@pytest.fixture
def reader() -> Reader:
    """Return a reader that has heard ``a``, ``b`` and ``c`` for ten seconds."""
    found = Reader()
    assert found.hear_for(10, beat("a"), beat("b"), beat("c")) == (("a", "b", "c"), False)
    return found


def test_a_new_worker_waits_until_it_knows_who_is_there() -> None:
    reader = Reader()
    # A compacted topic still has the last heartbeats of workers that ended long ago.
    assert reader.hear(beat("long-gone"), beat("b"), beat("a")) == ((), True)
    assert reader.hear_for(4, beat("a"), beat("b")) == ((), True)
    assert reader.hear_for(2, beat("a"), beat("b")) == (("a", "b"), False)


def test_who_is_silent_for_five_seconds_is_gone(reader: Reader) -> None:
    assert reader.hear_for(5, beat("a"), beat("b")) == (("a", "b", "c"), False)
    assert reader.hear(beat("a"), beat("b")) == (("a", "b"), False)
    # One that stood still comes back.
    assert reader.hear(beat("a"), beat("b"), beat("c")) == (("a", "b", "c"), False)


def test_who_says_goodbye_is_gone_at_once(reader: Reader) -> None:
    gone = beat("b", is_leaving=True)
    assert reader.hear(beat("a"), gone, beat("c")) == (("a", "c"), False)
    assert reader.hear_for(8, beat("a"), beat("c")) == (("a", "c"), False)


def test_nobody_is_gone_while_the_topic_is_away(reader: Reader) -> None:
    everybody = ("a", "b", "c")
    assert reader.hear_for(3) == (everybody, True)
    assert reader.hear_for(4) == (everybody, True)
    # Then it is back, and the others follow one by one.
    assert reader.hear(beat("a")) == (everybody, True)
    assert reader.hear_for(3, beat("a"), beat("b")) == (everybody, True)
    assert reader.hear_for(3, beat("a"), beat("b"), beat("c")) == (everybody, False)


def test_partitions_that_move_are_known_while_the_topic_has_gaps(reader: Reader) -> None:
    """Otherwise calls would go to former owners for seconds after the topic is back."""
    assert reader.hear_for(3) == (("a", "b", "c"), True)
    owned = {7: OwnedPartition(2)}
    moved = Heartbeat(worker="b", instance="b-1", started_at_ms=1, owned=owned)
    assert reader.hear(moved, beat("new")) == (("a", "b", "c"), True)
    members = reader.membership.members(reader.now)
    assert [dict(one.owned) for one in members.present] == [{}, owned, {}]
    assert reader.hear(moved, beat("c", is_leaving=True)) == (("a", "b"), True)
    assert [one.worker for one in reader.membership.members(reader.now).leaving] == ["c"]


def test_a_worker_that_stood_still_takes_nobody_for_dead(reader: Reader) -> None:
    # After the pause it reads everything that was written meanwhile at once.
    late = [beat("b"), beat("c")] * 60
    assert reader.hear(*late, seconds=60.0) == (("a", "b", "c"), True)
    assert reader.hear_for(5, beat("a"), beat("b")) == (("a", "b", "c"), True)
    assert reader.hear(beat("a"), beat("b")) == (("a", "b"), False)


def test_one_late_heartbeat_of_its_own_changes_nothing(reader: Reader) -> None:
    assert reader.hear(beat("b"), beat("c")) == (("a", "b", "c"), False)
    assert reader.hear(beat("a"), beat("b"), beat("c")) == (("a", "b", "c"), False)


def test_a_later_start_takes_the_place_of_an_earlier_one(reader: Reader) -> None:
    again = beat("b", start=2)
    reader.hear(beat("a"), again, beat("b"), beat("c"))
    members = reader.membership.members(reader.now)
    assert [one.instance for one in members.present] == ["a-1", "b-2", "c-1"]
    # One of an earlier start of its own, which the topic still has, replaces nothing.
    reader.hear(beat("a", start=0), beat("a"))
    replaced_by = [reader.membership.replaced_by]
    reader.hear(beat("a", start=2), beat("a"))
    assert [*replaced_by, reader.membership.replaced_by] == [None, beat("a", start=2)]
    # It hears itself no more, so it counts nobody as gone.
    assert reader.hear_for(8, beat("a", start=2), beat("a"))[1]


def test_the_clock_of_an_earlier_start_may_have_been_ahead() -> None:
    reader = Reader()
    old = beat("a", start=3_600_000)
    reader.hear(old, beat("b"), beat("a"))
    assert reader.membership.replaced_by is None
    assert reader.membership.start == (3_600_001, "a-1")
    again = Heartbeat(worker="a", instance="a-1", started_at_ms=reader.membership.start[0])
    assert reader.hear_for(7, again, beat("b")) == (("a", "b"), False)
    later = beat("a", start=3_600_002)
    reader.hear(again, later)
    assert reader.membership.replaced_by == later


def test_a_heartbeat_is_read_as_it_was_written() -> None:
    heartbeat = Heartbeat(
        worker="wörker 1",
        instance="f00d",
        started_at_ms=1_700_000_000_000,
        address="https://10.0.0.1:8377",
        zone="b",
        version="0.2.0",
        owned={3: OwnedPartition(7, 10_000_000), 11: OwnedPartition(1)},
        standby_seconds={4: 0.25},
        is_leaving=True,
    )
    assert Heartbeat.from_bytes(heartbeat.to_bytes()) == heartbeat


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"worker": ""},
        {"worker": "x" * 129},
        {"worker": "a\nb"},
        {"worker": 3},
        {"instance": None},
        {"started_at_ms": "soon"},
        {"started_at_ms": 1e400},
        {"started_at_ms": 1 << 63},
        {"owned": {"1": [1, 10**400]}},
        {"owned": {"1": [1 << 63, 1]}},
        {"owned": [1, 2]},
        {"owned": {"a": [1, 2]}},
        {"owned": {"1": [1]}},
        {"owned": {"1": None}},
        {"standby_seconds": {"1": {}}},
        {"address": "x" * 10_000},
    ],
)
def test_a_message_that_is_no_heartbeat_is_ignored(change: dict[str, object]) -> None:
    fields = json.loads(beat("a").to_bytes())
    assert Heartbeat.from_bytes(json.dumps(fields).encode()) == beat("a")
    assert Heartbeat.from_bytes(json.dumps(fields | change).encode()) is None


@pytest.mark.parametrize(
    "message", [b"", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000, b"{}"]
)
def test_bytes_that_are_no_heartbeat_are_ignored(message: bytes) -> None:
    assert Heartbeat.from_bytes(message) is None
    assert Heartbeat.from_bytes(beat("a").to_bytes() + b" " * HEARTBEAT_BYTES_MAX) is None


@pytest.mark.parametrize(
    "address",
    [
        "10.1.0.7:8377",
        "http://[::1",
        "http://",
        "ftp://10.1.0.7/",
        "http://10.1.0.7:99999/",
        "http://10.1.0.7:0/",
        "http://user:password@10.1.0.7/",
        "http://10.1.0.7/?a=b",
        "http://10.1.0.7/\n",
        "http://10.1. 0.7/",
    ],
)
def test_an_address_that_cannot_be_called_counts_as_none(address: str) -> None:
    with pytest.raises(ValueError, match=r"such as http://10\.1\.0\.7:8377/, got"):
        check_address(address)
    fields = {**json.loads(beat("a").to_bytes()), "address": address}
    assert Heartbeat.from_bytes(json.dumps(fields).encode()) == beat("a")


@pytest.mark.parametrize(
    "address", ["http://10.1.0.7:8377/", "https://a.example", "http://[::1]:1"]
)
def test_the_url_of_a_server_is_an_address(address: str) -> None:
    fields = {**json.loads(beat("a").to_bytes()), "address": check_address(address)}
    found = Heartbeat.from_bytes(json.dumps(fields).encode())
    assert found is not None
    assert found.address == address


def test_the_number_of_workers_is_limited() -> None:
    membership = Membership("a", (1, "a-1"))
    for k in range(3 * WORKERS_MAX):
        membership.hear(beat(f"invented-{k}"), 0.0)
        membership.hear(beat("a"), k / 100)
    now = (3 * WORKERS_MAX - 1) / 100
    assert len(membership.members(now).present) <= WORKERS_MAX
