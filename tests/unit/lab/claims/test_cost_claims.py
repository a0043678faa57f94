"""Of the numbers kept of Cost's claims others would be seen to be wrong."""

import importlib

import numpy as np
import pytest

from lab.claim import Claim, Scale, Tables
from lab.running import Report, folder_of, judged
from lab.tables import Table, read_tables


def changed(tables: Tables, name: str, column: str, factor: float) -> dict[str, Table]:
    """Return the tables with one column of one of them multiplied."""
    table = tables[name]
    columns = {
        other: table.floats(other) * factor if other == column else np.array(table.texts(other))
        for other in table.names
    }
    return {**tables, name: Table.of_columns(columns)}


def is_as_expected(claim: Claim, tables: Tables) -> bool:
    return Report(claim=claim, checks=judged(claim, tables)).is_as_expected


@pytest.mark.parametrize(
    ("name", "table", "column", "factor"),
    [
        ("c1_known_rate", "curve", "simulated", 1.2),
        ("c1_known_rate", "contour", "best", 1.1),
        ("c5_cost_of_not_knowing", "costs", "more_by", -1.0),
        ("c6_when_it_is_paid", "extra", "standard_error", 10.0),
        ("c7_known_but_suboptimal", "slope", "found", 0.5),
        ("c8_very_stale_share", "shares", "very_stale", -1.0),
        ("c9_very_stale", "policies", "saved", -1.0),
        ("c9_very_stale", "policies", "over_half", -1.0),
    ],
)
def test_the_stored_numbers_pass_and_altered_ones_fail(
    name: str, table: str, column: str, factor: float
) -> None:
    claim: Claim = importlib.import_module(f"lab.claims.{name}.claim").CLAIM
    tables = read_tables(folder_of(claim) / Scale.FULL)
    assert is_as_expected(claim, tables)
    assert not is_as_expected(claim, changed(tables, table, column, factor))
