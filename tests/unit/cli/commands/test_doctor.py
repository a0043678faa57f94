"""Tests of ``recrawl doctor``: output and exit codes."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import recrawl
from recrawl.cli import main
from recrawl.corpus import CorpusConfig
from tests.corpus_fixtures import (
    small_table_without_jit,  # noqa: F401 - for the corpora made here
)


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
