"""Compiled rules do just what rules do."""

import numpy as np
import pytest

from recrawl.sim import (
    CC_NEWS,
    ChangeRatio,
    FixedInterval,
    Heritrix,
    IntervalRule,
    NutchAdaptive,
    StormCrawler,
    Times,
    Web,
    YaCy,
    compiled_rule,
    papers_web,
    realistic_web,
    run_compiled,
    run_freely,
)

DAY = 86_400.0
RULES = [
    FixedInterval(first_seconds=5 * DAY),
    NutchAdaptive(),
    NutchAdaptive(sync=0, increase=1.2, decrease=0.7),
    StormCrawler(),
    CC_NEWS,
    Heritrix(),
]


# A million requests are drawn for a realistic web, though no rule looks at them.
@pytest.fixture(
    scope="module", params=[pytest.param("realistic", marks=pytest.mark.slow_without_jit), "papers"]
)
def web(request: pytest.FixtureRequest) -> Web:
    if request.param == "papers":
        return papers_web(0, n_pages=60, horizon=500 * 3_600.0)
    return realistic_web(3, 80, horizon=120 * DAY)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_each_page_is_fetched_as_often_and_as_fresh_as_by_the_rule(
    web: Web, rule: IntervalRule, scale: float
) -> None:
    account = run_freely(web, rule, scale=scale)
    compiled = compiled_rule(rule)
    assert compiled is not None
    totals = run_compiled(web, compiled, scale=scale)
    assert totals is not None
    assert np.array_equal(totals.fetches, account.page_fetches)
    assert totals.fresh_seconds == pytest.approx(account.page_fresh_seconds, abs=1e-6)
    assert account.page_fresh_seconds.sum() == pytest.approx(
        account.unweighted_freshness * web.n_pages * web.horizon
    )


def test_other_rules_are_not_compiled() -> None:
    assert compiled_rule(ChangeRatio()) is None


def test_too_many_fetches_are_no_result(web: Web) -> None:
    compiled = compiled_rule(FixedInterval(first_seconds=DAY))
    assert compiled is not None
    assert run_compiled(web, compiled, n_fetches_max=10) is None


def slowed(web: Web, factor: float) -> Web:
    """Return the same web in which everything takes ``factor`` times as long."""
    return web._replace(
        horizon=factor * web.horizon,
        changes=Times(web.changes.offsets, factor * web.changes.at),
        change_rate=web.change_rate / factor,
    )


@pytest.mark.parametrize("rule", [*RULES, YaCy(), ChangeRatio()])
def test_a_slowed_rule_does_on_a_slowed_web_what_it_does_on_the_web(rule: IntervalRule) -> None:
    """Every constant that is a time is multiplied, the version's age included."""
    web = papers_web(0, n_pages=60, horizon=500 * 3_600.0)
    plain = run_freely(web, rule)
    # A power of two, so that no digit is lost.
    again = run_freely(slowed(web, 4.0), rule, scale=4.0)
    assert np.array_equal(again.page_fetches, plain.page_fetches)
    assert again.freshness == pytest.approx(plain.freshness, rel=1e-12)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("rule", [NutchAdaptive(), YaCy()])
def test_a_rule_that_follows_the_age_can_spend_any_budget(rule: IntervalRule) -> None:
    """Sped up, it reads the true age, and its waits are a fraction of it."""
    web = papers_web(0, n_pages=60, horizon=500 * 3_600.0)
    n_fetches = [run_freely(web, rule, scale=scale).n_fetches for scale in (1.0, 0.1, 0.01)]
    assert n_fetches[1] > 2 * n_fetches[0]
    assert n_fetches[2] > 2 * n_fetches[1]


@pytest.mark.parametrize("rule", RULES)
def test_each_page_may_have_a_factor_of_its_own(web: Web, rule: IntervalRule) -> None:
    scale = np.where(np.arange(web.n_pages) % 2 == 0, 0.5, 3.0)
    compiled = compiled_rule(rule)
    assert compiled is not None
    totals = run_compiled(web, compiled, scale=scale)
    account = run_freely(web, rule, scale=scale)
    assert totals is not None
    assert np.array_equal(totals.fetches, account.page_fetches)
    for factor in (0.5, 3.0):
        alike = run_compiled(web, compiled, scale=factor)
        assert alike is not None
        rows = scale == factor
        assert np.array_equal(totals.fetches[rows], alike.fetches[rows])
