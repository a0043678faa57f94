"""``recrawl config``: show, check and explain settings."""

import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from recrawl.cli.support.corpus_access import corpus_option, is_corpus, prepare_kernels
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import Output, output_option
from recrawl.errors import ConfigError, CorpusError

if TYPE_CHECKING:
    from recrawl.corpus import CorpusConfig

__all__ = ["command"]


class _Setting(NamedTuple):
    key: str
    value: str | None
    """Value in TOML notation."""
    origin: str


@click.group("config", invoke_without_command=True)
@corpus_option
@output_option
@click.pass_context
def command(context: click.Context, folder: Path, out: Output) -> None:
    """Show, check and explain settings.  Without a subcommand, show those that are set."""
    if context.invoked_subcommand is None:
        _show(folder, out, is_all=False)
    elif context.get_parameter_source("folder") is ParameterSource.COMMANDLINE:
        # Subcommands parse -C themselves; it would be ignored here.
        raise click.UsageError(f"write -C FOLDER after {context.invoked_subcommand}.")


@example_command(
    "show",
    examples=(CommandExample("recrawl config show"), CommandExample("recrawl config show --all")),
    short_help="Show the settings of the corpus.",
)
@click.option("--all", "is_all", is_flag=True, help="Show settings that have their default, too.")
@corpus_option
@output_option
def show(folder: Path, is_all: bool, out: Output) -> None:
    """Show the settings of the corpus, and where each is set."""
    _show(folder, out, is_all=is_all)


def _effective_config(folder: Path) -> "tuple[CorpusConfig, str]":
    """Return the configuration of the corpus in a folder, and where it is set."""
    prepare_kernels(folder)
    from recrawl.corpus import CorpusConfig  # noqa: PLC0415

    toml = folder / "recrawl.toml"
    if toml.exists():
        return CorpusConfig.from_toml(toml), "recrawl.toml"
    if not is_corpus(folder):
        problem = "has no recrawl.toml and is not a corpus" if folder.exists() else "does not exist"
        raise CorpusError(f"{folder} {problem}.\nRun `recrawl init` to create a corpus.")
    try:
        last = json.loads((folder / "last-config.json").read_text("utf-8"))
        return CorpusConfig.from_dict(last), "the program that opened it"
    except (OSError, ValueError):
        return CorpusConfig(), "default"


def _settings(config: "CorpusConfig", origin: str) -> Iterator[_Setting]:
    from recrawl.node.config.descriptions import sections, toml_text  # noqa: PLC0415
    from recrawl.node.config.values import hints_of  # noqa: PLC0415

    tables = config.to_dict()
    for section in sections():
        table = tables.get(section.key, {})
        hints = hints_of(section.kind)
        if isinstance(table, list):
            named = {f"{section.key}[{i}]": row for i, row in enumerate(table)}
        elif section.key == "hosts":
            named = {f'{section.key}."{name}"': row for name, row in table.items()}
        else:
            named = {section.key: table}
        for name, row in named.items():
            for key in section.keys:
                if key.name in row:
                    value = row[key.name]
                    yield _Setting(f"{name}.{key.name}", toml_text(value, hints[key.name]), origin)
                else:
                    yield _Setting(f"{name}.{key.name}", key.default, "default")


def _show(folder: Path, out: Output, *, is_all: bool) -> None:
    config, origin = _effective_config(folder)
    settings = list(_settings(config, origin))
    for setting in settings:
        out.row({"key": setting.key, "value": setting.value, "from": setting.origin})
    changed = [setting for setting in settings if setting.origin != "default"]
    shown = settings if is_all else changed
    if shown:
        out.table(("setting", "value", "from"), shown)
    else:
        where = f" in {origin}" if origin == "recrawl.toml" else ""
        out.say(f"Nothing is set{where}.")
    if not is_all:
        n_others = len(settings) - len(changed)
        out.say(
            f"{n_others} settings have their default; show them with `recrawl config show --all`."
        )
    out.say("Settings made with `recrawl set` are not listed; see `recrawl explain URL`.")


