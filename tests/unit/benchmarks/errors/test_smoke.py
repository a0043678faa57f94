"""The measurements of error rates run, on a few experiments."""

import dataclasses

import pytest

from benchmarks import holdout_arms, holdout_errors, shadow_errors


def test_hold_outs_find_planted_differences_and_few_others() -> None:
    """Of 20 experiments at most 4 are false alarms (1 in 400 if 5 % are), and 10 are found."""
    found = holdout_errors.measure(20)
    assert [errors.design for errors in found] == [one.name for one in holdout_errors.DESIGNS]
    for errors in found:
        assert errors.false_alarm_share <= 0.2
        assert errors.found_share >= 0.5
        assert errors.covered_share >= 0.8
        assert 2 < errors.detectable_points < 30


@pytest.mark.slow_without_jit
def test_audits_of_hold_outs_agree_with_the_truth_on_simulated_webs() -> None:
    """Within 5 standard errors for fixed webs; 5 would be exceeded once in 0.9 million arms."""
    designs = [
        dataclasses.replace(design, n_days_before=3, n_days=5, pages_per_host=3)
        for design in (holdout_arms.DESIGNS[1], holdout_arms.DESIGNS[2])
    ]
    for errors, design in zip(holdout_arms.measure(1, designs), designs, strict=True):
        assert errors.design == design.name
        assert abs(errors.error_ours) < 5 * errors.standard_error_ours
        assert abs(errors.error_held_out) < 5 * errors.standard_error_held_out
        assert max(errors.standard_error_ours, errors.standard_error_held_out) < 6


@pytest.mark.slow
@pytest.mark.slow_without_jit
def test_shadow_mode_is_measured_with_and_without_a_difference() -> None:
    none, planted = shadow_errors.measure(1, n_imputations=2)
    assert (none.what, planted.what) == ("none", "planted")
    assert none.n_webs == planted.n_webs == 1
    assert none.mean_truth == 0
