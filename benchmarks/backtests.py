"""Check how often the intervals of backtests cover the truth, on webs that are known.

All webs are drawn from one distribution.  A crawler fetches all pages of a web at equal intervals,
and a backtest sees only its log.  The truth is what the same policies save on the webs themselves,
taken together.  An interval at level .95 should cover it 19 times in 20; at least 9 in 10 are
required.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from recrawl.backtest import Estimate, Point, Rule, compare_policies, history_of, replay_of
from recrawl.backtest.policy_runs import PolicyRuns, run_ours, run_rule
from recrawl.backtest.replay import logged_account
from recrawl.backtest.savings import Curves, curves_of, fetches_for
from recrawl.core.arrays import FloatArray
from recrawl.sim import Bookkeeper, FixedInterval, StormCrawler, Web, make_web
from tests.reference.backtest_logs import DAY, polled_log

N_PAGES, N_DAYS, GAP_SECONDS = 120, 80.0, DAY
RULES = (
    Rule(name="fixed interval", variants=(FixedInterval(),)),
    Rule(name="StormCrawler adaptive", variants=(StormCrawler(),)),
)
LEVELS = (0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Number of intervals that cover the truth."""

    what: str
    truth: float
    n_runs: int
    n_covered: int
    n_below: int
    """Number of intervals that lie below the truth."""
    n_above: int
    """Number of intervals that lie above the truth."""
    n_unknown: int
    """Number of runs without an estimate."""
    mean: float
    mean_width: float


@dataclass(frozen=True, slots=True, eq=False)
class _WebRun:
    """Estimates from the log of one web, and the runs on the web itself."""

    estimates: dict[str, Estimate]
    ours: PolicyRuns
    logged: Point


def web_of(seed: int) -> Web:
    """Draw a web: pages with Poisson changes at different rates, four to a host."""
    rng = np.random.default_rng(seed)
    rate = rng.gamma(0.5, 0.1, N_PAGES) / DAY
    return make_web(seed, N_DAYS * DAY, rate, group=np.arange(N_PAGES) // 4)


def _budgets() -> FloatArray:
    return np.geomspace(1.2, 24.0, 5) * N_PAGES / (N_DAYS * DAY)


def _estimate_name(level: float, rule: str) -> str:
    return f"{level:.0%} against {rule}"


def _point_of_log(web: Web) -> Point:
    n_polls = int(web.horizon / GAP_SECONDS) + 1
    page = np.repeat(np.arange(web.n_pages), n_polls)
    at = np.tile(np.arange(n_polls) * GAP_SECONDS, web.n_pages)
    at = at + (page % 97) * (GAP_SECONDS / 200)
    inside = (at > 0) & (at <= web.horizon)
    books = Bookkeeper(web)
    books.record(page[inside], at[inside])
    return Point.of(books.close())


def _run_web(seed: int, *, n_draws: int) -> _WebRun:
    web = web_of(seed)
    history = history_of(polled_log(web, GAP_SECONDS))
    replay = replay_of(history, seed=seed)
    account = logged_account(history, replay)
    assert account is not None
    found = compare_policies(
        replay.web,
        replay.rate_per_second,
        gap_seconds=replay.gap_seconds,
        logged=Point.of(account),
        rules=RULES,
        budgets=_budgets(),
        n_draws=n_draws,
        seed=seed,
    )
    estimates = {
        _estimate_name(level.freshness, rule): savings
        for level in found.levels
        for rule, savings in level.savings.items()
    }
    return _WebRun(estimates, run_ours(web, _budgets().tolist()), _point_of_log(web))


def _pool_webs(standings: Sequence[PolicyRuns]) -> PolicyRuns:
    """Join the runs of many webs as if they were one web."""
    points = tuple(
        Point(
            np.concatenate([point.fetches for point in each]),
            np.concatenate([point.fresh_seconds for point in each]),
        )
        for each in zip(*(standing.points for standing in standings), strict=True)
    )
    return PolicyRuns(name=standings[0].name, points=points)


def _curves(standing: PolicyRuns) -> Curves:
    n_pages = standing.points[0].fetches.size
    return curves_of(
        standing,
        importance=np.ones(n_pages),
        seconds=N_DAYS * DAY,
        draws=np.ones((1, n_pages), np.float32),
    )


def _true_savings(seeds: Sequence[int], runs: Sequence[_WebRun]) -> dict[str, float]:
    ours = _curves(_pool_webs([run.ours for run in runs]))
    # A rule treats each page by itself, so all webs can be run as one.
    rates = np.concatenate([web_of(seed).change_rate for seed in seeds])
    web = make_web(1_000_003, N_DAYS * DAY, rates)
    scale = len(seeds)
    truth = {}
    for rule in RULES:
        theirs = _curves(run_rule(web, rule, (scale * _budgets()).tolist()))
        for level in LEVELS:
            wanted = np.array([level])
            needed = fetches_for(ours, wanted)[0] / fetches_for(theirs, wanted)[0]
            truth[_estimate_name(level, rule.name)] = float(1 - needed)
    return truth


def measure(n_runs: int = 100, *, n_draws: int = 400, n_processes: int = 2) -> list[Coverage]:
    """Run many backtests and count the intervals that cover the truth."""
    seeds = list(range(n_runs))
    run = partial(_run_web, n_draws=n_draws)
    if n_processes > 1:
        with ProcessPoolExecutor(n_processes) as pool:
            runs = list(pool.map(run, seeds))
    else:
        runs = [run(seed) for seed in seeds]
    found = []
    for what, truth in _true_savings(seeds, runs).items():
        estimates = [each.estimates.get(what) for each in runs]
        known = [e for e in estimates if e is not None and e.is_known]
        low, high, value = (
            np.array([getattr(e, n) for e in known]) for n in ("low", "high", "value")
        )
        found.append(
            Coverage(
                what=what,
                truth=truth,
                n_runs=n_runs,
                n_covered=int(np.count_nonzero((low <= truth) & (truth <= high))),
                n_below=int(np.count_nonzero(high < truth)),
                n_above=int(np.count_nonzero(low > truth)),
                n_unknown=n_runs - len(known),
                mean=float(value.mean()) if known else float("nan"),
                mean_width=float((high - low).mean()) if known else float("nan"),
            )
        )
    return found
