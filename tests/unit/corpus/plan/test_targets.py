"""Targets are parsed, and their answers add up."""

import math

import numpy as np
import pytest

from recrawl.core.arrays import FlagArray
from recrawl.corpus.plan.priced_pages import PricedPages
from recrawl.corpus.plan.targets import (
    Spending,
    Target,
    TargetAnswer,
    TargetPages,
    answer_combined,
    answer_targets,
)

# At place k a page of rate r is fetched r 2^k times an hour and fresh 1 - 2^-k of the time.
N_PRICES = 9
PLACES = np.arange(N_PRICES)
PRICE = 2.0 ** -PLACES.astype(np.float64)


def priced(*rates: float, importance: float = 1.0, cost: float = 1.0) -> PricedPages:
    rate = np.array(rates)
    return PricedPages(
        np.ones(rate.size),
        np.full(rate.size, importance),
        np.full(rate.size, cost),
        np.zeros(rate.size, np.int64),
        rate[:, None] * 2.0**PLACES / 3_600,
        np.tile(1 - 2.0**-PLACES, (rate.size, 1)),
    )


def wanted(pages: PricedPages, share: float, meant: FlagArray, **target: str) -> TargetPages:
    free = np.ones(pages.n_pages.size)
    return TargetPages(Target(share=share, **target), meant, pages.freshness, free)  # type: ignore[arg-type]


def answer(
    pages: PricedPages, share: float, meant: FlagArray, current: Spending | None
) -> TargetAnswer:
    (found,) = answer_targets([wanted(pages, share, meant)], pages, PRICE, current)
    return found


HALF = np.array([True, True, False, False])
ALL = np.ones(4, np.bool_)


def test_a_target_that_is_met_costs_other_pages_nothing() -> None:
    pages = priced(1, 1, 1, 1)
    found = answer(pages, 0.5, HALF, Spending(16.0, 2.0))
    assert found.verdict == "met"
    assert found.share_now == pytest.approx(0.75)
    assert found.spent_now_per_hour == pytest.approx(8.0)
    assert found.needed_per_hour == pytest.approx(4.0)
    assert found.others_freshness_now == found.others_freshness_then == pytest.approx(0.75)
    assert found.importance_factor is None


def test_a_possible_target_takes_from_other_pages_and_spends_the_budget() -> None:
    pages = priced(1, 1, 1, 1)
    # The half at place 2.585 costs 12, which leaves 4 for the others: place 1.
    found = answer(pages, 7 / 8, HALF, Spending(20.0, math.log2(5.0)))
    assert found.verdict == "possible"
    assert found.needed_per_hour == pytest.approx(16.0)
    assert found.needed_overall_per_hour == pytest.approx(32.0)
    assert found.others_freshness_then == pytest.approx(0.5, abs=1e-3)
    assert (found.others_freshness_now or 0) > 0.7
    assert found.importance_factor == pytest.approx(4.0, rel=1e-2)


def test_a_target_that_costs_more_than_the_budget_is_too_dear() -> None:
    found = answer(priced(1, 1, 1, 1), 7 / 8, HALF, Spending(12.0, math.log2(3.0)))
    assert found.verdict == "too dear"
    assert found.others_freshness_then is None
    assert found.importance_factor is None


def test_a_target_that_no_budget_meets_is_out_of_reach() -> None:
    found = answer(priced(1, 1, 1, 1), 0.999, HALF, Spending(20.0, 2.0))
    assert found.verdict == "out of reach"
    assert found.needed_per_hour == math.inf
    assert found.share_max == pytest.approx(1 - 2.0**-8)
    assert found.share_max_without_delays == 1.0


def test_a_target_without_pages_has_no_answer() -> None:
    found = answer(priced(1, 1, 1, 1), 0.5, np.zeros(4, np.bool_), Spending(20.0, 2.0))
    assert (found.verdict, found.n_pages) == ("no pages", 0)


def test_without_a_budget_a_target_that_some_budget_meets_is_possible() -> None:
    found = answer(priced(1, 1, 1, 1), 0.5, ALL, None)
    assert (found.verdict, found.share_now) == ("possible", None)
    assert found.needed_per_hour == pytest.approx(found.needed_overall_per_hour)


