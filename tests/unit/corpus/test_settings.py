"""Settings apply: from the configuration, after changes, and at their limits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.errors import ConfigError, RecrawlError
from recrawl.node.clock import NodeTime
from recrawl.shard.explain import Explanation
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]


def state_of(corpus: Corpus, url: str) -> Explanation:
    explanation = corpus.explain(url)
    assert explanation is not None
    return explanation.state


def test_a_budget_for_a_run_is_spent_whole_however_many_partitions_there_are(
    open_corpus: Open,
) -> None:
    corpus = open_corpus(corpus={"partitions": 8}, budget={"rate": "5/run"})
    corpus.add([f"http://h{i}.example/" for i in range(200)])
    assert len(corpus.lease(100)) == 5


def test_set_budget_changes_the_rate_and_not_the_unit(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "100/h", "unit": "cost", "burst": "1h"})
    before = corpus.nodes[0].shard.tables.registers.budget_unit[0]
    corpus.set_budget("50/h")
    assert corpus.nodes[0].shard.tables.registers.budget_unit[0] == before


def test_outcomes_of_unknown_pages_take_no_record_each(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(["http://a.example/"])
    corpus.report([Outcome(url="http://a.example/", changed=True)])
    first = corpus.nodes[0].position
    corpus.report([Outcome(url=f"http://n.example/{i}", changed=True) for i in range(300)])
    assert corpus.nodes[0].position - first < 10


def test_changed_politeness_in_the_configuration_applies_to_known_hosts(
    open_corpus: Open,
) -> None:
    corpus = open_corpus()
    corpus.add([f"http://slow.example/{i}" for i in range(10)])
    corpus.close()
    corpus = open_corpus(hosts={"slow.example": {"delay": 60, "in_flight_max": 1, "burst": 1}})
    assert len(corpus.lease(10)) == 1


def test_a_limit_removed_from_a_pattern_no_longer_applies(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(pattern=[{"match": "/a/*", "min_age": "10d", "importance": 9}])
    corpus.add(["http://x.example/a/1"])
    corpus.close()
    corpus = open_corpus(pattern=[{"match": "/a/*"}])
    corpus.add(["http://x.example/a/2"])
    state = [state_of(corpus, f"http://x.example/a/{i}") for i in (1, 2)]
    assert state[0].interval_seconds_min == state[1].interval_seconds_min


def test_an_importance_removed_from_a_pattern_no_longer_applies(open_corpus: Open) -> None:
    corpus = open_corpus(pattern=[{"match": "/a/*", "importance": 9}])
    corpus.add(["http://x.example/a/1"])
    corpus.close()
    corpus = open_corpus(pattern=[{"match": "/a/*"}])
    corpus.add(["http://x.example/a/2"])
    state = [state_of(corpus, f"http://x.example/a/{i}") for i in (1, 2)]
    assert state[0].importance == state[1].importance


def test_without_a_configuration_the_previous_patterns_apply(
    tmp_path: Path, clock: ManualClock
) -> None:
    config = CorpusConfig.from_dict(
        {"politeness": IMPOLITE, "pattern": [{"match": "/a/*", "importance": 9, "share": 0.5}]}
    )
    recrawl.open(tmp_path / "c", config, clock=clock).close()
    with recrawl.open(tmp_path / "c", clock=clock) as corpus:
        corpus.add(["http://x.example/a/1"])
        explanation = corpus.explain("http://x.example/a/1")
        assert explanation is not None
        assert explanation.kind == "/a/*"


def test_without_a_configuration_the_previous_hosts_apply(
    tmp_path: Path, clock: ManualClock
) -> None:
    config = CorpusConfig.from_dict(
        {
            "politeness": IMPOLITE,
            "hosts": {"s.example": {"delay": 60, "in_flight_max": 1, "burst": 1}},
        }
    )
    recrawl.open(tmp_path / "c", config, clock=clock).close()
    with recrawl.open(tmp_path / "c", clock=clock) as corpus:
        corpus.add([f"http://s.example/{i}" for i in range(10)])
        assert len(corpus.lease(10)) == 1


def test_too_many_kinds_are_rejected(open_corpus: Open) -> None:
    for i in range(3):
        corpus = open_corpus(capacity={"kinds_max": 4}, pattern=[{"match": f"/{i}/*"}])
        assert corpus.add([f"http://x.example/{i}/a", f"http://x.example/other{i}"]).n_added == 2
        corpus.close()
    with pytest.raises(ConfigError, match=r"capacity\.kinds_max"):
        open_corpus(capacity={"kinds_max": 4}, pattern=[{"match": "/3/*"}])


def test_a_reader_cannot_take_snapshots(
    open_corpus: Open, clock: ManualClock, tmp_path: Path
) -> None:
    corpus = open_corpus()
    corpus.add(["http://a.example/"])
    draft_folder = tmp_path / "corpus" / "snapshots" / "0"
    draft_folder.mkdir(parents=True)
    draft = draft_folder / "temporary-of-the-writer"
    draft.mkdir()
    reader = open_corpus(read_only=True)
    with pytest.raises(RecrawlError, match="read_only"):
        reader.snapshot()
    assert draft.exists(), "a reader has removed the draft of the writer"


def test_a_reader_that_was_away_for_long_can_refresh(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(["http://a.example/"])
    reader = open_corpus(read_only=True)
    for i in range(3):
        corpus.add([f"http://b.example/{i}"])
        clock.pass_seconds(10)
        corpus.lease(1)
        corpus.snapshot()
    reader.refresh()
    assert reader.explain("http://b.example/2") is not None


def test_interruptions_between_two_readings_do_not_push_time_ahead() -> None:
    clock = ManualClock()
    time = NodeTime(clock, 0)
    read = clock.wall_ms

    def interrupted() -> int:
        wall = read()
        clock.pass_seconds(0.005)
        return wall

    clock.wall_ms = interrupted  # type: ignore[method-assign]
    for _ in range(1000):
        time.now_ms()
    clock.wall_ms = read  # type: ignore[method-assign]
    assert time.ahead_ms == 0


def test_set_host_normalizes_names_like_urls(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([f"http://slow.example/{i}" for i in range(10)])
    corpus.set_host("Slow.Example", delay=60, in_flight_max=1, burst=1)
    assert len(corpus.lease(10)) == 1


def test_set_host_rejects_impossible_values(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(["http://slow.example/"])
    with pytest.raises(ValueError, match="in_flight_max must be"):
        corpus.set_host("slow.example", in_flight_max=0)


def test_impossible_limits_are_rejected(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(["http://slow.example/"])
    with pytest.raises(ValueError, match="max_age must be"):
        corpus.set(["http://slow.example/"], min_age="10d", max_age="1d")


def test_stale_for_without_stale_probability_is_rejected(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(["http://slow.example/"])
    with pytest.raises(ValueError, match="together"):
        corpus.set(["http://slow.example/"], stale_for="1d")


@pytest.mark.parametrize("name", ["importance", "cost"])
def test_values_that_add_rejects_cannot_be_set(open_corpus: Open, name: str) -> None:
    corpus = open_corpus()
    corpus.add(["http://slow.example/"])
    config: dict[str, Any] = {name: 1.1e12}
    with pytest.raises(ValueError, match=f"{name} must be 0 to"):
        corpus.set(["http://slow.example/"], **config)


@pytest.mark.parametrize("n_partitions", [1, 3])
def test_a_budget_of_0_leases_nothing(open_corpus: Open, n_partitions: int) -> None:
    corpus = open_corpus(corpus={"partitions": n_partitions}, budget={"rate": "3600/h"})
    corpus.add([f"http://{i}.example/" for i in range(9)])
    corpus.set_budget("0/h")
    assert corpus.lease(9) == []
    assert corpus.wait_seconds() == float("inf")
    corpus.set_budget("unlimited")
    assert len(corpus.lease(9)) == 9


def test_an_impossible_importance_is_rejected_when_pages_are_added(open_corpus: Open) -> None:
    corpus = open_corpus()
    with pytest.raises(ValueError, match="importance must be"):
        corpus.add(["http://slow.example/"], importance=-1)


@pytest.mark.parametrize("n_requests", [3e38, -1, float("nan")])
def test_an_impossible_number_of_requests_is_rejected(open_corpus: Open, n_requests: float) -> None:
    corpus = open_corpus()
    corpus.add(["http://a.example/"])
    with pytest.raises(ValueError, match="n_requests must be"):
        corpus.requests(["http://a.example/"], n_requests)


def test_a_null_status_means_no_response_and_not_200(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(["http://a.example/"])
    table = pa.table(
        {"url": ["http://a.example/"], "status": pa.array([None], pa.int64()), "changed": [True]}
    )
    done = corpus.report(table)
    assert done.transition[0] == 0


def test_the_configured_length_of_the_feed_is_kept(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(changes={"kept_max": 10, "kept_for": "1d"})
    urls = [f"http://a.example/{i}" for i in range(100)]
    corpus.add(urls)
    for _ in range(3):
        clock.pass_seconds(86400 * 5)
        corpus.report([Outcome(url=u, changed=True) for u in urls])
    assert len(corpus.changes()) < 100
