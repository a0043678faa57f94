"""The price at which several shards together spend a budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.core.price import split_at_common_price

amounts = st.floats(0.0, 1e6)


def curve_of(spent: list[float], *, first: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    return first * 2.0 ** np.arange(len(spent)), np.array(spent)


@given(
    budget=st.floats(1e-3, 1e7),
    curves=st.lists(st.lists(amounts, min_size=2, max_size=9), min_size=1, max_size=6),
)
def test_shares_add_up(budget: float, curves: list[list[float]]) -> None:
    falling = [curve_of(sorted(spent, reverse=True)) for spent in curves]
    split = split_at_common_price(budget, falling)
    if split is None:
        assert not any(max(spent) > 0 for spent in curves)
        return
    assert split.share.sum() == pytest.approx(1.0)
    assert (split.share >= 0).all()


@given(budget=st.floats(3.0, 27.0), factor=st.floats(0.1, 10.0))
def test_all_spend_what_they_would_at_the_price(budget: float, factor: float) -> None:
    curves = [curve_of([9.0, 6.0, 5.0, 1.0]), curve_of([18.0, 4.0, 3.0, 2.0], first=factor)]
    split = split_at_common_price(budget, curves)
    assert split is not None
    spent = [np.interp(np.log(split.price), np.log(price), own) for price, own in curves]
    total = sum(spent)
    at_ends = (sum(own[-1] for _, own in curves), sum(own[0] for _, own in curves))
    if at_ends[0] <= budget <= at_ends[1]:
        assert total == pytest.approx(budget)
        assert split.share == pytest.approx(np.array(spent) / total)


def test_nobody_who_would_spend_nothing_gets_anything() -> None:
    assert split_at_common_price(5.0, [curve_of([0.0, 0.0])]) is None
    split = split_at_common_price(5.0, [curve_of([0.0, 0.0]), curve_of([9.0, 1.0])])
    assert split is not None
    assert split.share.tolist() == [0.0, 1.0]
