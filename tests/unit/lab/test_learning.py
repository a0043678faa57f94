"""Learning measured: webs, levels, runs that go on, and what is made of their numbers."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from lab.claim import Scale
from lab.learning.drawing import learning_figures
from lab.learning.levels import LEVELS, WEBS
from lab.learning.page import PAGE, learning_markdown
from lab.learning.plan import EDGES, PLANS, RESULTS, Plan, Series, measure
from lab.learning.run import learning, tables_of
from lab.learning.summary import (
    REFERENCES,
    STEPS,
    checks,
    freshness,
    ratios,
    series_of,
    steps_table,
    summary_table,
)
from lab.running import FIGURES
from lab.tables import Table, read_tables
from recrawl.sim import simulate

pytestmark = pytest.mark.slow

HOUR = 3_600.0


def a_series(web: str, levels: tuple[str, ...], hours: int = 100) -> Series:
    return Series(web=web, fetches_per_hour=2, fetches_per_pick=2, hours=hours, levels=levels)


def runs_of(shares: dict[str, list[list[float]]]) -> Table:
    """Return runs of 400 hours on plain webs, by level: for each web the share in each part."""
    rows = []
    for level, webs in shares.items():
        for seed, parts in enumerate(webs):
            row: dict[str, str | float | int] = {
                "web": "plain",
                "fetches_per_hour": 2,
                "fetches_per_pick": 2,
                "hours": 400,
                "level": level,
                "seed": seed,
                "fetches": 800,
            }
            padded = [*parts, *[np.nan] * (len(EDGES) - 1 - len(parts))]
            row |= {f"until_{edge}_h": x for edge, x in zip(EDGES[1:], padded, strict=True)}
            rows.append(row)
    return Table.of(rows)


def test_every_level_and_web_of_the_plans_exists() -> None:
    for plan in PLANS.values():
        for series in plan.series:
            assert series.web in WEBS
            assert set(series.levels) <= set(LEVELS)
            assert series.hours in EDGES
            assert 3 * series.hours // 4 in EDGES


def test_the_full_plan_has_every_step() -> None:
    levels = [set(series.levels) for series in PLANS[Scale.FULL].series]
    for step in STEPS:
        assert any({step.level, step.against} <= run for run in levels), step


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_spends_its_budget(level: str) -> None:
    web = WEBS["signalled"].make(0, 20 * HOUR)
    account = simulate(web, LEVELS[level].make(web), 2 / HOUR)
    assert account.n_fetches == 40


@pytest.mark.parametrize("kind", ["silenced", "lying"])
def test_every_second_host_changes_its_signals_after_a_quarter(kind: str) -> None:
    honest = WEBS["signalled"].make(3, 1_000 * HOUR)
    web = WEBS[kind].make(3, 1_000 * HOUR)
    assert np.array_equal(web.changes.at, honest.changes.at)

    def counts(of: object, late: bool, turning: bool) -> int:
        signals = of.signals  # type: ignore[attr-defined]
        is_late = signals.at >= 250 * HOUR
        turns = honest.group[signals.pages()] % 2 == 0
        return int(np.count_nonzero((is_late == late) & (turns == turning)))

    for late, turning in ((False, False), (False, True), (True, False)):
        assert counts(web, late, turning) == counts(honest, late, turning)
    before, after = counts(honest, True, True), counts(web, True, True)
    if kind == "silenced":
        assert after == 0
    else:  # 1 + 10 of each, a Poisson number of which 5 standard deviations are allowed
        assert abs(after - 11 * before) < 5 * np.sqrt(110 * before)
    for page in range(web.n_pages):
        rows = slice(web.signals.offsets[page], web.signals.offsets[page + 1])
        assert (np.diff(web.signals.at[rows]) >= 0).all()


def test_a_shard_with_known_precisions_gets_the_true_ones() -> None:
    web = WEBS["signalled"].make(0, 20 * HOUR)
    policy = LEVELS["signals told"].make(web)
    simulate(web, policy, 1 / HOUR)
    sources = policy.shard.tables.sources  # type: ignore[attr-defined]
    for group in np.unique(web.group):
        page = int(np.flatnonzero(web.group == group)[0])
        true_rate = web.recall[page, 0] * web.change_rate[page]
        rate = true_rate + web.false_rate[page, 0]
        if rate > 0:
            assert sources.given_precision[8 * group] == pytest.approx(true_rate / rate, rel=1e-5)


def test_a_fixed_prior_stays_and_a_learned_one_changes() -> None:
    web = WEBS["plain"].make(0, 100 * HOUR)
    fixed, pooled = LEVELS["averaged"].make(web), LEVELS["averaged, pooled"].make(web)
    for policy in (fixed, pooled):
        simulate(web, policy, 2 / HOUR)
    priors = [float(p.shard.tables.priors.seconds[0]) for p in (fixed, pooled)]  # type: ignore[attr-defined]
    assert priors[0] == pytest.approx(0.5 * 50 * 86_400, rel=1e-6)
    assert priors[1] < 0.5 * priors[0]


def test_freshness_of_a_window_is_that_of_the_account(tmp_path: Path) -> None:
    plan = Plan(n_webs=1, series=(a_series("plain", ("oracle",), 400),))
    list(measure(plan, tmp_path))
    runs = read_tables(tmp_path)["runs"]
    web = WEBS["plain"].make(0, 400 * HOUR)
    account = simulate(web, LEVELS["oracle"].make(web), 2 / HOUR, n_per_pick=2, n_parts=4)
    (series,) = series_of(runs)
    whole = freshness(runs, series, "oracle", (0, 400))
    assert whole[0] == pytest.approx(account.freshness, abs=1e-5)
    late = freshness(runs, series, "oracle", (300, 400))
    assert late[0] == pytest.approx(account.part(3).freshness, abs=1e-5)


def test_interrupted_runs_are_continued(tmp_path: Path) -> None:
    short = Plan(n_webs=1, series=(a_series("plain", ("oracle",)),))
    list(measure(short, tmp_path))
    path = tmp_path / "runs.csv"
    path.write_text(path.read_text().replace(",200,", ",199,"))  # so that it is known again
    long = Plan(n_webs=2, series=short.series)
    list(measure(long, tmp_path, resume=True))
    assert read_tables(tmp_path)["runs"].texts("fetches") == ["199", "200"]
    list(measure(long, tmp_path))
    assert read_tables(tmp_path)["runs"].texts("fetches") == ["200", "200"]


def test_gains_are_paired_by_web() -> None:
    runs = runs_of(
        {
            "plug-in": [[0.2] * 4, [0.5] * 4, [0.8] * 4],
            "averaged": [[0.21] * 4, [0.51] * 4, [0.81] * 3 + [0.82]],
        }
    )
    steps = steps_table(runs).where(step="averaged instead of plug-in, fixed prior")
    assert steps.value("late_points") == pytest.approx(4 / 3, abs=1e-4)
    assert steps.value("first_points") == pytest.approx(13 / 12, abs=1e-4)
    # Student's 97.5 % quantile with two degrees of freedom is 4.3027; the error is 1/3.
    assert steps.value("late_high") == pytest.approx(4 / 3 + 4.3027 / 3, abs=1e-3)


def test_ratios_are_to_the_oracle_of_the_same_web() -> None:
    runs = runs_of({"oracle": [[0.5] * 4, [0.8] * 4], "shipped": [[0.4] * 4, [0.6] * 4]})
    (series,) = series_of(runs)
    assert ratios(runs, series, "shipped", (0, 400)).tolist() == pytest.approx([0.8, 0.75])
    summary = summary_table(runs)
    assert summary.value("first_ratio", level="shipped") == pytest.approx(0.775)


def test_a_table_far_from_a_reference_is_reported() -> None:
    found = read_tables(RESULTS)["runs"]
    worse = [
        tuple(
            str(0.95 * float(text)) if name.startswith("until") and text else text
            for name, text in zip(found.names, row, strict=True)
        )
        if "shipped" in row
        else row
        for row in found.rows
    ]
    assert all(check.holds for check in checks(found))
    assert not any(check.holds for check in checks(Table(found.names, tuple(worse))))


def test_the_full_results_are_compared_with_all_references() -> None:
    assert len(checks(read_tables(RESULTS)["runs"])) == len(REFERENCES)


@pytest.mark.slow_without_jit
def test_the_shard_reaches_its_earlier_freshness_at_two_fetches_an_hour(tmp_path: Path) -> None:
    """Of one web, within 4 standard deviations of webs: fails 1 in 16 000 by chance."""
    plan = Plan(n_webs=1, series=(a_series("plain", ("oracle", "shipped"), 2_000),))
    list(measure(plan, tmp_path))
    (check,) = checks(read_tables(tmp_path)["runs"], read_tables(RESULTS)["runs"])
    assert check.holds, check


def test_the_page_and_its_figures_are_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == learning_markdown()
    for name, svg in learning_figures(read_tables(RESULTS)).items():
        # Digits of a picture depend on fonts and libraries; that it is of these numbers does not.
        kept = (FIGURES / name).read_text(encoding="utf-8")
        assert kept.splitlines()[0] == svg.splitlines()[0]


def test_stored_results_follow_from_the_stored_runs() -> None:
    kept = read_tables(RESULTS)
    for name, table in tables_of(kept["runs"]).items():
        assert table.names == kept[name].names
        assert table.rows == kept[name].rows, name


def test_a_sentence_that_contradicts_the_numbers_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = read_tables(RESULTS)
    steps = kept["steps"]
    names = [name for name in steps.names if name.endswith(("_points", "_low", "_high"))]
    flipped = [
        tuple(
            str(-float(text)) if name in names else text
            for name, text in zip(steps.names, row, strict=True)
        )
        for row in steps.rows
    ]
    kept["steps"] = Table(steps.names, tuple(flipped))
    monkeypatch.setattr("lab.learning.page.read_tables", lambda _: kept)
    with pytest.raises(ValueError, match="is no longer"):
        learning_markdown()


def test_the_command_prints_its_help() -> None:
    shown = CliRunner().invoke(learning, ["--help"])
    assert shown.exit_code == 0
    assert "--resume" in shown.output
