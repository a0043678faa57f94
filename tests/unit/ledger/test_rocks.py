"""`RocksLog` fulfils the ledger interface, and survives crashes, full disks and other processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from recrawl.errors import LedgerError, LockedError, PositionLost, StorageError
from recrawl.kv import KeyValues
from recrawl.ledger import rocks
from recrawl.ledger.contract import AppendedSpan, Record
from recrawl.ledger.rocks import RocksLog
from recrawl.testing.ledgers import LEDGER_CHECKS, N_PARTITIONS, LedgerCheck


def make_records(n: int, start: int = 0) -> list[Record]:
    return [Record(i % 5, b"record %d" % i) for i in range(start, start + n)]


@pytest.mark.parametrize("check", LEDGER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("durability", ["sync", "os"])
def test_it_fulfils_the_ledger_interface(
    check: LedgerCheck, durability: rocks.Durability, tmp_path: Path
) -> None:
    check(lambda: RocksLog.open(tmp_path / "log", N_PARTITIONS, durability=durability))


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with RocksLog.open(tmp_path, 1), pytest.raises(LockedError, match="already open"):
        RocksLog.open(tmp_path, 1)
    RocksLog.open(tmp_path, 1).close()


def test_the_number_of_partitions_cannot_change(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="give n_partitions to create it"):
        RocksLog.open(tmp_path)
    RocksLog.open(tmp_path, 5).close()
    with pytest.raises(LedgerError, match=r"n_partitions must be 5 .* got 4"):
        RocksLog.open(tmp_path, 4)
    with RocksLog.open(tmp_path) as log:
        assert log.n_partitions == 5
    for n in (0, 65_536):
        with pytest.raises(ValueError, match=f"n_partitions must be 1 to 65535, got {n}"):
            RocksLog.open(tmp_path / "new", n)
    with pytest.raises(ValueError, match="durability must be one of"):
        RocksLog.open(tmp_path, durability="perhaps")  # type: ignore[arg-type]


def test_the_last_of_very_many_partitions_is_like_the_others(tmp_path: Path) -> None:
    for i in range(2):
        with RocksLog.open(tmp_path, 65_535) as log:
            assert log.partition(65_534).append(make_records(1)) == AppendedSpan(i, i + 1, True)
            assert len(log.partition(65_534).read(0)) == i + 1


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    RocksLog.open(tmp_path, 1).close()
    with KeyValues.open(tmp_path) as values:
        values.write([b"\xff\xffformat"], [json.dumps({"format": 2}).encode()])
    with pytest.raises(LedgerError, match="has format 2, and this version reads up to 1"):
        RocksLog.open(tmp_path, 1)


def test_keys_and_values_on_disk_are_as_documented(tmp_path: Path) -> None:
    with RocksLog.open(tmp_path, 300) as log:
        log.partition(258).append([Record(3, b"a"), Record(259, b"bc")])
        log.partition(258).truncate(1)
    with KeyValues.open(tmp_path) as values:
        assert dict(values.scan(b"")) == {
            b"\x01\x02" + bytes(7) + b"\x01": b"\x01\x03bc",
            b"\xff\xfffirst\x01\x02": bytes(7) + b"\x01",
            b"\xff\xffformat": b'{"format": 1, "n_partitions": 300}',
        }


def test_a_long_append_is_split_into_several_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine holds the interpreter's lock while it writes, so no write may be long."""
    calls: list[tuple[int, int, bool]] = []
    write = KeyValues.write

    def watched(
        self: KeyValues, keys: Sequence[bytes], values: Sequence[bytes], *, sync: bool = False
    ) -> None:
        calls.append((len(keys), sum(map(len, values)), sync))
        write(self, keys, values, sync=sync)

    with RocksLog.open(tmp_path, 1) as log:
        monkeypatch.setattr(KeyValues, "write", watched)
        monkeypatch.setattr(KeyValues, "sync", lambda _: calls.append((0, 0, True)))
        ledger = log.partition(0)
        assert ledger.append([Record(1, bytes(1 << 20))] * 10) == AppendedSpan(0, 10, True)
        assert [n for n, _, _ in calls] == [4, 4, 2, 0]
        assert [is_synced for _, _, is_synced in calls] == [False, False, False, True]
        calls.clear()
        ledger.append([Record(1, b"")] * 25_000)
        assert [n for n, _, _ in calls] == [10_000, 10_000, 5000, 0]
        calls.clear()
        ledger.append([Record(1, bytes(6 << 20))] * 2)  # longer than the limit of a write: one each
        assert [n for n, _, _ in calls] == [1, 1, 0]
        assert ledger.end == 25_012


