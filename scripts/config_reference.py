"""Write docs/reference/configuration.md: every section and key, its meaning, type and default.

All of it is said once, in `recrawl.node.config.sections`.

``python -m scripts.config_reference`` writes the page.  With ``--check`` it writes nothing and
names what is wrong: a field without a text, a stale page.
"""

import sys

from recrawl.node.config.descriptions import KeyText, sections
from scripts.written_pages import ROOT, stale, written_or_checked

PAGE = ROOT / "docs/reference/configuration.md"

HEAD = """\
<!-- Written by scripts/config_reference.py from recrawl.node.config.corpus_config; do not edit. -->

# Configuration

A corpus is configured by `recrawl.toml` in its folder, or by a
`recrawl.node.config.corpus_config.CorpusConfig` made in Python.
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


def default_of(key: KeyText) -> str:
    """Return a field's default as TOML has it, or in words."""
    if key.is_required:
        return "must be given"
    return f"`{key.default}`" if key.default is not None else "none"


def page() -> str:
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


def problems() -> list[str]:
    """Return one line for each field that nothing is said of."""
    return [
        f"nothing is said of {section.kind.__name__}.{key.name}"
        for section in sections()
        for key in section.keys
        if not key.text
    ]


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; return the exit status."""
    pages = {PAGE: page()}
    return written_or_checked(
        pages, lambda: problems() + stale(pages, "scripts.config_reference"), arguments
    )


if __name__ == "__main__":
    sys.exit(main())
