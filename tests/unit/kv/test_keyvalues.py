"""`KeyValues` stores sorted keys and values on disk; tested with the real engine."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recrawl.errors import LockedError, StorageError
from recrawl.kv import KeyValues, KvOptions

SMALL = KvOptions(write_buffer_bytes=64 << 10, block_bytes=1 << 10, block_cache_bytes=1 << 20)


@pytest.fixture
def kv(tmp_path: Path) -> Iterator[KeyValues]:
    with KeyValues.open(tmp_path / "kv", options=SMALL) as opened:
        yield opened


def put_digits(kv: KeyValues) -> None:
    kv.write([b"k%d" % i for i in range(10)], [b"v%d" % i for i in range(10)])


def test_written_values_can_be_read(kv: KeyValues) -> None:
    kv.write([b"a", b"b", b""], [b"1", b"", b"\0"])
    assert kv.get(b"a") == b"1"
    assert kv.get(b"b") == b""
    assert kv.get(b"") == b"\0"
    assert kv.get(b"c") is None
    assert kv.get_many([b"b", b"c", b"a", b"a"]) == [b"", None, b"1", b"1"]
    assert kv.get_many((b"a",)) == [b"1"]
    assert kv.get_many([]) == []


def test_a_scan_is_in_order_and_half_open(kv: KeyValues) -> None:
    put_digits(kv)
    assert [k for k, _ in kv.scan(b"k3", b"k6")] == [b"k3", b"k4", b"k5"]
    assert list(kv.scan(b"k8")) == [(b"k8", b"v8"), (b"k9", b"v9")]
    assert list(kv.scan(b"k6", b"k6")) == []
    assert list(kv.scan(b"k7", b"k6")) == []
    assert [k for k, _ in kv.scan(b"", b"k2")] == [b"k0", b"k1"]


def test_a_scan_in_reverse_yields_the_same_from_the_end(kv: KeyValues) -> None:
    put_digits(kv)
    for start, end in ((b"k3", b"k6"), (b"k35", b"k65"), (b"", None), (b"k8", None), (b"z", None)):
        forwards = list(kv.scan(start, end))
        assert list(kv.scan(start, end, reverse=True)) == forwards[::-1]


def test_a_scan_does_not_see_later_writes(kv: KeyValues) -> None:
    put_digits(kv)
    scan = kv.scan(b"k0")
    next(scan)
    kv.write([b"k99"], [b""], deletes=[b"k5"])
    assert [k for k, _ in scan] == [b"k%d" % i for i in range(1, 10)]


def test_a_write_deletes_a_range_then_keys_then_puts(kv: KeyValues) -> None:
    put_digits(kv)
    kv.write(
        [b"k2", b"k7", b"k7"],
        [b"new", b"first", b"last"],
        deletes=[b"k7", b"k9", b"absent"],
        delete_range=(b"k1", b"k4"),
    )
    assert [k for k, _ in kv.scan(b"")] == [b"k0", b"k2", b"k4", b"k5", b"k6", b"k7", b"k8"]
    assert kv.get_many([b"k2", b"k7"]) == [b"new", b"last"]


def test_an_empty_range_deletes_nothing(kv: KeyValues) -> None:
    put_digits(kv)
    kv.write([], [], delete_range=(b"k5", b"k5"))
    kv.write([], [], delete_range=(b"k5", b"k4"))
    assert len(list(kv.scan(b""))) == 10


def test_contents_survive_closing(tmp_path: Path) -> None:
    with KeyValues.open(tmp_path / "deep" / "kv") as kv:
        kv.write([b"a"], [b"1"], sync=True)
    with KeyValues.open(tmp_path / "deep" / "kv", options=KvOptions(compression="zstd")) as kv:
        assert kv.get(b"a") == b"1"


def test_writes_that_returned_survive_a_killed_writer(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from recrawl.kv import KeyValues\n"
        "kv = KeyValues.open(Path(sys.argv[1]))\n"
        "kv.write([b'a', b'b'], [b'1', b'2'])\n"
        "os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "kv")], check=False)
    assert done.returncode == 9
    with KeyValues.open(tmp_path / "kv") as kv:
        assert kv.get_many([b"a", b"b"]) == [b"1", b"2"]


def test_a_folder_has_one_writer(kv: KeyValues) -> None:
    with pytest.raises(LockedError, match=str(kv.folder)):
        KeyValues.open(kv.folder)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from recrawl.errors import LockedError\n"
        "from recrawl.kv import KeyValues\n"
        "try:\n"
        "    KeyValues.open(Path(sys.argv[1]))\n"
        "except LockedError:\n"
        "    sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(kv.folder)], check=False)
    assert done.returncode == 7


def test_a_closed_object_raises_and_its_folder_can_be_opened_again(tmp_path: Path) -> None:
    kv = KeyValues.open(tmp_path)
    put_digits(kv)
    kv.close()
    kv.close()
    assert "closed" in repr(kv)
    for use in (
        lambda: kv.get(b"a"),
        lambda: kv.get_many([b"a"]),
        lambda: list(kv.scan(b"")),
        lambda: kv.write([b"a"], [b""]),
        lambda: kv.checkpoint(tmp_path / "copy"),
        kv.flush,
        kv.compact,
    ):
        with pytest.raises(StorageError, match="closed"):
            use()
    KeyValues.open(tmp_path).close()


def test_wrong_arguments_raise_value_error(kv: KeyValues) -> None:
    with pytest.raises(ValueError, match="keys and values must have the same length, got 2 and 1"):
        kv.write([b"a", b"b"], [b"1"])
    with pytest.raises(ValueError, match="mode must be one of"):
        KeyValues.open(kv.folder, mode="both")  # type: ignore[arg-type]


def test_opening_a_folder_that_cannot_be_created_raises_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        KeyValues.open(tmp_path / "file")
    with pytest.raises(StorageError, match="file"):
        KeyValues.open(tmp_path / "file" / "below")


def test_reading_a_corrupt_file_raises_storage_error(tmp_path: Path) -> None:
    with KeyValues.open(tmp_path, options=SMALL) as kv:
        kv.write([b"%05d" % i for i in range(2000)], [os.urandom(50) for _ in range(2000)])
        kv.flush()
    (table,) = tmp_path.glob("*.sst")
    data = bytearray(table.read_bytes())
    data[len(data) // 4] ^= 0xFF
    table.write_bytes(data)
    with KeyValues.open(tmp_path, options=SMALL) as kv:
        for reverse in (False, True):
            with pytest.raises(StorageError, match="orrupt"):
                list(kv.scan(b"", reverse=reverse))
        with pytest.raises(StorageError, match="orrupt"):
            kv.get_many([b"%05d" % i for i in range(2000)])


def test_a_full_disk_raises_storage_error_and_keeps_earlier_writes(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk."""
    script = (
        "import os, resource, sys\n"
        "from pathlib import Path\n"
        "from recrawl.errors import StorageError\n"
        "from recrawl.kv import KeyValues\n"
        "kv = KeyValues.open(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "for i in range(1000):\n"
        "    try:\n"
        "        kv.write([b'%05d' % i], [os.urandom(10_000)], sync=True)\n"
        "    except StorageError as error:\n"
        "        print(i, error, flush=True)\n"
        "        break\n"
        "os._exit(0)\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True, text=True
    ).stdout
    n_written = int(output.split()[0])
    assert n_written > 50
    assert str(tmp_path) in output
    with KeyValues.open(tmp_path) as kv:
        keys = [key for key, _ in kv.scan(b"")]
        assert keys[:n_written] == [b"%05d" % i for i in range(n_written)]
        assert len(keys) <= n_written + 1


