"""Tables can be sorted by their columns, and charts over time have the right units."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recrawl.corpus import Corpus, Outcome
from recrawl.dashboard import attach_dashboard
from recrawl.dashboard.pages.host_charts import kind_charts, source_charts
from recrawl.dashboard.pages.overview_charts import rows_per_hour
from recrawl.messages.samples import SourceSamples
from tests.manual_clock import ManualClock
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.service.running_server import RunningServer

MINUTE = 60_000


def _names(html: str) -> list[str]:
    """Return the first cell of each row of the first table."""
    body = re.findall(r"<tbody>(.*?)</tbody>", html, re.DOTALL)[0]
    cells = re.findall(r'<th scope="row">(.*?)</th>', body, re.DOTALL)
    return [re.sub("<[^>]*>", "", cell).strip() for cell in cells]


def _series(*minutes: int, delay_seconds: float = 60.0, step: str = "minute") -> SourceSamples:
    n = len(minutes)
    return SourceSamples(
        step=step,
        at_ms=np.array(minutes, np.int64) * MINUTE,
        precision=np.full(n, 0.5),
        recall=np.full(n, 0.5),
        delay_seconds=np.full(n, delay_seconds),
        n_judged=np.ones(n),
        n_signals=np.ones(n),
    )


@pytest.fixture
def server(
    open_corpus: Callable[..., Corpus], clock: ManualClock, folder: Path
) -> Iterator[RunningServer]:
    corpus = open_corpus(pattern=[{"match": "/a/*", "kind": "a"}, {"match": "/b/*", "kind": "b"}])
    corpus.add([f"https://large.example/a/{i}" for i in range(6)])
    corpus.add([f"https://small.example/b/{i}" for i in range(3)])
    corpus.add(["https://closed.example/"])
    corpus.set_host("closed.example", is_closed=True)
    corpus.set_host("small.example", delay=60.0)
    for i in range(4):
        clock.pass_seconds(61)
        corpus.signal(["https://small.example/b/1"], source="ping")
        corpus.report([Outcome(url="https://small.example/b/2", digest=bytes([i]))])
        corpus.signal(["https://large.example/a/1"], source="feed")
    with RunningServer(
        {"news": corpus}, folders={"news": folder}, dashboard=attach_dashboard
    ) as running:
        yield running


def test_tables_are_sorted_by_the_column_asked_for(server: RunningServer) -> None:
    browser = BrowserClient(server)

    def names(path: str) -> list[str]:
        answer = browser.get(f"/ui/news/{path}")
        assert answer.status == 200
        return _names(answer.data.decode())

    assert names("hosts") == ["large.example", "small.example", "closed.example"]
    assert names("hosts?sort=errors")[0] == "closed.example"
    assert names("hosts?sort=delay")[0] == "small.example"
    assert names("hosts?sort=none") == names("hosts")
    assert names("kinds") == ["a", "b", "other pages"]
    for sort in ("fetches", "changes"):
        assert names(f"kinds?sort={sort}")[0] == "b"
    for sort in ("budget", "fresh", "weighted", "due", "none"):
        assert set(names(f"kinds?sort={sort}")) == {"a", "b", "other pages"}
    for sort in ("hosts", "signals", "correct", "complete", "delay", "judged", "none"):
        assert set(names(f"sources?sort={sort}")) == {"ping", "feed"}
        assert names(f"sources?source=ping&sort={sort}") == ["small.example"]
    html = browser.get("/ui/news/hosts?sort=freshness").data.decode()
    assert html.count("aria-sort=") == 1
    assert 'aria-sort="ascending"><a href="/ui/news/hosts?sort=freshness">' in html


def test_kinds_are_drawn_over_time(server: RunningServer) -> None:
    html = BrowserClient(server).get("/ui/news/kinds").data.decode()
    assert 'aria-label="Fresh copies, a chart"' in html
    assert html.count('aria-current="true"') == 1
    assert kind_charts({}, 0) == []


def test_a_minute_has_the_counts_since_the_sample_before() -> None:
    assert rows_per_hour(_series(0, 1, 2), 2 * MINUTE).tolist() == [60, 60, 60]
    # Used once an hour, for example by a timer.
    assert rows_per_hour(_series(0, 60, 61), 61 * MINUTE).tolist() == [1, 1, 60]


@pytest.mark.parametrize(("minutes_since", "per_hour"), [(0, 60), (1, 60), (15, 4), (60, 1)])
def test_an_unfinished_hour_has_the_rate_so_far(minutes_since: int, per_hour: int) -> None:
    series = _series(0, 60, 600, step="hour")
    now_ms = (600 + minutes_since) * MINUTE
    assert rows_per_hour(series, now_ms).tolist() == [1, 1, per_hour]
    assert rows_per_hour(series, now_ms + 10 * 60 * MINUTE).tolist() == [1, 1, 1]


def test_an_unfinished_day_has_the_rate_so_far() -> None:
    series = _series(0, 1_440, step="day")
    assert rows_per_hour(series, (1_440 + 360) * MINUTE).tolist() == [1 / 24, 1 / 6]


@pytest.mark.parametrize(("step", "minutes"), [("hour", 60), ("day", 1_440)])
def test_the_first_hour_or_day_has_the_rate_of_the_part_that_the_corpus_existed(
    step: str, minutes: int
) -> None:
    series = _series(10 * minutes, 11 * minutes, 12 * minutes, step=step)
    now_ms = 13 * minutes * MINUTE
    whole = 60 / minutes
    assert rows_per_hour(series, now_ms).tolist() == [whole] * 3
    late = replace(series, first_ms=(11 * minutes - 6) * MINUTE)
    assert rows_per_hour(late, now_ms).tolist() == [10, whole, whole]
    # A rate of less than a minute would be mostly chance.
    last = replace(series, first_ms=11 * minutes * MINUTE - 1)
    assert rows_per_hour(last, now_ms).tolist() == [60, whole, whole]
    # The chart begins later than the corpus.
    for first_ms in (0, 10 * minutes * MINUTE - 1):
        early = replace(series, first_ms=first_ms)
        assert rows_per_hour(early, now_ms).tolist() == [whole] * 3


def test_the_only_hour_has_the_rate_from_the_first_sample_until_now() -> None:
    series = replace(_series(600, step="hour"), first_ms=620 * MINUTE)
    assert rows_per_hour(series, 635 * MINUTE).tolist() == [4]
    assert rows_per_hour(series, 620 * MINUTE).tolist() == [60]
    assert rows_per_hour(replace(series, at_ms=series.at_ms[:0]), 0).size == 0


def test_the_minute_of_the_first_sample_has_no_rate() -> None:
    series = replace(_series(5, 6, 7), first_ms=5 * MINUTE + 100)
    assert np.isnan(rows_per_hour(series, 8 * MINUTE)).tolist() == [True, False, False]
    assert rows_per_hour(series, 8 * MINUTE)[1:].tolist() == [60, 60]
    assert "nan" not in "".join(source_charts(series, 8 * MINUTE)).lower()


@pytest.mark.parametrize(
    ("seconds", "unit"), [(30, "seconds"), (600, "minutes"), (21_600, "hours"), (9e5, "days")]
)
def test_delays_are_drawn_in_a_unit_that_suits_them(seconds: float, unit: str) -> None:
    assert f"{unit} from a change" in source_charts(_series(0, 1, delay_seconds=seconds), 0)[1]
