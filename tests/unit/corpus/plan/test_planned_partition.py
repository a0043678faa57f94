"""What a plan reads of partitions: split hosts are one host, and locks are held for moments."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recrawl
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.corpus.inspect.page_sample import sample_in_steps, sample_of
from recrawl.corpus.plan import corpus_plan
from recrawl.corpus.plan.corpus_plan import make_plan, plan_partitions
from recrawl.corpus.plan.planned_partition import PlannedPartition, page_quotas, read_shard
from recrawl.corpus.plan.targets import Target
from recrawl.shard.state.tables import Tables
from tests.manual_clock import ManualClock
from tests.reference.shards import Story

Open = Callable[..., Corpus]
HOST = "huge.example"
DELAY_MS = 3_600_000


def test_the_delay_of_a_split_host_holds_for_all_its_parts_together(
    tmp_path: Path, clock: ManualClock
) -> None:
    def plan_of(folder: str, group_pages_max: int) -> corpus_plan.CorpusPlan:
        config = CorpusConfig.from_dict(
            {
                "corpus": {"partitions": 4, "group_pages_max": group_pages_max},
                "politeness": {"delay": DELAY_MS / 1_000},
                "protection": {"new_pages_share": 1.0, "new_domain_share": 1.0},
            }
        )
        with recrawl.open(tmp_path / folder, config, clock=clock) as corpus:
            for first in range(0, 240, 40):
                corpus.add([f"https://{HOST}/{i}" for i in range(first, first + 40)])
            n_with_pages = sum(node.shard.n_pages > 0 for node in corpus.nodes)
            assert n_with_pages == (4 if group_pages_max else 1)
            return make_plan(corpus.nodes.all, now_ms=0, targets=[Target.parse("1 %")])

    split, whole = plan_of("split", 30), plan_of("whole", 0)
    (host,) = split.hosts.largest
    assert (host.host, host.n_pages, host.n_counted) == (HOST, 240, 240)
    assert host.fetches_per_hour_max == pytest.approx(1.0)
    assert split.plan.curve.fetches_per_hour.max() == pytest.approx(1.0)
    assert (split.hosts.n_hosts, split.hosts.n_slowed) == (1, 1)
    # The plan is that of a host in one partition.
    for name in ("price", "fetches_per_hour", "freshness", "weighted_freshness"):
        np.testing.assert_allclose(
            getattr(split.plan.curve, name), getattr(whole.plan.curve, name), rtol=1e-9
        )
    assert host.freshness == pytest.approx(whole.hosts.largest[0].freshness, rel=1e-9)


def test_no_lock_is_held_while_a_plan_is_computed(
    open_corpus: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus(corpus={"partitions": 2})
    corpus.add([f"https://h{i % 5}.example/{i}" for i in range(50)])
    is_free: list[bool] = []

    def take_locks() -> None:
        for node in corpus.nodes:
            with node.lock:
                pass

    def plan_while_free(*arguments: Any, **options: Any) -> corpus_plan.CorpusPlan:
        other = threading.Thread(target=take_locks, daemon=True)
        other.start()
        other.join(60.0)
        is_free.append(not other.is_alive())
        return plan_partitions(*arguments, **options)

    monkeypatch.setattr(corpus_plan, "plan_partitions", plan_while_free)
    found = corpus.plan_targets(["50 % of h1.example"])
    assert is_free == [True]
    assert found.targets[0].n_pages == 10
    assert (found.coverage.n_partitions, found.coverage.n_away, found.coverage.share) == (2, 0, 1)


def test_a_sample_that_is_read_while_pages_change_has_only_pages_that_existed() -> None:
    story = Story()
    page = story.add(400, kind=np.arange(400) % 2)
    before = sample_of(story.shard.tables, 1_000)
    n_read = 0

    @contextmanager
    def read() -> Iterator[Tables]:
        nonlocal n_read
        n_read += 1
        if n_read == 3:  # the first pass has counted all pages
            story.remove(page[::3])
            story.add(100, kind=np.arange(100) % 5)
        yield story.shard.tables

    found = sample_in_steps(read, 1_000)
    assert n_read == 3
    assert np.unique(found.slot).size == found.slot.size
    assert (found.n_pages == 1).all()
    assert set(found.slot.tolist()) <= set(before.slot.tolist())
    # What a plan reads of them is what is still there.
    part = read_shard(story.shard, 1_000)
    assert part.word.size == story.shard.n_pages
    assert set(part.kind.tolist()) == {0, 1, 2, 3, 4}


def test_samples_are_in_proportion_to_the_pages_of_partitions() -> None:
    assert page_quotas([100, 300, 0], 40) == [10, 30, 1]
    assert page_quotas([100], 40, 400) == [10]
    assert page_quotas([100, 300], 0) == [0, 0]
    assert page_quotas([100], 40, 10) == [40]  # pages were added meanwhile
    story = Story()
    story.add(10)
    part = read_shard(story.shard, 0)
    assert (part.n_pages, part.word.size, part.hosts.number.size) == (10, 0, 0)


@st.composite
def split_pages(draw: st.DrawFn) -> tuple[list[tuple[int, int, float, float, int]], int]:
    """Draw pages (host, kind, importance, cost, partition), and the number of partitions."""
    k = draw(st.integers(1, 4))
    page = st.tuples(
        st.integers(0, 3),
        st.integers(0, 2),
        st.sampled_from([0.25, 1.0, 8.0]),
        st.sampled_from([1.0, 2.0]),
        st.integers(0, k - 1),
    )
    return draw(st.lists(page, min_size=1, max_size=40)), k


def part_of(pages: list[tuple[int, int, float, float, int]], partition: int) -> PlannedPartition:
    """Return a partition with some pages, whose hosts have the numbers of their first pages."""
    story = Story()
    hosts = list(dict.fromkeys(page[0] for page in pages))
    for host, kind, importance, cost, _ in pages:
        story.add(1, group=hosts.index(host), kind=kind, importance=importance, cost=cost)
    for group, host in enumerate(hosts):
        story.set_group(group, delay_ms=DELAY_MS if host < 2 else 0)
    found = read_shard(story.shard, 1_000, partition=partition)
    own = found.hosts
    names = tuple(f"h{hosts[number]}.example" for number in own.number.tolist())
    return replace(
        found, hosts=own._replace(is_split=np.ones(own.number.size, np.bool_), name=names)
    )


@pytest.mark.slow_without_jit
@settings(max_examples=25, deadline=None)
@given(split_pages())
def test_a_corpus_has_one_plan_however_its_pages_are_split(
    drawn: tuple[list[tuple[int, int, float, float, int]], int],
) -> None:
    pages, k = drawn
    split = [part_of([page for page in pages if page[4] == i], i) for i in range(k)]
    options: dict[str, Any] = {
        "now_ms": 0,
        "budget_per_hour": 2.0,
        "targets": [Target.parse("60 % of 1")],
    }
    if not any(page[1] == 1 for page in pages):
        del options["targets"]
    one, many = (plan_partitions(parts, **options) for parts in ([part_of(pages, 0)], split))
    for name in ("fetches_per_hour", "cost_per_hour", "freshness", "weighted_freshness"):
        ours, theirs = (getattr(plan.plan.curve, name) for plan in (many, one))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    by_name = [{kind.kind: kind for kind in plan.plan.kinds} for plan in (many, one)]
    assert {name: kind.n_pages for name, kind in by_name[0].items()} == {
        name: kind.n_pages for name, kind in by_name[1].items()
    }
    hosts = [{host.host: host for host in plan.hosts.largest} for plan in (many, one)]
    assert hosts[0].keys() == hosts[1].keys()
    for name, host in hosts[0].items():
        other = hosts[1][name]
        assert (host.n_pages, host.delay_seconds) == (other.n_pages, other.delay_seconds)
        for figure in ("importance", "fetches_per_hour", "freshness", "fetches_per_hour_wanted"):
            assert getattr(host, figure) == pytest.approx(getattr(other, figure), rel=1e-6)
    assert many.hosts.n_slowed == one.hosts.n_slowed
    for ours, theirs in zip(many.targets, one.targets, strict=True):
        assert (ours.verdict, ours.n_pages) == (theirs.verdict, theirs.n_pages)
