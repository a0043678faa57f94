"""Every example in the help of a command runs as printed, in a folder with small files."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from recrawl.cli import main
from recrawl.cli.support.examples import CommandExample, ExampleCommand

pytestmark = pytest.mark.slow

FILES = Path(__file__).parent / "example_files"


def commands(group: click.Group, path: str) -> list[tuple[str, click.Command]]:
    """Return the commands below a group, with their full names."""
    context = click.Context(group)
    found: list[tuple[str, click.Command]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            found += commands(command, f"{path} {name}")
        else:
            found.append((f"{path} {name}", command))
    return found


COMMANDS = commands(main, "recrawl")
EXAMPLES = [
    example
    for _, command in COMMANDS
    if isinstance(command, ExampleCommand)
    for example in command.examples
]
CLUSTER_GUIDE = (Path(__file__).parents[2] / "docs/how-to/run-a-cluster.md").read_text("utf-8")


def recrawl(arguments: list[str], stdin: bytes = b"") -> tuple[int, bytes, str]:
    result = CliRunner().invoke(main, arguments, input=stdin, prog_name="recrawl")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout_bytes, result.stderr


def run(line: str) -> tuple[int, bytes, str]:
    """Run a shell line: commands connected by pipes, with an optional output file."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    tokens = list(lexer)
    target = tokens[tokens.index(">") + 1] if ">" in tokens else None
    if target is not None:
        tokens = tokens[: tokens.index(">")]
    code, output, errors = 0, b"", ""
    while tokens:
        end = tokens.index("|") if "|" in tokens else len(tokens)
        command, tokens = tokens[:end], tokens[end + 1 :]
        if command[0] == "recrawl":
            code, output, messages = recrawl(command[1:], output)
            errors += messages
        else:
            if command[0] == "python":
                command[0] = sys.executable
            done = subprocess.run(command, input=output, capture_output=True, check=True)
            code, output = done.returncode, done.stdout
    if target is not None:
        Path(target).write_bytes(output)
    return code, output, errors


@pytest.fixture(scope="module")
def small_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files and a corpus that has learned from them.

    Beside it is a folder with a backup.
    """
    folder = tmp_path_factory.mktemp("examples") / "corpus"
    shutil.copytree(FILES, folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        for line in (
            "recrawl init",
            "recrawl add urls.txt",
            "recrawl import crawl.jsonl",
            "recrawl lease 3 | python fetch.py | recrawl report",
            "recrawl set --budget 30/h",
            "recrawl export -o pages.jsonl",
            "recrawl backup ../backups",
        ):
            code, _, errors = run(line)
            assert code == 0, (line, errors)
    finally:
        os.chdir(before)
    return folder


@pytest.mark.parametrize(
    ("path", "command"), COMMANDS, ids=[path.replace(" ", "-") for path, _ in COMMANDS]
)
def test_a_command_shows_an_example_of_itself(path: str, command: click.Command) -> None:
    assert isinstance(command, ExampleCommand)
    assert all(path in example.line for example in command.examples)
    # Commands that need brokers are run by the guide of the cluster, with real ones.
    assert any(example.is_run for example in command.examples) or f"$ {path} " in CLUSTER_GUIDE
    help_text = CliRunner().invoke(main, [*path.split()[1:], "--help"]).output
    assert "Examples:" in help_text
    for example in command.examples:
        assert f"  {example.line}\n" in help_text


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.line)
def test_an_example_runs(
    example: CommandExample,
    small_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not example.is_run:
        pytest.skip("shown only")
    if example.needs_corpus:
        shutil.copytree(small_corpus.parent, tmp_path, dirs_exist_ok=True)
    else:
        shutil.copytree(FILES, tmp_path / "corpus")
    monkeypatch.chdir(tmp_path / "corpus")
    code, _, errors = run(example.line)
    assert code == example.exit_code, errors
