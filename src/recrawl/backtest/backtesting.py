"""From a history to what could have been saved: the whole way, in one call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recrawl.backtest.comparison import Comparison, Progress, compared
from recrawl.backtest.contest import Point, Rule
from recrawl.backtest.history import History
from recrawl.backtest.replay import Replay, logged_account, replay_of
from recrawl.backtest.support import Support, support_of
from recrawl.sim import Policy

__all__ = ["Backtest", "backtested"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backtest:
    """A history judged, and, if it is enough to judge by, what came out."""

    history: History
    replay: Replay
    support: Support
    comparison: Comparison | None
    """None where the history is too thin."""


def backtested(
    history: History,
    *,
    rules: Sequence[Rule] | None = None,
    policies: Sequence[tuple[str, Callable[[float], Policy]]] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> Backtest:
    """Replay a history under recrawl and its rivals.

    Parameters
    ----------
    history
        See `recrawl.backtest.history_of`.
    rules, policies
        Rivals; see `recrawl.backtest.compared`.
    seed
        Decides all that is drawn.
    progress
        Is told how far it is.
    """
    replay = replay_of(history, seed=seed)
    support = support_of(history, replay)
    comparison = None
    if support.is_enough:
        account = logged_account(history, replay)
        comparison = compared(
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
