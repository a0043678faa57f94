"""A plan that any worker makes is that of one process with all partitions."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recrawl import Outcome
from recrawl.client import Client
from recrawl.cluster.api import cluster_corpus, receiving, worker_calls
from recrawl.cluster.api.merged_views import merge_coverage
from recrawl.corpus import CorpusConfig
from recrawl.corpus.plan.corpus_plan import CorpusPlan, PlanCoverage, make_plan
from recrawl.corpus.plan.partition_bytes import decode_partitions
from recrawl.corpus.plan.planned_partition import read_nodes
from recrawl.corpus.plan.targets import Target
from recrawl.corpus.plan.text import plan_words
from recrawl.errors import ServiceUnavailable
from tests.unit.cluster.api.conftest import PARTITIONS
from tests.unit.cluster.api.test_forwarded_once import PATH, forward
from tests.unit.cluster.api.workers import Workers

pytestmark = pytest.mark.slow_without_jit

HOST = "huge.example"
URLS = [
    *(f"https://h{i % 40}.example/{kind}/{i}" for i in range(100) for kind in ("product", "blög")),
    *(f"https://{HOST}/old/{i}" for i in range(31)),
]
LATER = [f"https://{HOST}/new/{i}" for i in range(120)]
TARGETS = ["80 % of product", "60 % of /bl*g/* under 6 h", "50 % of huge.example", "70 %"]


@pytest.fixture
def config(config: CorpusConfig) -> CorpusConfig:
    ledger = config.ledger
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": 6, "group_pages_max": 30},
            "budget": {"rate": "100/d"},
            "ledger": {
                "kind": "kafka",
                "bootstrap": ledger.bootstrap,
                "topic": ledger.topic,
                "replication": 1,
            },
            "politeness": {"delay": "10m", "in_flight_max": 1},
            "protection": {"new_pages_share": 1.0, "new_domain_share": 1.0},
            "pattern": [{"match": "/product/*", "kind": "product", "max_age": "9d"}],
        }
    )


@pytest.fixture
def workers(tmp_path: Path, config: CorpusConfig) -> Iterator[Workers]:
    with Workers(tmp_path, config, PARTITIONS) as running:
        for worker in running.all:
            worker.corpus.split_hosts.share(lambda _: None)
        with running[0].client() as client:
            importance = np.random.default_rng(3).lognormal(0, 1, len(URLS))
            client.add(URLS, importance=importance)
            client.add(LATER)
            client.signal(URLS[:60], source="sitemap")
            client.report([Outcome(url=url, digest=b"a") for url in URLS[::2]])
        yield running


def plan_of_all(workers: Workers, **options: Any) -> CorpusPlan:
    """Return the plan of one process that has the partitions of all workers."""
    nodes = [node for worker in workers.all for node in worker.corpus.nodes]
    targets = [Target.parse(text) for text in TARGETS]
    by_number = sorted(nodes, key=lambda node: node.partition)
    return make_plan(by_number, now_ms=0, targets=targets, **options)


def assert_same(ours: Any, theirs: Any) -> None:
    """Compare plans, to the last digit."""
    if is_dataclass(ours):
        for one in fields(ours):
            if one.name != "at_ms":
                assert_same(getattr(ours, one.name), getattr(theirs, one.name))
    elif isinstance(ours, tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(ours, np.ndarray):
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs


@pytest.mark.parametrize("n_pages_max", [32_768, 100])
def test_any_worker_makes_the_plan_of_one_process(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, n_pages_max: int
) -> None:
    monkeypatch.setattr(cluster_corpus, "PAGES_PLANNED_MAX", n_pages_max)
    expected = plan_of_all(workers, n_pages_max=n_pages_max)
    for worker in workers.all:
        found = worker.shared.plan_targets(TARGETS)
        assert_same(found, expected)
    assert expected.plan.is_exact == (n_pages_max > 100)
    assert expected.coverage == PlanCoverage(6)
    assert {kind.kind for kind in expected.plan.kinds} == {"other", "product"}
    if expected.plan.is_exact:
        # The parts of a split host are one host.
        host = next(one for one in expected.hosts.largest if one.host == HOST)
        assert (host.n_pages, host.fetches_per_hour_max) == (151, 6.0)
        assert [one.n_pages for one in expected.targets] == [100, 100, 151, 351]


def test_clients_get_plans_of_all_partitions(workers: Workers, clients: list[Client]) -> None:
    expected = plan_of_all(workers)
    for client in clients:
        found = client.plan_targets(TARGETS)
        assert " ".join(found.words) == plan_words(expected)
        assert (found.n_pages, found.pages_covered, found.n_partitions_away) == (351, 1.0, 0)
        assert found.curve["freshness"] == expected.plan.curve.freshness.tolist()
        with pytest.raises(ValueError, match="nonsense"):
            client.plan_targets(["nonsense"])
        with pytest.raises(ValueError, match="pattern"):
            client.plan_targets(["50 % of ftp://x/*"])


def test_a_plan_says_which_share_of_the_pages_it_covers(
    workers: Workers, clients: list[Client]
) -> None:
    workers.tell_all({})
    corpus = workers[1].corpus
    found = clients[1].plan_targets(["50 % of /product/*"])
    assert found.n_pages == corpus.n_pages
    assert (found.n_partitions_away, found.pages_covered) == (3, 0.5)
    assert "The plan covers about 50 % of the pages: 3 partitions of 6 are left out" in " ".join(
        found.words
    )
    assert_same(
        workers[1].shared.plan_targets().plan,
        make_plan(corpus.nodes.all, now_ms=0).plan,
    )


def test_workers_of_another_version_are_left_out(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ValueError("of another version of recrawl")

    n_pages = workers[2].corpus.n_pages
    with monkeypatch.context() as newer:
        newer.setattr(worker_calls, "decode_partitions", refuse)
        found = workers[2].shared.plan_targets()
        assert (found.coverage.n_away, found.plan.n_pages) == (5, n_pages)
    known = receiving._PATHS.pattern
    assert "|plan/pages" in known
    monkeypatch.setattr(receiving, "_PATHS", re.compile(known.replace("|plan/pages", "")))
    found = workers[2].shared.plan_targets()
    assert (found.coverage.n_away, found.plan.n_pages) == (5, n_pages)


def test_without_any_partition_there_is_no_plan(workers: Workers) -> None:
    workers.tell_all({})
    nodes = workers[2].corpus.nodes
    node = nodes.remove(2)
    try:
        with pytest.raises(ServiceUnavailable, match="no partition"):
            workers[2].shared.plan_targets()
    finally:
        nodes.put(node)


def test_only_workers_get_sampled_pages(workers: Workers) -> None:
    answer = workers[0].server.get("/plan/pages?n_pages_max=10")
    assert (answer.status, answer.problem) == (404, "unknown-path")
    path = f"{PATH}/plan/pages?n_pages_max=10&n_pages_total=351&of=product"
    answer = forward(workers[0], path, method="GET", Recrawl_Expected="0:0,3:0")
    node = workers[0].corpus.nodes[0]
    found = decode_partitions(answer.data, node.shard.terms.table)
    assert [part.partition for part in found] == [0, 3]
    assert 1 <= sum(part.word.size for part in found) < 20
    answer = forward(workers[0], path, method="GET", Recrawl_Expected="1:0")
    assert answer.problem == "wrong-owner"


def test_the_share_of_pages_uses_what_is_known_of_partitions_that_are_away(
    workers: Workers,
) -> None:
    parts = read_nodes(workers[0].corpus.nodes.all, 0)
    n = sum(part.n_pages for part in parts)
    all_known = {0: parts[0].n_pages, 3: parts[1].n_pages, 1: n}
    assert merge_coverage(parts, all_known, 3) == PlanCoverage(3, 1, 0.5)
    some = merge_coverage(parts, all_known, 6)
    assert (some.n_partitions, some.n_away) == (6, 4)
    assert some.share == pytest.approx(0.25)
