"""Paired differences have the mean and the standard error that they should."""

import numpy as np
import pytest

from lab.paired import paired


def test_differences_between_webs_cancel() -> None:
    common = np.array([0.1, 0.5, 0.9])
    found = paired(common + np.array([0.0, 1.0, 2.0]), common)
    assert found.mean == pytest.approx(1.0)
    assert found.standard_error == pytest.approx(1.0 / np.sqrt(3))


def test_a_single_sample_gives_the_mean_of_its_values() -> None:
    found = paired(np.array([1.0, 3.0]))
    assert (found.mean, found.standard_error) == (2.0, 1.0)
