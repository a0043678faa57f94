"""The bare command: what it prints, and that it starts without the numeric stack."""

import os
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from recrawl.cli import main
from tests.unit.cli.conftest import Recrawl


def test_prints_its_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"recrawl {version('recrawl')}\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_states_the_purpose(option: str) -> None:
    result = CliRunner().invoke(main, [option])
    assert result.exit_code == 0
    assert "Keep copies of web pages fresh" in result.output


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["no-such-command"])
    assert result.exit_code == 2
    assert "No such command 'no-such-command'" in result.output


def test_runs_as_a_module() -> None:
    output = _python("-m", "recrawl", "--version")
    assert output == f"recrawl {version('recrawl')}\n"


def test_starts_without_the_numeric_stack() -> None:
    code = (
        "import sys; from recrawl.cli import main; main(['--help'], standalone_mode=False);"
        "print(sorted({'numpy', 'numba', 'scipy', 'recrawl.core'} & set(sys.modules)))"
    )
    assert _python("-c", code).splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "command",
    [
        ("stats",),
        ("plan",),
        ("explain", "https://a.example/"),
        ("changes",),
        ("export",),
        ("lease", "1"),
        ("set", "https://a.example/", "--importance", "2"),
        ("doctor",),
    ],
    ids=lambda command: command[0],
)
def test_commands_on_a_small_corpus_load_no_compiler(
    recrawl: Recrawl, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Importing `recrawl.corpus` before kernels are chosen would compile for half a minute."""
    recrawl("init", "pages")
    recrawl("add", "https://a.example/", "-C", "pages")
    code = (
        "import sys\n"
        "from recrawl.cli import main\n"
        f"main({[*command, '-C', 'pages']!r}, standalone_mode=False)\n"
        "assert 'numba.core.dispatcher' not in sys.modules\n"
    )
    chosen = ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "RECRAWL_KERNELS")
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_starts_about_as_fast_as_its_argument_parser_alone() -> None:
    """Processor time, best of five each; numba alone would take ten times as much."""
    bare = min(_seconds("-c", "import click") for _ in range(5))
    ours = min(_seconds("-m", "recrawl", "--help") for _ in range(5))
    assert ours < 3 * bare


def _python(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _seconds(*arguments: str) -> float:
    """Return the processor time of a process, which other processes hardly change."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _python(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
