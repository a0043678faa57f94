"""Series over time: logged by the owner, kept in minutes, hours and days, and added up."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recrawl
from recrawl.client.answers import read_samples, read_source_samples
from recrawl.corpus import Corpus, CorpusConfig, Outcome
from recrawl.corpus.monitoring import series
from recrawl.corpus.monitoring.series import merge_series, merge_source_series
from recrawl.messages.samples import (
    COUNTS,
    HISTOGRAMS,
    RESULTS,
    STATES,
    STEPS,
    Samples,
    SourceSamples,
)
from recrawl.node.records import StateSampled, entry_of
from recrawl.node.sampling import buckets
from recrawl.node.sampling.encoding import COLUMNS, SampleRows
from recrawl.service.formats.answers import json_answer
from tests.manual_clock import ManualClock
from tests.unit.node.durability.test_recovery import crashed_copy

Open = Callable[..., Corpus]
URLS = [f"https://site{i}.example/{j}" for i in range(6) for j in range(i + 1)]
BUDGET = {"rate": "36000/h"}


def work(corpus: Corpus, clock: ManualClock, n_minutes: int) -> None:
    """Fetch some pages in each of some minutes."""
    for minute in range(n_minutes):
        orders = corpus.lease(5)
        outcomes = [
            Outcome(handle=one.handle, status=200, digest=b"%d" % (minute // 3)) for one in orders
        ]
        corpus.report(outcomes)
        corpus.signal(URLS[:2], source="sitemap")
        clock.pass_seconds(60)
        for node in corpus.nodes:
            node.tick(corpus.time)


def n_logged(corpus: Corpus) -> int:
    """Return the number of samples in all logs."""
    return sum(
        isinstance(entry_of(record), StateSampled)
        for node in corpus.nodes
        for _, record in node.ledger.read(0)
    )


def same(one: Samples, other: Samples) -> None:
    """Check that two series are equal."""
    assert json_answer(one.as_dict()).body == json_answer(other.as_dict()).body


def test_the_owner_logs_one_sample_per_minute_and_partition(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(budget=BUDGET, corpus={"partitions": 2})
    corpus.add(URLS)
    assert n_logged(corpus) == 0
    work(corpus, clock, 1)
    n_signals, n_outcomes = corpus.stats().n_signals, corpus.stats().n_outcomes
    work(corpus, clock, 4)
    assert n_logged(corpus) == 10
    found = corpus.samples()
    assert np.diff(found.at_ms).tolist() == [60_000] * 4
    assert found.n_partitions.tolist() == [2] * 5
    assert found.n_pages.tolist() == [len(URLS)] * 5
    now = corpus.sample()
    assert found.fresh_pages[-1] == pytest.approx(now.total.fresh_pages, rel=1e-4)
    assert found.price[-1] == pytest.approx(now.price, rel=1e-4)
    assert found.budget_per_second.tolist() == [10.0] * 5
    assert found.n_fetches.sum() == corpus.stats().n_outcomes - n_outcomes > 0
    assert found.spent.sum() == found.n_fetches.sum()
    assert found.results["changed"].sum() == corpus.stats().n_changed
    # Counting begins with the first sample.
    assert found.n_signals.sum() == corpus.stats().n_signals - n_signals > 0
    for name in HISTOGRAMS:
        assert found.histogram(name).counts == now.histograms[name].counts
    assert found.histogram("freshness").quantile(0.5) == pytest.approx(
        now.histograms["freshness"].quantile(0.5)
    )


def test_hours_and_days_are_sums_of_minutes(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget=BUDGET)
    corpus.add(URLS)
    corpus.set(URLS[:4], kind="news")
    work(corpus, clock, 100)
    for given in ({}, {"host": "site5.example"}, {"kind": "news"}, {"kind": ""}):
        minutes = corpus.samples(**given)  # type: ignore[arg-type]
        for step in ("hour", "day"):
            found = corpus.samples(step=step, **given)  # type: ignore[arg-type]
            bucket = np.searchsorted(found.at_ms, minutes.at_ms, side="right") - 1
            assert (minutes.at_ms // STEPS[step] * STEPS[step] == found.at_ms[bucket]).all()
            for name in COUNTS:
                one, other = (
                    series.results[name] if name in RESULTS else getattr(series, name)
                    for series in (minutes, found)
                )
                assert np.bincount(bucket, one).tolist() == other.tolist(), name
            for name in STATES:
                mean = np.bincount(bucket, getattr(minutes, name)) / np.bincount(bucket)
                assert mean == pytest.approx(getattr(found, name)), name
            for name in minutes.histograms:
                total = np.zeros_like(found.histograms[name])
                np.add.at(total, bucket, minutes.histograms[name])
                mean = total / np.bincount(bucket)[:, np.newaxis]
                assert mean == pytest.approx(found.histograms[name]), name
    days = corpus.samples(step="day")
    sums = [corpus.samples(step="day", host=f"site{i}.example") for i in range(6)]
    for name in (*STATES, "spent"):
        each = sum(getattr(one, name).sum() for one in sums)
        assert each == pytest.approx(getattr(days, name).sum(), rel=1e-4), name


def test_partitions_are_sampled_at_different_moments_of_a_minute(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(budget=BUDGET, corpus={"partitions": 16})
    corpus.add(URLS)
    seen: list[int] = []
    for _ in range(60):
        clock.pass_seconds(3)
        for node in corpus.nodes:
            node.tick(corpus.time)
        seen.append(n_logged(corpus))
    # Once in each minute, and few of them together.
    assert max(np.diff(seen)) <= 2
    assert seen[39] - seen[19] == seen[59] - seen[39] == 16
    # After a pause, all of them at once.
    clock.pass_seconds(300)
    for node in corpus.nodes:
        node.tick(corpus.time)
    assert n_logged(corpus) - seen[-1] == 16


def test_they_survive_a_kill_and_are_not_sampled_again(
    open_corpus: Open, clock: ManualClock, tmp_path: Path
) -> None:
    corpus = open_corpus(budget=BUDGET, corpus={"partitions": 2})
    corpus.add(URLS)
    work(corpus, clock, 3)
    corpus.snapshot()
    work(corpus, clock, 3)
    before, n_before, n_signals = corpus.samples(), n_logged(corpus), corpus.stats().n_signals
    # As after kill -9: a copy of the files, of which nothing was closed.
    crashed_copy(tmp_path / "corpus", tmp_path / "killed")
    config = CorpusConfig.from_dict({"budget": BUDGET, "corpus": {"partitions": 2}})
    with recrawl.open(tmp_path / "killed", config, clock=clock) as again:
        same(again.samples(), before)
        assert n_logged(again) == n_before
        work(again, clock, 2)
        after, n_new = again.samples(), again.stats().n_signals - n_signals
    assert after.n_signals.tolist()[:6] == before.n_signals.tolist()
    assert (after.n_signals >= 0).all()
    assert after.n_signals.sum() == before.n_signals.sum() + n_new > 0


def test_old_minutes_and_hours_are_removed(
    open_corpus: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {
        "minute": buckets.RESOLUTIONS["minute"]._replace(n_kept=10),
        "hour": buckets.RESOLUTIONS["hour"]._replace(n_kept=1),
        "day": buckets.RESOLUTIONS["day"],
    }
    monkeypatch.setattr(buckets, "RESOLUTIONS", kept)
    corpus = open_corpus(budget=BUDGET)
    corpus.add(URLS)
    work(corpus, clock, 1)
    n_signals = corpus.stats().n_signals
    work(corpus, clock, 69)
    assert corpus.samples().at_ms.size == 10
    assert corpus.samples(step="hour").at_ms.size == 1
    day = corpus.samples(step="day")
    assert day.n_signals.sum() == corpus.stats().n_signals - n_signals > 20


def test_sources_have_series(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget=BUDGET, corpus={"partitions": 3})
    corpus.add(URLS)
    clock.pass_seconds(60)
    for node in corpus.nodes:
        node.tick(corpus.time)
    work(corpus, clock, 4)
    found = corpus.source_samples("sitemap", "site0.example")
    known = corpus.source("sitemap", "site0.example")
    assert known is not None
    # The source is counted from its beginning, because the sample before had all sources.
    assert found.n_signals.sum() == known.n_signals > 0
    assert ((found.precision > 0) & (found.precision < 1)).all()
    answer = json.loads(bytes(json_answer(found.as_dict()).body))
    assert read_source_samples(answer).n_signals.tolist() == found.n_signals.tolist()
    assert corpus.source_samples("feed", "site0.example").at_ms.size == 0


def test_a_host_is_read_from_its_own_partition_alone(
    open_corpus: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus(budget=BUDGET, corpus={"partitions": 3})
    corpus.add(URLS)
    corpus.signal(URLS, source="sitemap")
    work(corpus, clock, 2)
    read: list[str] = []

    def read_row(store: Any, step: str, part: str, *where: int) -> Any:
        read.append(part)
        return buckets.read_row(store, step, part, *where)

    monkeypatch.setattr(series, "read_row", read_row)
    assert corpus.samples(host="site5.example").n_pages[-1] == 6
    assert read == ["hosts"]
    assert corpus.source_samples("sitemap", "site5.example").at_ms.size
    assert read == ["hosts", "sources"]
    assert corpus.samples(kind="unknown").at_ms.size == 0
    assert read == ["hosts", "sources"]


def test_a_source_of_two_partitions_has_the_mean_of_what_is_known() -> None:
    def part(*recall: float, n_judged: float) -> SourceSamples:
        n = np.ones(len(recall))
        return SourceSamples(
            step="hour",
            at_ms=np.arange(len(recall)) * 3_600_000,
            n_signals=n,
            precision=0.5 * n,
            recall=np.array(recall),
            delay_seconds=n,
            n_judged=n_judged * n,
        )

    one, other = part(np.nan, np.nan, 0.2, n_judged=0), part(np.nan, 0.8, 0.8, n_judged=2)
    found = merge_source_series([one, other], step="hour")
    assert found.recall == pytest.approx([np.nan, 0.8, 0.65], nan_ok=True)
    assert found.precision == pytest.approx([0.5] * 3)


class SampleStore:
    """A store and its next write at once."""

    def __init__(self) -> None:
        self.samples: dict[bytes, bytes | None] = {}

    def sample_value(self, key: bytes) -> bytes | None:
        return self.samples.get(key)

    def sample_values(
        self, first: bytes, end: bytes, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        del limit
        found = sorted((key, value) for key, value in self.samples.items() if value is not None)
        return [(key, value) for key, value in found if first <= key < end]


@pytest.mark.parametrize(
    ("recall", "mean"),
    [
        ([-1.0] * 10 + [0.75] * 50, 0.75),
        ([0.75] * 50 + [-1.0] * 10, 0.75),
        ([-1.0, 0.5, 1.0], 2 / 3),
        ([-1.0] * 3, -1.0),
    ],
)
def test_an_hour_has_the_mean_of_the_known_recall(recall: list[float], mean: float) -> None:
    store = SampleStore()
    empty = {
        part: SampleRows(np.empty(0, np.int64), np.empty(0), np.empty((0, n)))
        for part, n in COLUMNS.items()
    }
    empty["total"] = SampleRows(np.zeros(1, np.int64), np.ones(1), np.ones((1, COLUMNS["total"])))
    for minute, value in enumerate(recall):
        row = np.array([[1.0, 0.5, value, 60.0, 3.0], [1.0, 0.5, 0.25, 60.0, 3.0]])
        rows = SampleRows(np.array([2, 3]), np.ones(2), row)
        buckets.add_sample(store, store, minute * 60_000, empty | {"sources": rows})
    for number, wanted in ((2, mean), (3, 0.25)):
        at_ms, figures = buckets.read_row(store, "hour", "sources", 0, 3_600_000, number)
        assert at_ms.tolist() == [0]
        assert figures[0, 2] == pytest.approx(wanted)


def test_partitions_and_workers_are_added_up(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget=BUDGET, corpus={"partitions": 3})
    corpus.add(URLS)
    work(corpus, clock, 4)
    whole = corpus.samples()
    again = read_samples(json.loads(bytes(json_answer(whole.as_dict()).body)))
    same(again, whole)
    both = merge_series([whole, again], step="minute", n_away=1)
    assert both.n_partitions.tolist() == [6] * 4
    assert both.n_pages.tolist() == (2 * whole.n_pages).tolist()
    assert both.price == pytest.approx(whole.price)
    assert both.freshness == pytest.approx(whole.freshness)
    assert both.n_partitions_away == 1
    later = merge_series(
        [whole, corpus.samples(since_ms=int(whole.at_ms[2]))], step="minute"
    ).n_partitions
    assert later.tolist() == [3, 3, 6, 6]
    assert merge_series([], step="hour").at_ms.size == 0


def test_a_partition_without_a_sample_keeps_its_state(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(budget=BUDGET, corpus={"partitions": 2})
    corpus.add(URLS)
    work(corpus, clock, 2)
    # One of the partitions is not used for two minutes, for instance because it has no owner.
    busy, _ = corpus.nodes
    for _ in range(2):
        clock.pass_seconds(60)
        busy.tick(corpus.time)
    found = corpus.samples()
    assert found.n_partitions.tolist() == [2, 2, 1, 1]
    assert found.n_pages.tolist() == [len(URLS)] * 4
    assert found.n_due[-1] >= found.n_due[1] > 0
    for name in ("freshness", "copy_age"):
        assert found.histograms[name][-1].sum() == found.histograms[name][1].sum() > 0
    assert found.spent[-2:].tolist() == [0, 0]


def test_a_span_and_a_step_are_chosen(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget=BUDGET)
    corpus.add(URLS)
    work(corpus, clock, 6)
    every = corpus.samples().at_ms
    some = corpus.samples(since_ms=int(every[1]), until_ms=int(every[4]))
    assert some.at_ms.tolist() == every[1:4].tolist()
    with pytest.raises(ValueError, match="step must be one of minute, hour, day"):
        corpus.samples(step="week")
    with pytest.raises(ValueError, match="not both"):
        corpus.samples(host="a", kind="b")
    assert corpus.samples(host="nowhere.example").at_ms.size == 0


def test_the_time_of_the_first_sample_is_known(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget=BUDGET)
    assert corpus.samples().first_ms is None
    corpus.add(URLS)
    work(corpus, clock, 3)
    found = corpus.samples()
    assert found.first_ms is not None
    assert found.at_ms[0] <= found.first_ms < found.at_ms[0] + 60_000
    assert found.n_fetches[0] == 0  # counts begin with it
    clock.pass_seconds(2 * 86_400)
    work(corpus, clock, 2)
    host = corpus.samples(step="day", host="site1.example")
    source = corpus.source_samples("sitemap", "site0.example")
    assert {one.first_ms for one in (host, source, corpus.samples())} == {found.first_ms}
    answer = json.loads(bytes(json_answer(host.as_dict()).body))
    assert read_samples(answer).first_ms == found.first_ms
    answer = json.loads(bytes(json_answer(source.as_dict()).body))
    assert read_source_samples(answer).first_ms == found.first_ms
    # An earlier server does not say it.
    del answer["first_ms"]
    assert read_source_samples(answer).first_ms is None


def test_the_first_sample_of_several_partitions_is_the_earliest(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(budget=BUDGET)
    corpus.add(URLS)
    work(corpus, clock, 3)
    one = corpus.samples(step="hour")
    assert one.first_ms is not None
    later = replace(one, first_ms=one.first_ms + 5)
    unknown = replace(one, first_ms=None)
    assert merge_series([later, unknown, one], step="hour").first_ms == one.first_ms
    assert merge_series([unknown], step="hour").first_ms is None
    assert merge_series([], step="hour").first_ms is None
