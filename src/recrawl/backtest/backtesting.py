"""Run a whole backtest in one call: replay, check and compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recrawl.backtest.comparison import Comparison, Progress, compare_policies
from recrawl.backtest.history import History
from recrawl.backtest.policy_runs import Point, Rule
from recrawl.backtest.replay import Replay, logged_account, replay_of
from recrawl.backtest.support import Support, support_of
from recrawl.sim import Policy

__all__ = ["Backtest", "run_backtest"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backtest:
    """A replayed history and, if the history is large enough, the comparison of policies."""

    history: History
    replay: Replay
    support: Support
    comparison: Comparison | None
    """None if the history is too small to compare policies on."""


def run_backtest(
    history: History,
    *,
    rules: Sequence[Rule] | None = None,
    policies: Sequence[tuple[str, Callable[[float], Policy]]] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> Backtest:
    """Replay a history under recrawl and other policies.

    Parameters
    ----------
    history
        History of a crawl, from `recrawl.backtest.history_of`.
    rules, policies
        Policies to compare with; see `recrawl.backtest.compare_policies`.
    seed
        Random seed.
    progress
        Function that receives the name of each finished run and the share of the work done.
    """
    replay = replay_of(history, seed=seed)
    support = support_of(history, replay)
    comparison = None
    if support.is_enough:
        account = logged_account(history, replay)
        comparison = compare_policies(
            replay.web,
            replay.rate_per_second,
            gap_seconds=replay.gap_seconds,
            logged=None if account is None else Point.of(account),
            rules=rules,
            policies=policies,
            seed=seed,
            progress=progress,
        )
    return Backtest(history=history, replay=replay, support=support, comparison=comparison)
