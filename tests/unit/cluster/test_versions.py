"""A worker writes only what all workers read, and refuses what it cannot read."""

import json
from typing import Any

import pytest

from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.members.membership import Members
from recrawl.cluster.members.versions import UPGRADE_SECONDS, VersionToWrite


def worker(name: str, reads: int, *, writes: int = 1, **fields: Any) -> Heartbeat:
    return Heartbeat(
        worker=name,
        instance="1",
        started_at_ms=1,
        reads_version=reads,
        writes_version=writes,
        **fields,
    )


def members(*present: Heartbeat, is_frozen: bool = False) -> Members:
    leaving = tuple(one for one in present if one.is_leaving)
    return Members(tuple(one for one in present if not one.is_leaving), is_frozen, leaving)


def test_the_older_version_is_written_until_all_have_upgraded() -> None:
    version = VersionToWrite()
    assert version.update(members(worker("a", 2), worker("b", 1)), 0.0) == 1
    assert version.update(members(worker("a", 2), worker("b", 1)), 10_000.0) == 1
    # Also one that is about to end, because it still follows logs.
    ending = worker("b", 1, is_leaving=True)
    assert version.update(members(worker("a", 2), ending), 20_000.0) == 1
    upgraded = members(worker("a", 2), worker("b", 2))
    assert version.update(upgraded, 30_000.0) == 1
    assert version.update(upgraded, 30_000.0 + UPGRADE_SECONDS - 1) == 1
    assert version.update(upgraded, 30_000.0 + UPGRADE_SECONDS) == 2


def test_a_worker_that_comes_back_with_the_older_version_starts_the_wait_again() -> None:
    version = VersionToWrite(60.0)
    assert version.update(members(worker("a", 2)), 0.0) == 1
    assert version.update(members(worker("a", 2), worker("b", 1)), 50.0) == 1
    assert version.update(members(worker("a", 2)), 60.0) == 1
    assert version.update(members(worker("a", 2)), 119.0) == 1
    assert version.update(members(worker("a", 2)), 120.0) == 2
    # It is written no longer as soon as somebody cannot read it.
    assert version.update(members(worker("a", 2), worker("b", 1)), 121.0) == 1


def test_a_version_that_another_worker_writes_needs_no_wait() -> None:
    version = VersionToWrite()
    assert version.update(members(worker("a", 2), worker("b", 2, writes=2)), 0.0) == 2


def test_a_frozen_view_changes_nothing() -> None:
    version = VersionToWrite(0.0)
    assert version.update(members(worker("a", 2), is_frozen=True), 0.0) == 1
    assert version.update(members(worker("a", 2)), 1.0) == 2
    assert version.update(members(worker("b", 1), is_frozen=True), 2.0) == 2
    assert version.update(Members((), False), 3.0) == 2


@pytest.mark.parametrize("wrong", ["x", None, [1]])
def test_a_heartbeat_with_a_strange_version_is_not_read(wrong: object) -> None:
    found = json.loads(worker("a", 2, writes=2).to_bytes())
    assert Heartbeat.from_bytes(json.dumps(found).encode()) == worker("a", 2, writes=2)
    found["reads_version"] = wrong
    assert Heartbeat.from_bytes(json.dumps(found).encode()) is None


def test_a_heartbeat_of_a_worker_without_versions_reads_the_first() -> None:
    found = json.loads(worker("a", 7, reads_log=False).to_bytes())
    for name in ("reads_version", "writes_version", "reads_log"):
        del found[name]
    older = Heartbeat.from_bytes(json.dumps(found).encode())
    assert older is not None
    assert (older.reads_version, older.writes_version, older.reads_log) == (1, 1, True)
