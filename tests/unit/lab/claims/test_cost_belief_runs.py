"""recrawl's rule in the lab fetches when the core says so, and its log is exact."""

from dataclasses import replace

import numpy as np
import pytest

from lab.claims.c9_very_stale.belief_runs import BeliefRule, belief_log, log_of_fetches
from lab.policies.loop_runs import fixed_log
from recrawl.core.belief import BROAD, GammaBelief, after_poll
from recrawl.core.price import averaged_due_elapsed, latest_elapsed
from recrawl.sim import Web, make_web

HOUR = 3_600.0
PRIOR = GammaBelief.of(2.0, 57.5 * HOUR)
RULE = BeliefRule(prior=PRIOR, price=HOUR, stale_for=8 * HOUR)


@pytest.fixture(scope="module")
def web() -> Web:
    return make_web(2, 400 * HOUR, np.geomspace(0.2, 0.002, 15) / HOUR)


def test_regular_fetches_have_the_log_of_a_fixed_interval(web: Web) -> None:
    expected = fixed_log(web, 7 * HOUR)
    page = np.repeat(np.arange(web.n_pages), np.diff(expected.offsets))[expected.is_fetch]
    at = expected.ended_at[expected.is_fetch]
    order = np.random.default_rng(0).permutation(at.size)
    log = log_of_fetches(web, page[order], at[order])
    for found, wanted in zip(log, expected, strict=True):
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), atol=1e-6)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("promise", [1.0, 0.02])
def test_each_page_waits_for_the_interval_of_its_belief(web: Web, promise: float) -> None:
    log = belief_log(web, replace(RULE, promise=promise))
    for page in range(web.n_pages):
        belief = PRIOR
        for row in range(log.offsets[page], log.offsets[page + 1] - 1):
            due = averaged_due_elapsed(belief, HOUR)
            if promise < 1:
                latest = latest_elapsed(belief, stale_for=8 * HOUR, probability=promise)
                due = np.minimum(due, latest)
            assert log.elapsed[row] == pytest.approx(float(due))
            belief = after_poll(belief, log.elapsed[row], log.changed[row])


def test_a_staleness_limit_leaves_fewer_pages_very_stale(web: Web) -> None:
    plain, strict = (belief_log(web, replace(RULE, promise=p)) for p in (1.0, 0.005))
    assert (strict.stale_seconds >= 8 * HOUR).sum() < (plain.stale_seconds >= 8 * HOUR).sum()
    assert strict.page_fetches.sum() > plain.page_fetches.sum()


@pytest.mark.slow_without_jit
def test_a_learned_prior_shares_information_between_pages() -> None:
    web = make_web(3, 300 * HOUR, np.full(100, 1 / (24 * HOUR)))
    rule = replace(RULE, prior=BROAD)
    alone, together = (belief_log(web, replace(rule, learns_prior=x)) for x in (False, True))
    stale = [log.stale_seconds.sum() for log in (alone, together)]
    assert stale[1] < stale[0]


def test_a_web_whose_pages_are_never_due_has_one_interval_each() -> None:
    web = make_web(3, HOUR, np.full(3, 1 / (24 * HOUR)))
    log = belief_log(web, RULE)
    assert log.elapsed.tolist() == 3 * [HOUR]
    assert not log.is_fetch.any()
