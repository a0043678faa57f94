"""Write the pages that quote measurements, so that a figure stands in one place: its CSV file.

The files are in benchmarks/measured.  A page is its template, ``<page>.in`` beside it, with
``@{file.row.column}`` for each figure; of ``said.csv``, which has one column, ``@{said.row}``.
Other pages quote a few in passing: quotes.toml says which sentence of which page.

``python -m scripts.measured_page`` writes the pages.  With ``--check`` it writes nothing and names
what is wrong: a stale page, a sentence that says something else, a figure that nobody quotes.
"""

import csv
import re
import sys
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from recrawl.corpus.inspect.stats import PAGES_COUNTED_MAX
from recrawl.node.config.sections import SnapshotsConfig
from scripts.written_pages import ROOT, stale, written_or_checked

__all__ = [
    "FIGURES",
    "PAGES",
    "PLACEHOLDER",
    "figures",
    "main",
    "problems",
    "shown",
    "template_of",
]

FIGURES = ROOT / "benchmarks/measured"
PAGES = tuple(ROOT / "docs/explanation" / name for name in ("measured.md", "start-up.md"))
HEAD = "<!-- Written by scripts/measured_page.py from {template} and benchmarks/measured. -->\n\n"

PLACEHOLDER = re.compile(r"@\{([a-z0-9_.]+)\}")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_LARGE_POWER = re.compile(r"10{7,}")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def figures() -> dict[str, str]:
    """Return every cell that is not empty, by file, row and column, as a page shows it."""
    found = {}
    for path in sorted(FIGURES.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found.update(_cells(path.stem, row))
    return found | {f"reckoned.{name}": shown(text) for name, text in reckoned(found).items()}


def _cells(table: str, row: Mapping[str, str]) -> dict[str, str]:
    key = f"{table}.{row['key']}"
    if table == "said":
        return {key: shown(row["value"], is_ratio=row["unit"] == "ratio")}
    return {
        f"{key}.{name}": shown(text, is_ratio="ratio" in name.split("_"))
        for name, text in row.items()
        if name != "key" and text
    }


def shown(text: str, *, is_ratio: bool = False) -> str:
    """Return a cell as prose has it: ratios in per cent, thousands apart, a proper minus."""
    if not _NUMBER.fullmatch(text):
        return text
    if _LARGE_POWER.fullmatch(text):
        return "10" + str(len(text) - 1).translate(_SUPERSCRIPTS)
    number = Decimal(text)
    if is_ratio:
        # Adding 0 takes what is left of an exponent away.
        number = (number * 100).normalize() + 0
    return f"{number:,f}".replace(",", " ").replace("-", "−")


def reckoned(found: Mapping[str, str]) -> dict[str, str]:
    """Return what follows from other figures, and from defaults, and was not measured."""

    def number(key: str) -> float:
        return float(found[key].replace(" ", ""))

    snapshots = SnapshotsConfig()
    n_fetches = number("said.crawl_fetches_per_second") * snapshots.every
    record_seconds = number("said.replay_milliseconds_per_record") / 1e3
    row_seconds = number("said.replay_microseconds_per_row") / 1e6
    n_bytes = number("scale.1e7.snapshot_bytes_per_page") * 1e7
    seconds = number("said.crawl_records") * record_seconds + n_fetches * row_seconds
    return {
        "stats_pages": str(PAGES_COUNTED_MAX),
        "snapshot_minutes": f"{snapshots.every / 60:.0f}",
        "snapshot_records": str(snapshots.every_records),
        "snapshot_gigabytes": f"{n_bytes / 1e9:.1f}",
        "crawl_fetches": f"{n_fetches:.0f}",
        "crawl_seconds": f"{seconds:.1f}",
        "crawl_alone_seconds": f"{n_fetches * record_seconds:.0f}",
        "crawl_lowered_seconds": f"{number('said.crawl_records_lowered') * record_seconds:.0f}",
    }


def filled(template: str, found: Mapping[str, str]) -> str:
    """Return a text with its figures; one that nobody measured is a KeyError."""
    return PLACEHOLDER.sub(lambda place: found[place[1]], template)


def template_of(page: Path) -> Path:
    """Return where the text of a page is."""
    return page.with_name(page.name + ".in")


def page_texts(found: Mapping[str, str]) -> dict[Path, str]:
    """Return the Markdown of each page."""
    texts = {}
    for page in PAGES:
        template = template_of(page)
        text = template.read_text(encoding="utf-8")
        texts[page] = HEAD.format(template=template.name) + filled(text, found)
    return texts


def quotes() -> dict[str, list[str]]:
    """Return the sentences that quote figures, as templates, by page."""
    with (FIGURES / "quotes.toml").open("rb") as file:
        return {page: list(says) for page, says in tomllib.load(file).items()}


def problems(found: Mapping[str, str]) -> list[str]:
    """Return one line for each page, sentence or figure that does not fit."""
    lines = stale(page_texts(found), "scripts.measured_page")
    for name, says in quotes().items():
        text = (ROOT / name).read_text(encoding="utf-8")
        wanted = [filled(say, found) for say in says]
        lines += [f"{name} does not say: {say}" for say in wanted if say not in text]
    templates = [template_of(page).read_text(encoding="utf-8") for page in PAGES]
    said = " ".join([*templates, *(say for says in quotes().values() for say in says)])
    unused = found.keys() - set(PLACEHOLDER.findall(said))
    # Words, which say how it was run, may stand unread.
    numbers = [key for key in sorted(unused) if found[key].lstrip("−")[0].isdigit()]
    return lines + [f"nobody quotes {key}" for key in numbers]


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or check them; return the exit status."""
    found = figures()
    return written_or_checked(page_texts(found), lambda: problems(found), arguments)


if __name__ == "__main__":
    sys.exit(main())