def test_durability_os_does_not_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RocksLog.open(tmp_path, 1, durability="os") as log:
        syncs: list[bool] = []

        def watched(*_: object, sync: bool = False, **__: object) -> None:
            syncs.append(sync)

        monkeypatch.setattr(KeyValues, "write", watched)
        monkeypatch.setattr(KeyValues, "sync", lambda _: syncs.append(True))
        log.partition(0).append(make_records(3))
        log.partition(0).truncate(2)
        assert syncs == [False, False]


def test_appends_to_several_partitions_share_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one sync runs, the other threads write; the next sync serves all of them."""
    sync = KeyValues.sync
    n_syncs = 0

    def slow(self: KeyValues) -> None:
        nonlocal n_syncs
        n_syncs += 1
        if n_syncs == 1:
            assert log._syncs is not None
            give_up_at = time.monotonic() + 300.0
            while log._syncs._n_requested < 20 and time.monotonic() < give_up_at:
                time.sleep(0.01)  # all have written, and wait, before the first sync ends
        sync(self)

    with RocksLog.open(tmp_path, 20) as log:
        ledgers = [log.partition(i) for i in range(20)]
        monkeypatch.setattr(KeyValues, "sync", slow)
        threads = [
            threading.Thread(target=ledger.append, args=[make_records(3)]) for ledger in ledgers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [ledger.end for ledger in ledgers] == [3] * 20
    assert n_syncs <= 3


def test_after_a_failed_sync_every_append_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk reports a failure only once; a second sync would succeed without the data."""

    def failing(_: KeyValues) -> None:
        raise StorageError("the disk is gone")

    with RocksLog.open(tmp_path, 2) as log:
        log.partition(0).append(make_records(1))
        with monkeypatch.context() as patch:
            patch.setattr(KeyValues, "sync", failing)
            with pytest.raises(LedgerError, match="an append failed: the disk is gone"):
                log.partition(0).append(make_records(1))
        for i in range(2):
            with pytest.raises(LedgerError, match=r"earlier write failed \(the disk is gone\)"):
                log.partition(i).append(make_records(1))
            with pytest.raises(LedgerError, match="open the log again"):
                log.partition(i).truncate(0)
        assert log.partition(0).read(0) == [(0, make_records(1)[0])]
    with RocksLog.open(tmp_path, 2) as log:
        log.partition(0).append(make_records(1))


def test_after_an_interrupted_append_further_appends_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records may be in the log; a shorter append would overwrite only some of them."""
    write = KeyValues.write

    def interrupted(self: KeyValues, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        write(self, keys, values)
        raise KeyboardInterrupt

    with RocksLog.open(tmp_path, 1) as log:
        with monkeypatch.context() as patch:
            patch.setattr(KeyValues, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.partition(0).append(make_records(5))
        with pytest.raises(LedgerError, match=r"earlier write failed \(KeyboardInterrupt\)"):
            log.partition(0).append(make_records(1))
    with RocksLog.open(tmp_path, 1) as log:
        assert log.partition(0).append(make_records(1)) == AppendedSpan(5, 6, True)


def test_a_reader_follows_a_writer(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="holds no data"):
        RocksLog.open(tmp_path, mode="reader")
    with (
        RocksLog.open(tmp_path, 2) as log,
        RocksLog.open(tmp_path, mode="reader") as beside,
    ):
        assert beside.n_partitions == 2
        written, seen = log.partition(1), beside.partition(1)
        for i in range(5):
            written.append(make_records(10, 10 * i))
            assert (seen.first, seen.end) == (0, 10 * i + 10)
            assert seen.read(10 * i) == list(enumerate(make_records(10, 10 * i), 10 * i))
        written.truncate(50)
        assert (seen.first, seen.end) == (50, 50)
        with pytest.raises(PositionLost, match="position must be 50 to 50, got 49"):
            seen.read(49)
        with pytest.raises(LedgerError, match="for reading only"):
            seen.append(make_records(1))
        with pytest.raises(LedgerError, match="for reading only"):
            seen.truncate(50)


def test_a_gap_in_the_log_raises_ledger_error(tmp_path: Path) -> None:
    with RocksLog.open(tmp_path, 1) as log:
        log.partition(0).append(make_records(10))
    with KeyValues.open(tmp_path) as values:
        values.write((), (), deletes=[bytes(9) + b"\x05"])
    with RocksLog.open(tmp_path, 1) as log:
        with pytest.raises(LedgerError, match="records after position 2 are missing"):
            log.partition(0).read(2)
        assert len(log.partition(0).read(6)) == 4


CHILD = """
import sys
from pathlib import Path
from recrawl.ledger.contract import Record
from recrawl.ledger.rocks import RocksLog

