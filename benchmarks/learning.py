"""Compare freshness from a cold start with that of an oracle that knows every rate.

Pages with unknown log-normal change rates and Zipf importance are fetched one at a time, always
the page of greatest value.  All policies see the same changes and signals.  There are two kinds of
webs: without signals (500 pages), and with signals of unknown quality (300 pages on 15 hosts).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma

from recrawl.core.belief.gamma import after_change_of
from recrawl.core.kernel import kernel
from recrawl.core.signal_quality.learning import precision_after_change_of
from recrawl.core.value.averaged import averaged_noisy_value_of, averaged_value_of
from recrawl.core.value.no_signals import crawl_value_of
from recrawl.core.value.noisy import value_and_interval_of
from recrawl.sim import Times

__all__ = [
    "ORACLE",
    "measure",
    "run_without_signals",
    "signal_web",
    "with_signals",
    "without_signals",
]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

ORACLE, PLUG_IN, AVERAGED, GRID = range(4)
BLIND, COUNTER, EFFECTIVE = range(4, 7)
_N_NODES = 16


def poisson_times(rates: Floats, horizon: float, rng: np.random.Generator) -> Times:
    """Draw the instants of independent Poisson processes up to the horizon; times are in hours."""
    page = np.repeat(np.arange(rates.size), rng.poisson(rates * horizon))
    return Times.from_rows(page, rng.uniform(0, horizon, page.size), rates.size)


@kernel
def _first_after(times: Times, page: int, cursor: Counts, instant: float) -> float:
    """Return the page's first instant after ``instant``, moving its cursor there."""
    while cursor[page] < times.offsets[page + 1] and times.at[cursor[page]] <= instant:
        cursor[page] += 1
    return times.at[cursor[page]] if cursor[page] < times.offsets[page + 1] else math.inf


@kernel
def run_without_signals(
    policy: int,
    fetch_rate: float,
    horizon: float,
    change_rate: Floats,
    importance: Floats,
    changes: Times,
    prior: tuple[float, float],
    grid: Floats,
    grid_prior: Floats,
    bonus: float,
) -> tuple[float, float]:
    """Return the weighted freshness over the whole run and over its second half."""
    n_pages = change_rate.size
    last = np.zeros(n_pages)
    cursor = changes.offsets[:-1].copy()
    stale_at = np.empty(n_pages)
    shape = np.full(n_pages, prior[0])
    hours = np.full(n_pages, prior[1])
    log_weight = np.empty((n_pages, grid.size))
    probability = np.empty((n_pages, grid.size))
    for page in range(n_pages):
        stale_at[page] = _first_after(changes, page, cursor, 0.0)
        log_weight[page] = grid_prior
        probability[page] = np.exp(grid_prior) / np.exp(grid_prior).sum()
    fresh = np.zeros(2)
    total = np.zeros(2)
    n_fetches = int(horizon * fetch_rate)
    for fetch in range(n_fetches + n_pages):
        is_last = fetch >= n_fetches  # at the end every page is accounted for once more
        now = (fetch + 1) / fetch_rate if not is_last else horizon
        page = fetch - n_fetches
        if not is_last:
            best = -1.0
            for i in range(n_pages):
                elapsed = now - last[i]
                if policy == ORACLE:
                    value = crawl_value_of(change_rate[i], elapsed)
                elif policy == PLUG_IN:
                    value = crawl_value_of(shape[i] / hours[i], elapsed)
                elif policy == AVERAGED:
                    value = averaged_value_of(shape[i], hours[i], elapsed) * (1 + bonus / shape[i])
                else:
                    value = 0.0
                    for k in range(grid.size):
                        if probability[i, k] > 1e-6:
                            value += probability[i, k] * crawl_value_of(grid[k], elapsed)
                if importance[i] * value > best:
                    best = importance[i] * value
                    page = i
        elapsed = now - last[page]
        for half in range(2):
            start = max(last[page], 0.5 * horizon * half)
            if now > start:
                total[half] += importance[page] * (now - start)
                fresh[half] += importance[page] * max(0.0, min(stale_at[page], now) - start)
        changed = stale_at[page] <= now
        if changed:
            stale_at[page] = _first_after(changes, page, cursor, now)
            shape[page], hours[page] = after_change_of(shape[page], hours[page], elapsed, 1.0)
        else:
            hours[page] += elapsed
        if policy == GRID:
            for k in range(grid.size):
                if changed:
                    log_weight[page, k] += math.log(-math.expm1(-grid[k] * elapsed))
                else:
                    log_weight[page, k] -= grid[k] * elapsed
            weight = np.exp(log_weight[page] - log_weight[page].max())
            probability[page] = weight / weight.sum()
        last[page] = now
    return fresh[0] / total[0], fresh[1] / total[1]