@example_command(
    "check",
    examples=(
        CommandExample("recrawl config check"),
        CommandExample("recrawl config check recrawl.toml"),
    ),
    short_help="Check a configuration file.",
)
@click.argument(
    "file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@corpus_option
@output_option
def check(file: Path | None, folder: Path, out: Output) -> None:
    """Check FILE, or the recrawl.toml of the corpus, and report the first mistake."""
    prepare_kernels(Path())
    if file is None:
        file = folder / "recrawl.toml"
        if not file.is_file():
            raise click.UsageError(f"there is no file {file}; name the FILE to check.")
    from recrawl.corpus import CorpusConfig  # noqa: PLC0415

    try:
        config = CorpusConfig.from_toml(file)
    except ConfigError as error:
        out.row({"file": str(file), "is_right": False, "problem": str(error)})
        raise
    settings = list(_settings(config, "file"))
    n_set = sum(setting.origin != "default" for setting in settings)
    out.row({"file": str(file), "is_right": True, "n_set": n_set})
    out.say(f"{file} is valid; it sets {n_set} of {len(settings)} settings.")


@example_command(
    "explain",
    examples=(
        CommandExample("recrawl config explain budget.rate", needs_corpus=False),
        CommandExample("recrawl config explain politeness", needs_corpus=False),
    ),
    short_help="Explain a setting.",
)
@click.argument("key", metavar="KEY")
@corpus_option
@output_option
def explain(key: str, folder: Path, out: Output) -> None:
    """Explain a setting, or all settings of a section: KEY is budget.rate, or budget.

    In the folder of a corpus, or with -C, it shows the value there, too.
    """
    prepare_kernels(Path())
    values = _values_of(folder)
    from recrawl.node.config.descriptions import sections  # noqa: PLC0415

    by_key = {section.key: section for section in sections()}
    first, _, last = key.partition(".")
    first, last = first.partition("[")[0], last.rpartition(".")[2]
    section = by_key.get(first)
    known = [f"{s.key}.{k.name}" for s in by_key.values() for k in s.keys]
    keys = () if section is None else [k for k in section.keys if last in ("", k.name)]
    if section is None or not keys:
        near = difflib.get_close_matches(key, [*known, *by_key], n=1, cutoff=0.4)
        near += [name for name in known if name.endswith(f".{key}")]
        hint = f"Did you mean {' or '.join(dict.fromkeys(near))}?" if near else ""
        raise click.UsageError(f"there is no setting {key}. {hint}".strip())
    if not last:
        out.say(f"{section.heading}  {section.text}", style="bold")
    for setting in keys:
        default = "none" if setting.default is None else setting.default
        out.row(
            {
                "key": f"{section.key}.{setting.name}",
                "text": setting.text,
                "allowed": setting.allowed,
                "default": setting.default,
                "value": values[name].value
                if (name := f"{section.key}.{setting.name}") in values
                else None,
            }
        )
        out.say()
        out.say(f"{section.key}.{setting.name}", style="bold")
        out.say(setting.text)
        required = "Required." if setting.is_required else f"Default: {default}."
        out.say(f"Allowed: {setting.allowed}.  {required}")
        if name in values and values[name].origin != "default":
            out.say(f"Here: {values[name].value} ({values[name].origin}).")


def _values_of(folder: Path) -> dict[str, _Setting]:
    """Return the settings of the corpus in a folder; none if the folder has none."""
    context = click.get_current_context()
    is_given = context.get_parameter_source("folder") is ParameterSource.COMMANDLINE
    if not is_given and not (folder / "recrawl.toml").exists() and not is_corpus(folder):
        return {}
    return {setting.key: setting for setting in _settings(*_effective_config(folder))}


for _subcommand in (show, check, explain):
    command.add_command(_subcommand)
