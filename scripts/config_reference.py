"""Write docs/reference/configuration.md: every section and key, its meaning, type and default.

The texts come from the docstrings in `recrawl.node.config.sections`.

``python -m scripts.config_reference`` writes the page.  With ``--check`` it writes nothing and
prints what is wrong: a field without a description, or a page that is out of date.
"""

import sys

from recrawl.node.config.descriptions import KeyText, sections
from scripts.written_pages import ROOT, stale_pages, write_or_check

PAGE = ROOT / "docs/reference/configuration.md"

HEAD = """\
<!-- Written by scripts/config_reference.py from recrawl.node.config.corpus_config; do not edit. -->

# Configuration

You configure a corpus with the file `recrawl.toml` in its folder, or in Python with a
`recrawl.CorpusConfig`.
Every section and key is optional.
An unknown key or an invalid value is an error.

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
You can write durations and rates the same way in Python; `CorpusConfig` converts them.
"""


def default_of(key: KeyText) -> str:
    """Return the default of a field as TOML, or in words."""
    if key.is_required:
        return "required"
    return f"`{key.default}`" if key.default is not None else "none"


def page_text() -> str:
    """Return the Markdown page."""
    parts = [HEAD]
    for section in sections():
        rows = ["| key | meaning | allowed | default |", "|---|---|---|---|"]
        for key in section.keys:
            allowed = key.allowed.partition(" (")[0]
            text = key.text.replace("|", "\\|")
            rows.append(f"| `{key.name}` | {text} | {allowed} | {default_of(key)} |")
        parts.append(f"## `{section.heading}`\n\n{section.text}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def find_problems() -> list[str]:
    """Return one line for each field without a description."""
    return [
        f"{section.kind.__name__}.{key.name} has no description"
        for section in sections()
        for key in section.keys
        if not key.text
    ]


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; return the exit status."""
    pages = {PAGE: page_text()}
    return write_or_check(
        pages, lambda: find_problems() + stale_pages(pages, "scripts.config_reference"), arguments
    )


if __name__ == "__main__":
    sys.exit(main())
