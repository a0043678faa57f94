"""Shared snapshots on a server that speaks S3, interrupted at every request in turn."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyarrow import fs

from recrawl.errors import ConfigError, LedgerError, SnapshotError
from recrawl.ledger import SnapshotFolder, shared_snapshots
from recrawl.ledger.shared_snapshots import SharedSnapshots
from recrawl.ledger.shared_storage import open_storage
from tests.s3_server import S3Server
from tests.unit.ledger.test_shared_snapshots import ORIGIN, contents_of, take_snapshot

REQUESTS_MAX = 1_000
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def few_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_snapshots, "CHUNK_BYTES", 4_000)


@pytest.fixture
def server() -> Iterator[S3Server]:
    running = S3Server()
    yield running
    running.close()


@pytest.fixture
def shared(server: S3Server) -> SharedSnapshots:
    system, root = open_storage(server.uri)
    system.create_dir("bucket")
    return SharedSnapshots(system, root, ORIGIN)


def test_an_upload_is_complete_or_not_there_wherever_it_is_interrupted(
    server: S3Server, shared: SharedSnapshots, tmp_path: Path
) -> None:
    saved = take_snapshot(tmp_path / "here", 100)
    # The AWS client may repeat requests, so their number is not known before.
    for fails_from in range(REQUESTS_MAX):
        system, root = open_storage(server.uri)
        other = SharedSnapshots(system, f"{root}/{fails_from}", ORIGIN)
        server.requests.clear()
        server.fails_from = fails_from
        problem = None
        try:
            other.publish(saved, epoch=1, now_ms=NOW_MS)
        except LedgerError as error:
            problem = str(error)
        if problem is None:
            assert len(server.requests) <= fails_from  # none was refused
            assert fails_from > 10
            return
        assert "the snapshot at 100 cannot be stored" in problem
        server.fails_from = None
        assert other.list_complete() == []
        # The next attempt sends what is missing.
        again = other.publish(saved, epoch=1, now_ms=NOW_MS)
        assert other.list_complete() == [again]
        there = SnapshotFolder(tmp_path / f"there-{fails_from}", origin=ORIGIN)
        assert contents_of(other.restore(again, there)) == contents_of(saved)
    pytest.fail("no upload was complete")


def test_a_download_is_complete_or_not_there_wherever_it_is_interrupted(
    server: S3Server, shared: SharedSnapshots, tmp_path: Path
) -> None:
    published = shared.publish(take_snapshot(tmp_path / "here", 5), epoch=1, now_ms=NOW_MS)
    for fails_from in range(REQUESTS_MAX):
        there = SnapshotFolder(tmp_path / f"there-{fails_from}", origin=ORIGIN)
        server.requests.clear()
        server.fails_from = fails_from
        try:
            shared.restore(published, there)
        except SnapshotError:
            assert there.list_saved() == []
        else:
            assert len(server.requests) <= fails_from  # none was refused
            assert fails_from > 10
            assert there.list_saved() != []
            return
    pytest.fail("no download was complete")


def test_no_upload_in_parts_is_begun(
    server: S3Server, shared: SharedSnapshots, tmp_path: Path
) -> None:
    """A worker that is killed would leave the parts there for ever."""
    shared.publish(take_snapshot(tmp_path / "here", 5), epoch=1, now_ms=NOW_MS)
    assert not [one for one in server.requests if "upload" in one]


def test_a_removal_can_be_interrupted_at_every_request(
    server: S3Server, shared: SharedSnapshots, tmp_path: Path
) -> None:
    """The manifest is there, or the copy that keeps its chunks for a day."""
    system, root = open_storage(server.uri)
    now_ms = time.time_ns() // 1_000_000
    saved = [take_snapshot(tmp_path / "here", position) for position in (5, 6, 7)]
    for fails_from in range(20):
        other = SharedSnapshots(system, f"{root}/removal/{fails_from}", ORIGIN)
        first, *kept = [other.publish(one, epoch=1, now_ms=NOW_MS) for one in saved]
        text = system.open_input_file(first.path).read()
        server.requests.clear()
        server.fails_from = fails_from
        with suppress(LedgerError):
            assert other.remove_old(keep=2, now_ms=now_ms) == 1
        is_over = len(server.requests) <= fails_from
        server.fails_from = None
        if first not in other.list_complete():
            assert system.open_input_file(f"{first.path}.removed").read() == text
        other.remove_old(keep=2, now_ms=now_ms)
        assert other.list_complete() == kept[::-1]
        assert other.remove_unused_chunks(now_ms + 23 * HOUR_MS) == 0
        later_ms = now_ms + 25 * HOUR_MS
        assert other.remove_unused_chunks(later_ms) >= 1
        assert other.remove_old(keep=2, now_ms=later_ms) == 0
        names = [one.base_name for one in system.get_file_info(fs.FileSelector(other.folder))]
        assert sorted(names) == [one.path.rpartition("/")[2] for one in kept]
        if is_over:
            break
    assert fails_from >= 4


def test_storage_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ConfigError, match="ftp://host/x is not storage") as raised:
        open_storage("ftp://me:secret@host/x?password=secret")
    assert "secret" not in str(raised.value).partition(" is not storage")[0]
