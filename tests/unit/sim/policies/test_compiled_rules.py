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
    Web,
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


@pytest.fixture(scope="module", params=["realistic", "papers"])
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
