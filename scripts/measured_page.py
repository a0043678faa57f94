"""Write the pages that quote measurements from the CSV files in benchmarks/measured.

Each page has a template beside it, ``<page>.in``, with a placeholder ``@{file.row.column}`` for
each figure.  ``said.csv`` has one column of values, so its placeholders are ``@{said.row}``.
Sentences of other pages that quote figures are listed in quotes.toml.

``python -m scripts.measured_page`` writes the pages.  With ``--check`` it writes nothing and
prints what is wrong: pages that are out of date, sentences with other figures, unused figures.
"""

import csv
import re
import sys
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from recrawl.corpus.inspect.stats import PAGES_SUMMED_MAX
from recrawl.node.config.sections import ChangesConfig, SnapshotsConfig
from scripts.cluster_sizes import cluster_sizes
from scripts.written_pages import ROOT, stale_pages, write_or_check

__all__ = [
    "FIGURES",
    "PAGES",
    "PLACEHOLDER",
    "find_problems",
    "format_cell",
    "main",
    "read_figures",
    "template_path",
]

FIGURES = ROOT / "benchmarks/measured"
PAGES = tuple(
    ROOT / "docs" / name
    for name in ("explanation/measured.md", "explanation/start-up.md", "how-to/size-a-cluster.md")
)
HEAD = "<!-- Written by scripts/measured_page.py from {template} and benchmarks/measured. -->\n\n"

PLACEHOLDER = re.compile(r"@\{([a-z0-9_.]+)\}")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_LARGE_POWER = re.compile(r"10{7,}")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def read_figures() -> dict[str, str]:
    """Return every cell that is not empty, by file, row and column, formatted for a page."""
    found = {}
    for path in sorted(FIGURES.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found.update(_cells(path.stem, row))
    return found | {
        f"reckoned.{name}": format_cell(text) for name, text in derived_figures(found).items()
    }


def _cells(table: str, row: Mapping[str, str]) -> dict[str, str]:
    key = f"{table}.{row['key']}"
    if table == "said":
        return {key: format_cell(row["value"], is_ratio=row["unit"] == "ratio")}
    return {
        f"{key}.{name}": format_cell(text, is_ratio="ratio" in name.split("_"))
        for name, text in row.items()
        if name != "key" and text
    }


def format_cell(text: str, *, is_ratio: bool = False) -> str:
    """Return a cell as text: ratios in percent, groups of thousands, a typographic minus."""
    if not _NUMBER.fullmatch(text):
        return text
    if _LARGE_POWER.fullmatch(text):
        return "10" + str(len(text) - 1).translate(_SUPERSCRIPTS)
    number = Decimal(text)
    if is_ratio:
        # Adding 0 removes the exponent that normalize() may leave.
        number = (number * 100).normalize() + 0
    return f"{number:,f}".replace(",", " ").replace("-", "−")


def derived_figures(found: Mapping[str, str]) -> dict[str, str]:
    """Return figures that are calculated from others and from default settings."""

    def number(key: str) -> float:
        return float(found[key].replace(" ", ""))

    snapshots = SnapshotsConfig()
    n_fetches = number("said.crawl_fetches_per_second") * snapshots.every
    record_seconds = number("said.replay_milliseconds_per_record") / 1e3
    row_seconds = number("said.replay_microseconds_per_row") / 1e6
    n_bytes = number("scale.1e7.snapshot_bytes_per_page") * 1e7
    seconds = number("said.crawl_records") * record_seconds + n_fetches * row_seconds
    return {
        "stats_pages": str(PAGES_SUMMED_MAX),
        "changes_kept_days": f"{ChangesConfig().kept_for / 86_400:.0f}",
        "snapshot_minutes": f"{snapshots.every / 60:.0f}",
        "snapshot_records": str(snapshots.every_records),
        "snapshot_gigabytes": f"{n_bytes / 1e9:.1f}",
        "texts_gigabytes": f"{number('texts.many.store_bytes_per_page') * 1e7 / 1e9:.0f}",
        "texts_log_gigabytes": f"{number('texts.many.log_bytes_per_first_fetch') * 1e7 / 1e9:.0f}",
        "crawl_fetches": f"{n_fetches:.0f}",
        "crawl_seconds": f"{seconds:.1f}",
        "crawl_alone_seconds": f"{n_fetches * record_seconds:.0f}",
        "crawl_lowered_seconds": f"{number('said.crawl_records_lowered') * record_seconds:.0f}",
        **cluster_sizes(number),
    }


def fill_template(template: str, found: Mapping[str, str]) -> str:
    """Return a template with its figures filled in; an unknown figure is a KeyError."""
    return PLACEHOLDER.sub(lambda place: found[place[1]], template)


def template_path(page: Path) -> Path:
    """Return the path of the template of a page."""
    return page.with_name(page.name + ".in")


def page_texts(found: Mapping[str, str]) -> dict[Path, str]:
    """Return the Markdown of each page."""
    texts = {}
    for page in PAGES:
        template = template_path(page)
        text = template.read_text(encoding="utf-8")
        texts[page] = HEAD.format(template=template.name) + fill_template(text, found)
    return texts


def read_quotes() -> dict[str, list[str]]:
    """Return the sentences that quote figures, as templates, by page."""
    with (FIGURES / "quotes.toml").open("rb") as file:
        return {page: list(says) for page, says in tomllib.load(file).items()}


def find_problems(found: Mapping[str, str]) -> list[str]:
    """Return one line for each outdated page, wrong sentence or unused figure."""
    lines = stale_pages(page_texts(found), "scripts.measured_page")
    for name, says in read_quotes().items():
        text = (ROOT / name).read_text(encoding="utf-8")
        wanted = [fill_template(say, found) for say in says]
        lines += [f"{name} does not say: {say}" for say in wanted if say not in text]
    templates = [template_path(page).read_text(encoding="utf-8") for page in PAGES]
    quoting = " ".join([*templates, *(say for says in read_quotes().values() for say in says)])
    unused = found.keys() - set(PLACEHOLDER.findall(quoting))
    # Cells that are text describe how a figure was measured and need no quote.
    numbers = [key for key in sorted(unused) if found[key].lstrip("−")[0].isdigit()]
    return lines + [f"no page quotes {key}" for key in numbers]


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or check them; return the exit status."""
    found = read_figures()
    return write_or_check(page_texts(found), lambda: find_problems(found), arguments)


if __name__ == "__main__":
    sys.exit(main())