def test_threads_may_share_one_object(kv: KeyValues, tmp_path: Path) -> None:
    """One writes and syncs while others read, flush, compact and take checkpoints."""
    n_rounds = 200
    keys = [b"%03d" % i for i in range(50)]
    problems: list[Exception] = []
    done = threading.Event()

    def repeat(what: Callable[[int], object]) -> None:
        i = 0
        try:
            while not done.is_set():
                what(i)
                i += 1
        except Exception as error:
            problems.append(error)

    def take_checkpoint(i: int) -> None:
        kv.checkpoint(tmp_path / str(i))
        shutil.rmtree(tmp_path / str(i))

    def merge(i: int) -> None:
        kv.flush()
        kv.compact()

    calls: list[Callable[[int], object]] = [
        lambda _: kv.get_many(keys),
        lambda _: list(kv.scan(b"")),
        merge,
        take_checkpoint,
    ]
    threads = [threading.Thread(target=repeat, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for i in range(n_rounds):
        kv.write(keys, [b"%06d" % i] * len(keys), sync=i % 4 == 0)
    done.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert set(kv.get_many(keys)) == {b"%06d" % (n_rounds - 1)}


# ------------------------------------------------------------------ the write-ahead log


def killed_copy(folder: Path, copy: Path, n_writes: int) -> Path:
    """Copy an open folder with ``n_writes`` writes; return the write-ahead log of the copy."""
    with KeyValues.open(folder) as kv:
        for i in range(n_writes):
            kv.write([b"%05d" % i], [b"x" * 100])
        shutil.copytree(folder, copy)
    return max(copy.glob("*.log"), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("torn_log", ["keep_prefix", "refuse"])
def test_an_incomplete_last_write_is_dropped(torn_log: str, tmp_path: Path) -> None:
    log = killed_copy(tmp_path / "kv", tmp_path / "copy", 100)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 20)
    options = KvOptions(torn_log=torn_log)  # type: ignore[arg-type]
    with KeyValues.open(tmp_path / "copy", options=options) as kv:
        assert len(list(kv.scan(b""))) == 99


def test_corruption_in_the_log_keeps_earlier_writes_or_is_refused(tmp_path: Path) -> None:
    log = killed_copy(tmp_path / "kv", tmp_path / "copy", 100)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(StorageError, match="orrupt"):
        KeyValues.open(tmp_path / "copy", options=KvOptions(torn_log="refuse"))
    with KeyValues.open(tmp_path / "copy") as kv:
        kept = [k for k, _ in kv.scan(b"")]
    assert kept == [b"%05d" % i for i in range(len(kept))]
    assert 40 <= len(kept) <= 60


# ------------------------------------------------------------------ copies


def test_a_checkpoint_is_the_folder_at_that_moment(kv: KeyValues, tmp_path: Path) -> None:
    put_digits(kv)
    kv.checkpoint(tmp_path / "copy")
    kv.write([b"later"], [b""], deletes=[b"k0"])
    with KeyValues.open(tmp_path / "copy") as copy:
        assert [k for k, _ in copy.scan(b"")] == [b"k%d" % i for i in range(10)]
        copy.write([b"own"], [b""])
    assert kv.get(b"own") is None
    with pytest.raises(StorageError, match="exists"):
        kv.checkpoint(tmp_path / "copy")


# ------------------------------------------------------------------ readers


def test_a_reader_sees_the_state_at_its_last_catch_up(kv: KeyValues) -> None:
    put_digits(kv)
    with KeyValues.open(kv.folder, mode="reader") as reader:
        assert reader.get(b"k1") == b"v1"
        kv.write([b"new"], [b"1"], deletes=[b"k1"])
        assert reader.get(b"new") is None
        reader.catch_up()
        assert reader.get_many([b"new", b"k1"]) == [b"1", None]
        with pytest.raises(StorageError, match="reading only"):
            reader.write([b"a"], [b""])


def test_a_reader_needs_no_permission_to_write(
    kv: KeyValues, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_digits(kv)
    settings = kv.folder / "rocksdict-config.json"
    written_at = settings.stat().st_mtime_ns
    monkeypatch.setattr(os, "access", lambda *_: False)
    with KeyValues.open(kv.folder, mode="reader") as reader:
        assert reader.get(b"k1") == b"v1"
        for i in range(4):
            kv.write([b"new"], [b"%d" % i])
            if i % 2:
                kv.flush()
                kv.compact()
            reader.catch_up()
            assert reader.get_many([b"new", b"k1"]) == [b"%d" % i, b"v1"]
    assert settings.stat().st_mtime_ns == written_at


def test_a_reader_needs_a_folder_with_data(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="holds no data"):
        KeyValues.open(tmp_path / "none", mode="reader")
    assert not (tmp_path / "none").exists()


def test_a_reader_removes_its_temporary_files(
    kv: KeyValues, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with KeyValues.open(kv.folder, mode="reader") as reader:
        for i in range(5):
            kv.write([b"%d" % i], [b""])
            kv.flush()
            reader.catch_up()
        (own,) = scratch.iterdir()
        assert len(list(own.iterdir())) == 1
    assert not list(scratch.iterdir())


def test_a_reader_stays_open_while_the_writer_closes_and_reopens(tmp_path: Path) -> None:
    with KeyValues.open(tmp_path) as kv:
        put_digits(kv)
    with KeyValues.open(tmp_path, mode="reader") as reader:
        for i in range(5):
            with KeyValues.open(tmp_path) as kv:
                kv.write([b"round"], [b"%d" % i])
            reader.catch_up()
            assert reader.get(b"round") == b"%d" % i
        assert reader.get(b"k1") == b"v1"


def test_a_reader_keeps_up_with_a_writer_that_compacts(kv: KeyValues) -> None:
    """The writer only increases counters: a reader never sees one decrease, nor misses a key."""
    n_rounds, n_keys = 120, 300
    keys = [b"%04d" % i for i in range(n_keys)]
    kv.write(keys, [b"%06d" % 0 + bytes(200)] * n_keys)
    done = threading.Event()

    def write() -> None:
        for i in range(1, n_rounds + 1):
            kv.write(keys, [b"%06d" % i + os.urandom(200)] * n_keys)
            if i % 3 == 0:
                kv.flush()
            if i % 10 == 0:
                kv.compact()
        done.set()

    with KeyValues.open(kv.folder, mode="reader", options=SMALL) as reader:
        writer = threading.Thread(target=write)
        writer.start()
        last, is_over = 0, False
        while not is_over:
            is_over = done.is_set()
            reader.catch_up()
            seen = [int(value[:6]) for _, value in reader.scan(b"")]
            assert len(seen) == n_keys
            # A write is atomic, so all keys are of one round.
            assert len(set(seen)) == 1
            assert seen[0] >= last
            last = seen[0]
        writer.join()
        assert last == n_rounds


def test_a_scan_stays_valid_when_its_reader_catches_up(kv: KeyValues) -> None:
    put_digits(kv)
    with KeyValues.open(kv.folder, mode="reader") as reader:
        scan = reader.scan(b"")
        next(scan)
        kv.write([b"new"], [b"1"], deletes=[b"k5"])
        kv.flush()
        kv.compact()
        reader.catch_up()
        assert reader.get_many([b"new", b"k5"]) == [b"1", None]
        assert [k for k, _ in scan] == [b"k%d" % i for i in range(1, 10)]


def test_a_failed_catch_up_raises_and_keeps_the_readers_state(kv: KeyValues) -> None:
    put_digits(kv)
    with KeyValues.open(kv.folder, mode="reader") as reader:
        (kv.folder / "CURRENT").rename(kv.folder / "CURRENT.away")
        with pytest.raises(StorageError, match="CURRENT"):
            reader.catch_up()
        (kv.folder / "CURRENT.away").rename(kv.folder / "CURRENT")
        assert reader.get(b"k1") == b"v1"
        reader.catch_up()


def test_the_log_files_of_the_engine_stay_small(tmp_path: Path) -> None:
    for _ in range(8):
        KeyValues.open(tmp_path).close()
    assert len(list(tmp_path.glob("LOG*"))) <= 4


def test_a_reader_needs_no_folder_for_temporary_files(
    kv: KeyValues, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container with a read-only file system."""
    put_digits(kv)
    monkeypatch.setattr("tempfile.tempdir", f"{os.devnull}/nowhere")
    with KeyValues.open(tmp_path / "kv", options=SMALL, mode="reader") as reader:
        assert reader.get(b"k3") == b"v3"
    assert [path.name for path in tmp_path.iterdir()] == ["kv"]
    monkeypatch.setattr("tempfile.mkdtemp", refuse_folder)
    with pytest.raises(StorageError, match="Set TMPDIR to a folder that can be written to"):
        KeyValues.open(tmp_path / "kv", options=SMALL, mode="reader")


def refuse_folder(**_: object) -> str:
    raise PermissionError("read-only")


def test_databases_of_a_process_share_their_cache(tmp_path: Path) -> None:
    with (
        KeyValues.open(tmp_path / "a", options=KvOptions()) as first,
        KeyValues.open(tmp_path / "b", options=KvOptions()) as second,
    ):
        for values in (first, second):
            values.write([b"%d" % i for i in range(1_000)], [bytes(100)] * 1_000)
            values.flush()
            assert len(list(values.scan(b""))) == 1_000
        used = [
            values._engine.property_int_value("rocksdb.block-cache-usage")  # type: ignore[union-attr]
            for values in (first, second)
        ]
    assert used[0]
    assert used[0] == used[1]


def test_options_hold_for_a_folder_that_exists(tmp_path: Path) -> None:
    for n_bytes in (24 << 20, 48 << 20):
        options = KvOptions(block_cache_bytes=n_bytes)
        for mode in ("writer", "reader"):
            with KeyValues.open(tmp_path / "kv", mode=mode, options=options) as values:
                engine = values._engine
                assert engine is not None
                assert engine.property_int_value("rocksdb.block-cache-capacity") == n_bytes
