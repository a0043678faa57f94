"""Evidence that a source has become better or worse."""

import pytest

from recrawl.core.signal_quality.shift import shift_evidence_of


def test_a_false_signal_is_evidence_that_a_source_has_become_worse() -> None:
    found = [shift_evidence_of(0.0, p, p / 4, 1, -0.01, False) for p in (0.1, 0.5, 0.9)]
    assert 0.0 < found[0] < found[1] < found[2] <= 2.0


def test_evidence_is_never_below_zero() -> None:
    assert shift_evidence_of(0.3, 0.5, 0.125, 1, -0.01, True) == 0.0
    assert shift_evidence_of(0.3, 0.5, 0.875, 1, -0.01, False) == 0.0


def test_a_change_that_was_to_be_expected_says_nothing() -> None:
    assert shift_evidence_of(1.0, 0.5, 0.125, 1, -20.0, True) == pytest.approx(1.0, abs=1e-6)


def test_one_interval_counts_as_little_however_many_signals_it_has() -> None:
    assert shift_evidence_of(1.0, 0.9, 0.225, 1_000, -0.01, False) == 3.0
    assert shift_evidence_of(5.0, 0.9, 0.975, 1_000, -0.01, False) == 3.0


def test_precisions_of_0_and_1_are_allowed() -> None:
    assert shift_evidence_of(0.0, 1.0, 0.25, 1, 0.0, False) == 2.0
    assert shift_evidence_of(0.0, 0.0, 0.75, 1, 0.0, True) == 2.0
