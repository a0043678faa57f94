"""A shadow reads a growing log, resumes, reports each finished week, and finds differences."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recrawl.backtest import Estimate, history_of
from recrawl.errors import ReadError
from recrawl.shadow import (
    FollowedFile,
    Shadow,
    ShadowReport,
    ShadowSettings,
    combine_imputations,
    estimate_shadow,
    shadow_html,
    shadow_lines,
    week_name,
    week_start,
)
from recrawl.shadow.weeks import WEEK_MS
from recrawl.sim import make_web
from tests.reference.backtest_logs import DAY, START_MS, polled_log

NOW_MS = START_MS + 400 * 86_400_000


def log_lines(n_pages: int = 30, n_days: int = 24) -> list[str]:
    """Return the log of a crawler that fetches each page daily; every third page changes a lot."""
    rng = np.random.default_rng(1)
    rows = []
    for page in range(n_pages):
        version = 0
        for day in range(n_days):
            version += int(rng.random() < (0.5 if page % 3 == 0 else 0.03))
            at = (START_MS // 1000) + day * 86_400 + 600 * page
            url = f"https://site{page % 10}.example/{page}"
            rows.append((at, json.dumps({"url": url, "at": at, "digest": f"{version}"})))
    return [line for _, line in sorted(rows)]


OPENED: list[Shadow] = []


@pytest.fixture(autouse=True)
def _close_logs() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def make_shadow(folder: Path, path: Path, **settings: Any) -> Shadow:
    def open_log(place: Mapping[str, Any] | None) -> FollowedFile:
        return FollowedFile(path, place)

    wanted = ShadowSettings(n_imputations=2, **settings)
    OPENED.append(Shadow(folder, open_log, settings=wanted, now_ms=lambda: NOW_MS))
    return OPENED[-1]


def read_all(shadow: Shadow) -> None:
    while shadow.read():
        pass


def test_weeks_begin_on_monday() -> None:
    for at_ms in (START_MS, 0, NOW_MS):
        start = week_start(at_ms)
        assert start <= at_ms < start + WEEK_MS
        assert week_start(start) == start
    assert week_name(week_start(1_767_225_600_000)) == "2026-W01"


def test_intervals_of_imputations_are_as_in_the_papers() -> None:
    """Equal estimates add nothing; unequal ones widen the interval, with few degrees of freedom."""
    same = combine_imputations(np.full(5, 0.3), np.full(5, 0.01), 10**6)
    assert same.high - same.value == pytest.approx(1.96 * 0.1, rel=1e-3)
    wide = combine_imputations(np.array([0.1, 0.3, 0.5]), np.full(3, 0.01), 10**6)
    total, missing = 0.01 + 4 / 3 * 0.04, (4 / 3 * 0.04) / (0.01 + 4 / 3 * 0.04)
    assert 2 / missing**2 == pytest.approx(2.82, abs=0.01)
    assert wide.high - wide.value == pytest.approx(3.30 * np.sqrt(total), rel=0.01)
    unknown = combine_imputations(np.array([0.1, np.nan]), np.ones(2), 50)
    assert not unknown.is_known


@pytest.mark.slow
@pytest.mark.slow_without_jit
def test_reports_come_weekly_and_a_restart_changes_nothing(tmp_path: Path) -> None:
    lines = log_lines()
    path = tmp_path / "log.jsonl"
    once = make_shadow(tmp_path / "once", path)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    read_all(once)
    whole: list[ShadowReport] = []
    while (report := once.next_report()) is not None:
        whole.append(report)
        once.finish(report)
    path.write_text("", "utf-8")
    parts: list[ShadowReport] = []
    for number in range(0, len(lines), 300):
        with path.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines[number : number + 300]) + "\n")
        shadow = make_shadow(tmp_path / "parts", path)
        read_all(shadow)
        while (report := shadow.next_report()) is not None:
            parts.append(report)
            shadow.finish(report)
        shadow.close()
    assert [report.name for report in parts] == [report.name for report in whole]
    assert len(whole) == 4
    # As text, because an unknown edge of an interval is nan, which equals nothing.
    assert str([r.estimate for r in parts]) == str([r.estimate for r in whole])
    last = whole[-1]
    assert [week.week for week in last.weeks] == [r.name for r in whole if r.estimate is not None]
    page = shadow_html(last, name="<log>", version="1")
    assert "&lt;log&gt;" in page
    assert "Week by week" in page
    assert "What is known, and what is estimated" in page


def test_bad_lines_and_rows_of_the_future_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    future = json.dumps({"url": "https://a.example/", "at": NOW_MS / 1000 + 9e5, "digest": "1"})
    lines = log_lines(n_days=3)
    path.write_text("\n".join([*lines, "{broken", "[]", future]) + "\n", "utf-8")
    shadow = make_shadow(tmp_path / "state", path)
    read_all(shadow)
    assert shadow.counts.n_refused == 2
    assert shadow.counts.n_future == 1
    assert shadow.rows.n_rows == len(lines)
    texts = shadow_lines(shadow.report_now())
    assert "too small" in texts[1]


def test_a_table_keeps_its_header_over_restarts_and_new_files(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("link,at,digest\nhttps://a.example/,1600000000,1\n", "utf-8")

    def read(text: str) -> Shadow:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
        shadow = make_shadow(tmp_path / "state", path, columns={"url": "link"})
        read_all(shadow)
        return shadow

    assert read("").rows.n_rows == 1
    assert read("https://a.example/,1600000100,2\n").rows.n_rows == 2
    path.rename(tmp_path / "log.csv.1")
    shadow = read("digest,at,link\n3,1600000200,https://a.example/\n")
    assert shadow.rows.n_rows == 3
    assert read("4,1600000300,https://a.example/\n").rows.n_rows == 4
    assert shadow.counts.n_refused == 0


def test_a_file_that_is_not_a_log_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_text("https://a.example/\n", "utf-8")
    with pytest.raises(ReadError, match="JSON lines or CSV"):
        make_shadow(tmp_path / "state", path).read()
    (tmp_path / "state" / "shadow.json").write_text("{}", "utf-8")
    with pytest.raises(ReadError, match="another version"):
        make_shadow(tmp_path / "state", path)


def test_a_pause_of_years_makes_no_reports_of_empty_weeks(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"url": "https://a.example/", "at": at, "digest": "1"} for at in (1e9, 1.6e9, 1.61e9)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    shadow = make_shadow(tmp_path / "state", path)
    read_all(shadow)
    names = []
    while (report := shadow.next_report()) is not None:
        names.append(report.name)
        shadow.finish(report)
    assert names == ["2001-W36", "2020-W37"]


@pytest.mark.slow
@pytest.mark.slow_without_jit
def test_a_planted_difference_is_found() -> None:
    """Pages change at rates from never to daily, and the crawler fetches all of them equally."""
    rng = np.random.default_rng(3)
    rate = rng.gamma(0.3, 0.8, 200) / DAY
    web = make_web(3, 56 * DAY, rate, group=np.arange(200) // 4)
    support, found = estimate_shadow(history_of(polled_log(web, 4 * DAY)), n_imputations=2)
    assert support.is_enough
    assert found is not None
    assert found.is_difference_found
    assert found.gain.low > 0
    assert found.savings.low > 0
    assert found.n_hosts == 50


def test_the_text_of_a_report_names_the_difference() -> None:
    known = Estimate(value=0.123, low=0.05, high=0.2)
    text = " ".join(_lines(gain=known, savings=known))
    assert "Difference: +12.3 points (+5.0 to +20.0)." in text
    assert "12 % fewer fetches (5 % fewer to 20 % fewer)" in text
    assert "recrawl would have done better" in text
    worse = Estimate(value=-0.05, low=-0.1, high=0.01)
    text = " ".join(_lines(gain=worse, savings=worse))
    assert re.search(r"−5\.0 points \(−10\.0 to \+1\.0\)", text)
    assert "No difference" in text


def _lines(gain: Estimate, savings: Estimate) -> list[str]:
    from recrawl.backtest import Support  # noqa: PLC0415
    from recrawl.shadow import LogCounts, ShadowEstimate  # noqa: PLC0415

    share = Estimate(value=0.8, low=0.7, high=0.9)
    estimate = ShadowEstimate(
        start_ms=0,
        end_ms=WEEK_MS,
        n_pages=50,
        n_hosts=5,
        n_fetches=500,
        freshness=share,
        freshness_of_ours=share,
        gain=gain,
        savings=savings,
    )
    report = ShadowReport(
        name="2026-W07",
        from_ms=0,
        until_ms=WEEK_MS,
        support=Support(findings=()),
        estimate=estimate,
        counts=LogCounts(n_refused=2),
        kept_share=1.0,
        weeks=(),
    )
    return shadow_lines(report)
