import numpy as np
import pytest

from lab.claims.p3_prior_of_a_sample import claim
from lab.claims.p4_first_interval import populations
from recrawl.core.arrays import FloatArray


def invented_periods() -> FloatArray:
    return 30 * np.exp(np.random.default_rng(0).standard_normal(500))


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that were never recorded, so that no data is needed."""
    monkeypatch.setattr(populations, "sampled_periods", invented_periods)
    monkeypatch.setattr(claim, "sampled_periods", invented_periods)
