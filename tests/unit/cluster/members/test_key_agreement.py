"""A worker whose cluster keys the others refuse knows it before it owns partitions."""

import pytest

from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.members.key_agreement import has_other_keys
from recrawl.messages.partitions import OwnedPartition


def worker(name: str, *key_ids: str, owns: int = 0) -> Heartbeat:
    owned = {i: OwnedPartition(1) for i in range(owns)}
    return Heartbeat(worker=name, instance="1", started_at_ms=1, owned=owned, key_ids=key_ids)


@pytest.mark.parametrize(
    ("key_ids", "others", "owns_any", "wanted"),
    [
        ((), [], False, False),
        (("new",), [worker("a", "old"), worker("b", "old")], True, True),
        (("new",), [worker("a", "old"), worker("b", "new")], False, False),
        # Keys are being changed, one file after the other.
        (("new", "old"), [worker("a", "old"), worker("b", "old")], False, False),
        (("old",), [worker("a", "new", "old"), worker("b", "new", "old")], False, False),
        # Of two, the one with partitions goes on; of two with none, both.
        (("new",), [worker("a", "old", owns=1)], False, True),
        (("new",), [worker("a", "old", owns=1)], True, False),
        (("new",), [worker("a", "old")], False, False),
        # An earlier version does not say which it has.
        (("new",), [worker("a"), worker("b")], False, False),
        (("new",), [worker("a"), worker("b", "old", owns=2)], False, True),
    ],
)
def test_who_has_other_keys_than_most(
    key_ids: tuple[str, ...], others: list[Heartbeat], owns_any: bool, wanted: bool
) -> None:
    assert has_other_keys(key_ids, others, owns_any=owns_any) is wanted


def test_keys_are_named_in_heartbeats() -> None:
    own = Heartbeat(
        worker="a", instance="1", started_at_ms=1, key_ids=("x", "y"), has_other_keys=True
    )
    found = Heartbeat.from_bytes(own.to_bytes())
    assert found == own
    before = own.to_bytes().replace(b'"key_ids":["x","y"],"has_other_keys":true', b'"more":1')
    found = Heartbeat.from_bytes(before)
    assert found is not None
    assert found.key_ids == ()
    assert not found.has_other_keys
