"""Signals' claims hold or not by what stands in their tables."""

import numpy as np
import pytest

from lab.claim import Scale
from lab.claims.s5_corrupted_signals.claim import CLAIM as CORRUPTED
from lab.claims.s6_number_of_terms.claim import CLAIM as TERMS
from lab.claims.s8_delayed_signals.claim import CLAIM as DELAYED
from lab.claims.s9_changing_budget.claim import CLAIM as BUDGET
from lab.claims.s10_fitting_signals.claim import CLAIM as FITTED
from lab.claims.sg_fetches_saved.claim import CLAIM as SAVED
from lab.running import judged
from lab.tables import Table


def budget_table(gap: float) -> Table:
    levels = {"100": 0.36, "150": 0.44, "100 again": 0.36}
    noise = (-0.001, 0.0, 0.001)
    return Table.of(
        {"web": web, "phase": phase, "accuracy": level + gap + wrong, "optimum": level}
        for web, wrong in enumerate(noise)
        for phase, level in levels.items()
    )


@pytest.mark.parametrize(("gap", "holds"), [(0.0, True), (0.01, False), (-0.01, False)])
def test_accuracy_beside_the_optimum_holds_only_near_it(gap: float, holds: bool) -> None:
    checks = judged(BUDGET, {"phases": budget_table(gap)})
    assert all(check.holds for check in checks) is holds


def fitted_table(mean_error: float) -> Table:
    return Table.of(
        {
            "spacing": "regular",
            "way": way,
            "quantity": quantity,
            "mean_error": 0.21 if way == "counted" else mean_error,
            "standard_error": 0.001,
            "mean_absolute_error": 0.01,
            "mean_squared_error": 1e-4,
        }
        for way in ("counted", "fitted")
        for quantity in ("precision", "recall")
    )


@pytest.mark.parametrize(("mean_error", "holds"), [(0.003, True), (0.005, False)])
def test_a_fit_is_unbiased_within_four_standard_errors(mean_error: float, holds: bool) -> None:
    checks = judged(FITTED, {"means": fitted_table(mean_error)})
    assert all(check.holds for check in checks) is holds


def delayed_table(discarded: float) -> Table:
    return Table.of(
        {
            "n_pages": n_pages,
            "web": web,
            "law": law,
            "kept": 0.9 - loss + 0.001 * web,
            "discarded": 0.9 - discarded * loss + 0.001 * web,
        }
        for n_pages, scale in ((100, 0.02), (500, 0.005))
        for web in range(3)
        for law, loss in (("none", 0.0), ("Poisson(6) slots", scale))
    )


@pytest.mark.parametrize(("share", "holds"), [(0.4, True), (0.6, False)])
def test_discarding_must_recover_half(share: float, holds: bool) -> None:
    checks = judged(DELAYED, {"accuracy": delayed_table(share)})
    assert [check.holds for check in checks] == [True, True, holds]


def corrupted_table(noisy_loss: float, split_loss: float) -> Table:
    losses = {"GREEDY-NCIS": (0.70, noisy_loss), "GREEDY-CIS+": (0.69, split_loss)}
    rows: list[dict[str, str | float]] = [
        {
            "others": "others are silent",
            "web": web,
            "policy": policy,
            "corruption": share,
            "accuracy": best - share * loss + 0.001 * web,
        }
        for web in range(3)
        for policy, (best, loss) in {**losses, "GREEDY": (0.66, 0.0)}.items()
        for share in (0.0, 0.1, 0.2)
    ]
    return Table.of(rows)


@pytest.mark.parametrize(("losses", "holds"), [((0.02, 0.1), True), ((0.06, 0.05), False)])
def test_the_more_robust_policy_loses_less(losses: tuple[float, float], holds: bool) -> None:
    checks = judged(CORRUPTED, {"accuracy": corrupted_table(*losses)})
    assert all(check.holds for check in checks) is holds


@pytest.mark.parametrize(("own", "holds"), [(0.3, True), (0.05, False)])
def test_a_tenth_of_fetches_must_be_saved(own: float, holds: bool) -> None:
    table = Table.of(
        {
            "precision": 0.95,
            "saved_all": 0.05,
            "saved_signalling": own,
            "accuracy_without": 0.6 + 0.01 * web,
            "accuracy_with_fewer": 0.6 + 0.01 * web + wrong,
        }
        for web, wrong in enumerate((-0.001, 0.001))
    )
    assert all(check.holds for check in judged(SAVED, {"saved": table})) is holds


@pytest.mark.slow_without_jit
def test_few_terms_fall_short_and_the_line_does_not() -> None:
    values = TERMS.measure(Scale.QUICK)["values"].where(page="weak signals")
    exact, line = values.floats("exact"), values.floats("renewal")
    assert np.abs(line - exact).max() < 0.01
    assert values.floats("terms_3")[-1] < 0.7 * exact[-1]
