"""The exact claims of CGM hold, and their verdicts notice when a number does not."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma

from lab.claim import Claim, Scale, Tables
from lab.claims.g3_existence_of_change.claim import CLAIM as EXISTENCE
from lab.claims.g11_last_modified.claim import CLAIM as DATES
from lab.claims.g15_gamma_intervals.claim import CLAIM as GAMMA
from lab.claims.g15_gamma_intervals.claim import _unchanged_share
from lab.tables import Table
from recrawl.core.arrays import FloatArray

CLAIMS = {claim.id: claim for claim in (EXISTENCE, DATES, GAMMA)}


@pytest.fixture(params=CLAIMS)
def claim(request: pytest.FixtureRequest) -> Claim:
    return CLAIMS[request.param]


@cache
def measured(name: str) -> Tables:
    return CLAIMS[name].measure(Scale.QUICK)


def altered(table: Table, name: str, factor: float) -> Table:
    """Return a table with one column multiplied."""
    columns: dict[str, list[str] | FloatArray] = {
        other: table.texts(other) for other in table.names
    }
    columns[name] = table.floats(name) * factor
    return Table.of_columns(columns)


@pytest.mark.slow_without_jit
def test_the_claim_holds_at_the_quick_scale_and_can_be_drawn(claim: Claim) -> None:
    tables = measured(claim.id)
    assert claim.judge is not None
    wrong = [check for check in claim.judge(tables) if not check.holds]
    assert wrong == []
    assert set(claim.draw(tables)) == set(claim.captions)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize(
    ("name", "table", "column"),
    [
        ("G-3..7", "quoted", "found"),
        ("G-11..14", "limits", "slow_ratio"),
        ("G-11..14", "moments", "corrected_ratio"),
        ("G-15", "bias", "improved_simulated"),
        ("G-15", "crossing", "shape"),
    ],
)
def test_a_number_that_is_off_by_a_tenth_is_noticed(name: str, table: str, column: str) -> None:
    claim = CLAIMS[name]
    tables = dict(measured(name))
    tables[table] = altered(tables[table], column, 1.1)
    assert claim.judge is not None
    assert not all(check.holds for check in claim.judge(tables))


@pytest.mark.parametrize("shape", [0.3, 1.0, 1.88, 4.0])
def test_the_unchanged_share_is_that_of_the_equilibrium_process(shape: float) -> None:
    longer, _ = quad(lambda t: gamma.sf(t, shape, scale=1 / shape), 1.0, np.inf)
    assert float(_unchanged_share(shape)) == pytest.approx(longer, rel=1e-7)
