"""Backtests: replay the history of a crawl under recrawl and under other policies."""

from typing import TYPE_CHECKING

from recrawl.backtest.backtesting import Backtest, run_backtest
from recrawl.backtest.comparison import Comparison, FreshnessLevel, LoggedResult, compare_policies
from recrawl.backtest.history import History, history_of
from recrawl.backtest.policy_runs import OURS, Point, Rule, budgets_for, rules_in_use
from recrawl.backtest.replay import Replay, replay_of
from recrawl.backtest.report import backtest_html, curves_svg, headline, simulation_html
from recrawl.backtest.savings import Estimate
from recrawl.backtest.support import Support, SupportFinding, support_of
from recrawl.backtest.web_file import DescribedWeb, web_of_beliefs, web_of_toml
from recrawl.deprecated_names import find_moved_names

__all__ = [
    "OURS",
    "Backtest",
    "Comparison",
    "DescribedWeb",
    "Estimate",
    "FreshnessLevel",
    "History",
    "LoggedResult",
    "Point",
    "Replay",
    "Rule",
    "Support",
    "SupportFinding",
    "backtest_html",
    "budgets_for",
    "compare_policies",
    "curves_svg",
    "headline",
    "history_of",
    "replay_of",
    "rules_in_use",
    "run_backtest",
    "simulation_html",
    "support_of",
    "web_of_beliefs",
    "web_of_toml",
]

# Names of recrawl 0.1.0.
_MOVED = {
    "Finding": "recrawl.backtest.SupportFinding",
    "Level": "recrawl.backtest.FreshnessLevel",
    "Logged": "recrawl.backtest.LoggedResult",
    "backtested": "recrawl.backtest.run_backtest",
    "compared": "recrawl.backtest.compare_policies",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
