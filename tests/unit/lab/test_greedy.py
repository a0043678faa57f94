"""The fast engine fetches the very pages that a scan of all of them finds best."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from lab.greedy import (
    GreedyRun,
    Rule,
    Told,
    even_instants,
    low_discrepancy,
    run_greedy,
    run_schedule,
)
from recrawl.core.value import approximate_noisy_value, noisy_value
from recrawl.sim import SignalSource, Web, make_web, signals_paper_web

pytestmark = [pytest.mark.slow, pytest.mark.slow_without_jit]
EDGES = np.array([0.0, 3.0, 10.0])


def believed_rates(told: Told, rule: Rule) -> tuple[NDArray[np.float64], ...]:
    recall, false_rate = told.recall.copy(), told.false_rate.copy()
    if rule is Rule.GREEDY:
        recall[:] = 0.0
    if rule is Rule.CIS_PLUS:
        recall[(told.precision <= 0.7) | (recall <= 0.6)] = 0.0
    if rule in (Rule.CIS, Rule.CIS_PLUS):
        false_rate[:] = 0.0
    true_rate = recall * told.change_rate
    rate = np.where(true_rate > 0, true_rate + false_rate, 0.0)
    precision = np.divide(true_rate, rate, out=np.zeros_like(rate), where=rate > 0)
    return told.change_rate - true_rate, rate, precision


def pages_by_scan(
    web: Web, rule: Rule, fetch_at: NDArray[np.float64], told: Told, discard_within: float = 0.0
) -> NDArray[np.int64]:
    """Evaluate all pages at each instant with the public functions of core, and take the best."""
    alpha, gamma, precision = believed_rates(told, rule)
    ageing = np.where(precision < 1, -np.log1p(-np.minimum(precision, 0.9999999)), np.inf)
    last = np.zeros(web.n_pages)
    n_signals = np.zeros(web.n_pages)
    order = np.argsort(web.signals.at, kind="stable")
    arrivals = list(zip(web.signals.at[order], web.signals.pages()[order], strict=True))
    fetched = []
    for now in fetch_at:
        while arrivals and arrivals[0][0] <= now:
            at, page = arrivals.pop(0)
            if at - last[page] >= discard_within:
                n_signals[page] += 1
        n_heard = np.where(precision > 0, n_signals, 0.0)
        elapsed = now - last
        if rule in (Rule.APPROX_1, Rule.APPROX_2):
            with np.errstate(invalid="ignore"):
                effective = elapsed + np.where(n_heard > 0, n_heard * ageing / alpha, 0.0)
            n_terms = 1 if rule is Rule.APPROX_1 else 2
            value = approximate_noisy_value(alpha, gamma, precision, effective, n_terms)
        else:
            value = noisy_value(alpha, gamma, precision, elapsed, n_heard)
        page = int(np.argmax(web.importance * value))
        fetched.append(page)
        last[page] = now
        n_signals[page] = 0
    return np.array(fetched)


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize("n_pages", [5, 90, 400])
def test_the_pages_fetched_are_those_of_a_scan(rule: Rule, n_pages: int) -> None:
    web = signals_paper_web(n_pages, n_pages, horizon=10.0)
    fetch_at = even_instants(40.0, 10.0)
    run = run_greedy(web, rule, fetch_at, edges=EDGES)
    assert run.fetched.tolist() == pages_by_scan(web, rule, fetch_at, Told.truth(web)).tolist()


def test_a_policy_uses_its_given_parameters_and_not_the_true_ones() -> None:
    web = signals_paper_web(3, 300, horizon=10.0)
    truth = Told.truth(web)
    told = Told(
        change_rate=truth.change_rate[::-1].copy(),
        recall=0.5 * truth.recall,
        false_rate=2.0 * truth.false_rate,
    )
    fetch_at = even_instants(40.0, 10.0)
    run = run_greedy(web, Rule.NCIS, fetch_at, edges=EDGES, told=told)
    assert run.fetched.tolist() == pages_by_scan(web, Rule.NCIS, fetch_at, told).tolist()


def test_signals_soon_after_a_fetch_can_be_discarded() -> None:
    web = signals_paper_web(4, 200, horizon=10.0)
    fetch_at = even_instants(40.0, 10.0)
    run = run_greedy(web, Rule.NCIS, fetch_at, edges=EDGES, discard_within=0.5)
    wanted = pages_by_scan(web, Rule.NCIS, fetch_at, Told.truth(web), discard_within=0.5)
    assert run.fetched.tolist() == wanted.tolist()


def test_a_batch_is_of_different_pages() -> None:
    web = signals_paper_web(5, 400, horizon=10.0)
    fetch_at = np.repeat(np.arange(1.0, 11.0), 50)
    run = run_greedy(web, Rule.NCIS, fetch_at, edges=EDGES)
    for batch in run.fetched.reshape(10, 50):
        assert np.unique(batch).size == 50
    assert run.fetched.tolist() == pages_by_scan(web, Rule.NCIS, fetch_at, Told.truth(web)).tolist()
    np.testing.assert_allclose(run.accuracy, account_of(web, run, fetch_at), rtol=1e-12)


def account_of(web: Web, run: GreedyRun, fetch_at: NDArray[np.float64]) -> list[float]:
    """Add up freshness from one happening to the next, page by page."""
    shares = []
    for start, end in pairwise(EDGES):
        fresh = 0.0
        for page in range(web.n_pages):
            changes = web.changes.at[web.changes.offsets[page] : web.changes.offsets[page + 1]]
            fetches = np.append([0.0], fetch_at[run.fetched == page])
            for k, fetched_at in enumerate(fetches):
                until = fetches[k + 1] if k + 1 < fetches.size else end
                later = changes[changes > fetched_at]
                stale_at = min(until, later[0] if later.size else np.inf)
                fresh += web.importance[page] * max(
                    0.0, min(stale_at, end) - max(fetched_at, start)
                )
        shares.append(fresh / web.importance.sum() / (end - start))
    return shares


def test_freshness_is_accounted_for_exactly() -> None:
    web = signals_paper_web(6, 60, horizon=10.0)
    fetch_at = even_instants(20.0, 10.0)
    run = run_greedy(web, Rule.NCIS, fetch_at, edges=EDGES)
    np.testing.assert_allclose(run.accuracy, account_of(web, run, fetch_at), rtol=1e-12)
    again = run_schedule(web, run.fetched, fetch_at, edges=EDGES)
    np.testing.assert_allclose(again.accuracy, run.accuracy, rtol=1e-12)
    assert again.page_fetches.tolist() == run.page_fetches.tolist()


def test_a_schedule_of_low_discrepancy_gives_each_page_its_rate_at_any_time() -> None:
    rates = np.array([5.0, 3.0, 1.5, 0.5, 0.0])
    schedule = low_discrepancy(rates, 2_000)
    for n in (10, 100, 999, 2_000):
        counts = np.bincount(schedule[:n], minlength=5)
        assert np.all(np.abs(counts - n * rates / rates.sum()) <= 2.0)


def test_a_web_of_several_sources_has_no_single_truth() -> None:
    source = SignalSource(recall=0.5, false_rate=0.1)
    web = make_web(0, 1.0, [1.0], sources=[source, source])
    with pytest.raises(ValueError, match="one source"):
        Told.truth(web)
