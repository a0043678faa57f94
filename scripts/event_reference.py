"""Write docs/reference/events.md: every event with its number, its columns and who it is from.

All of it is said once, in `recrawl.shard.events`: the docstring of a kind, which ends with who it
is from, the text beneath a column, and what columns that several kinds have mean in each.

``python -m scripts.event_reference`` writes the page.  With ``--check`` it writes nothing and names
what is wrong: a column without a text, a kind from nobody, a stale page.
"""

import ast
import inspect
import re
import sys
from typing import Any

from recrawl.shard import events
from scripts.written_pages import ROOT, stale, written_or_checked

PAGE = ROOT / "docs/reference/events.md"

HEAD = """\
<!-- Written by scripts/event_reference.py from recrawl.shard.events; do not edit. -->

# Events

All that can happen to a shard, in the order of their numbers.
A batch of events is a table with one row per event; its number says which columns it has.
Numbers and columns never change: a kind whose columns must change gets a new number.
How batches become bytes is said in {doc}`shard`.
An instant of 0 is none.
"""

# How a column's name ends, and its unit.
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
    """Return the unit that a column's name ends with."""
    return next((unit for ending, unit in UNITS.items() if column.endswith(ending)), "")


def shared_columns(doc: str) -> dict[str, str]:
    """Return what columns that several kinds have mean, from a module's docstring."""
    return dict(re.findall(r"^``(\w+)``\n {4}(.*)$", doc, re.MULTILINE))


def texts_of(tree: ast.Module) -> dict[str, dict[str, str]]:
    """Return the text beneath each column of each class."""
    texts: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            texts[node.name] = {}
            for column, text in zip(node.body, node.body[1:], strict=False):
                match column, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(said))),
                    ):
                        texts[node.name][name] = " ".join(said.split())
    return texts


def meaning_and_speaker(doc: str) -> tuple[str, str]:
    """Return what a kind says and who says it, from its docstring; nobody if it has not said."""
    text = " ".join(doc.split())
    found = re.fullmatch(r"(.*?) From ((?:[^.]|\.(?! |$))*)\.", text)
    return (found[1], found[2]) if found else (text, "")


def page_and_problems(module: Any = events) -> tuple[str, list[str]]:
    """Return the Markdown page, and one line for each thing that is not said."""
    shared = shared_columns(module.__doc__)
    texts = texts_of(ast.parse(inspect.getsource(module)))
    parts, problems = [HEAD], []
    for number, kind in module.SCHEMAS.items():
        name = kind.__name__
        meaning, speaker = meaning_and_speaker(kind.__doc__ or "")
        if not speaker:
            problems.append(f"{name} does not say who it is from")
        rows = ["| column | type | unit | meaning |", "|---|---|---|---|"]
        for column, dtype in module.DTYPES[kind].items():
            text = texts[name].get(column) or shared.get(column, "")
            if not text:
                problems.append(f"{name}.{column} has no text")
            type_ = "text" if dtype.kind == "U" else dtype.name
            rows.append(f"| `{column}` | {type_} | {unit_of(column)} | {text} |")
        table = "\n".join(rows)
        parts.append(f"## {number} {name}\n\n{meaning}\nFrom {speaker}.\n\n{table}\n")
    return "\n".join(parts), problems


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; return the exit status."""
    text, problems = page_and_problems()
    pages = {PAGE: text}
    return written_or_checked(
        pages, lambda: problems + stale(pages, "scripts.event_reference"), arguments
    )


if __name__ == "__main__":
    sys.exit(main())