def without_signals(n_webs: int, horizon_share: float = 1.0) -> list[dict[str, float]]:
    """Return mean freshness per policy, for three budgets."""
    rng = np.random.default_rng(0)
    n_pages = 500
    sample = np.clip(np.exp(rng.normal(np.log(0.01), 1.8, 200_000)), 1 / 15_000, 3.0)
    gap = np.log(sample.mean()) - np.log(sample).mean()
    shape = brentq(lambda a: np.log(a) - digamma(a) - gap, 1e-3, 50)
    prior = (shape, shape / sample.mean())
    grid = np.geomspace(1 / 20_000, 4.0, 32)
    grid_prior = -0.5 * ((np.log(grid) - np.log(0.01)) / 1.8) ** 2
    policies = {
        "oracle": (ORACLE, 0.0),
        "plug-in posterior mean": (PLUG_IN, 0.0),
        "averaged over belief": (AVERAGED, 0.0),
        "averaged, learning bonus 1": (AVERAGED, 1.0),
        "32-point grid, averaged": (GRID, 0.0),
    }
    rows = []
    for budget, whole_horizon in ((5.0, 2000.0), (20.0, 2000.0), (2.0, 8000.0)):
        horizon = whole_horizon * horizon_share
        results: dict[str, list[tuple[float, float]]] = {name: [] for name in policies}
        for web in range(n_webs):
            rates = np.clip(np.exp(rng.normal(np.log(0.01), 1.8, n_pages)), 1 / 15_000, 3.0)
            importance = 1 / np.arange(1, n_pages + 1) ** 0.8
            rng.shuffle(importance)
            changes = poisson_times(rates, horizon, np.random.default_rng((web, int(budget))))
            for name, (policy, bonus) in policies.items():
                results[name].append(
                    run_without_signals(
                        policy,
                        budget,
                        horizon,
                        rates,
                        importance,
                        changes,
                        prior,
                        grid,
                        grid_prior,
                        bonus,
                    )
                )
        rows.append(_summary(budget, horizon, results))
    return rows


def _summary(
    budget: float, horizon: float, results: dict[str, list[tuple[float, float]]]
) -> dict[str, float]:
    row = {"fetches_per_hour": budget, "horizon_hours": horizon}
    for name, runs in results.items():
        row[name] = round(float(np.mean([whole for whole, _ in runs])), 4)
        row[name + ", second half"] = round(float(np.mean([half for _, half in runs])), 4)
    return row


class SignalWeb(NamedTuple):
    """A web whose hosts send signals of different quality; rates are per hour."""

    change_rate: Floats
    importance: Floats
    host: Counts
    recall: Floats
    precision: Floats
    changes: Times
    signals: Times


def signal_web(seed: int, horizon: float, n_pages: int = 300, n_hosts: int = 15) -> SignalWeb:
    """Draw a web: 70 % of hosts signal, with recall .2 to .98 and precision .1 to .95."""
    rng = np.random.default_rng(seed)
    change_rate = np.clip(np.exp(rng.normal(np.log(0.01), 1.8, n_pages)), 1e-5, 4)
    importance = np.arange(1.0, n_pages + 1) ** -0.8
    host = rng.integers(0, n_hosts, n_pages)
    recall = rng.uniform(0.2, 1, n_hosts) * (rng.random(n_hosts) < 0.7)
    recall = np.minimum(recall, 0.98)
    precision = rng.uniform(0.1, 0.95, n_hosts)
    draws = np.random.default_rng((seed, 1))
    changes = poisson_times(change_rate, horizon, draws)
    page = changes.pages()
    announced = draws.random(page.size) < recall[host[page]]
    true_rate = recall[host] * change_rate
    false = poisson_times(true_rate * (1 / precision[host] - 1), horizon, draws)
    all_page = np.concatenate([page[announced], false.pages()])
    all_at = np.concatenate([changes.at[announced], false.at])
    signals = Times.from_rows(all_page, all_at, n_pages)
    return SignalWeb(change_rate, importance, host, recall, precision, changes, signals)


