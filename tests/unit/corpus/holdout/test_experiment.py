"""Held-out hosts keep the fixed interval, and the audits of both arms are compared."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recrawl.corpus import Corpus, CorpusConfig, Outcome, resize_corpus
from recrawl.errors import ConfigError
from recrawl.node.config.holdout_section import HoldoutConfig, keeps_old_rule
from recrawl.shard.events import SCHEDULE_STALE_SECONDS, slot_of_page
from recrawl.store import Names
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
DAY = 86_400.0
HOLDOUT = {"share": 0.5, "interval": "2d"}
HOSTS = [f"site{i}.example" for i in range(12)]
URLS = [f"https://{host}/{i}" for host in HOSTS for i in range(2)]


def limits(corpus: Corpus, url: str) -> tuple[float, float]:
    for node in corpus.nodes:
        (page,) = node.store.pages_of(pa.array([url]))
        if page >= 0:
            tables = node.shard.tables
            row = tables.pages.limits[slot_of_page(np.array([page]))][0]
            return float(tables.limits.interval_min[row]), float(tables.limits.interval_max[row])
    raise AssertionError(url)


def held_hosts(**section: Any) -> set[str]:
    held = keeps_old_rule(pa.array(HOSTS), HoldoutConfig(**section))
    return {host for host, is_held in zip(HOSTS, held, strict=True) if is_held}


def test_the_share_is_of_hosts_and_another_name_chooses_others() -> None:
    hosts = pa.array([f"{i}.example" for i in range(6_000)])
    for share in (0.05, 0.3):
        held = keeps_old_rule(hosts, HoldoutConfig(share=share, interval=DAY))
        assert held.mean() == pytest.approx(share, abs=0.02)
    more = keeps_old_rule(hosts, HoldoutConfig(share=0.4, interval=DAY))
    assert more[held].all()  # a larger share keeps the hosts of a smaller one
    other = keeps_old_rule(hosts, HoldoutConfig(share=0.3, interval=DAY, name="b"))
    assert (held & other).mean() == pytest.approx(0.09, abs=0.015)


def test_a_share_needs_an_interval() -> None:
    with pytest.raises(ConfigError, match=r"interval must be given"):
        CorpusConfig.from_dict({"holdout": {"share": 0.1}})
    with pytest.raises(ConfigError, match=r"at most 0.5"):
        CorpusConfig.from_dict({"holdout": {"share": 0.6, "interval": "1d"}})


@pytest.mark.parametrize("n_partitions", [1, 3])
def test_held_out_hosts_have_the_interval_and_others_do_not(
    open_corpus: Open, n_partitions: int
) -> None:
    shape = {"partitions": n_partitions}
    pattern = [{"match": "*/1", "max_age": "5d"}]
    corpus = open_corpus(corpus=shape, pattern=pattern)
    corpus.add(URLS[:12])
    corpus.close()
    corpus = open_corpus(corpus=shape, pattern=pattern, holdout=HOLDOUT)
    corpus.add(URLS)
    held = held_hosts(**HOLDOUT)
    assert 2 <= len(held) <= 10
    for url in URLS:
        usual = (0.0, 5 * DAY) if url.endswith("1") else (0.0, float("inf"))
        is_held = url.split("/")[2] in held
        assert limits(corpus, url) == ((2 * DAY, 2 * DAY) if is_held else usual)
    view = corpus.holdout()
    assert view.is_running
    assert (view.held_out.n_hosts, view.ours.n_hosts) == (len(held), 12 - len(held))
    assert view.held_out.n_pages == 2 * len(held)
    corpus.close()
    corpus = open_corpus(corpus=shape, pattern=pattern)
    for url in URLS:
        assert limits(corpus, url)[0] == 0.0
        assert limits(corpus, url)[1] == (5 * DAY if url.endswith("1") else float("inf"))
    assert not corpus.holdout().is_running


def stale_seconds(corpus: Corpus, url: str) -> float:
    (page,) = corpus.nodes[0].store.pages_of(pa.array([url]))
    tables = corpus.nodes[0].shard.tables
    row = tables.pages.limits[slot_of_page(np.array([page]))][0]
    return float(tables.limits.stale_for[row])


def test_audits_need_not_wait_for_the_interval_but_for_limits_of_users(open_corpus: Open) -> None:
    corpus = open_corpus(holdout=HOLDOUT)
    corpus.add(URLS)
    first, second = sorted(url for url in URLS if url.split("/")[2] in held_hosts(**HOLDOUT))[:2]
    assert stale_seconds(corpus, first) == SCHEDULE_STALE_SECONDS
    corpus.set([first], max_age="2d")
    assert limits(corpus, first) == limits(corpus, second) == (2 * DAY, 2 * DAY)
    assert stale_seconds(corpus, first) == 0.0
    assert stale_seconds(corpus, second) == SCHEDULE_STALE_SECONDS
    explanation = corpus.explain(second)
    assert explanation is not None
    assert explanation.state.stale_seconds == 0.0


def fetch_all(corpus: Corpus, clock: ManualClock, n_rounds: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    for _ in range(n_rounds):
        clock.pass_seconds(DAY / 4)
        orders = corpus.lease(100)
        for order in orders:
            counts[order.url] = counts.get(order.url, 0) + 1
        corpus.report([Outcome(handle=order.handle, digest=b"same") for order in orders])
    return counts


@pytest.mark.slow_without_jit
def test_held_out_pages_are_fetched_at_the_interval(open_corpus: Open, clock: ManualClock) -> None:
    """24 pages with a budget of half a fetch a day each; the old rule fetches every two days."""
    corpus = open_corpus(budget={"rate": "12/d"}, politeness=IMPOLITE, holdout=HOLDOUT)
    corpus.add(URLS)
    fetch_all(corpus, clock, 12)
    counts = fetch_all(corpus, clock, 4 * 20)
    held = held_hosts(**HOLDOUT)
    for url in URLS:
        if url.split("/")[2] in held:
            assert 9 <= counts.get(url, 0) <= 11
    view = corpus.holdout()
    assert view.fair_interval_seconds == 2 * DAY
    assert view.held_out.fetches_per_page == pytest.approx(view.ours.fetches_per_page)


def set_audits(corpus: Corpus, counts: dict[str, tuple[int, int]]) -> None:
    """Set the counts of audits of hosts, as if fetches had shown them."""
    for node in corpus.nodes:
        groups = node.shard.tables.groups
        for host, (n_audited, n_fresh) in counts.items():
            (number,) = node.store.numbers_of(Names.GROUP, [host])
            if number >= 0 and groups.n_pages[number]:
                groups.n_audited[number] = n_audited
                groups.n_audited_fresh[number] = n_fresh


def test_only_audits_since_the_start_count(open_corpus: Open, clock: ManualClock) -> None:
    hosts = [f"h{i}.example" for i in range(100)]
    corpus = open_corpus(holdout=HOLDOUT, audit={"share": 0.1}, budget={"rate": "100/d"})
    corpus.add([f"https://{host}/" for host in hosts])
    held = keeps_old_rule(pa.array(hosts), HoldoutConfig(share=0.5, interval=2 * DAY))
    set_audits(corpus, dict.fromkeys(hosts, (10, 9)))
    view = corpus.holdout()
    assert view.ours.n_audited == 10 * int((~held).sum())
    assert view.ours.freshness == view.held_out.freshness == pytest.approx(0.9)
    assert view.difference.is_known
    assert not view.difference.is_found
    corpus.close()
    clock.pass_seconds(DAY)
    # Another interval is another experiment, which starts without audits.
    corpus = open_corpus(
        holdout={"share": 0.5, "interval": "3d"}, audit={"share": 0.1}, budget={"rate": "100/d"}
    )
    set_audits(corpus, dict.fromkeys(hosts, (10, 9)))
    corpus.close()
    corpus = open_corpus(
        holdout={"share": 0.5, "interval": "3d"}, audit={"share": 0.1}, budget={"rate": "100/d"}
    )
    worse = {h: (60, 20 if is_held else 55) for h, is_held in zip(hosts, held, strict=True)}
    set_audits(corpus, worse)
    view = corpus.holdout()
    assert view.difference.is_found
    assert view.difference.low > 0
    assert view.started_at_ms is not None


@pytest.mark.parametrize("n_partitions", [1, 4])
def test_an_experiment_goes_on_after_a_change_of_partitions(
    open_corpus: Open, tmp_path: Path, n_partitions: int
) -> None:
    hosts = [f"h{i}.example" for i in range(60)]
    corpus = open_corpus(corpus={"partitions": 2})
    corpus.add([f"https://{host}/" for host in hosts])
    set_audits(corpus, dict.fromkeys(hosts, (10, 9)))
    corpus.snapshot()
    corpus.close()
    corpus = open_corpus(corpus={"partitions": 2}, holdout=HOLDOUT)
    set_audits(corpus, {host: (12 + i, 10 + i // 2) for i, host in enumerate(hosts)})
    before = corpus.holdout()
    n_audited = before.ours.n_audited + before.held_out.n_audited
    assert n_audited == sum(2 + i for i in range(60))
    corpus.snapshot()
    corpus.close()
    resize_corpus(tmp_path / "corpus", n_partitions)
    corpus = open_corpus(corpus={"partitions": n_partitions}, holdout=HOLDOUT)
    after = corpus.holdout()
    assert after.started_at_ms == before.started_at_ms
    assert (after.ours, after.held_out) == (before.ours, before.held_out)
    same = pytest.approx(dataclasses.astuple(before.difference), nan_ok=True)
    assert dataclasses.astuple(after.difference) == same


def test_both_arms_get_the_same_fetches_at_the_interval_of_the_plan(open_corpus: Open) -> None:
    sections = {"audit": {"share": 0.3}, "budget": {"rate": "600/d"}}
    corpus = open_corpus(**sections)
    corpus.add([f"https://h{i}.example/" for i in range(200)])
    interval = corpus.holdout(share=0.5).fair_interval_seconds
    assert interval is not None
    assert interval > DAY / 3
    corpus.close()
    corpus = open_corpus(**sections, holdout={"share": 0.5, "interval": interval})
    view = corpus.holdout()
    assert view.held_out.fetches_per_page == pytest.approx(3)
    assert view.ours.fetches_per_page == pytest.approx(3)


def test_a_plan_says_what_can_be_found(open_corpus: Open) -> None:
    corpus = open_corpus(audit={"share": 0.1}, budget={"rate": "1000/d"})
    corpus.add([f"https://h{i}.example/" for i in range(200)])
    view = corpus.holdout(share=0.3, days=28)
    assert not view.is_running
    assert view.audits_per_day == pytest.approx(100)
    assert 0.02 < view.detectable < 0.3
    assert corpus.holdout(share=0.3, days=90).detectable < view.detectable
    assert corpus.holdout(share=0.01).detectable == float("inf")
    # A tenth of the fetches are audits, which come at random: the interval may be longer for it.
    assert view.fair_interval_seconds == pytest.approx(DAY / 5 * -math.log(0.9) / 0.1)
