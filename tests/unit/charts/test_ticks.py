import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.charts.ticks import linear_ticks, log_ticks, number_label, share_label, time_ticks

_DAY = 86_400_000
_NOVEMBER = 1_794_700_800_000  # 2026-11-15 00:00 UTC


def _ms(days: float) -> float:
    return _NOVEMBER + days * _DAY


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.5, "−0.5"),
        (999.9, "1k"),
        (1234, "1.23k"),
        (1e6, "1M"),
        (2.5e9, "2.5G"),
        (1e-6, "10⁻⁶"),
        (3e-7, "3×10⁻⁷"),
        (math.inf, "∞"),
        (math.nan, "–"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number_label(value) == text


def test_shares_are_in_percent_and_halves_are_rounded_up() -> None:
    assert share_label(0.125) == "13 %"
    assert share_label(-0.001) == "0 %"
    assert share_label(1.32, decimals=1) == "132.0 %"
    assert share_label(math.nan) == "–"


def test_steps_are_one_two_or_five() -> None:
    assert [tick.text for tick in linear_ticks(0, 1200, 6)] == [
        *("0", "200", "400", "600", "800", "1k", "1.2k"),
    ]


def test_shares_close_together_get_more_decimals() -> None:
    texts = [tick.text for tick in linear_ticks(0.94, 0.945, 5, is_share=True)]
    assert texts == ["94.0 %", "94.1 %", "94.2 %", "94.3 %", "94.4 %", "94.5 %"]


def test_labels_of_neighbouring_ticks_differ() -> None:
    texts = [tick.text for tick in linear_ticks(1_000_000, 1_000_050, 5)]
    assert len(set(texts)) == len(texts) > 3


@given(st.floats(-1e12, 1e12), st.floats(1e-3, 1e12), st.integers(2, 10))
def test_linear_ticks_lie_between_the_ends(low: float, span: float, n_max: int) -> None:
    ticks = linear_ticks(low, low + span, n_max)
    assert len(ticks) <= n_max + 2
    slack = 1e-6 * max(span, abs(low))
    assert all(low - slack <= tick.at <= low + span + slack for tick in ticks)


def test_a_few_decades_are_labelled_at_one_two_and_five() -> None:
    named = [tick.text for tick in log_ticks(10, 1000, 8) if tick.text]
    assert named == ["10", "20", "50", "100", "200", "500", "1k"]


def test_of_many_decades_every_nth_is_labelled() -> None:
    named = [tick.text for tick in log_ticks(1e-6, 1e6, 7) if tick.text]
    assert named == ["10⁻⁶", "0.0001", "0.01", "1", "100", "10k", "1M"]


def test_less_than_an_octave_has_the_ticks_of_a_linear_axis() -> None:
    assert [tick.text for tick in log_ticks(40, 60, 5)] == ["40", "45", "50", "55", "60"]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (10 / 1440, [("00:00", "15 Nov 2026"), ("00:02", ""), ("00:04", "")]),
        (1 / 86_400, [("00:00:00.000", "15 Nov 2026"), ("00:00:00.200", "")]),
        (1.5, [("00:00", "15 Nov 2026"), ("06:00", ""), ("12:00", "")]),
        (12, [("15 Nov", "2026"), ("17 Nov", "")]),
        (60, [("23 Nov", "2026"), ("7 Dec", "")]),
        (400, [("Jan", "2027"), ("Apr", "")]),
        (3652, [("2028", ""), ("2030", "")]),
    ],
)
def test_labels_of_times_depend_on_the_span(days: float, expected: list[tuple[str, str]]) -> None:
    ticks = time_ticks(_ms(0), _ms(days), 6)
    assert [(tick.text, tick.context) for tick in ticks[: len(expected)]] == expected


def test_a_new_day_and_a_new_year_are_labelled_once() -> None:
    assert [t.context for t in time_ticks(_ms(0.5), _ms(1.5), 5)].count("16 Nov 2026") == 1


@given(st.integers(-60_000_000_000_000, 250_000_000_000_000), st.integers(1, 3_000_000_000_000))
def test_any_span_of_time_has_ticks_inside_it(low: int, span: int) -> None:
    ticks = time_ticks(low, low + span, 6)
    assert len(ticks) <= 12
    assert all(low <= tick.at <= low + span for tick in ticks)


def test_the_largest_float_is_a_number_like_any_other() -> None:
    assert number_label(1.7976931348623157e308) == "1.8×10³⁰⁸"