folder, n, n_bytes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
log = RocksLog.open(folder, 2)
for i in range(n):
    span = log.partition(i % 2).append([Record(i % 7, b"%d." % i + bytes(n_bytes))] * 2)
    print(i % 2, span.end, flush=True)
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a child process that prints the end of each acknowledged append."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ends_of(lines: list[str]) -> dict[int, int]:
    return {int(line.split()[0]): int(line.split()[1]) for line in lines}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, int]]:
    """Return the folder of a log whose writer was killed, and the acknowledged end positions."""
    folder = tmp_path_factory.mktemp("killed") / "log"
    with python(CHILD, folder, 10_000, 1000) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(40)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
    return folder, ends_of([line for line in lines if line.endswith("\n")])


def check_records(folder: Path) -> dict[int, int]:
    """Check every record; return the end of both partitions."""
    ends = {}
    with RocksLog.open(folder, 2) as log:
        for i in range(2):
            for at, (schema, data) in log.partition(i).read(0):
                number = 2 * (at // 2) + i
                assert (schema, data[: data.index(b".")]) == (number % 7, b"%d" % number)
            ends[i] = log.partition(i).end
            log.partition(i).append(make_records(1))
    return ends


def test_acknowledged_records_survive_a_killed_writer(
    killed: tuple[Path, dict[int, int]], tmp_path: Path
) -> None:
    folder, acknowledged = killed
    shutil.copytree(folder, tmp_path / "log")
    found = check_records(tmp_path / "log")
    assert all(acknowledged[i] <= found[i] <= acknowledged[i] + 2 for i in range(2))


@pytest.mark.parametrize("n_cut", [30, 500, 1003, 2010])
def test_an_incomplete_last_append_loses_no_other_records(
    n_cut: int, killed: tuple[Path, dict[int, int]], tmp_path: Path
) -> None:
    """A cut within the last append, of two records of 1000 bytes, loses only that append."""
    folder, _ = killed
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    shutil.copytree(folder, whole)
    shutil.copytree(folder, torn)
    newest = max(torn.glob("*.log"))
    os.truncate(newest, newest.stat().st_size - n_cut)
    before, after = check_records(whole), check_records(torn)
    assert sum(before.values()) - sum(after.values()) == 2


FULL_DISK = """
import resource, sys
from pathlib import Path
from recrawl.errors import LedgerError
from recrawl.ledger.contract import Record
from recrawl.ledger.rocks import RocksLog

log = RocksLog.open(Path(sys.argv[1]), 2)
ledger = log.partition(0)
n = 0
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
try:
    while n < 100:
        n += 1
        print(0, ledger.append([Record(1, b"%d." % n + bytes(30_000))]).end, flush=True)
except LedgerError as error:
    print("failed:", error, file=sys.stderr)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for i in range(2):
    try:
        log.partition(i).append([Record(1, b"")])
    except LedgerError as error:
        print("refused:", error, file=sys.stderr)
"""


def test_after_a_failed_write_appends_fail_until_the_log_is_opened_again(
    tmp_path: Path,
) -> None:
    """A limit on the size of files makes writes fail as on a full disk."""
    with python(FULL_DISK, tmp_path / "log") as child:
        out, err = child.communicate(timeout=300)
    acknowledged = ends_of(out.splitlines())[0]
    assert 0 < acknowledged < 99
    problems = err.splitlines()
    assert problems[0].startswith("failed: an append failed: ")
    assert [problem.split(" (")[0] for problem in problems[1:]] == [
        "refused: an earlier write failed"
    ] * 2
    with RocksLog.open(tmp_path / "log", 2) as log:
        ledger = log.partition(0)
        assert ledger.end in (acknowledged, acknowledged + 1)
        for at, (_, data) in ledger.read(0):
            assert data.startswith(b"%d." % (at + 1))
        ledger.append(make_records(1))
