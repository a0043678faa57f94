"""``recrawl content``: what recrawl sees of a page, and what changed between two versions."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.kernels import kernels_exist
from recrawl.cli.support.output import Output, output_option
from recrawl.errors import RecrawlError
from recrawl.kernel_mode import use_kernels
from recrawl.units import count_text, share_text

if TYPE_CHECKING:
    from recrawl.content import ContentSettings, Judgement, Observation

__all__ = ["command"]

_INTERPRETED_BYTES_MAX = 1_000_000
"""Size of files up to which they are read at once, before a compiler would be loaded."""
_PASSAGES_SHOWN = 40
"""Number of passages that are shown without --all."""


class _Line(NamedTuple):
    """A passage as it is shown: its mark, its text and why it does not count."""

    mark: str
    text: str
    reason: str


def _settings(
    config: Path | None, select: tuple[str, ...], ignore: tuple[str, ...], patterns: tuple[str, ...]
) -> "ContentSettings":
    from recrawl.content import ContentSettings  # noqa: PLC0415

    try:
        settings = ContentSettings()
        if config is not None:
            from recrawl.node.config.corpus_config import CorpusConfig  # noqa: PLC0415

            settings = CorpusConfig.from_toml(config).content.content_settings()
        return replace(
            settings,
            select=(*settings.select, *select),
            ignore=(*settings.ignore, *ignore),
            ignore_patterns=(*settings.ignore_patterns, *patterns),
        )
    except (ValueError, RecrawlError) as error:
        raise click.UsageError(str(error)) from None


def _read(path: Path) -> bytes:
    return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()


def _facts(name: str, page: "Observation", judgement: "Judgement") -> list[tuple[str, str]]:
    from recrawl.content import PROBLEMS  # noqa: PLC0415

    n_counted = int(judgement.is_counted.sum())
    kind = f"{page.kind.name}, {count_text(page.n_bytes, 'byte')}"
    rows = [(name, f"{kind}, {page.charset}" if page.charset else kind)]
    for label, value in (
        ("title", page.title),
        ("language", page.language),
        ("canonical URL", page.canonical_url),
        ("robots", page.robots),
    ):
        if value:
            rows.append((label, value))
    rows.append(
        (
            "passages",
            f"{count_text(page.passages.size, 'passage')} with "
            f"{count_text(int(page.n_words.sum()), 'word')}; {n_counted} of them count",
        )
    )
    if judgement.wrong_answer:
        name = judgement.wrong_answer.name.lower().replace("_", " ")
        rows.append(("wrong answer", f"{name}: this does not look like the page itself"))
    rows += [("problem", PROBLEMS.get(problem, problem)) for problem in page.problems]
    return rows


def _reason(page: "Observation", place: int, is_counted: bool) -> str:
    if is_counted:
        return ""
    return (
        "not main text"
        if not page.is_main[place]
        else "shared by the host's pages, or different each time"
    )


def _lines_of(page: "Observation", judgement: "Judgement") -> list[_Line]:
    """Return all passages of a page, those that count marked with an asterisk."""
    lines = []
    for place, text in enumerate(page.texts or ()):
        is_counted = bool(judgement.is_counted[place])
        lines.append(_Line("*" if is_counted else " ", text, _reason(page, place, is_counted)))
    return [*lines, *_ignored_lines(page)]


def _ignored_lines(page: "Observation") -> list[_Line]:
    return [_Line("x", text, f"ignored by {why}") for text, why in page.ignored_texts or ()]


def _changed_lines(
    page: "Observation", older: "Observation", judgement: "Judgement"
) -> list[_Line]:
    """Return the passages that only one of two versions has."""
    added, removed = set(judgement.added.tolist()), set(judgement.removed.tolist())
    before, after = set(older.passages.tolist()), set(page.passages.tolist())
    lines = []
    for own, other, counted, mark in ((older, after, removed, "-"), (page, before, added, "+")):
        for place, number in enumerate(own.passages.tolist()):
            if number not in other:
                text = (own.texts or ())[place]
                reason = (
                    ""
                    if number in counted
                    else f"does not count: {_reason(own, place, is_counted=False)}"
                )
                lines.append(_Line(mark, text, reason))
    return lines


def _show(lines: list[_Line], is_all: bool, out: Output, *, is_cut: bool = True) -> None:
    is_cut = is_cut and not is_all
    shown = lines if is_all else lines[:_PASSAGES_SHOWN]
    styles = {"+": "green", "-": "red", "x": "dim", " ": "dim", "*": ""}
    for line in shown:
        why = f"  ({line.reason})" if line.reason else ""
        text = " ".join(line.text.split())
        limit = max(out.width - len(why) - 4, 20)
        if is_cut and len(text) > limit:
            text = f"{text[: limit - 1]}…"
        out.say(f"  {line.mark} {text}{why}", style=styles[line.mark] or None, wrap=not is_cut)
    if len(shown) < len(lines):
        out.say(f"  … and {len(lines) - len(shown)} more; use --all to see them.")


def _row(page: "Observation", judgement: "Judgement") -> dict[str, Any]:
    return {
        "kind": page.kind,
        "n_bytes": page.n_bytes,
        "charset": page.charset,
        "title": page.title,
        "language": page.language,
        "canonical_url": page.canonical_url,
        "robots": page.robots,
        "problems": page.problems,
        "wrong_answer": judgement.wrong_answer,
    }


@example_command(
    "content",
    examples=(
        CommandExample(
            "recrawl content tea.html", "what recrawl sees of a page", needs_corpus=False
        ),
        CommandExample(
            "recrawl content tea.html tea-yesterday.html",
            "what changed since an older version",
            needs_corpus=False,
        ),
        CommandExample(
            "recrawl content tea.html --ignore footer --ignore-pattern '^Advertisement'",
            "try out settings before they go into recrawl.toml",
            needs_corpus=False,
        ),
    ),
)
@click.argument("file", type=click.Path(path_type=Path, exists=True, allow_dash=True))
@click.argument("older", type=click.Path(path_type=Path, exists=True), required=False)
@click.option("--type", "content_type", metavar="TYPE", help="Content type, such as text/html.")
@click.option("--select", multiple=True, metavar="SELECTOR", help="Only these elements count.")
@click.option("--ignore", multiple=True, metavar="SELECTOR", help="These elements do not count.")
@click.option(
    "--ignore-pattern",
    "patterns",
    multiple=True,
    metavar="REGEX",
    help="Passages in which this regular expression is found do not count.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Use the section [content] of a recrawl.toml.",
)
@click.option("--all", "is_all", is_flag=True, help="Show all passages, in full.")
@output_option
def command(
    file: Path,
    older: Path | None,
    content_type: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    patterns: tuple[str, ...],
    config: Path | None,
    is_all: bool,
    out: Output,
) -> None:
    """Show what recrawl sees of a page: its passages, which of them count, and what it ignores.

    With an OLDER version of the page, show what changed.  An asterisk marks passages that count.
    What recrawl learns from many fetches, such as which passages differ every time, is not known
    here: `recrawl explain` shows it for a page of your corpus.
    """
    bodies = [_read(path) for path in (file, older) if path is not None]
    if not kernels_exist():
        is_small = sum(map(len, bodies)) <= _INTERPRETED_BYTES_MAX
        use_kernels("interpreted" if is_small else "compiled")
    # Imported after the kernels are chosen.
    from recrawl.content import HostMemory, judge, observe  # noqa: PLC0415

    settings = _settings(config, select, ignore, patterns)
    pages = [observe(body, content_type, settings=settings, with_texts=True) for body in bodies]
    first = judge(pages[-1], None, HostMemory(), settings)
    if older is None:
        out.facts(_facts(str(file), pages[0], first))
        lines = _lines_of(pages[0], first)
        out.row(
            {
                **_row(pages[0], first),
                "passages": [
                    {"text": line.text, "counts": line.mark == "*", "why_not": line.reason or None}
                    for line in lines
                ],
            }
        )
        out.say()
        _show(lines, is_all, out)
        return
    host = HostMemory().with_update(first.host_update) if first.host_update else HostMemory()
    # Two files cannot show what differs at every poll, so nothing is taken for it.
    second = judge(pages[0], first.memory, host, replace(settings, ignore_volatile=False))
    page = second.observation
    out.facts(_facts(str(file), page, second))
    lines = _changed_lines(page, pages[1], second)
    out.row(
        {
            **_row(page, second),
            "verdict": second.verdict,
            "divergence": second.divergence,
            "n_kept": len(second.kept),
            "n_added": len(second.added),
            "n_removed": len(second.removed),
            "changes": [
                {"change": line.mark, "text": line.text, "why_not": line.reason or None}
                for line in lines
            ],
        }
    )
    verdict = second.verdict.name.lower().replace("_", " ")
    out.say()
    out.say(
        f"Compared with {older}: {verdict}; {count_text(len(second.added), 'passage')} added, "
        f"{len(second.removed)} removed, {len(second.kept)} kept; "
        f"{share_text(second.divergence)} of the text that counts is new or gone.",
        style="bold",
    )
    _show(lines, is_all, out, is_cut=False)
