"""Instants in all the ways in which people write them."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.readers.instants import (
    INSTANT_MS_MAX,
    INSTANT_MS_MIN,
    cdx_instant_ms,
    cdx_instants_ms,
    instant_ms,
    instants_ms_of_numbers,
)

AT = 1_704_164_645_000  # 2024-01-02T03:04:05Z

instants = st.integers(INSTANT_MS_MIN, INSTANT_MS_MAX - 1)


@pytest.mark.parametrize(
    "written",
    [
        AT // 1_000,
        AT,
        AT * 1_000,
        AT * 1_000_000,
        AT / 1_000,
        "1704164645",
        "1704164645000",
        "1704164645.0",
        " 2024-01-02T03:04:05Z ",
        "2024-01-02T03:04:05",
        "2024-01-02 03:04:05",
        "2024-01-02T03:04:05.000+00:00",
        "2024-01-02T04:04:05+01:00",
        "20240102030405",
        "20240102T030405Z",
        "Tue, 02 Jan 2024 03:04:05 GMT",
        "Tue, 2 Jan 2024 04:04:05 +0100",
        "Tue Jan 02 03:04:05 UTC 2024",
        "Tue Jan  2 03:04:05 2024",
        datetime(2024, 1, 2, 3, 4, 5),
        datetime(2024, 1, 2, 4, 4, 5, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_one_instant_is_read_from_all_its_forms(written: object) -> None:
    assert instant_ms(written) == AT


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2024", (2024, 1, 1)),
        ("2024-03", (2024, 3, 1)),
        ("2024-03-04", (2024, 3, 4)),
        ("20240304", (2024, 3, 4)),
        ("2024-03-04T05:06Z", (2024, 3, 4, 5, 6)),
    ],
)
def test_a_date_with_parts_left_out_is_its_beginning(
    written: str, moment: tuple[int, int, int]
) -> None:
    assert instant_ms(written) == 1_000 * datetime(*moment, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "written",
    [
        None,
        True,
        "",
        "yesterday",
        0,
        -1,
        10**30,
        float("nan"),
        float("inf"),
        "1989-12-31T23:59:59Z",
        "2100-01-01T00:00:00Z",
        "2024-02-30",
        "2024-13",
        "٢٠٢٤",
        "9" * 1_000,
        b"2024",
        [],
        {},
    ],
)
def test_invalid_instants_are_none(written: object) -> None:
    assert instant_ms(written) is None


@given(ms=instants)
def test_the_unit_follows_from_the_size_of_the_number(ms: int) -> None:
    assert instant_ms(ms) == ms
    assert instant_ms(ms * 1_000) == ms
    assert instant_ms(ms // 1_000) == ms // 1_000 * 1_000
    values, is_instant = instants_ms_of_numbers(
        np.array([ms, ms * 1_000, ms * 1_000_000, ms // 1_000], np.int64)
    )
    assert is_instant.all()
    assert values.tolist() == [ms, ms, ms, ms // 1_000 * 1_000]


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5_000_000_000)))
def test_columns_of_numbers_are_read_like_single_ones(values: list[int]) -> None:
    ms, is_instant = instants_ms_of_numbers(np.array(values, np.int64))
    for value, found, is_one in zip(values, ms.tolist(), is_instant.tolist(), strict=True):
        one = instant_ms(value)
        assert (one is not None) == is_one
        # Divided as an integer, or rounded.
        assert one is None or abs(one - found) <= 1


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_columns_of_floats_are_read_like_single_ones(value: float) -> None:
    ms, is_instant = instants_ms_of_numbers(np.array([value]))
    assert (ms[0] if is_instant[0] else None) == instant_ms(value)


@given(moment=st.datetimes(datetime(1990, 1, 1), datetime(2099, 12, 31)))
def test_cdx_dates_are_read_at_any_length(moment: datetime) -> None:
    digits = moment.strftime("%Y%m%d%H%M%S")
    whole = moment.replace(microsecond=0)
    parts = {
        14: whole,
        12: whole.replace(second=0),
        10: whole.replace(second=0, minute=0),
        8: whole.replace(second=0, minute=0, hour=0),
        6: whole.replace(second=0, minute=0, hour=0, day=1),
        4: whole.replace(second=0, minute=0, hour=0, day=1, month=1),
    }
    for length, meant in parts.items():
        assert cdx_instant_ms(digits[:length]) == 1_000 * meant.replace(tzinfo=UTC).timestamp()
    assert cdx_instant_ms(digits[:9]) == cdx_instant_ms(digits[:8])


digit_texts = st.text("0123456789", max_size=16).map(str.encode)
near_dates = st.from_regex(rb"(19[89]|20[0-9]|210)[0-9][0-9]{10}", fullmatch=True)


@given(st.lists(st.none() | st.binary(max_size=15) | digit_texts | near_dates, max_size=30))
def test_columns_of_cdx_dates_are_read_like_single_ones(dates: list[bytes | None]) -> None:
    array = pa.array([None, *dates, b"20240101000000"], pa.binary())[1:]
    ms, is_instant = cdx_instants_ms(array)
    found = [int(at) if is_one else None for at, is_one in zip(ms, is_instant, strict=True)]
    assert found[:-1] == [
        None if date is None else cdx_instant_ms(date.decode("latin-1")) for date in dates
    ]
    assert found[-1] == 1_704_067_200_000
