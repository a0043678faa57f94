"""Fixtures that run commands in this process, in a temporary folder."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner

import recrawl as library
from recrawl.cli import main
from tests.reading_clock import reading_clock

__all__ = ["reading_clock"]


@dataclass(frozen=True)
class Ran:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def row(self) -> dict[str, Any]:
        (row,) = self.rows
        return row


Recrawl: TypeAlias = Callable[..., Ran]


@pytest.fixture
def recrawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recrawl:
    """Run a command in the folder of the test; unexpected exceptions are raised."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RECRAWL_CORPUS", raising=False)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object, stdin: str | bytes = "") -> Ran:
        texts = [str(argument) for argument in arguments]
        result = CliRunner().invoke(main, texts, input=stdin, prog_name="recrawl")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


PAGES = [
    "https://a.example/",
    "https://a.example/news",
    "https://b.example/product/1",
    "https://b.example/product/2",
    "https://c.example/",
]


@pytest.fixture(scope="session")
def few_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a corpus with a few pages, to be copied."""
    folder = tmp_path_factory.mktemp("few-pages")
    with library.open(folder) as corpus:
        assert corpus.add(PAGES).n_added == len(PAGES)
    return folder


@pytest.fixture
def in_corpus(recrawl: Recrawl, few_pages: Path, tmp_path: Path) -> Recrawl:
    """Run a command in a folder with a corpus of a few pages."""
    shutil.copytree(few_pages, tmp_path, dirs_exist_ok=True)
    return recrawl
