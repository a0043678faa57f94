"""Backtests and simulations of small webs, from the log to the report."""

import re

import numpy as np
import pytest

from recrawl.backtest import (
    OURS,
    Backtest,
    Rule,
    backtest_html,
    compare_policies,
    headline,
    history_of,
    rules_in_use,
    run_backtest,
    simulation_html,
    web_of_beliefs,
    web_of_toml,
)
from recrawl.errors import WebFileError
from recrawl.sim import FixedInterval, Uniform, make_web
from tests.reference.backtest_logs import DAY, polled_log

pytestmark = [pytest.mark.slow, pytest.mark.slow_without_jit]
RULES = (
    Rule(name="fixed interval", variants=(FixedInterval(),)),
    *(rule for rule in rules_in_use() if rule.name == "StormCrawler adaptive"),
)


@pytest.fixture(scope="module")
def backtest() -> Backtest:
    rng = np.random.default_rng(4)
    web = make_web(4, 120 * DAY, rng.gamma(0.4, 0.5, 150) / DAY, group=np.arange(150) % 50)
    shares: list[float] = []
    found = run_backtest(
        history_of(polled_log(web, DAY)),
        rules=RULES,
        policies=[("in turn", lambda _: Uniform())],
        progress=lambda _, share: shares.append(share),
    )
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    return found


def test_all_policies_have_curves_and_recrawl_saves_on_unlike_pages(backtest: Backtest) -> None:
    comparison = backtest.comparison
    assert comparison is not None
    names = [curves.name for curves in comparison.curves]
    assert names == [OURS, "fixed interval", "StormCrawler adaptive", "in turn"]
    level = comparison.main_level
    assert level is not None
    assert level.savings["fixed interval"].low > 0
    assert level.savings["fixed interval"].low < level.savings["fixed interval"].value


def test_a_user_policy_that_fetches_in_turn_needs_as_much_as_the_fixed_interval(
    backtest: Backtest,
) -> None:
    assert backtest.comparison is not None
    level = backtest.comparison.main_level
    assert level is not None
    fixed, turns = (level.n_fetches[name].value for name in ("fixed interval", "in turn"))
    assert turns == pytest.approx(fixed, rel=0.1)


def test_savings_against_the_fetches_of_the_log_are_known(backtest: Backtest) -> None:
    assert backtest.comparison is not None
    own = backtest.comparison.logged
    assert own is not None
    assert own.n_fetches == pytest.approx(150 * 119, rel=0.02)
    assert own.savings.is_known
    assert 0 < own.savings.low < own.savings.value < own.savings.high < 1


def test_the_report_is_one_page_that_loads_no_other_file(backtest: Backtest) -> None:
    page = backtest_html(backtest, name="<log>", command="recrawl backtest log", version="1")
    assert page.startswith("<!doctype html>")
    assert "Backtest of &lt;log&gt;" in page
    assert not re.search(r'(src|href)="(?!#)', page)
    assert "<script" not in page
    assert page.count("<svg") >= 3
    for heading in ("Savings", "Some pages", "About the log", "Method and limits"):
        assert f"<h2>{heading}</h2>" in page
    words = page.replace("&#x27;", "'").replace("\N{NO-BREAK SPACE}", " ")
    assert headline(backtest.comparison).split("  ")[0] in words  # type: ignore[arg-type]


def test_a_log_too_small_gives_no_comparison_and_a_page_with_the_reason() -> None:
    web = make_web(4, 20 * DAY, np.full(6, 0.1 / DAY))
    found = run_backtest(history_of(polled_log(web, DAY)), rules=RULES)
    assert found.comparison is None
    assert "Only 6 pages" in backtest_html(found, name="log")


def test_savings_on_a_web_without_changes_are_unknown() -> None:
    web = make_web(0, 10 * DAY, np.zeros(30))
    found = compare_policies(web, np.zeros(30), rules=RULES, n_draws=10)
    assert "savings are unknown" in headline(found)
    assert "no common freshness" in simulation_html(found, name="x", about="still")


def test_a_described_web_is_simulated() -> None:
    described = web_of_toml("days = 60\n[[kind]]\npages = 60\nchanges_per_day = 0.3\nhosts = 6\n")
    found = compare_policies(described.web, described.web.change_rate, rules=RULES, n_draws=20)
    page = simulation_html(found, name="web.toml", about=described.about)
    assert "Simulation of web.toml" in page
    assert described.web.group.max() == 5


@pytest.mark.parametrize("preset", ["papers", "realistic", "signals"])
def test_each_preset_makes_a_web(preset: str) -> None:
    assert web_of_toml(f'preset = "{preset}"\npages = 40\ndays = 5').web.n_pages == 40


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("days = ", "not valid TOML"),
        ("days = 3", "1 to 64 kinds"),
        ('days = "x"\n[[kind]]', "days must be a number"),
        ("dais = 3", "has no key 'dais'"),
        ("[[kind]]\nspead = 1", "has no key 'spead'"),
        ("kind = 3", "must be tables"),
        ("[[kind]]\npages = 0", "pages must be a number"),
        ("[[kind]]\nimportance = 0", "importance must be above 0"),
        ('preset = "x"', "preset must be one of"),
        ('preset = "papers"\n[[kind]]', "not both"),
        ("[[kind]]\npages = true", "pages must be a number"),
        ("days = 30\n[[kind]]\nchanges_per_day = 10000\nspread = 5", "20,000,000 changes"),
    ],
)
def test_an_invalid_web_file_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(WebFileError, match=reason):
        web_of_toml(text)


def test_a_web_of_beliefs_has_the_mean_rate_of_the_beliefs() -> None:
    n = 4_000
    described = web_of_beliefs(
        np.full(n, 4.0),
        np.full(n, 8.0 * DAY),
        days=10,
        importance=np.ones(n),
        group=np.arange(n) // 10,
    )
    # 20,000 changes are expected, with a standard error of 215 from the spread of the rates.
    assert described.web.changes.at.size == pytest.approx(20_000, abs=860)