@kernel
def run_with_signals(
    policy: int, fetch_rate: float, horizon: float, web: SignalWeb, prior: tuple[float, float]
) -> tuple[float, float, float]:
    """Return freshness over the run and its second half, and the mean error of precision."""
    n_pages = web.change_rate.size
    n_hosts = web.recall.size
    last = np.zeros(n_pages)
    change_cursor = web.changes.offsets[:-1].copy()
    signal_cursor = web.signals.offsets[:-1].copy()
    stale_at = np.empty(n_pages)
    for page in range(n_pages):
        stale_at[page] = _first_after(web.changes, page, change_cursor, 0.0)
    shape = np.full(n_pages, prior[0])
    hours = np.full(n_pages, prior[1])
    n_new = np.zeros(n_pages)  # signals since the last fetch
    n_ever = np.zeros(n_pages)
    true = np.full(n_hosts, 1.0)
    heard = np.full(n_hosts, 2.0)
    fresh = np.zeros(2)
    total = np.zeros(2)
    n_fetches = int(horizon * fetch_rate)
    for fetch in range(n_fetches + n_pages):
        is_last = fetch >= n_fetches
        now = (fetch + 1) / fetch_rate if not is_last else horizon
        page = fetch - n_fetches
        if not is_last:
            best = -1.0
            for i in range(n_pages):
                while (
                    signal_cursor[i] < web.signals.offsets[i + 1]
                    and web.signals.at[signal_cursor[i]] <= now
                ):
                    signal_cursor[i] += 1
                    n_new[i] += 1
                    n_ever[i] += 1
                h = web.host[i]
                elapsed = now - last[i]
                if policy == ORACLE:
                    alpha = (1 - web.recall[h]) * web.change_rate[i]
                    gamma = web.recall[h] * web.change_rate[i] / web.precision[h]
                    exponent = alpha * elapsed
                    if n_new[i] > 0:
                        exponent -= n_new[i] * math.log1p(-web.precision[h])
                    value = value_and_interval_of(alpha, gamma, web.precision[h], exponent)[0]
                elif policy == BLIND:
                    value = averaged_value_of(shape[i], hours[i], elapsed)
                else:
                    precision = true[h] / heard[h]
                    if n_ever[i] == 0 and heard[h] <= 2.0:
                        precision = 0.0
                    gamma = (n_ever[i] + 0.02) / (now + 24.0)
                    value = _learned_value(
                        policy,
                        shape[i],
                        hours[i],
                        gamma,
                        precision,
                        elapsed,
                        n_new[i],
                        best / web.importance[i],
                    )
                if web.importance[i] * value > best:
                    best = web.importance[i] * value
                    page = i
        elapsed = now - last[page]
        for half in range(2):
            start = max(last[page], 0.5 * horizon * half)
            if now > start:
                total[half] += web.importance[page] * (now - start)
                fresh[half] += web.importance[page] * max(0.0, min(stale_at[page], now) - start)
        h = web.host[page]
        changed = stale_at[page] <= now
        if changed:
            stale_at[page] = _first_after(web.changes, page, change_cursor, now)
            precision = true[h] / heard[h]
            false_chance = (1 - precision) ** n_new[page] if policy != BLIND else 1.0
            if n_new[page] > 0:
                log_freshness = -shape[page] * math.log1p(elapsed / hours[page])
                true[h], heard[h] = precision_after_change_of(
                    true[h], heard[h], n_new[page], log_freshness
                )
            shape[page], hours[page] = after_change_of(
                shape[page], hours[page], elapsed, false_chance
            )
        else:
            hours[page] += elapsed
            heard[h] += n_new[page]
        n_new[page] = 0
        last[page] = now
    error = 0.0
    for h in range(n_hosts):
        error += abs(true[h] / heard[h] - web.precision[h]) * (web.recall[h] > 0)
    return fresh[0] / total[0], fresh[1] / total[1], error / (web.recall > 0).sum()