def test_a_target_for_all_pages_leaves_no_others() -> None:
    found = answer(priced(1, 1, 1, 1), 0.5, ALL, Spending(16.0, 2.0))
    assert found.others_freshness_now is None
    assert answer(priced(1, 1, 1, 1), 0.8, ALL, Spending(16.0, 2.0)).verdict == "too dear"


def test_amounts_may_be_costs_and_copies_count_by_importance() -> None:
    pages = priced(1, 1, 1, 1, cost=3.0)
    pages.importance[:] = [0.0, 1.0, 1.0, 1.0]
    pages.freshness[0] = 0.0
    one = wanted(pages, 0.5, HALF)
    (weighted,) = answer_targets([one], pages, PRICE, Spending(48.0, 2.0), in_cost=True)
    assert weighted.share_now == pytest.approx(0.75)
    assert weighted.needed_per_hour == pytest.approx(12.0)
    (plain,) = answer_targets([one], pages, PRICE, Spending(48.0, 2.0), is_weighted=False)
    assert plain.share_now == pytest.approx(0.375)


def test_pages_of_importance_zero_still_have_a_share() -> None:
    pages = priced(1, 1, importance=0.0)
    assert answer(pages, 0.5, np.ones(2, np.bool_), None).verdict == "possible"


def test_targets_together_pay_for_each_page_once() -> None:
    pages = priced(1, 1, 1, 1)
    current = Spending(24.0, math.log2(6.0))
    one = wanted(pages, 0.5, HALF)
    both = answer_combined([one, wanted(pages, 0.75, HALF)], pages, current)
    assert both.needed_per_hour == pytest.approx(8.0)
    assert both.is_possible
    high = wanted(pages, 7 / 8, HALF)
    apart = answer_combined([high, wanted(pages, 0.75, ~HALF)], pages, current)
    assert apart.needed_per_hour == pytest.approx(24.0)
    assert apart.is_possible
    assert apart.others_freshness_now is None
    assert not answer_combined([high, wanted(pages, 7 / 8, ~HALF)], pages, current).is_possible
    assert not answer_combined([one, wanted(pages, 0.999, ALL)], pages, current).is_possible
    nobody = wanted(pages, 0.5, np.zeros(4, np.bool_))
    assert not answer_combined([one, nobody], pages, current).is_possible


def test_limits_of_other_pages_beyond_the_budget_are_kept_in_part() -> None:
    pages = priced(1, 1, 16, 16)
    found = answer(pages, 7 / 8, HALF, Spending(24.0, 0.0))
    # The half costs 16; the others want 32 at the highest price already, and get 8.
    assert found.verdict == "possible"
    assert found.others_freshness_then == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("95 %", (0.95, None, 0.0)),
        ("0.95", (0.95, None, 0.0)),
        ("99% of example.com", (0.99, "example.com", 0.0)),
        ("90% of https://x/news/* under 1h", (0.9, "https://x/news/*", 3_600.0)),
        (" 95 % of /product/* UNDER 6 h ", (0.95, "/product/*", 21_600.0)),
        ("97.5 % within 30m", (0.975, None, 1_800.0)),
    ],
)
def test_targets_can_be_written_in_several_ways(
    text: str, target: tuple[float, str | None, float]
) -> None:
    found = Target.parse(text)
    assert (found.share, found.of, found.late_seconds) == target


@pytest.mark.parametrize("text", ["95 % of /product/* under 6h", "99.5 %", "90 % of shop.example"])
def test_the_text_of_a_target_is_what_was_parsed(text: str) -> None:
    assert str(Target.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not understood: write it as"),
        ("most of it", "is not understood"),
        ("100 %", "must be above 0 % and below 100 %"),
        ("0%", "must be above 0 % and below 100 %"),
        ("95 % under a while", "has no time"),
        ("95 % under inf", "has no time"),
    ],
)
def test_the_error_of_an_invalid_target_shows_how_to_write_one(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Target.parse(text)


def test_impossible_targets_are_rejected() -> None:
    with pytest.raises(ValueError, match="share must be above 0 and below 1, got 1"):
        Target(share=1)
    with pytest.raises(ValueError, match="late_seconds must be finite, got inf"):
        Target(share=0.5, late_seconds=math.inf)
