"""Cost's claims run small from end to end, and their judges see what is wrong."""

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lab.claim import Claim, Scale, Tables
from lab.running import Report, draw_claim, folder_of, judged, run_claim
from lab.tables import Table, read_tables

SMALL: dict[str, dict[str, Any]] = {
    "c1_known_rate": {"n_pages": 30, "horizon_hours": 500.0},
    "c5_cost_of_not_knowing": {"n_pages": 20, "horizon_hours": 200.0, "step": 0.3},
    "c6_when_it_is_paid": {"n_pages": 10, "horizon_hours": 2_000.0},
    "c7_known_but_suboptimal": {"n_pages": 20},
    "c8_very_stale_share": {"n_pages_short": 20, "n_pages_long": 3},
    "c9_very_stale": {"n_pages": 20, "n_pages_long": 5, "long_hours": 1_500.0},
}


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"lab.claims.{name}.claim")


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("name", SMALL)
def test_a_small_run_is_measured_judged_and_drawn(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of(name)
    small = replace(module.SETTINGS[Scale.QUICK], **SMALL[name])
    monkeypatch.setitem(module.SETTINGS, Scale.QUICK, small)
    claim: Claim = module.CLAIM
    report = run_claim(claim, Scale.QUICK, tmp_path)
    assert report.checks
    figures = draw_claim(claim, read_tables(tmp_path))
    assert all(svg.count("<svg") == 1 for svg in figures.values())


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
def test_the_kept_numbers_are_as_expected_and_others_would_not_be(
    name: str, table: str, column: str, factor: float
) -> None:
    module = module_of(name)
    tables = read_tables(_full_folder(module))
    assert is_as_expected(module.CLAIM, tables)
    assert not is_as_expected(module.CLAIM, changed(tables, table, column, factor))


def _full_folder(module: ModuleType) -> Path:
    return folder_of(module.CLAIM) / Scale.FULL
