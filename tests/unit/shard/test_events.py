"""Encoding of events: kinds keep their numbers and columns, and broken bytes are errors."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.errors import EventError
from recrawl.shard import events as ev

KINDS = list(ev.SCHEMAS.values())

# Written down once.  A kind whose columns change must get a new number; the old one stays.
GOLDEN = {
    1: "PagesAdded page:int64 group:uint32 kind:uint16 importance:float32 cost:float32 at_ms:int64",
    2: "PagesRemoved page:int64",
    3: "ImportanceSet page:int64 importance:float32",
    4: "CostsSet page:int64 cost:float32",
    5: "KindsSet page:int64 kind:uint16",
    6: "LimitsSet page:int64 interval_seconds_min:float64 interval_seconds_max:float64"
    " stale_seconds:float64 stale_probability:float64",
    7: "Outcomes page:int64 order:int64 fetched_at_ms:int64 verdict:uint8 divergence:float32"
    " last_modified_at_ms:int64 status_class:uint8 retry_after_seconds:float32",
    8: "Signals page:int64 source:uint32 at_ms:int64 claimed_at_ms:int64",
    9: "RequestsSeen page:int64 n_requests:float32 at_ms:int64",
    10: "CurvesSet page:int64 ceiling:float32 ratio:float32 scroll_items:uint8",
    11: "GroupsSet group:uint32 delay_ms:uint32 in_flight_max:uint16 burst:uint16"
    " blocked_until_ms:int64 is_closed:uint8",
    12: "SourcesSet source:uint32 precision:float32 delay_seconds:float32",
    13: "BudgetSet amount:float64 period_seconds:float64 burst_seconds:float64 unit:uint8"
    " price_mode:uint8 price:float64",
    14: "SettingsSet settings:str",
    15: "PriorsSet epoch:int64 kind:uint16 shape:float64 seconds:float64",
    16: "Ordered epoch:int64 at_ms:int64 order:int64 page:int64 expires_at_ms:int64 reason:uint8",
    17: "LeasesExtended order:int64 expires_at_ms:int64",
    18: "LeasesReleased order:int64",
    19: "LeasesExpired epoch:int64 at_ms:int64 order:int64",
    20: "Claimed owner:uint64 epoch:int64 at_ms:int64",
    21: "Ticked epoch:int64 at_ms:int64 price:float64",
    22: "KindsWeighted epoch:int64 kind:uint16 weight:float32",
    30: "DomainsSet group:uint32 domain:uint32 is_unlimited:uint8",
    35: "RunBudgetSet amount:float64 unit:uint8 price_mode:uint8 price:float64",
    36: "RunChosen epoch:int64 run:uint64 amount:float64",
    37: "CreditSet credit:float64",
    43: "ClockReset epoch:int64 at_ms:int64",
    50: "QuotaSet epoch:int64 at_ms:int64 per_second:float64 period_seconds:float64"
    " burst_seconds:float64 unit:uint8 price_mode:uint8 price:float64",
    60: "GroupsSplit epoch:int64 group:uint32",
    61: "GroupsBlocked epoch:int64 group:uint32 until_ms:int64",
    62: "WindowsGranted epoch:int64 group:uint32 part:uint32 from_ms:int64 until_ms:int64",
    63: "WindowsSet epoch:int64 group:uint32 from_ms:int64 until_ms:int64",
    70: "Closed epoch:int64 generation:int64 n_partitions:int64",
}


def sample_event(kind: type[ev.Event], n: int = 3) -> ev.Event:
    """Return a batch with different numbers in every column and row."""
    columns = {}
    for k, (name, dtype) in enumerate(ev.DTYPES[kind].items()):
        if dtype.kind == "U":
            columns[name] = np.array([f"{{{i} é}}" for i in range(n)])
        else:
            columns[name] = (np.arange(n) + 7 * k + 1).astype(dtype)
    return ev.event_of(kind, **columns)


def is_same_event(a: ev.Event, b: ev.Event) -> bool:
    if type(a) is not type(b):
        return False
    pairs: list[tuple[Any, Any]] = list(zip(a, b, strict=True))
    if any(x.dtype.kind != y.dtype.kind or x.shape != y.shape for x, y in pairs):
        return False
    return all(
        np.array_equal(x, y) if x.dtype.kind == "U" else x.tobytes() == y.tobytes()
        for x, y in pairs
    )


def test_numbers_and_columns_of_kinds_never_change() -> None:
    now = {
        number: " ".join(
            [kind.__name__, *(f"{name}:{dtype.name}" for name, dtype in ev.DTYPES[kind].items())]
        ).replace("str0", "str")
        for number, kind in ev.SCHEMAS.items()
    }
    assert now == GOLDEN


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_survives_arrow_unchanged(kind: type[ev.Event]) -> None:
    event = sample_event(kind)
    batch = ev.to_arrow(event)
    assert is_same_event(ev.from_arrow(batch), event)
    assert is_same_event(
        ev.from_arrow(batch.replace_schema_metadata(None), ev.SCHEMA_ID[kind]), event
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_survives_as_bytes_even_without_rows(kind: type[ev.Event]) -> None:
    batches = [sample_event(kind), sample_event(kind, 0), sample_event(kind, 1)]
    back = ev.decode_events(ev.encode_events(batches))
    assert len(back) == 3
    assert all(is_same_event(a, b) for a, b in zip(batches, back, strict=True))


def test_a_log_of_all_kinds_is_read_in_order() -> None:
    log = [sample_event(kind, 1 + i % 4) for i, kind in enumerate(KINDS)]
    back = ev.decode_events(ev.encode_events(log))
    assert all(is_same_event(a, b) for a, b in zip(log, back, strict=True))
    assert ev.decode_events(b"") == []


def test_special_numbers_keep_their_bits() -> None:
    event = ev.event_of(
        ev.LimitsSet,
        page=[0, -1, 2**62],
        interval_seconds_min=[0.0, -0.0, 5e-324],
        interval_seconds_max=[np.inf, -np.inf, np.nan],
        stale_seconds=[1e308, 0.1, 1.0],
        stale_probability=0.5,
    )
    assert is_same_event(ev.decode_events(ev.encode_events([event]))[0], event)


def test_numbers_are_not_copied_into_arrow() -> None:
    event = sample_event(ev.Signals, 1000)
    assert isinstance(event, ev.Signals)
    batch = ev.to_arrow(event)
    assert batch.column("at_ms").buffers()[1].address == event.at_ms.ctypes.data
    back = ev.from_arrow(batch)
    assert isinstance(back, ev.Signals)
    assert back.at_ms.ctypes.data == event.at_ms.ctypes.data


def test_nulls_become_nan_zero_or_empty() -> None:
    batch = pa.record_batch(
        {
            "page": pa.array([1, 2]),
            "ceiling": pa.array([None, 0.5], pa.float32()),
            "ratio": pa.array([0.5, None], pa.float32()),
            "scroll_items": pa.array([None, 3], pa.uint8()),
        }
    )
    event = ev.from_arrow(batch, ev.SCHEMA_ID[ev.CurvesSet])
    assert isinstance(event, ev.CurvesSet)
    assert np.isnan(event.ceiling[0])
    assert np.isnan(event.ratio[1])
    assert event.scroll_items.tolist() == [0, 3]
    text = pa.record_batch({"settings": pa.array([None, "{}"])})
    settings = ev.from_arrow(text, ev.SCHEMA_ID[ev.SettingsSet])
    assert isinstance(settings, ev.SettingsSet)
    assert settings.settings.tolist() == ["", "{}"]


def test_columns_may_come_in_any_order_beside_others_and_in_wider_types() -> None:
    batch = pa.record_batch(
        {
            "importance": pa.array([2.0], pa.float64()),
            "note": pa.array(["x"]),
            "page": pa.array([5], pa.int32()),
        }
    )
    event = ev.from_arrow(batch, ev.SCHEMA_ID[ev.ImportanceSet])
    assert is_same_event(event, ev.event_of(ev.ImportanceSet, page=5, importance=2.0))


@pytest.mark.parametrize("schema_id", [0, -1, 23, 10**9])
def test_an_unknown_schema_is_an_error(schema_id: int) -> None:
    with pytest.raises(EventError, match="schema must be one of 1 to"):
        ev.from_arrow(ev.to_arrow(sample_event(ev.PagesRemoved)), schema_id)


@pytest.mark.parametrize("number", [b"", b"x", b"-3", b"99", b"1.5"])
def test_a_batch_without_a_schema_number_is_an_error(number: bytes) -> None:
    batch = ev.to_arrow(sample_event(ev.PagesRemoved))
    with pytest.raises(EventError, match="schema must be"):
        ev.from_arrow(batch.replace_schema_metadata({b"recrawl.schema": number}))
    with pytest.raises(EventError, match="schema must be"):
        ev.from_arrow(batch.replace_schema_metadata(None))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["1"]),
        pa.array([[1]]),
        pa.array([2**40]),
        pa.array([-1]),
        pa.array([0.5]),
        pa.array([{"a": 1}]),
        pa.nulls(1, pa.list_(pa.int64())),
    ],
)
def test_a_column_of_another_type_that_does_not_fit_is_an_error(column: pa.Array) -> None:
    batch = pa.record_batch({"page": pa.array([1]), "kind": column})
    if column.type == pa.string():
        batch = pa.record_batch({"page": pa.array([1]), "kind": pa.array(["one"])})
    with pytest.raises(EventError, match="KindsSet"):
        ev.from_arrow(batch, ev.SCHEMA_ID[ev.KindsSet])


def test_a_missing_column_and_one_given_twice_are_errors() -> None:
    with pytest.raises(EventError, match="KindsSet"):
        ev.from_arrow(pa.record_batch({"page": pa.array([1])}), 5)
    page, kind = pa.array([1]), pa.array([1], pa.uint16())
    twice = pa.RecordBatch.from_arrays([page, kind, kind], names=["page", "kind", "kind"])
    with pytest.raises(EventError, match="KindsSet"):
        ev.from_arrow(twice, 5)


def test_bytes_truncated_anywhere_are_an_error() -> None:
    data = ev.encode_events([sample_event(ev.Ordered), sample_event(ev.Claimed, 1)])
    first = 8 + int.from_bytes(data[:8], "little")
    for end in range(1, len(data)):
        if end != first:
            with pytest.raises(EventError):
                ev.decode_events(data[:end])


@given(st.binary(min_size=1, max_size=200))
def test_bytes_that_are_not_events_are_an_error(data: bytes) -> None:
    with pytest.raises(EventError):
        ev.decode_events(data)


@given(st.data())
def test_broken_bytes_give_events_or_an_event_error_and_nothing_else(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    whole = bytearray(ev.encode_events([sample_event(kind)]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    try:
        back = ev.decode_events(bytes(whole))
    except EventError:
        return
    assert all(type(event) in KINDS for event in back)


def test_columns_of_different_lengths_are_rejected() -> None:
    with pytest.raises(ValueError, match="rows"):
        ev.event_of(ev.ImportanceSet, page=[1, 2], importance=[1, 2, 3])
    with pytest.raises(TypeError, match="missing or unknown: cost, importance"):
        ev.event_of(ev.ImportanceSet, page=[1, 2], cost=1)


@given(st.integers(0, 2**31 - 2), st.integers(0, 255))
def test_a_page_number_consists_of_slot_and_generation(slot: int, generation: int) -> None:
    page = int(ev.page_of(slot, generation))
    assert int(ev.slot_of_page(page)) == slot
    assert page >> 32 == generation


def test_some_rows_of_a_batch_are_a_batch() -> None:
    event = sample_event(ev.Signals, 5)
    assert is_same_event(
        ev.select_rows(event, [1, 3]), ev.select_rows(event, np.arange(5) % 2 == 1)
    )
    assert is_same_event(ev.select_rows(event, slice(None)), event)
