"""Cost's and Prior's claims run small from end to end, on invented pages where they are Prior's."""

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.claim import Claim, Scale
from lab.running import draw_claim, run_claim
from lab.tables import read_tables

pytestmark = pytest.mark.slow

SMALL: dict[str, dict[str, Any]] = {
    "c1_known_rate": {"n_pages": 30, "horizon_hours": 500.0},
    "c5_cost_of_not_knowing": {"n_pages": 20, "horizon_hours": 200.0, "step": 0.3},
    "c6_when_it_is_paid": {"n_pages": 10, "horizon_hours": 2_000.0},
    "c7_known_but_suboptimal": {"n_pages": 20},
    "c8_very_stale_share": {"n_pages_short": 20, "n_pages_long": 3},
    "c9_very_stale": {"n_pages": 20, "n_pages_long": 5, "long_hours": 1_500.0},
    "p1_censoring": {},
    "p2_bare_estimates": {"n_repeats": 2},
    "p3_prior_of_a_sample": {"n_pages": 200},
    "p4_first_interval": {"n_pages": 50, "n_intervals": 5},
    "p7_prior_against_chance": {"n_pages": 50, "n_histories": 100, "n_polls": 4},
}


@pytest.mark.slow_without_jit
@pytest.mark.usefixtures("invented")
@pytest.mark.parametrize("name", SMALL)
def test_a_small_run_gives_numbers_a_verdict_and_a_figure(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"lab.claims.{name}.claim")
    small = replace(module.SETTINGS[Scale.QUICK], **SMALL[name])
    monkeypatch.setitem(module.SETTINGS, Scale.QUICK, small)
    claim: Claim = replace(module.CLAIM, needs=())
    report = run_claim(claim, Scale.QUICK, tmp_path)
    assert bool(report.checks) == (claim.judge is not None)
    figures = draw_claim(claim, read_tables(tmp_path))
    assert all(svg.count("<svg") == 1 for svg in figures.values())
