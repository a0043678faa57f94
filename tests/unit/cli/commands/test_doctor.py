"""Tests of ``recrawl doctor``: output and exit codes."""

import json
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import recrawl
from recrawl.cli import main
from recrawl.corpus import CorpusConfig
from tests.corpus_fixtures import (
    small_table_without_jit,  # noqa: F401 - for the corpora made here
)
from tests.manual_clock import ManualClock


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments, "-C", str(folder)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doctor") / "corpus"
    config = CorpusConfig.from_dict({"budget": {"rate": "10/h"}})
    with recrawl.open(folder, config) as corpus:
        corpus.add([f"https://a.example/{i}" for i in range(20)])
    return folder


@pytest.mark.parametrize("deep", [(), ("--deep",)])
def test_an_intact_corpus_exits_with_0(folder: Path, deep: tuple[str, ...]) -> None:
    result = run(folder, "--no-json", *deep)
    assert result.exit_code == 0, result.output
    assert "✓ format" in result.output
    assert "! pages" in result.output
    assert "→ " in result.output
    assert "Nothing is broken; " in result.output.splitlines()[-1]


def test_json_has_a_row_per_check(folder: Path) -> None:
    rows = [json.loads(line) for line in run(folder, "--json").output.splitlines()]
    assert all(set(row) == {"check", "level", "what", "todo"} for row in rows)
    assert {"ok", "warn"} >= {row["level"] for row in rows}


def test_a_broken_corpus_exits_with_3(folder: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(folder, tmp_path / "broken")
    for path in (broken / "log").glob("MANIFEST-*"):
        path.write_bytes(b"")
    result = run(broken, "--no-json")
    assert result.exit_code == 3
    assert "✗ log" in result.output
    assert "2 checks failed." in result.output


def test_a_folder_without_a_corpus_exits_with_3(tmp_path: Path) -> None:
    result = run(tmp_path, "--no-json")
    assert result.exit_code == 3
    assert "is not a corpus" in result.output
    assert "recrawl init" in result.output


def test_it_works_while_another_process_writes(folder: Path) -> None:
    with recrawl.open(folder):
        assert run(folder, "--json").exit_code == 0


def test_a_corpus_from_the_future_is_reported_and_reset(folder: Path, tmp_path: Path) -> None:
    ahead = shutil.copytree(folder, tmp_path / "ahead")
    clock = ManualClock(time.time_ns() // 1_000_000 + 86_400_000 * 365)
    recrawl.open(ahead, clock=clock, accept_clock=True).close()
    result = run(ahead, "--no-json")
    assert result.exit_code == 3
    assert "corpus is 12 months ahead of the system clock" in " ".join(result.output.split())
    assert "--reset-clock" in result.output
    result = run(ahead, "--reset-clock", "--no-json")
    assert result.exit_code == 0, result.output
    assert "went back by 12 months" in result.output
    assert run(ahead, "--no-json").exit_code == 0
    assert "nothing was changed" in run(ahead, "--reset-clock", "--no-json").output


def test_a_corpus_that_nobody_used_for_long_is_reported_and_accepted(tmp_path: Path) -> None:
    idle = tmp_path / "idle"
    clock = ManualClock(time.time_ns() // 1_000_000 - 86_400_000 * 365)
    with recrawl.open(idle, clock=clock) as corpus:
        corpus.add(["https://a.example/"])
    result = run(idle, "--no-json")
    assert result.exit_code == 3
    assert "clock is 12 months ahead of the latest time" in " ".join(result.output.split())
    refused = CliRunner().invoke(main, ["lease", "1", "-C", str(idle)])
    assert refused.exit_code == 1
    assert "--accept-clock` once" in " ".join(refused.output.split())
    result = run(idle, "--accept-clock", "--no-json")
    assert result.exit_code == 0, result.output
    assert "The time of the corpus is now" in result.output
    assert run(idle, "--no-json").exit_code == 0
    assert CliRunner().invoke(main, ["lease", "1", "-C", str(idle)]).exit_code == 0


def test_a_repair_says_what_is_still_broken(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "corpus")
    shutil.rmtree(tmp_path / "corpus/store")
    with recrawl.open(tmp_path / "other") as other:
        other.add(["https://other.example/"])
    (tmp_path / "other/store").rename(tmp_path / "corpus/store")
    ran = run(tmp_path / "corpus", "--repair", "--no-json")
    assert ran.exit_code == 3
    assert "failed" in ran.output


def test_commands_name_a_missing_format_file(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "corpus")
    (tmp_path / "corpus/FORMAT").unlink()
    for command in (["stats"], ["add", "https://new.example/"]):
        ran = CliRunner().invoke(main, [*command, "-C", str(tmp_path / "corpus")])
        assert ran.exit_code == 1
        assert "no file FORMAT" in ran.output
