"""``recrawl doctor``: what is wrong with a corpus, and what to do about it."""

from dataclasses import asdict
from pathlib import Path

import click

from recrawl.cli.support.corpora import corpus_option, prepare
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import ANSWERED_NO, Output, output_option
from recrawl.units import count_text

__all__ = ["command"]

_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "bold red")}


def _show(out: Output, check: str, level: str, what: str, todo: str) -> None:
    if out.is_json:
        return
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    mark, style = _MARKS[level]
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(width=14)
    grid.add_column(ratio=1)
    grid.add_row(Text(mark, style), Text(check, "" if level == "ok" else style), Text(what))
    if todo:
        grid.add_row("", "", Text(f"→ {todo}", "dim"))
    out.console.print(grid)


def _compile(out: Output) -> None:
    from recrawl.cli.support.kernels import compile_all, is_compiled  # noqa: PLC0415

    if is_compiled():
        out.say("Everything is compiled already.")
    else:
        out.note("Compiling, which takes a minute or two, once per machine and version.")
        compile_all()
        out.say("Everything is compiled.")
    out.row({"is_compiled": True})


@example_command(
    "doctor",
    examples=(
        Example("recrawl doctor"),
        Example("recrawl doctor --deep", "read everything there is, and compare"),
        Example(
            "recrawl doctor --compile",
            "a minute once, so that no command waits for it",
            needs_corpus=False,
            is_run=False,
        ),
    ),
)
@click.option("--deep", is_flag=True, help="Read all of it: every record, entry and checksum.")
@click.option(
    "--compile", "is_compile", is_flag=True, help="Compile what all commands need, and no more."
)
@corpus_option
@output_option
def command(deep: bool, is_compile: bool, folder: Path, out: Output) -> None:
    """Look for what is wrong with a corpus; ends with 3 if anything is broken.

    Changes nothing, and works while another process works with the corpus.
    """
    if is_compile:
        _compile(out)
        return
    import logging  # noqa: PLC0415

    prepare(folder)
    from recrawl.corpus.doctor import checkup  # noqa: PLC0415

    # What reading complains of is among the findings.
    logging.getLogger("recrawl").addHandler(logging.NullHandler())
    n_by_level = dict.fromkeys(_MARKS, 0)
    for finding in checkup(folder, is_deep=deep):
        level = finding.level.value
        n_by_level[level] += 1
        out.row(asdict(finding))
        _show(out, finding.check, level, finding.what, finding.todo)
    out.say()
    if n_by_level["bad"]:
        out.say(f"{count_text(n_by_level['bad'], 'thing is', 'things are')} broken.", style="bold")
        click.get_current_context().exit(ANSWERED_NO)
    warned = n_by_level["warn"]
    more = f"; {count_text(warned, 'thing', 'things')} to look at" if warned else ""
    out.say(f"Nothing is broken{more}.", style="bold")