@kernel
def _learned_value(
    policy: int,
    shape: float,
    hours: float,
    gamma: float,
    precision: float,
    elapsed: float,
    n_signals: float,
    needed: float,
) -> float:
    """Return the learned value of a page, or an upper bound that is at most ``needed``."""
    if policy == PLUG_IN:
        alpha = shape / hours
        exponent = alpha * elapsed - n_signals * math.log1p(-precision)
        return value_and_interval_of(alpha, gamma, precision, exponent)[0]
    effective = elapsed
    if n_signals > 0:
        # The same as applying `elapsed_after_signal` n_signals times.
        growth = math.expm1(min(-n_signals * math.log1p(-precision) / shape, 60.0))
        effective = min(elapsed + (hours + elapsed) * growth, 1e9 * hours)
    bound = averaged_value_of(shape, hours, effective)
    if policy == EFFECTIVE:
        if bound <= needed or precision <= 0.0:
            return bound
        return averaged_noisy_value_of(shape, hours, gamma, precision, effective, _N_NODES)[0]
    if n_signals == 0:
        if bound <= needed or precision <= 0.0:
            return bound
        return averaged_noisy_value_of(shape, hours, gamma, precision, elapsed, _N_NODES)[0]
    return _counter_value(shape, hours, gamma, precision, elapsed, n_signals)


@kernel
def _counter_value(
    shape: float, hours: float, gamma: float, precision: float, elapsed: float, n_signals: float
) -> float:
    """Average V_α(t + β_α n) over the belief, which needs the number of signals."""
    low = math.log(shape + 1) - 16 / (shape + 1) - 2.0
    high = math.log(shape + 6 * math.sqrt(shape) + 8)
    step = (high - low) / 40
    total = 0.0
    for k in range(41):
        z = low + k * step
        alpha = math.exp(z) / hours
        exponent = alpha * elapsed - n_signals * math.log1p(-precision)
        weight = math.exp(shape * z - alpha * hours - math.lgamma(shape)) * step
        total += weight * value_and_interval_of(alpha, gamma, precision, exponent)[0]
    return total


def with_signals(n_webs: int, horizon_share: float = 1.0) -> list[dict[str, float]]:
    """Return freshness per policy and web, for budgets of 3 and 10 fetches an hour."""
    policies = {
        "oracle": ORACLE,
        "learned, ignoring signals": BLIND,
        "learned, plug-in": PLUG_IN,
        "learned, averaged, signals counted": COUNTER,
        "learned, averaged, effective time": EFFECTIVE,
    }
    rows = []
    for budget, horizon, webs in ((3.0, 2000.0, n_webs), (10.0, 1000.0, 1)):
        for seed in range(webs):
            web = signal_web(seed, horizon * horizon_share)
            prior = (0.35, 0.35 / float(web.change_rate.mean()))
            row: dict[str, float] = {
                "fetches_per_hour": budget,
                "horizon_hours": horizon * horizon_share,
                "web": seed,
            }
            for name, policy in policies.items():
                whole, half, error = run_with_signals(
                    policy, budget, horizon * horizon_share, web, prior
                )
                row[name] = round(whole, 4)
                row[name + ", second half"] = round(half, 4)
                if policy == EFFECTIVE:
                    row["mean error of precision"] = round(error, 3)
            rows.append(row)
    return rows


def measure(n_webs: int, horizon_share: float = 1.0) -> dict[str, object]:
    """Measure all policies on both kinds of webs."""
    return {
        "without_signals": without_signals(n_webs, horizon_share),
        "with_signals": with_signals(n_webs, horizon_share),
    }
