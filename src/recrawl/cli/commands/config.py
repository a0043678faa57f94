"""``recrawl config``: which settings hold, whether a file is right, and what a setting means."""

import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from recrawl.cli.support.corpora import corpus_option, is_corpus, prepare
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.presenting import Output, output_option
from recrawl.errors import ConfigError, CorpusError

if TYPE_CHECKING:
    from recrawl.corpus import CorpusConfig

__all__ = ["command"]


class _Setting(NamedTuple):
    key: str
    value: str | None
    """As TOML has it."""
    origin: str


@click.group("config", invoke_without_command=True)
@corpus_option
@output_option
@click.pass_context
def command(context: click.Context, folder: Path, out: Output) -> None:
    """Show, check and explain settings.  Alone, it shows those that hold."""
    if context.invoked_subcommand is None:
        _show(folder, out, is_all=False)
    elif context.get_parameter_source("folder") is ParameterSource.COMMANDLINE:
        # Theirs is their own, and this one would be passed over in silence.
        raise click.UsageError(f"-C FOLDER goes after {context.invoked_subcommand}.")


@example_command(
    "show",
    examples=(Example("recrawl config show"), Example("recrawl config show --all")),
)
@click.option("--all", "is_all", is_flag=True, help="Those that nobody has set, too.")
@corpus_option
@output_option
def show(folder: Path, is_all: bool, out: Output) -> None:
    """Print the settings that hold, and where each is from."""
    _show(folder, out, is_all=is_all)


def _config_of(folder: Path) -> "tuple[CorpusConfig, str]":
    """Return the configuration that holds in a folder, and where it is from."""
    prepare(folder)
    from recrawl.corpus import CorpusConfig  # noqa: PLC0415

    toml = folder / "recrawl.toml"
    if toml.exists():
        return CorpusConfig.from_toml(toml), "recrawl.toml"
    if not is_corpus(folder):
        raise CorpusError(f"{folder} is no corpus, and has no recrawl.toml.\nSee `recrawl init`.")
    try:
        last = json.loads((folder / "last-config.json").read_text("utf-8"))
        return CorpusConfig.from_dict(last), "the program that made it"
    except (OSError, ValueError):
        return CorpusConfig(), "default"


def _settings(config: "CorpusConfig", origin: str) -> Iterator[_Setting]:
    from recrawl.node.config.descriptions import sections, toml_text  # noqa: PLC0415
    from recrawl.node.config.values import hints_of  # noqa: PLC0415

    told = config.to_dict()
    for section in sections():
        held = told.get(section.key, {})
        hints = hints_of(section.kind)
        if isinstance(held, list):
            named = {f"{section.key}[{i}]": row for i, row in enumerate(held)}
        elif section.key == "hosts":
            named = {f'{section.key}."{name}"': row for name, row in held.items()}
        else:
            named = {section.key: held}
        for name, row in named.items():
            for key in section.keys:
                if key.name in row:
                    value = row[key.name]
                    yield _Setting(f"{name}.{key.name}", toml_text(value, hints[key.name]), origin)
                else:
                    yield _Setting(f"{name}.{key.name}", key.default, "default")


def _show(folder: Path, out: Output, *, is_all: bool) -> None:
    config, origin = _config_of(folder)
    found = list(_settings(config, origin))
    for setting in found:
        out.row({"key": setting.key, "value": setting.value, "from": setting.origin})
    told = [setting for setting in found if setting.origin != "default"]
    shown = found if is_all else told
    if shown:
        out.table(("setting", "value", "from"), shown)
    else:
        where = f" in {origin}" if origin == "recrawl.toml" else ""
        out.say(f"Nothing is set{where}; all is as by default, or as `recrawl set` left it.")
    if not is_all:
        left = len(found) - len(told)
        which = f"The {left} others are" if told else f"All {left} are shown"
        what = "as they are by default: " if told else "by "
        out.say(f"{which} {what}`recrawl config show --all`.")


@example_command(
    "check",
    examples=(Example("recrawl config check"), Example("recrawl config check recrawl.toml")),
)
@click.argument(
    "file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@corpus_option
@output_option
def check(file: Path | None, folder: Path, out: Output) -> None:
    """Look whether FILE, or else the corpus's recrawl.toml, is right; name the first mistake."""
    prepare(Path())
    if file is None:
        file = folder / "recrawl.toml"
        if not file.is_file():
            raise click.UsageError(f"there is no {file}; name a FILE.")
    from recrawl.corpus import CorpusConfig  # noqa: PLC0415

    try:
        config = CorpusConfig.from_toml(file)
    except ConfigError as error:
        out.row({"file": str(file), "is_right": False, "problem": str(error)})
        raise
    n_told = sum(setting.origin != "default" for setting in _settings(config, "file"))
    out.row({"file": str(file), "is_right": True, "n_set": n_told})
    out.say(f"{file} is right; it sets {n_told} of the settings.")


@example_command(
    "explain",
    examples=(
        Example("recrawl config explain budget.rate", needs_corpus=False),
        Example("recrawl config explain politeness", needs_corpus=False),
    ),
)
@click.argument("key")
@output_option
def explain(key: str, out: Output) -> None:
    """Say what a setting means, or all of a section: KEY is budget.rate, or budget."""
    prepare(Path())
    from recrawl.node.config.descriptions import sections  # noqa: PLC0415

    found = {section.key: section for section in sections()}
    first, _, last = key.partition(".")
    first, last = first.partition("[")[0], last.rpartition(".")[2]
    section = found.get(first)
    known = [f"{s.key}.{k.name}" for s in found.values() for k in s.keys]
    keys = () if section is None else [k for k in section.keys if last in ("", k.name)]
    if section is None or not keys:
        near = difflib.get_close_matches(key, [*known, *found], n=1, cutoff=0.4)
        near += [name for name in known if name.endswith(f".{key}")]
        hint = f"Did you mean {' or '.join(dict.fromkeys(near))}?" if near else ""
        raise click.UsageError(f"there is no setting {key}. {hint}".strip())
    if not last:
        out.say(f"{section.heading}  {section.text}", style="bold")
    for one in keys:
        default = "must be given" if one.is_required else one.default
        out.row(
            {
                "key": f"{section.key}.{one.name}",
                "text": one.text,
                "allowed": one.allowed,
                "default": one.default,
            }
        )
        out.say()
        out.say(f"{section.key}.{one.name}", style="bold")
        out.say(one.text)
        out.say(f"Allowed: {one.allowed}.  Default: {'none' if default is None else default}.")


for _subcommand in (show, check, explain):
    command.add_command(_subcommand)
