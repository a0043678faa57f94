"""Write docs/reference/events.md: every event with its number, its columns and its origin.

The texts come from `recrawl.shard.events`: the docstring of a kind, which ends with its origin
("From users."), the text below a column, and the descriptions of columns that several kinds share.

``python -m scripts.event_reference`` writes the page.  With ``--check`` it writes nothing and
prints what is wrong: a column without a text, a kind without an origin, a page out of date.
"""

import ast
import inspect
import re
import sys
from typing import Any

from recrawl.shard import events
from scripts.written_pages import ROOT, stale_pages, write_or_check

PAGE = ROOT / "docs/reference/events.md"

HEAD = """\
<!-- Written by scripts/event_reference.py from recrawl.shard.events; do not edit. -->

# Events

This page lists every kind of event of a shard, by number.
A batch of events is a table with one row per event; its number says which columns it has.
Numbers and columns never change: a kind that needs other columns gets a new number.
{doc}`shard` says how a batch is encoded.
A time of 0 means none.
"""

# The ending of a column's name determines its unit.
UNITS = {
    "at_ms": "ms since 1970",
    "until_ms": "ms since 1970",
    "_ms": "ms",
    "seconds": "s",
    "seconds_min": "s",
    "seconds_max": "s",
    "probability": "0 to 1",
}


def unit_of(column: str) -> str:
    """Return the unit of a column, from the ending of its name."""
    return next((unit for ending, unit in UNITS.items() if column.endswith(ending)), "")


def shared_columns(doc: str) -> dict[str, str]:
    """Return the descriptions of columns that several kinds share, from a module's docstring."""
    return dict(re.findall(r"^``(\w+)``\n {4}(.*)$", doc, re.MULTILINE))


def texts_of(tree: ast.Module) -> dict[str, dict[str, str]]:
    """Return the text below each column of each class."""
    texts: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            texts[node.name] = {}
            for column, text in zip(node.body, node.body[1:], strict=False):
                match column, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text_below))),
                    ):
                        texts[node.name][name] = " ".join(text_below.split())
    return texts


def meaning_and_origin(doc: str) -> tuple[str, str]:
    """Return the meaning and the origin of a kind, from its docstring; no origin if it has none."""
    text = " ".join(doc.split())
    found = re.fullmatch(r"(.*?) From ((?:[^.]|\.(?! |$))*)\.", text)
    return (found[1], found[2]) if found else (text, "")


def page_and_problems(module: Any = events) -> tuple[str, list[str]]:
    """Return the Markdown page, and one line for each missing description."""
    shared = shared_columns(module.__doc__)
    texts = texts_of(ast.parse(inspect.getsource(module)))
    parts, problems = [HEAD], []
    for number, kind in module.SCHEMAS.items():
        name = kind.__name__
        meaning, origin = meaning_and_origin(kind.__doc__ or "")
        if not origin:
            problems.append(f"{name} does not name its origin")
        rows = ["| column | type | unit | meaning |", "|---|---|---|---|"]
        for column, dtype in module.DTYPES[kind].items():
            text = texts[name].get(column) or shared.get(column, "")
            if not text:
                problems.append(f"{name}.{column} has no text")
            type_ = "text" if dtype.kind == "U" else dtype.name
            rows.append(f"| `{column}` | {type_} | {unit_of(column)} | {text} |")
        table = "\n".join(rows)
        parts.append(f"## {number} {name}\n\n{meaning}\nFrom {origin}.\n\n{table}\n")
    return "\n".join(parts), problems


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; return the exit status."""
    text, problems = page_and_problems()
    pages = {PAGE: text}
    return write_or_check(
        pages, lambda: problems + stale_pages(pages, "scripts.event_reference"), arguments
    )


if __name__ == "__main__":
    sys.exit(main())
