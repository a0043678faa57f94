"""Due times are the inverse of values, and infinite exactly where a page is never worth it."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import gammaincinv

from recrawl.core.belief import GammaBelief
from recrawl.core.price.due import (
    averaged_due_elapsed,
    averaged_noisy_due_elapsed,
    due_elapsed,
    noisy_due_elapsed,
)
from recrawl.core.signal_quality import from_recall
from recrawl.core.value import averaged_noisy_value, averaged_value, crawl_value, noisy_value
from tests.reference import renewal_steps

# A price as a share of the value that a page tends to.
shares = st.one_of(st.floats(1e-12, 1 - 1e-9), st.floats(-300, 0).map(lambda x: 10.0**x * 0.9))
log_rates = st.floats(-9, 3).map(lambda x: 10.0**x)
precisions = st.one_of(st.floats(0, 1), st.floats(-9, 0).map(lambda x: 10.0**x))


# ----------------------------------------------------------------------- no signals, rate known


def test_matches_the_inverse_incomplete_gamma_function() -> None:
    share = np.concatenate((np.geomspace(1e-14, 0.999, 200), [0.5 - 1e-15, 0.5, 0.5 + 1e-15]))
    np.testing.assert_allclose(due_elapsed(1.0, share), gammaincinv(2, share), rtol=1e-12)


@given(rate=log_rates, share=shares, importance=st.floats(1e-6, 1e6))
def test_a_due_page_is_worth_the_price(rate: float, share: float, importance: float) -> None:
    price = share * importance / rate
    due = due_elapsed(rate, price, importance=importance)
    assert crawl_value(rate, due, importance=importance) == pytest.approx(price, rel=1e-9, abs=0)


def test_never_due() -> None:
    """A page that changes too fast to follow, or never, or has importance 0."""
    assert due_elapsed(2.0, 0.5) == np.inf
    assert due_elapsed(2.0, np.nextafter(0.5, 0)) < np.inf
    assert due_elapsed(0.0, 1.0) == np.inf
    assert due_elapsed(1.0, 1e-9, importance=0.0) == np.inf


def test_always_due_for_free() -> None:
    assert due_elapsed([0.0, 1.0], 0.0).tolist() == [0.0, 0.0]


@given(rate=log_rates, share=shares)
def test_due_times_do_not_depend_on_the_unit_of_time(rate: float, share: float) -> None:
    in_days = due_elapsed(rate * 86_400, share / rate / 86_400) * 86_400
    assert in_days == pytest.approx(float(due_elapsed(rate, share / rate)), rel=1e-6)


# ------------------------------------------------------------------------- signals, rates known


@given(alpha=log_rates, gamma=log_rates, precision=precisions, share=shares)
def test_a_due_page_with_signals_is_worth_the_price(
    alpha: float, gamma: float, precision: float, share: float
) -> None:
    price = share / (alpha + precision * gamma)
    due = noisy_due_elapsed(alpha, gamma, precision, price)
    assert np.isfinite(due)
    value = noisy_value(alpha, gamma, precision, due)
    assert value == pytest.approx(price, rel=1e-9, abs=1e-300)


def test_matches_the_renewal_equation_solved_numerically() -> None:
    for recall, false_rate, due in ((0.3, 0.2, 4.0), (0.9, 0.2, 12.0), (0.6, 3.0, 0.7)):
        rates = from_recall(1.0, recall, false_rate)
        numbers = [float(rate) for rate in rates]
        price = renewal_steps.solve(*numbers, due).value  # type: ignore[call-arg]
        assert noisy_due_elapsed(*rates, price) == pytest.approx(due, rel=1e-9)


def test_never_due_with_signals() -> None:
    """The value tends to 1/Δ, and time alone ages no page all of whose changes are announced."""
    rates = from_recall(2.0, [0.0, 0.5, 0.5, 0.999], [0.3, 0.3, 0.0, 0.3])
    np.testing.assert_array_equal(noisy_due_elapsed(*rates, 0.5 + 1e-12), np.inf)
    assert np.all(np.isfinite(noisy_due_elapsed(*rates, 0.5 - 1e-9)))
    assert noisy_due_elapsed(0.0, 1.0, 0.5, 0.1) == np.inf
    assert noisy_due_elapsed(0.0, 0.0, 0.0, 0.1) == np.inf
    assert noisy_due_elapsed(1.0, 1.0, 0.5, 0.0) == 0.0


def test_useless_signals_leave_the_due_time_without_signals() -> None:
    plain = due_elapsed(0.4, 1.1)
    assert noisy_due_elapsed(0.4, 0.0, 0.5, 1.1) == plain
    assert noisy_due_elapsed(0.4, 2.0, 0.0, 1.1) == plain


@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") == "1",
    reason="interpreted arithmetic raises where compiled gives inf",
)
@given(
    alpha=st.sampled_from([0.0, 1e-300, 1e-12, 1.0, 1e12]),
    gamma=st.sampled_from([0.0, 1e-300, 1e-12, 1.0, 1e12, np.inf]),
    precision=precisions,
    price=st.sampled_from([0.0, 1e-300, 1e-6, 1.0, 1e6, np.inf]),
)
def test_always_terminates(alpha: float, gamma: float, precision: float, price: float) -> None:
    noisy_due_elapsed(alpha, gamma, precision, price)
    belief = GammaBelief.of(max(alpha, 1e-3), 1.0)
    averaged_due_elapsed(belief, price)
    averaged_noisy_due_elapsed(belief, gamma, precision, price)


# ------------------------------------------------------------------------------------- beliefs


@given(shape=st.floats(0.05, 1e5), seconds=log_rates, share=st.floats(1e-9, 0.999))
def test_a_due_page_is_worth_the_price_as_believed(
    shape: float, seconds: float, share: float
) -> None:
    belief = GammaBelief.of(shape, seconds)
    price = share * seconds / max(shape - 1, 0.1)
    due = averaged_due_elapsed(belief, price)
    if np.isfinite(due):
        assert averaged_value(belief, due) == pytest.approx(price, rel=1e-9)
    else:
        assert averaged_value(belief, 1e290 * seconds) <= price


def test_never_due_as_believed() -> None:
    """A belief of shape above 1 has a mean period, which bounds the value; others have none."""
    belief = GammaBelief.of([3.0, 3.0, 0.5, 1.0], 4.0)
    due = averaged_due_elapsed(belief, [2.0, 2.0 - 1e-9, 1e6, 1e2])
    assert due[0] == np.inf
    assert np.all(np.isfinite(due[1:]))
    np.testing.assert_allclose(averaged_value(belief, due)[1:], [2.0 - 1e-9, 1e6, 1e2], rtol=1e-9)
    assert averaged_due_elapsed(belief, 0.0)[0] == 0.0


def test_matches_a_bracketing_search() -> None:
    for shape, price in ((0.4, 2.0), (1.0, 0.3), (7.0, 0.1), (7.0, 0.1666)):
        belief = GammaBelief.of(shape, 1.0)
        root = brentq(
            lambda t, b=belief, p=price: float(averaged_value(b, t)) - p, 1e-6, 1e9, rtol=1e-12
        )
        assert averaged_due_elapsed(belief, price) == pytest.approx(root, rel=1e-9)


@pytest.mark.parametrize("shape", [0.3, 1.0, 5.0, 1e4])
@pytest.mark.parametrize("precision", [0.02, 0.4, 0.97, 1.0])
def test_a_due_page_with_signals_is_worth_the_price_as_believed(
    shape: float, precision: float
) -> None:
    belief = GammaBelief.with_mean_rate(1.0, shape)
    for rate in (1e-3, 0.5, 20.0):
        for elapsed in (1e-4, 0.1, 2.0):
            price = averaged_noisy_value(belief, rate, precision, elapsed)
            due = averaged_noisy_due_elapsed(belief, rate, precision, price)
            value = averaged_noisy_value(belief, rate, precision, due)
            assert value == pytest.approx(float(price), rel=1e-9)
            assert due == pytest.approx(elapsed, rel=1e-6)


def test_never_due_with_signals_as_believed() -> None:
    """It tends to the mean of 1/(α + pγ), which is below 1/(pγ)."""
    belief = GammaBelief.of([0.5, 3.0], 1.0)
    assert np.all(averaged_noisy_due_elapsed(belief, 2.0, 0.5, 1.01) == np.inf)
    limit = averaged_noisy_value(belief, 2.0, 0.5, np.inf)
    assert np.all(np.isfinite(averaged_noisy_due_elapsed(belief, 2.0, 0.5, 0.99 * limit)))


def test_broadcasts() -> None:
    belief = GammaBelief.of([[0.5], [3.0]], 1.0)
    assert averaged_due_elapsed(belief, [0.1, 0.2, 0.3]).shape == (2, 3)
    assert averaged_noisy_due_elapsed(belief, 1.0, [0.1, 0.9], 0.1).shape == (2, 2)
    assert noisy_due_elapsed(0.5, [1.0, 2.0], 0.5, [[0.1], [0.2]]).shape == (2, 2)
    assert due_elapsed([1.0, 2.0], 0.1, importance=[[1], [2], [3]]).shape == (3, 2)
