"""Beliefs in four bytes: resolution, ends, dither, and three years of polls."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recrawl.core.belief import (
    BeliefCodes,
    GammaBelief,
    after_poll,
    decode_beliefs,
    encode_beliefs,
    mean_rate,
    observe_stored_polls,
)
from recrawl.core.belief.codes import decode_of, dither_of, encode_of

HOUR, DAY, YEAR = 3_600, 86_400, 365 * 86_400
SHAPE_STEP, SECONDS_STEP = 2 ** (1 / 4096) - 1, 2 ** (1 / 2048) - 1
NOW = 1_700_000_000


@given(
    shape=st.floats(2**-6, 1023),
    seconds=st.floats(1, 2**31),
    page=st.integers(0, 2**40),
    at=st.integers(0, 2**40),
)
def test_a_belief_is_stored_within_a_code_step(
    shape: float, seconds: float, page: int, at: int
) -> None:
    belief = decode_beliefs(encode_beliefs(GammaBelief.of(shape, seconds), page, at))
    assert abs(belief.shape / shape - 1) <= SHAPE_STEP * (1 + 1e-9)
    assert abs(belief.seconds / seconds - 1) <= SECONDS_STEP * (1 + 1e-9)


def test_beyond_its_range_a_belief_is_stored_as_the_nearest_end() -> None:
    shapes, seconds = [1e-9, 1e-3, 1e4, 1e300], [1e-9, 1e-300, 1e11, 1e300]
    codes = encode_beliefs(GammaBelief.of(shapes, seconds), page=range(4), at=NOW)
    np.testing.assert_array_equal(codes.shape, [0, 0, 65_535, 65_535])
    np.testing.assert_array_equal(codes.seconds[2:], 65_535)
    np.testing.assert_allclose(
        decode_beliefs(codes).shape[[0, -1]], [2**-6, 2**10], rtol=SHAPE_STEP
    )
    np.testing.assert_allclose(
        decode_beliefs(codes).seconds, [1, 1, 2**32, 2**32], rtol=SECONDS_STEP
    )


def test_every_code_stands_for_a_belief_of_its_own() -> None:
    every = np.arange(65_536, dtype=np.uint16)
    belief = decode_beliefs(BeliefCodes(every, every))
    np.testing.assert_allclose(np.diff(np.log2(belief.shape)) * 4096, 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.diff(np.log2(belief.seconds)) * 2048, 1.0, rtol=1e-9)
    for code in (0, 1, 777, 65_535):
        alone = decode_of(code, code)
        np.testing.assert_allclose(alone, [belief.shape[code], belief.seconds[code]], rtol=1e-13)


def test_a_batch_is_coded_as_its_pages_alone(rng: np.random.Generator) -> None:
    shape, seconds = rng.lognormal(0, 2, (5, 8)), rng.lognormal(15, 3, (5, 8))
    page, at = rng.integers(0, 2**33, (5, 8)), rng.integers(0, 2**33, (5, 8))
    codes = encode_beliefs(GammaBelief.of(shape, seconds), page, at)
    assert codes.shape.shape == codes.seconds.shape == (5, 8)
    for i in np.ndindex(5, 8):
        alone = encode_of(float(shape[i]), float(seconds[i]), int(page[i]), int(at[i]))
        assert alone == (int(codes.shape[i]), int(codes.seconds[i]))
    again = encode_beliefs(GammaBelief.of(shape, seconds), page, at)
    np.testing.assert_array_equal(codes, again)


def test_the_dither_is_right_on_average_over_pages() -> None:
    """20 000 pages: the mean code within 5 standard errors, 0.5 / sqrt(20 000), of the number."""
    n_pages = 20_000
    for shape, seconds, at in ((0.3217, 1_234_567.0, NOW), (7.77, 88_888.0, 12), (511.3, 9.9, 0)):
        belief = GammaBelief.of(np.full(n_pages, shape), np.full(n_pages, seconds))
        codes = encode_beliefs(belief, np.arange(n_pages), at)
        tolerance = 5 * 0.5 / np.sqrt(n_pages)
        assert abs(codes.shape.mean() - (np.log2(shape) + 6) * 4096) < tolerance
        assert abs(codes.seconds.mean() - np.log2(seconds) * 2048) < tolerance


def test_the_dither_looks_random_in_page_and_time() -> None:
    """Mean, variance and neighbours of 40 000 numbers, within 5 standard errors."""
    u = np.array([[dither_of(page, NOW + s) for s in range(200)] for page in range(200)])
    assert u.min() >= 0
    assert u.max() < 1
    n = u.size
    assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / n)
    assert abs(u.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / n)
    centred = (u - 0.5) * np.sqrt(12)
    for shifted in (np.roll(centred, 1, axis=0), np.roll(centred, 1, axis=1), centred.T):
        off = centred != shifted
        assert abs((centred * shifted)[off].mean()) < 5 / np.sqrt(n / 2)


def test_stored_polls_are_decoded_updated_and_coded_again(rng: np.random.Generator) -> None:
    """In one batch with repeated pages, in order."""
    codes = encode_beliefs(GammaBelief.of(np.full(3, 0.5), np.full(3, 1e6)), np.arange(3), NOW)
    rows = np.array([0, 2, 0, 1, 0, 2])
    elapsed = rng.lognormal(13, 1, 6)
    changed = np.array([True, False, False, True, True, True])
    q = np.array([1.0, 1.0, 0.3, 0.5, 0.0, 0.9])
    at = NOW + np.arange(6) * DAY
    expected = BeliefCodes(codes.shape.copy(), codes.seconds.copy())
    for row, t, is_changed, chance, now in zip(rows, elapsed, changed, q, at, strict=True):
        before = decode_of(expected.shape[row], expected.seconds[row])
        after = after_poll(GammaBelief.of(*before), t, is_changed, chance)
        shape_code, expected.seconds[row] = encode_of(
            float(after.shape), float(after.seconds), row, int(now)
        )
        if is_changed:
            expected.shape[row] = shape_code
    observe_stored_polls(codes, rows, elapsed, changed, q, at)
    np.testing.assert_array_equal(codes, expected)


def test_an_unchanged_poll_leaves_the_shape_alone() -> None:
    codes = encode_beliefs(GammaBelief.of(np.full(50, 0.777), np.full(50, 1e6)), np.arange(50), NOW)
    before = codes.shape.copy()
    for i in range(100):
        observe_unchanged(codes, HOUR, NOW + i * HOUR)
    np.testing.assert_array_equal(codes.shape, before)


def observe_unchanged(codes: BeliefCodes, elapsed: NDArray[np.int64] | int, at: object) -> None:
    rows = np.arange(codes.shape.size)
    observe_stored_polls(
        codes,
        rows,
        np.broadcast_to(np.asarray(elapsed, np.float64), rows.shape).copy(),
        np.zeros(rows.size, np.bool_),
        np.ones(rows.size),
        np.broadcast_to(np.asarray(at, np.int64), rows.shape).copy(),
    )


def worst_error(
    n_pages: int, interval: int, jitter: float, seconds: float, rng: np.random.Generator
) -> float:
    """Return the greatest relative error of any page's mean rate at any poll in three years."""
    codes = encode_beliefs(
        GammaBelief.of(np.full(n_pages, 0.5), np.full(n_pages, seconds)), np.arange(n_pages), NOW
    )
    shape = decode_beliefs(codes).shape
    exact = np.full(n_pages, seconds)
    at = NOW + rng.integers(0, interval, n_pages)
    worst = 0.0
    for _ in range(3 * YEAR // interval):
        elapsed = np.full(n_pages, interval)
        if jitter:
            elapsed = np.rint(interval * rng.uniform(1 - jitter, 1 + jitter, n_pages)).astype(int)
        at = at + elapsed
        exact += elapsed
        observe_unchanged(codes, elapsed, at)
        stored = mean_rate(decode_beliefs(codes)) / shape
        worst = max(worst, float(np.abs(stored * exact - 1).max()))
    return worst


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("interval", [HOUR, DAY, 7 * DAY], ids=["hourly", "daily", "weekly"])
@pytest.mark.parametrize("jitter", [0.0, 0.01, 0.3])
def test_three_years_of_unchanged_polls_stay_within_three_per_cent(
    interval: int, jitter: float, rng: np.random.Generator
) -> None:
    """Every page at every poll; 3 % is six standard deviations, 0.5 %, of the worst of the nine."""
    for seconds in (5 * HOUR, 25 * DAY):
        assert worst_error(200, interval, jitter, seconds, rng) < 0.03


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("share", [1, 2, 1 / 2, 1 / 3])
def test_polls_in_step_with_the_dither_are_not_rounded_one_way(
    share: float, rng: np.random.Generator
) -> None:
    """A ramp lasts 8 code steps, 0.0027 of the seconds rounded down to a power of two.

    Polls as often as that meet every ramp at the same height; were ramps not shifted against each
    other, a page would be 5 % off.
    """
    ramp = 8 * np.log(2) / 2048 * 2**24
    assert worst_error(200, round(ramp * share), 0.0, 5 * HOUR, rng) < 0.03


def test_plain_rounding_freezes_a_belief() -> None:
    """Why codes are dithered: an hour is less than half a step once 246 days are known.

    Three years of hourly polls, rounded to the nearest code, end at 246 days instead of 1 120.
    """
    code = np.rint(np.log2(25 * DAY) * 2048)
    for _ in range(3 * YEAR // HOUR):
        code = np.rint(np.log2(2 ** (code / 2048) + HOUR) * 2048)
    days = 2 ** (code / 2048) / DAY
    assert days == pytest.approx(HOUR / np.log(2 ** (0.5 / 2048)) / DAY, rel=1e-3)
    assert days == pytest.approx(246, abs=1)


@pytest.mark.slow_without_jit
def test_changing_pages_are_stored_as_well(rng: np.random.Generator) -> None:
    """A year of twelve-hourly polls of pages that change every 2 to 60 days, against float64."""
    n_pages = 200
    rates = 1 / (DAY * rng.uniform(2, 60, n_pages))
    exact = GammaBelief.of(np.full(n_pages, 0.5), np.full(n_pages, 25.0 * DAY))
    rows = np.arange(n_pages)
    codes = encode_beliefs(exact, rows, NOW)
    for i in range(730):
        elapsed = rng.uniform(0.5, 1.5, n_pages) * 12 * HOUR
        changed = rng.random(n_pages) < -np.expm1(-rates * elapsed)
        exact = after_poll(exact, elapsed, changed)
        at = np.full(n_pages, NOW + i * 12 * HOUR)
        observe_stored_polls(codes, rows, elapsed, changed, np.ones(n_pages), at)
    stored = decode_beliefs(codes)
    np.testing.assert_allclose(mean_rate(stored), mean_rate(exact), rtol=0.03)
    np.testing.assert_allclose(stored.shape, exact.shape, rtol=0.03)
