"""The budget is split among partitions without a remainder."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.corpus.budget_split import split_amount


@given(st.integers(0, 10_000), st.lists(st.floats(0.001, 1.0), min_size=1, max_size=20))
def test_whole_parts_add_up_and_are_within_one_of_their_share(
    amount: int, weights: list[float]
) -> None:
    share = np.array(weights) / sum(weights)
    part = split_amount(float(amount), share, is_whole=True)
    assert part.sum() == amount
    assert (part == np.floor(part)).all()
    assert (np.abs(part - amount * share) < 1 + 1e-6).all()


def test_rates_are_split_without_rounding() -> None:
    assert split_amount(5.0, np.array([0.5, 0.5]), is_whole=False).tolist() == [2.5, 2.5]


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_unlimited_budget_is_unlimited_for_every_partition(is_whole: bool) -> None:
    assert split_amount(np.inf, np.array([0.5, 0.5]), is_whole=is_whole).tolist() == [
        np.inf,
        np.inf,
    ]
