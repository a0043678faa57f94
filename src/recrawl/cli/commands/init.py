"""``recrawl init``: a corpus, and a recrawl.toml that says what may be chosen."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from recrawl.cli.support.corpora import checked_arguments, is_corpus, prepare
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import Output, output_option
from recrawl.errors import RecrawlError

if TYPE_CHECKING:
    from recrawl.node.config.descriptions import KeyText, SectionText

__all__ = ["command", "toml_of"]

CONFIG_FILE = "recrawl.toml"

_HEAD = """\
# Settings of this corpus, read whenever it is opened.
# A line that begins with "# key =" shows what holds anyway: take away the # to change it.
# `recrawl config explain KEY` says more of a key, `recrawl config check recrawl.toml` finds
# mistakes.  A duration is seconds, or text: "90s", "15m", "6h", "2d", "1w".
"""
# What most owners look at; the rest is in the reference, or with --full.
_EVERYDAY = ("budget", "politeness", "pattern", "hosts", "corpus", "ledger")
_SAMPLES = {
    "pattern": {"match": '"/product/*"', "max_age": '"1d"', "share": "0.4"},
    "hosts": {"delay": '"30s"'},
    "budget": {"rate": '"30/h"'},
}


def toml_of(given: dict[str, dict[str, str]], *, is_full: bool = False) -> str:
    """Return the text of a recrawl.toml.

    Parameters
    ----------
    given
        What holds from the beginning: values as TOML has them, by section and key.
    is_full
        Show every setting, not only those that most owners look at.
    """
    from recrawl.node.config.descriptions import sections  # noqa: PLC0415

    found = {section.key: section for section in sections()}
    order = [*_EVERYDAY, *(key for key in found if key not in _EVERYDAY)]
    wanted = order if is_full else _EVERYDAY
    parts = [_HEAD]
    parts += ["\n".join(_section_lines(found[key], given.get(key, {}))) + "\n" for key in wanted]
    return "\n".join(parts)


def _section_lines(section: "SectionText", given: dict[str, str]) -> Iterator[str]:
    yield from _comment(section.text)
    # A section of which there may be several is an example as a whole.
    is_sample = section.key in ("pattern", "hosts")
    yield f"# {section.heading}" if is_sample else section.heading
    for key in section.keys:
        yield from _key_lines(section.key, key, given)


def _key_lines(section: str, key: "KeyText", given: dict[str, str]) -> Iterator[str]:
    yield from _comment(key.text, indent="#   " if key.name not in given else "# ")
    if key.name in given:
        yield f"{key.name} = {given[key.name]}"
    else:
        shown = _SAMPLES.get(section, {}).get(key.name, key.default)
        yield f"# {key.name} = {'…' if shown is None else shown}"


def _comment(text: str, indent: str = "# ") -> list[str]:
    return textwrap.wrap(text, 98, initial_indent=indent, subsequent_indent=indent)


def _ledger_of(text: str) -> dict[str, str]:
    """Return the section of the log that an option says."""
    if text == "rocksdb":
        return {}
    parts = urlsplit(text)
    topic = parts.path.strip("/")
    if parts.scheme != "kafka" or not parts.netloc or not topic:
        raise ValueError(f"--ledger must be rocksdb or kafka://HOST:PORT/TOPIC, got {text!r}")
    return {"kind": '"kafka"', "bootstrap": f'"{parts.netloc}"', "topic": f'"{topic}"'}


@example_command(
    "init",
    examples=(
        Example("recrawl init", needs_corpus=False),
        Example("recrawl init shop --budget 30/h", needs_corpus=False),
    ),
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--budget", metavar="RATE", help="What may be spent: 30/h, 5/s, 100/run.")
@click.option(
    "--ledger",
    metavar="WHERE",
    default="rocksdb",
    help="Where the log is kept: rocksdb (in the folder), or kafka://HOST:PORT/TOPIC.",
)
@click.option(
    "--partitions", type=int, metavar="N", help="Parts that the corpus is divided into, for ever."
)
@click.option("--full", "is_full", is_flag=True, help="Write every setting into recrawl.toml.")
@output_option
def command(
    folder: Path,
    budget: str | None,
    ledger: str,
    partitions: int | None,
    is_full: bool,
    out: Output,
) -> None:
    """Make a corpus in FOLDER, and a recrawl.toml that says what may be chosen.

    Harmless where there is a corpus already: nothing of it is changed.
    """
    toml = folder / CONFIG_FILE
    is_told = budget is not None or ledger != "rocksdb" or partitions is not None
    if is_told and (is_corpus(folder) or toml.exists()):
        what = "a corpus" if is_corpus(folder) else CONFIG_FILE
        raise click.UsageError(
            f"there is {what} in {_shown(folder)} already; `recrawl set --budget RATE` sets its "
            f"budget, and {toml} holds the rest."
        )
    if is_corpus(folder):
        out.say(f"There is a corpus in {_shown(folder)} already; nothing was changed.")
        out.row({"folder": str(folder), "is_new": False, "config": _str_of(toml)})
        return
    prepare(folder)
    _make(folder, toml, budget, ledger, partitions, is_full)
    out.row({"folder": str(folder), "is_new": True, "config": str(toml)})
    where = "" if folder == Path() else f" -C {folder}"
    out.say(f"A corpus was made in {_shown(folder)}, and {toml} says what may be chosen.")
    out.say("Next:")
    steps = [
        (f"recrawl add{where} urls.txt", "what to keep: a list, CSV, JSON lines, a sitemap"),
        (f"recrawl lease{where} 10", "what to fetch now"),
    ]
    if budget is None:
        steps.insert(1, (f"recrawl set{where} --budget 30/h", "without, as much as is asked for"))
    width = max(len(line) for line, _ in steps) + 2
    for line, about in steps:
        out.say(f"  {line:{width}}{about}")


def _make(
    folder: Path,
    toml: Path,
    budget: str | None,
    ledger: str,
    partitions: int | None,
    is_full: bool,
) -> None:
    import recrawl  # noqa: PLC0415
    from recrawl.corpus import CorpusConfig  # noqa: PLC0415

    is_ours = not toml.exists()
    if is_ours:
        given: dict[str, dict[str, str]] = {}
        with checked_arguments():
            given["ledger"] = _ledger_of(ledger)
        if budget is not None:
            given["budget"] = {"rate": f'"{budget}"'}
        if partitions is not None:
            given["corpus"] = {"partitions": str(partitions)}
        text = toml_of(given, is_full=is_full)
        CorpusConfig.from_toml(text)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            toml.write_text(text, encoding="utf-8")
        except OSError as error:
            raise RecrawlError(
                f"no corpus can be made in {_shown(folder)}: {error.strerror}.\n"
                "Name a folder that is yours to write to."
            ) from error
    try:
        recrawl.open(folder).close()
    except BaseException:
        if is_ours:  # the same command can be given again
            toml.unlink()
        raise


def _shown(folder: Path) -> str:
    return "this folder" if folder == Path() else str(folder)


def _str_of(toml: Path) -> str | None:
    return str(toml) if toml.exists() else None
