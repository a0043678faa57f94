"""Prior's claims run small on invented pages, and the recorded sample is read as it should."""

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from lab.change_days import ChangeDays
from lab.claim import Claim, Scale
from lab.claims.p3_prior_of_a_sample import sample
from lab.claims.p3_prior_of_a_sample.sample import sampled_periods
from lab.claims.p4_first_interval import populations
from lab.claims.p4_first_interval.populations import COSTS, RECORDED, population_rates
from lab.running import draw_claim, folder_of, run_claim
from lab.tables import read_tables
from recrawl.core._arrays import FloatArray

DAY = 86_400.0
SMALL = {
    "p1_censoring": {},
    "p2_bare_estimates": {"n_repeats": 2},
    "p3_prior_of_a_sample": {"n_pages": 200},
    "p4_first_interval": {"n_pages": 50, "n_intervals": 5},
    "p7_prior_against_chance": {"n_pages": 50, "n_histories": 100, "n_polls": 4},
}


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"lab.claims.{name}.claim")


def invented_periods() -> FloatArray:
    return 30 * np.exp(np.random.default_rng(0).standard_normal(500))


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that were never recorded, so that no data is needed."""
    monkeypatch.setattr(populations, "sampled_periods", invented_periods)
    monkeypatch.setattr(module_of("p3_prior_of_a_sample"), "sampled_periods", invented_periods)


@pytest.mark.slow_without_jit
@pytest.mark.usefixtures("invented")
@pytest.mark.parametrize("name", SMALL)
def test_a_small_run_is_measured_judged_and_drawn(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of(name)
    small = replace(module.SETTINGS[Scale.QUICK], **SMALL[name])
    monkeypatch.setitem(module.SETTINGS, Scale.QUICK, small)
    claim: Claim = replace(module.CLAIM, needs=())
    report = run_claim(claim, Scale.QUICK, tmp_path)
    assert bool(report.checks) == (claim.judge is not None)
    figures = draw_claim(claim, read_tables(tmp_path))
    assert all(svg.count("<svg") == 1 for svg in figures.values())


@pytest.mark.parametrize("name", SMALL)
def test_the_kept_numbers_are_as_the_report_says(name: str) -> None:
    claim: Claim = module_of(name).CLAIM
    tables = read_tables(folder_of(claim) / Scale.FULL)
    checks = claim.judge(tables) if claim.judge else ()
    assert all(check.holds for check in checks) == (not claim.fails_because)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three pages: changed every second day, every day, and too seldom."""
    days = [np.arange(0, 100, 2), np.arange(100), np.arange(0, 100, 10)]
    traces = ChangeDays(
        kinds=("docs",),
        kind=np.zeros(3, np.int64),
        n_days=np.full(3, 100),
        page=np.repeat(np.arange(3), [day.size for day in days]),
        day=np.concatenate(days),
    )
    monkeypatch.setattr(sample, "trace_days", lambda: traces)
    sampled_periods.cache_clear()
    yield
    sampled_periods.cache_clear()


@pytest.mark.usefixtures("recorded")
def test_a_page_is_watched_until_its_twenty_fifth_change() -> None:
    # 25 of the first 49 daily polls found a change: e^-λ = 24/49.
    assert sampled_periods() == pytest.approx([1 / np.log(49 / 24)])


@pytest.mark.usefixtures("invented")
@pytest.mark.parametrize("name", [RECORDED, COSTS])
def test_two_samples_of_a_population_are_alike_and_share_no_page(name: str) -> None:
    first = population_rates(name, 200)
    second = population_rates(name, 200, is_second=True)
    assert first.size == second.size == 200
    assert np.median(first) == pytest.approx(np.median(second), rel=0.3)
    assert name == COSTS or not np.isin(first, second).any()


def test_costs_population_ends_at_a_hundred_days() -> None:
    periods = 1 / (population_rates(COSTS, 1_000) * DAY)
    assert 95 < periods.max() <= 100
