"""Backtests: replay the history of a crawl under recrawl and under other policies."""

import warnings
from typing import TYPE_CHECKING, Any

from recrawl.backtest.backtesting import Backtest, run_backtest
from recrawl.backtest.comparison import Comparison, FreshnessLevel, LoggedResult, compare_policies
from recrawl.backtest.history import History, history_of
from recrawl.backtest.policy_runs import OURS, Point, Rule, budgets_for, rules_in_use
from recrawl.backtest.replay import Replay, replay_of
from recrawl.backtest.report import backtest_html, curves_svg, headline, simulation_html
from recrawl.backtest.savings import Estimate
from recrawl.backtest.support import Support, SupportFinding, support_of
from recrawl.backtest.web_file import DescribedWeb, web_of_beliefs, web_of_toml

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

# Names of recrawl 0.1.0, deprecated since 0.2; 0.4 removes them.
_RENAMED = {
    "Finding": "SupportFinding",
    "Level": "FreshnessLevel",
    "Logged": "LoggedResult",
    "backtested": "run_backtest",
    "compared": "compare_policies",
}

# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return the value of a deprecated name, with a warning."""
        if name not in _RENAMED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(
            f"recrawl.backtest.{name} is deprecated since 0.2 and will be removed in 0.4; "
            f"use recrawl.backtest.{_RENAMED[name]}",
            DeprecationWarning,
            stacklevel=2,
        )
        return globals()[_RENAMED[name]]
