"""Frequency classes, against Bayes' rule written down with probabilities."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.papers.change_rate import FrequencyClasses
from tests.reference.polls_likelihood import log_likelihood

DAY = 86_400.0
WEEKLY, MONTHLY = 1 / (7 * DAY), 1 / (30 * DAY)
classes = FrequencyClasses(change_rates=(WEEKLY, MONTHLY))


def test_a_page_unchanged_for_a_month_is_hardly_weekly() -> None:
    """CGM §2: P(monthly) rises and P(weekly) falls when a page has not changed for a month."""
    beliefs = classes.prior_beliefs(1)
    np.testing.assert_allclose(beliefs.probability, [[0.5, 0.5]])
    classes.observe(beliefs, [0], 30 * DAY, False)
    weekly = math.exp(-30 / 7)
    expected = weekly / (weekly + math.exp(-1))
    np.testing.assert_allclose(beliefs.probability, [[expected, 1 - expected]])
    assert classes.most_probable(beliefs) == [1]
    assert classes.mean_rate(beliefs) == pytest.approx(expected * WEEKLY + (1 - expected) * MONTHLY)


@given(
    polls=st.lists(
        st.tuples(st.floats(0.01, 100), st.booleans()),
        min_size=1,
        max_size=20,
    )
)
def test_is_bayes_rule_in_a_batch_and_one_by_one(polls: list[tuple[float, bool]]) -> None:
    elapsed, changed = zip(*polls, strict=True)
    three = FrequencyClasses(change_rates=(1.0, 0.1, 0.01), prior=(0.2, 0.5, 0.3))
    log_weight = np.array(
        [
            math.log(share) + log_likelihood(rate, elapsed, changed)
            for rate, share in zip(three.change_rates, (0.2, 0.5, 0.3), strict=True)
        ]
    )
    posterior = np.exp(log_weight - log_weight.max())
    posterior /= posterior.sum()
    batched, single = three.prior_beliefs(2), three.prior_beliefs(2)
    three.observe(batched, np.ones(len(polls), int), elapsed, changed)
    for t, found in polls:
        three.observe(single, [1], t, found)
    np.testing.assert_allclose(batched.probability[1], posterior, rtol=1e-9, atol=1e-300)
    np.testing.assert_array_equal(batched.log_probability, single.log_probability)
    np.testing.assert_allclose(batched.probability[0], [0.2, 0.5, 0.3])


@pytest.mark.parametrize("true_rate", [WEEKLY, MONTHLY])
def test_finds_the_class_of_a_page(true_rate: float, rng: np.random.Generator) -> None:
    """200 weekly polls each: no page of 300 is misjudged (chance of one below 1e-9)."""
    n_pages, n_polls = 300, 200
    beliefs = classes.prior_beliefs(n_pages)
    changed = rng.random((n_polls, n_pages)) < -math.expm1(-true_rate * 7 * DAY)
    for found in changed:
        classes.observe(beliefs, np.arange(n_pages), 7 * DAY, found)
    expected = classes.change_rates.index(true_rate)
    assert np.all(classes.most_probable(beliefs) == expected)


def test_a_class_can_come_back_after_a_thousand_polls_against_it() -> None:
    beliefs = classes.prior_beliefs(1)
    classes.observe(beliefs, np.zeros(3_000, int), 30 * DAY, False)
    assert beliefs.probability[0, 0] == 0.0
    classes.observe(beliefs, np.zeros(8_000, int), DAY, True)
    assert beliefs.probability[0, 0] > 0.99
    assert np.isfinite(beliefs.log_probability).all()


def test_one_change_rules_out_the_class_that_never_changes() -> None:
    static = FrequencyClasses(change_rates=(WEEKLY, 0.0), prior=(0.1, 0.9))
    beliefs = static.prior_beliefs(2)
    static.observe(beliefs, [0, 1], DAY, [True, False])
    np.testing.assert_allclose(beliefs.probability[0], [1, 0])
    assert beliefs.probability[1, 1] > 0.9


def test_what_no_class_allows_leaves_no_class() -> None:
    static = FrequencyClasses(change_rates=(WEEKLY, 0.0), prior=(0.0, 1.0))
    beliefs = static.prior_beliefs(1)
    static.observe(beliefs, [0, 0], [DAY, 0.0], [True, True])
    np.testing.assert_array_equal(beliefs.probability, [[0, 0]])


@pytest.mark.parametrize(
    ("rates", "prior", "message"),
    [
        ((), None, "change_rates must be"),
        ((0.0,), None, "change_rates must be"),
        ((-1.0, 1.0), None, "change_rates must be"),
        ((1.0, 2.0), (1.0,), "prior must be 2 shares"),
        ((1.0, 2.0), (0.5, 0.6), "prior must be 2 shares"),
        ((1.0, 2.0), (-0.5, 1.5), "prior must be 2 shares"),
    ],
)
def test_invalid_arguments_are_rejected(
    rates: tuple[float, ...], prior: tuple[float, ...] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FrequencyClasses(change_rates=rates, prior=prior)
