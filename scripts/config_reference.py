"""Write docs/reference/configuration.md: every section and key, its meaning, type and default.

All of it is said once, in `recrawl.runtime.config_sections`: the docstring of a section, the type
and default of a field, and the text beneath it.

``python scripts/config_reference.py`` writes the page.  With ``--check`` it writes nothing and
names what is wrong: a field without a text, a stale page.
"""

import argparse
import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from recrawl.runtime.config import CorpusConfig, Rate
from recrawl.runtime.config_values import Duration, described, hints_of, period

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/configuration.md"

HEAD = """\
<!-- Written by scripts/config_reference.py from recrawl.runtime.config; do not edit. -->

# Configuration

A corpus is configured by `recrawl.toml` in its folder, or by a
`recrawl.runtime.config.CorpusConfig` made in Python.
Every section and key may be left out.
A key that is not known is an error, and so is a value that cannot be.

```toml
[budget]
rate = "30/h"

[politeness]
delay = "2s"

[[pattern]]
match = "/product/*"
max_age = "1d"
share = 0.4

[hosts."slow.example.com"]
delay = "30s"
```

A duration is a number of seconds, or text with a unit: `"90s"`, `"15m"`, `"6h"`, `"2d"`, `"1w"`.
A rate is text: `"5/s"`, `"30/h"`, `"1000/d"`, or `"100/run"` for each run of the program.
In Python, durations and rates may be given the same way, and are seconds and a `Rate` from then on.
"""


def texts_of(section: type) -> dict[str, str]:
    """Return the text beneath each field of a section."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(section))).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for node, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            value = following.value if isinstance(following, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                texts[node.target.id] = " ".join(value.value.split())
    return texts


def sections() -> Iterator[tuple[str, type]]:
    """Return the heading of each section as TOML has it, and its class."""
    for field in fields(CorpusConfig):
        kind: type = field.metadata.get("of", type(getattr(CorpusConfig(), field.name)))
        match field.metadata.get("each"):
            case "row":
                yield f"[[{field.metadata['key']}]]", kind
            case "name":
                yield f'[{field.name}."example.com"]', kind
            case _:
                yield f"[{field.name}]", kind


def default_of(field: Field[Any], hint: Any) -> str:
    """Return a field's default as TOML has it, or in words."""
    if field.default_factory is not MISSING:
        return "none"
    value = field.default
    if value is MISSING:
        return "must be given"
    if value is None:
        return "none"
    if isinstance(value, str):
        return f'`"{value}"`'
    if hint == Duration or hint == Duration | None:
        return f'`"{period(value)}"`'
    if "rate" in described(hint) and not isinstance(value, Rate):
        return f'`"{value * 86_400:g}/d"`'
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def page() -> str:
    """Return the Markdown page."""
    parts = [HEAD]
    for heading, kind in sections():
        texts, hints = texts_of(kind), hints_of(kind)
        rows = ["| key | meaning | allowed | default |", "|---|---|---|---|"]
        for field in fields(kind):
            hint = hints[field.name]
            allowed = described(hint).partition(" (")[0]
            default = default_of(field, hint)
            text = texts.get(field.name, "").replace("|", "\\|")
            rows.append(f"| `{field.name}` | {text} | {allowed} | {default} |")
        about = " ".join((inspect.getdoc(kind) or "").split())
        parts.append(f"## `{heading}`\n\n{about}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def problems() -> list[str]:
    """Return one line for each field that nothing is said of."""
    return [
        f"nothing is said of {kind.__name__}.{field.name}"
        for _, kind in sections()
        for field in fields(kind)
        if not texts_of(kind).get(field.name)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, name what is wrong")
    check = parser.parse_args(arguments).check
    text = page()
    if not check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    found = problems()
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        found.append(f"{PAGE.relative_to(ROOT)} is stale: run python scripts/config_reference.py")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
