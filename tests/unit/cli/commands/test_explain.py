"""Tests of ``recrawl explain``: text, numbers and plots, now and as of a past time."""

import json
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

import recrawl
from recrawl import Outcome
from recrawl.cli import main
from recrawl.cli.commands import explain as module
from recrawl.cli.support.instants import instant_of
from recrawl.corpus import CorpusConfig
from recrawl.node.durability import snapshotter
from tests.corpus_fixtures import (
    IMPOLITE,
    small_table_without_jit,  # noqa: F401 - for the corpora made here
)
from tests.manual_clock import ManualClock

DAY = 86_400
URL = "https://shop.example/product/1"
N_DAYS = 6


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments, "-C", str(folder)])


def build(folder: Path, *, keep: int = 2, n_snapshots: int = 0) -> Path:
    """Create a corpus with a few days of fetches, up to now."""
    clock = ManualClock(int(time.time() * 1000) - N_DAYS * DAY * 1000 - 60_000)
    config = CorpusConfig.from_dict(
        {
            "politeness": IMPOLITE,
            "budget": {"rate": "1/h"},
            "snapshots": {"every": "52w", "keep": keep},
            "pattern": [{"match": "/legal/*", "max_age": "2d", "min_age": "1h"}],
        }
    )
    with recrawl.open(folder, config, clock=clock) as corpus:
        corpus.add([URL, "https://shop.example/product/2", "https://shop.example/legal/1"])
        for day in range(N_DAYS):
            clock.pass_seconds(DAY)
            corpus.lease(1)
            corpus.report(Outcome(url=URL, digest=b"%d" % (day // 2)))
            corpus.signal([URL], source="sitemap")
            if day < n_snapshots:
                corpus.snapshot()
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("explain") / "corpus")


def test_text_has_an_explanation_numbers_and_a_timeline(folder: Path) -> None:
    result = run(folder, URL, "--no-json")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == URL
    assert lines[1].startswith("Last fetched ")
    for name in ("belief", "prior", "signals of sitemap", "value", "importance", "host", "limits"):
        assert any(line.strip().startswith(name) for line in lines), name
    assert "● changed" in result.output
    assert "polls" in result.output


def test_as_json(folder: Path) -> None:
    result = run(folder, URL, "--json")
    (line,) = result.output.splitlines()
    row = json.loads(line)
    assert row["url"] == URL
    assert row["words"].startswith("Last fetched")
    assert row["status"] == "active"
    assert row["why"] in ("not_yet", "due", "never")
    assert row["sources"][0]["source"] == "sitemap"
    assert row["host"]["name"] == "shop.example"
    assert 0 < row["freshness_probability"] < 1
    assert "history" not in row


def test_the_history_as_json(folder: Path) -> None:
    row = json.loads(run(folder, URL, "--json", "--history").output)
    assert len(row["history"]["polls"]) == N_DAYS
    assert len(row["history"]["signals"]) == N_DAYS


def test_limits_are_named(folder: Path) -> None:
    result = run(folder, "https://shop.example/legal/1", "--no-json")
    assert "min_age 60 min; max_age 2 days" in result.output


def test_a_long_log_is_read_only_with_history(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RECORDS_READ_MAX", 0)
    assert "● changed" not in run(folder, URL, "--no-json").output
    assert "● changed" in run(folder, URL, "--no-json", "--history").output


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_a_plot_is_written(folder: Path, tmp_path: Path, suffix: str) -> None:
    plot = tmp_path / f"page.{suffix}"
    result = run(folder, URL, "--no-json", "--plot", str(plot))
    assert result.exit_code == 0, result.output
    drawn = plot.read_text()
    assert "Probability that the copy is fresh" in drawn
    assert "sitemap" in drawn
    if suffix == "svg":
        ET.fromstring(drawn)
    else:
        assert "Last fetched" in drawn


def test_an_unknown_plot_format_is_a_usage_error(folder: Path) -> None:
    result = run(folder, URL, "--plot", "page.png")
    assert result.exit_code == 2
    assert "must end with .svg or .html" in result.output


def test_a_plot_that_cannot_be_written_is_a_message(folder: Path, tmp_path: Path) -> None:
    result = run(folder, URL, "--plot", str(tmp_path / "none" / "page.svg"))
    assert result.exit_code == 1
    assert "cannot be written" in result.output


def test_explains_a_page_as_of_a_past_time(folder: Path) -> None:
    result = run(folder, URL, "--no-json", "--at", "2.5 days ago")
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{URL} at 20")
    assert "Last fetched 12 h ago" in result.output.replace("\n", " ")
    row = json.loads(run(folder, URL, "--json", "--at", "2.5 days ago").output)
    assert row["words"].count("at the price of then") <= 1
    assert row["etag"] is None


def test_a_time_before_the_page_was_added_is_a_message(folder: Path) -> None:
    result = run(folder, URL, "--at", "300 days ago")
    assert result.exit_code == 1
    assert "was not in the corpus at" in result.output
    assert "It was added at" in result.output


def test_a_time_before_the_log_begins_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshotter, "HISTORY_BYTES_MAX", 0)
    build(tmp_path, keep=1, n_snapshots=4)
    result = run(tmp_path, URL, "--at", "5 days ago")
    assert result.exit_code == 1
    assert "the log no longer reaches back to" in result.output
    assert "snapshots.keep" in result.output
    shown = run(tmp_path, URL, "--no-json", "--history")
    assert "The log begins at" in shown.output


def test_an_invalid_time_is_a_usage_error(folder: Path) -> None:
    result = run(folder, URL, "--at", "a while ago")
    assert result.exit_code == 2
    assert "is not a time" in result.output


def test_an_unknown_page_suggests_similar_ones(folder: Path) -> None:
    result = run(folder, "http://www.shop.example/product/1/")
    assert result.exit_code == 1
    assert "is not in the corpus" in result.output
    assert f"Did you mean {URL}" in result.output
    assert "recrawl add" in run(folder, "https://none.example/").output


def test_it_works_while_another_process_writes(folder: Path) -> None:
    with recrawl.open(folder):
        assert run(folder, URL, "--json").exit_code == 0


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("now", 10**12),
        ("yesterday", 10**12 - DAY * 1000),
        ("90 s ago", 10**12 - 90_000),
        ("2 minutes ago", 10**12 - 120_000),
        ("1.5h ago", 10**12 - 5_400_000),
        ("2 weeks ago", 10**12 - 14 * DAY * 1000),
        ("a month ago", 10**12 - round(30.4375 * DAY * 1000)),
        ("2001-09-09T01:46:40Z", 10**12),
        ("2001-09-09 03:46:40+02:00", 10**12),
    ],
)
def test_times_are_read_as_people_type_them(text: str, at_ms: int) -> None:
    assert instant_of(text, 10**12) == at_ms


@pytest.mark.parametrize("text", ["", "soon", "3 fortnights ago", "2026-13-01", "3 days"])
def test_text_that_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        instant_of(text, 0)
