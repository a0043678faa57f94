"""Checks of the ledger interface: functions that raise `AssertionError` on a violation.

Each check takes a function that opens a log of `N_PARTITIONS` partitions.  The log is empty when
the check starts; a second call opens the same log again:

    @pytest.mark.parametrize("check", LEDGER_CHECKS, ids=lambda check: check.__name__)
    def test_my_log(check, tmp_path):
        check(lambda: MyLog.open(tmp_path, n_partitions=N_PARTITIONS))
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TypeAlias

from recrawl.errors import LedgerError, PositionLost
from recrawl.ledger.contract import RECORD_BYTES_MAX, SCHEMA_MAX, AppendedSpan, Ledger, Log, Record

__all__ = ["LEDGER_CHECKS", "N_PARTITIONS", "LedgerCheck", "OpenLog"]

N_PARTITIONS = 3

OpenLog: TypeAlias = Callable[[], Log]
LedgerCheck: TypeAlias = Callable[[OpenLog], None]


def _records(n: int, label: str = "", n_bytes: int = 0) -> list[Record]:
    """Return distinct records with varied schema numbers."""
    return [Record(i % 7, f"{label}{i}".encode().ljust(n_bytes, b".")) for i in range(n)]


def _read_all(ledger: Ledger, position: int = 0) -> list[Record]:
    """Return all records from a position on; read repeatedly until there are no more."""
    records = []
    while found := ledger.read(position):
        assert [at for at, _ in found] == list(range(position, position + len(found)))
        records += [record for _, record in found]
        position += len(found)
    return records


@contextmanager
def _raises(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def check_a_new_log_is_empty(open_log: OpenLog) -> None:
    """Check that a new log has no records, and that its positions begin at 0."""
    with closing(open_log()) as log:
        assert isinstance(log, Log)
        assert log.n_partitions == N_PARTITIONS
        for i in range(N_PARTITIONS):
            ledger = log.partition(i)
            assert isinstance(ledger, Ledger)
            assert (ledger.first, ledger.end) == (0, 0)
            assert ledger.read(0) == []


def check_what_is_appended_is_read(open_log: OpenLog) -> None:
    """Check that reads return appended records in order, at the positions of the spans."""
    with closing(open_log()) as log:
        ledger = log.partition(0)
        assert ledger.append(_records(1, "a")) == AppendedSpan(0, 1, True)
        assert ledger.append(_records(1000, "b")) == AppendedSpan(1, 1001, True)
        assert ledger.append(_records(2, "c")) == AppendedSpan(1001, 1003, True)
        assert (ledger.first, ledger.end) == (0, 1003)
        expected = [*_records(1, "a"), *_records(1000, "b"), *_records(2, "c")]
        assert _read_all(ledger) == expected
        assert [at for at, _ in ledger.read(0)] == list(range(1003))
        assert _read_all(ledger, 1000) == expected[1000:]
        assert ledger.read(1003) == []


def check_what_is_appended_can_be_synced(open_log: OpenLog) -> None:
    """Check that a sync is possible at any time, and changes no records."""
    with closing(open_log()) as log:
        ledger = log.partition(0)
        ledger.sync()
        ledger.append(_records(3))
        ledger.sync()
        assert (ledger.first, ledger.end) == (0, 3)


def check_appending_nothing_writes_nothing(open_log: OpenLog) -> None:
    """Check that appending no records returns an empty span at the end."""
    with closing(open_log()) as log:
        ledger = log.partition(0)
        assert ledger.append([]) == AppendedSpan(0, 0, True)
        ledger.append(_records(3))
        assert ledger.append([]) == AppendedSpan(3, 3, True)
        assert ledger.end == 3


def check_any_bytes_are_stored(open_log: OpenLog) -> None:
    """Check that empty data, all byte values and all schema numbers can be stored."""
    records = [
        Record(0, b""),
        Record(SCHEMA_MAX, bytes(range(256))),
        Record(256, b"\0" * 1000),
        Record(1, "Straße".encode()),
    ]
    with closing(open_log()) as log:
        log.partition(0).append(records)
        assert _read_all(log.partition(0)) == records


def check_a_record_may_be_long(open_log: OpenLog) -> None:
    """Check that the longest record is stored, and a longer one refused without any effect."""
    with closing(open_log()) as log:
        ledger = log.partition(0)
        long = [Record(5, bytes([i]) * (RECORD_BYTES_MAX - i)) for i in range(3)]
        assert ledger.append(long) == AppendedSpan(0, 3, True)
        with _raises(ValueError):
            ledger.append([Record(5, b"."), Record(5, b"." * (RECORD_BYTES_MAX + 1))])
        for schema in (-1, SCHEMA_MAX + 1):
            with _raises(ValueError):
                ledger.append([Record(5, b"."), Record(schema, b"")])
        assert ledger.append(_records(1)) == AppendedSpan(3, 4, True)
        assert _read_all(ledger) == [*long, *_records(1)]


def check_a_read_is_bounded_by_bytes(open_log: OpenLog) -> None:
    """Check that a read returns at most the given number of bytes, but at least one record."""
    with closing(open_log()) as log:
        ledger = log.partition(0)
        records = _records(100, n_bytes=1000)
        ledger.append(records)
        assert len(ledger.read(0)) == 100
        assert len(ledger.read(0, n_bytes_max=100_000)) == 100
        assert len(ledger.read(0, n_bytes_max=99_999)) == 99
        assert len(ledger.read(0, n_bytes_max=10_500)) == 10
        assert len(ledger.read(95, n_bytes_max=10_500)) == 5
        assert ledger.read(7, n_bytes_max=1) == [(7, records[7])]
        assert ledger.read(8, n_bytes_max=0) == [(8, records[8])]
        assert ledger.read(100, n_bytes_max=1) == []


def check_any_position_may_be_read(open_log: OpenLog) -> None:
    """Check that positions can be read in any order and repeatedly."""
    with closing(open_log()) as log:
        ledger = log.partition(0)
        records = _records(50)
        ledger.append(records)
        for position in (49, 0, 17, 17, 50, 3, 50, 0):
            assert ledger.read(position) == list(enumerate(records))[position:]


def check_a_read_sees_what_was_appended_since(open_log: OpenLog) -> None:
    """Check that a read at the end returns the records appended since the last read."""
    with closing(open_log()) as log:
        ledger = log.partition(0)
        for i in range(20):
            assert ledger.read(i) == []
            ledger.append([Record(i, b".")])
            assert ledger.read(i) == [(i, Record(i, b"."))]
            assert ledger.end == i + 1


def check_partitions_are_independent(open_log: OpenLog) -> None:
    """Check that each partition has its own records, positions and first position."""
    with closing(open_log()) as log:
        for i in range(N_PARTITIONS):
            log.partition(i).append(_records(i + 2, f"p{i}-"))
        log.partition(1).truncate(2)
        log.partition(0).append(_records(1, "more"))
        assert [log.partition(i).first for i in range(N_PARTITIONS)] == [0, 2, 0]
        assert [log.partition(i).end for i in range(N_PARTITIONS)] == [3, 3, 4]
        assert _read_all(log.partition(0)) == [*_records(2, "p0-"), *_records(1, "more")]
        assert _read_all(log.partition(1), 2) == _records(3, "p1-")[2:]
        assert _read_all(log.partition(2)) == _records(4, "p2-")
        assert log.partition(1) is log.partition(1)
        for i in (-1, N_PARTITIONS):
            with _raises(ValueError):
                log.partition(i)


def check_truncating_removes_earlier_records(open_log: OpenLog) -> None:
    """Check that remaining records keep their positions, and reading removed ones raises."""
    with closing(open_log()) as log:
        ledger = log.partition(0)
        records = _records(10)
        ledger.append(records)
        ledger.truncate(4)
        assert (ledger.first, ledger.end) == (4, 10)
        assert ledger.read(4) == list(enumerate(records))[4:]
        for position in (0, 3):
            with _raises(PositionLost):
                ledger.read(position)
        ledger.truncate(2)  # lower than before: nothing to remove
        assert ledger.first == 4
        with _raises(ValueError):
            ledger.truncate(11)
        assert ledger.append(_records(1, "next")) == AppendedSpan(10, 11, True)


def check_all_records_can_be_removed(open_log: OpenLog) -> None:
    """Check that an emptied log continues its positions, also when it is opened again."""
    with closing(open_log()) as log:
        log.partition(0).append(_records(5))
        log.partition(0).truncate(5)
        assert (log.partition(0).first, log.partition(0).end) == (5, 5)
        assert log.partition(0).read(5) == []
    with closing(open_log()) as log:
        ledger = log.partition(0)
        assert (ledger.first, ledger.end) == (5, 5)
        assert ledger.append(_records(1)) == AppendedSpan(5, 6, True)
        assert ledger.read(5) == [(5, _records(1)[0])]


def check_a_position_beyond_the_end_is_lost(open_log: OpenLog) -> None:
    """Check that reading beyond the end raises `PositionLost`.

    Such a position comes from another log, or the log has lost records at its end.
    """
    with closing(open_log()) as log:
        ledger = log.partition(0)
        with _raises(PositionLost):
            ledger.read(1)
        ledger.append(_records(3))
        with _raises(PositionLost):
            ledger.read(4)
        with _raises(PositionLost):
            ledger.read(-1)
        assert issubclass(PositionLost, LedgerError)


def check_opening_again_finds_everything(open_log: OpenLog) -> None:
    """Check that a reopened log has the same records, and that appends continue at its end."""
    for i in range(3):
        with closing(open_log()) as log:
            for ledger in [log.partition(k) for k in range(N_PARTITIONS)]:
                assert ledger.end == 10 * i
                assert ledger.append(_records(10, f"{i}-")) == AppendedSpan(
                    10 * i, 10 * i + 10, True
                )
    with closing(open_log()) as log:
        log.partition(1).truncate(15)
    with closing(open_log()) as log:
        expected = [record for i in range(3) for record in _records(10, f"{i}-")]
        assert log.partition(1).first == 15
        assert _read_all(log.partition(1), 15) == expected[15:]
        assert _read_all(log.partition(2)) == expected


def check_threads_may_append_at_once(open_log: OpenLog) -> None:
    """Check that concurrent appends lose, repeat or reorder no records."""
    with closing(open_log()) as log, ThreadPoolExecutor(8) as threads:

        def append(job: int) -> tuple[int, list[Record], AppendedSpan]:
            records = _records(3, f"job{job}-")
            return job % 2, records, log.partition(job % 2).append(records)

        for i, records, span in threads.map(append, range(40)):
            assert span.is_whole
            found = log.partition(i).read(span.first)[:3]
            assert found == list(enumerate(records, span.first))
        assert [log.partition(i).end for i in range(N_PARTITIONS)] == [60, 60, 0]


def check_a_closed_log_raises_ledger_error(open_log: OpenLog) -> None:
    """Check that every use of a closed log raises `LedgerError`, except closing it again."""
    log = open_log()
    ledger = log.partition(0)
    ledger.append(_records(1))
    log.close()
    log.close()
    with _raises(LedgerError):
        ledger.append(_records(1))
    with _raises(LedgerError):
        ledger.read(0)
    with _raises(LedgerError):
        ledger.truncate(1)


LEDGER_CHECKS: tuple[LedgerCheck, ...] = (
    check_a_new_log_is_empty,
    check_what_is_appended_is_read,
    check_what_is_appended_can_be_synced,
    check_appending_nothing_writes_nothing,
    check_any_bytes_are_stored,
    check_a_record_may_be_long,
    check_a_read_is_bounded_by_bytes,
    check_any_position_may_be_read,
    check_a_read_sees_what_was_appended_since,
    check_partitions_are_independent,
    check_truncating_removes_earlier_records,
    check_all_records_can_be_removed,
    check_a_position_beyond_the_end_is_lost,
    check_opening_again_finds_everything,
    check_threads_may_append_at_once,
    check_a_closed_log_raises_ledger_error,
)
