"""``recrawl init``: create a corpus and its recrawl.toml."""

import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from recrawl.atomic_files import replace_file
from recrawl.cli.support.corpus_access import is_corpus, prepare_kernels, value_errors_as_usage
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import money_option, rate_problem
from recrawl.cli.support.output import Output, output_option
from recrawl.errors import RecrawlError
from recrawl.folder_lock import IN_USE_FILE

if TYPE_CHECKING:
    from recrawl.node.config.descriptions import KeyText, SectionText

__all__ = ["CONFIG_FILE", "command", "create_corpus", "toml_of"]

CONFIG_FILE = "recrawl.toml"

_HEAD = """\
# Settings of this corpus.  recrawl reads them whenever it opens the corpus.
# A line such as "# key = value" shows a default, or "…" if there is none; uncomment to change it.
# `recrawl config check` finds mistakes; `recrawl config explain KEY` explains a setting.
# Durations are seconds, or text such as "90s", "15m", "6h", "2d", "1w".
"""
# The sections that most users need; --full writes the others, too.
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
        Values that are set, in TOML notation, by section and key.
    is_full
        Whether to include every setting, not only those that most users need.
    """
    from recrawl.node.config.descriptions import sections  # noqa: PLC0415

    found = {section.key: section for section in sections()}
    order = [*_EVERYDAY, *(key for key in found if key not in _EVERYDAY)]
    wanted = order if is_full else [key for key in order if key in _EVERYDAY or key in given]
    parts = [_HEAD]
    parts += ["\n".join(_section_lines(found[key], given.get(key, {}))) + "\n" for key in wanted]
    return "\n".join(parts)


def _section_lines(section: "SectionText", given: dict[str, str]) -> Iterator[str]:
    yield from _comment(section.text)
    # Sections that can be repeated are written as an example, commented out.
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


def _ledger_section(text: str) -> dict[str, str]:
    """Return the values of the section [ledger] for the option --ledger."""
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
        CommandExample("recrawl init", needs_corpus=False),
        CommandExample("recrawl init shop --budget 30/h", needs_corpus=False),
    ),
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option(
    "--budget",
    metavar="RATE",
    help="Budget of fetches, such as 30/h, 20000/day or 100/run, or of money, such as "
    "'50 EUR/month' with --cost-per-fetch.  Unlimited if not set.",
)
@click.option(
    "--cost-per-fetch",
    metavar="MONEY",
    callback=money_option,
    help="Price of one fetch, such as '0.0005 EUR', for a --budget in money.",
)
@click.option(
    "--ledger",
    metavar="WHERE",
    default="rocksdb",
    help="Where to store the log of all events: rocksdb (in FOLDER, the default) or "
    "kafka://HOST:PORT/TOPIC.",
)
@click.option(
    "--partitions",
    type=int,
    metavar="N",
    help="Number of parts that the corpus is split into, 1 by default; see `recrawl resize`.",
)
@click.option(
    "--group-by",
    type=click.Choice(["host", "domain", "key"]),
    help="Pages that share one politeness rule: those of a host (the default), of a domain, or "
    "those to which you give the same key.  Cannot be changed later.",
)
@click.option(
    "--full",
    "is_full",
    is_flag=True,
    help="Write all settings into recrawl.toml, not only the common ones.",
)
@output_option
def command(
    folder: Path,
    budget: str | None,
    cost_per_fetch: str | None,
    ledger: str,
    partitions: int | None,
    group_by: str | None,
    is_full: bool,
    out: Output,
) -> None:
    """Create a corpus in FOLDER (default: the current folder), and its settings in recrawl.toml.

    FOLDER is created if it does not exist.  If it has a corpus already, nothing is changed.
    """
    toml = folder / CONFIG_FILE
    is_default = budget is None and cost_per_fetch is None and ledger == "rocksdb"
    has_options = not is_default or partitions is not None or group_by is not None
    if has_options and (is_corpus(folder) or toml.exists()):
        what = "a corpus" if is_corpus(folder) else CONFIG_FILE
        raise click.UsageError(
            f"there is already {what} in {_folder_text(folder)}, so these options have no effect.  "
            f"Change its budget with `recrawl set --budget RATE`, and other settings in {toml}."
        )
    if is_corpus(folder):
        out.say(f"There is already a corpus in {_folder_text(folder)}; nothing was changed.")
        out.row({"folder": str(folder), "is_new": False, "config": _path_or_none(toml)})
        return
    prepare_kernels(folder)
    shape = {} if partitions is None else {"partitions": str(partitions)}
    shape |= {} if group_by is None else {"group_by": f'"{group_by}"'}
    amounts = {"rate": budget, "cost_per_fetch": cost_per_fetch}
    own_rate = create_corpus(folder, toml, amounts, ledger, shape, is_full)
    out.row({"folder": str(folder), "is_new": True, "config": str(toml)})
    where = "" if folder == Path() else f" -C {folder}"
    out.say(f"Created a corpus in {_folder_text(folder)}.  Edit {toml} to configure it.")
    out.say("Next:")
    steps = [
        (f"recrawl add{where} urls.txt", "add pages: a list, CSV, JSON lines or a sitemap"),
        (f"recrawl lease{where} 10", "print up to 10 pages to fetch now"),
    ]
    if own_rate is not None and budget is None:
        out.say(f"Its budget is {own_rate}, as {toml} says.")
    if own_rate is None:
        steps.insert(1, (f"recrawl set{where} --budget 30/h", "optional; unlimited if not set"))
    width = max(len(line) for line, _ in steps) + 2
    for line, about in steps:
        out.say(f"  {line:{width}}{about}")


def create_corpus(
    folder: Path,
    toml: Path,
    amounts: dict[str, str | None],
    ledger: str,
    shape: dict[str, str],
    is_full: bool,
    run: dict[str, str] | None = None,
    min_age: str | None = None,
) -> str | None:
    """Create a corpus and return its budget as text; None if it is unlimited.

    Parameters
    ----------
    folder
        Folder of the corpus.
    toml
        Configuration file, which is written if it does not exist.
    amounts
        Budget (``rate``) and ``cost_per_fetch``; None if not given.
    ledger
        Where to store the log: ``rocksdb``, or the URL of a Kafka topic.
    shape
        Values of the section ``corpus``, in TOML notation.
    is_full
        Whether to write all settings into the file.
    run
        Values of the section ``run``, in TOML notation.
    min_age
        Minimum time between two fetches of any page, such as "10m".
    """
    import recrawl  # noqa: PLC0415
    from recrawl.corpus import CorpusConfig  # noqa: PLC0415

    is_ours = not toml.exists()
    new_folders = [each for each in (folder, *folder.parents) if not each.exists()]
    if is_ours:
        given: dict[str, dict[str, str]] = {}
        with value_errors_as_usage():
            given["ledger"] = _ledger_section(ledger)
        if amounts["rate"] is not None and (problem := rate_problem(amounts["rate"])):
            raise RecrawlError(f"--budget: {problem}")
        given["budget"] = {name: f'"{one}"' for name, one in amounts.items() if one is not None}
        if shape:
            given["corpus"] = shape
        if run is not None:
            given["run"] = run
        text = toml_of(given, is_full=is_full)
        if min_age is not None:
            text += (
                f'\n# All pages.\n[[pattern]]\nmatch = "*"\nkind = "page"\nmin_age = "{min_age}"\n'
            )
        CorpusConfig.from_toml(text)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with replace_file(toml, is_durable=True) as file:
                file.write(text.encode("utf-8"))
        except OSError as error:
            raise RecrawlError(
                f"no corpus can be created in {_folder_text(folder)}: {error.strerror}.\n"
                "Name a folder that you can write to."
            ) from error
    try:
        with recrawl.open(folder) as corpus:
            rate = corpus.config.budget.rate
            return None if rate is None else rate.text
    except BaseException:
        if is_ours:  # so that the same command can be run again
            toml.unlink()
        if folder in new_folders:
            (folder / IN_USE_FILE).unlink(missing_ok=True)
        with suppress(OSError):  # a folder that is not empty stays
            for each in new_folders:
                each.rmdir()
        raise


def _folder_text(folder: Path) -> str:
    return "the current folder" if folder == Path() else str(folder)


def _path_or_none(toml: Path) -> str | None:
    return str(toml) if toml.exists() else None
