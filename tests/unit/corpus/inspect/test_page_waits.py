"""Reasons for many pages at once are those that the shard gives for one."""

from collections.abc import Callable

import numpy as np
import pytest

from recrawl import Corpus, Outcome
from recrawl.corpus.inspect.page_waits import WHYS, reason_text, waits_of
from recrawl.shard import Why
from tests.manual_clock import ManualClock


@pytest.mark.parametrize("price", [30.0, 3_600.0, 1e9])
def test_waits_are_those_of_explain(
    open_corpus: Callable[..., Corpus], clock: ManualClock, price: float
) -> None:
    corpus = open_corpus(
        budget={"price": price},
        politeness={"delay": 10, "in_flight_max": 1, "burst": 1},
        pattern=[{"match": "/slow/*", "min_age": "2h"}],
    )
    urls = [f"https://h{i % 9}.example/{'slow' if i % 4 else 'x'}/{i}" for i in range(90)]
    corpus.add(urls)
    corpus.set_host("h0.example", is_closed=True)
    corpus.set_host("h1.example", blocked_until_ms=clock.wall_ms() + 7_000_000)
    for i, url in enumerate(urls[20:70]):
        corpus.report(Outcome(url=url, digest=b"a", status=503 if i % 7 == 0 else 200))
    clock.pass_seconds(3_600)
    corpus.lease(3)
    shard, now_ms = corpus.nodes[0].shard, corpus.now_ms()
    found = waits_of(shard, np.arange(90), now_ms)
    for slot in range(90):
        state = shard.explain(slot, now_ms)
        assert state is not None
        assert WHYS[found.why[slot]] == state.why
        match state.why:
            case Why.IN_FLIGHT:
                assert state.lease is not None
                assert found.until_ms[slot] == state.lease.expires_at_ms
            case Why.NOT_YET | Why.FLOOR:
                assert found.until_ms[slot] == pytest.approx(state.due_at_ms, abs=2_000)
            case Why.GROUP_RESTING:
                assert found.until_ms[slot] == state.group_ready_at_ms
    assert len(set(found.why.tolist())) >= 2


@pytest.mark.parametrize("why", Why)
def test_every_reason_has_a_text(why: Why) -> None:
    for seconds in (None, 5.0, float("inf")):
        text = reason_text(why, seconds)
        assert text
        assert "{" not in text
