"""Records of a log: batches as the bytes of one message, and errors for broken bytes."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.errors import EventError
from recrawl.shard import events as ev
from recrawl.shard.wire import COMPRESSED_BYTES_MIN, NumberRecords, pack_batch, unpack_batch
from tests.unit.shard.test_events import KINDS, is_same_event, sample_event

N_ROWS = [0, 1, 2, 3, 100, 5_000]


@pytest.mark.parametrize("n_rows", N_ROWS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_survives_as_a_record(kind: type[ev.Event], n_rows: int) -> None:
    event = sample_event(kind, n_rows)
    number, data = ev.to_record(event)
    assert number == ev.SCHEMA_ID[kind]
    for _ in range(2):  # the second time its head is cached
        back = ev.from_record(number, data)
        assert is_same_event(back, event)
        assert all(column.flags.aligned and column.flags.c_contiguous for column in back)


@pytest.mark.parametrize("n_rows", N_ROWS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_is_the_message_that_arrow_writes(kind: type[ev.Event], n_rows: int) -> None:
    event = sample_event(kind, n_rows)
    data = ev.to_record(event)[1]
    schema = ev.arrow_schema_of(kind)
    assert pa.ipc.read_record_batch(pa.py_buffer(data), schema).equals(ev.to_arrow(event))
    if len(data) < COMPRESSED_BYTES_MIN:
        assert data == ev.to_arrow(event).serialize().to_pybytes()


def test_many_numbers_are_compressed_and_few_are_not() -> None:
    few, many = (sample_event(ev.PagesRemoved, n) for n in (1_000, 10_000))
    assert len(ev.to_record(few)[1]) > few.page.nbytes  # type: ignore[union-attr]
    assert len(ev.to_record(many)[1]) < 0.7 * many.page.nbytes  # type: ignore[union-attr]


@pytest.mark.parametrize("shift", range(9))
def test_a_record_within_a_larger_buffer_is_read_aligned(shift: int) -> None:
    event = sample_event(ev.Outcomes, 3)
    number, data = ev.to_record(event)
    larger = bytes(shift) + data
    for _ in range(2):
        back = ev.from_record(number, memoryview(larger)[shift:])
        assert is_same_event(back, event)
        assert all(column.flags.aligned for column in back)


def test_numbers_are_not_copied_out_of_a_record() -> None:
    number, data = ev.to_record(sample_event(ev.Signals, 100))
    held = np.frombuffer(data, np.uint8)
    for _ in range(2):
        back = ev.from_record(number, data)
        assert all(np.shares_memory(column, held) for column in back)


def test_columns_with_gaps_between_rows_are_written_as_their_rows() -> None:
    event = sample_event(ev.Signals, 10)
    every_other = ev.select_rows(event, slice(None, None, 2))
    assert is_same_event(ev.from_record(*ev.to_record(every_other)), every_other)


def test_columns_of_different_lengths_are_not_a_record() -> None:
    page = np.arange(3)
    with pytest.raises(ValueError, match="equally long"):
        ev.to_record(ev.ImportanceSet(page, np.zeros(4_000, np.float32)))


@pytest.mark.parametrize("schema_id", [0, -1, 99, 10**9])
def test_a_record_with_an_unknown_schema_is_an_error(schema_id: int) -> None:
    with pytest.raises(EventError, match="schema must be one of 1 to"):
        ev.from_record(schema_id, b"")


@pytest.mark.parametrize("n_rows", [2, 5_000])
@pytest.mark.parametrize("kind", [ev.Outcomes, ev.PagesRemoved, ev.SettingsSet])
def test_a_truncated_record_is_an_error(kind: type[ev.Event], n_rows: int) -> None:
    number, data = ev.to_record(sample_event(kind, n_rows))
    ev.from_record(number, data)
    for end in {*range(0, min(len(data), 700), 7), len(data) // 2, len(data) - 8}:
        with pytest.raises(EventError):
            ev.from_record(number, data[:end])


@given(st.binary(max_size=200), st.sampled_from(sorted(ev.SCHEMAS)))
def test_bytes_that_are_not_a_record_are_an_error(data: bytes, schema_id: int) -> None:
    with pytest.raises(EventError):
        ev.from_record(schema_id, data)


@given(st.data())
def test_a_broken_record_gives_events_or_an_event_error_and_nothing_else(
    data: st.DataObject,
) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    number, record = ev.to_record(sample_event(kind, data.draw(st.sampled_from([0, 1, 4, 3_000]))))
    whole = bytearray(record)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, min(len(whole), 900) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    try:
        back = ev.from_record(number, bytes(whole))
    except EventError:
        return
    assert type(back) is kind
    assert len({column.size for column in back}) == 1
    columns: list[Any] = list(back)
    for column, dtype in zip(columns, ev.DTYPES[kind].values(), strict=True):
        assert column.dtype.kind == dtype.kind
        assert dtype.kind == "U" or column.dtype == dtype


def test_a_record_of_numbers_with_nulls_is_an_error() -> None:
    batch = pa.record_batch({"page": pa.array([1, None])})
    with pytest.raises(EventError, match="null"):
        ev.from_record(ev.SCHEMA_ID[ev.PagesRemoved], pack_batch(batch))


@pytest.mark.parametrize("n_rows", [0, 2, 5_000])
def test_events_are_read_out_of_records_with_more_columns(n_rows: int) -> None:
    event = sample_event(ev.PagesAdded, n_rows)
    url = pa.array([f"https://a.example/{i}" for i in range(n_rows)], pa.string())
    wide = ev.to_arrow(event).append_column("url", url)
    schema = ev.arrow_schema_of(ev.PagesAdded).append(pa.field("url", pa.string()))
    batch = unpack_batch(pack_batch(wide), schema)
    assert batch.column("url").equals(url)
    assert is_same_event(ev.from_arrow(batch, ev.SCHEMA_ID[ev.PagesAdded], check=False), event)


def test_text_whose_offsets_are_broken_is_an_error() -> None:
    schema = pa.schema([pa.field("url", pa.string())])
    data = bytearray(pack_batch(pa.record_batch({"url": ["aaaa", "bb"]})))
    offset = data.index(np.array([0, 4, 6], np.int32).tobytes())
    data[offset + 4 : offset + 8] = (1 << 20).to_bytes(4, "little")
    with pytest.raises(EventError):
        unpack_batch(bytes(data), schema)


def test_the_number_of_cached_heads_is_bounded() -> None:
    dtype: np.dtype[Any] = np.dtype(np.int64)
    records = NumberRecords(pa.schema([pa.field("page", pa.int64(), False)]), [dtype])
    for n_rows in range(0, 3 * COMPRESSED_BYTES_MIN // 8, 5):
        assert records.unpack(records.pack([np.arange(n_rows)]))[0].size == n_rows
    assert len(records._by_rows) == len(records._by_head) <= COMPRESSED_BYTES_MIN // 8
