"""What recrawl would have saved: a crawl's history replayed under it and under its rivals."""

from recrawl.backtest.backtesting import Backtest, backtested
from recrawl.backtest.comparison import Comparison, Level, Logged, compared
from recrawl.backtest.contest import OURS, Point, Rule, budgets_for, rules_in_use
from recrawl.backtest.history import History, history_of
from recrawl.backtest.replay import Replay, replay_of
from recrawl.backtest.report import backtest_html, curves_svg, headline, simulation_html
from recrawl.backtest.savings import Estimate
from recrawl.backtest.support import Finding, Support, support_of
from recrawl.backtest.web_file import DescribedWeb, web_of_beliefs, web_of_toml

__all__ = [
    "OURS",
    "Backtest",
    "Comparison",
    "DescribedWeb",
    "Estimate",
    "Finding",
    "History",
    "Level",
    "Logged",
    "Point",
    "Replay",
    "Rule",
    "Support",
    "backtest_html",
    "backtested",
    "budgets_for",
    "compared",
    "curves_svg",
    "headline",
    "history_of",
    "replay_of",
    "rules_in_use",
    "simulation_html",
    "support_of",
    "web_of_beliefs",
    "web_of_toml",
]
