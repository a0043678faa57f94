"""Pages of the documentation that are made of measured numbers, and whether they still are."""

import re
from pathlib import Path

from lab.claim import Scale
from lab.league.files import FOLDER
from lab.league.page import league_markdown
from lab.learning.page import learning_markdown
from lab.papers_page import papers_markdown
from lab.running import FIGURES, all_claims, folder_of
from lab.tables import digest_of, read_tables
from recrawl.refreshbench import TRACKS

__all__ = ["pages", "problems", "write_pages"]

RESULTS = FIGURES.parent
_STAMP = re.compile(r"<!-- claim=(?P<slug>\S+) data=(?P<data>\S+) -->")


def pages() -> dict[Path, str]:
    """Return the text of each page by its path."""
    return {
        RESULTS / "papers.md": papers_markdown(),
        RESULTS / "results.md": league_markdown(),
        RESULTS / "learning.md": learning_markdown(),
    }


def write_pages() -> None:
    """Write all pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


def problems() -> list[str]:
    """Return one line for each page or figure that is not what the numbers say."""
    found = []
    for path, text in pages().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            found.append(f"{path.name} is stale: run python -m lab pages")
    for claim in all_claims():
        digest = digest_of(read_tables(folder_of(claim) / Scale.FULL))
        for name in claim.captions:
            file = FIGURES / claim.figure_file(name)
            stamp = _STAMP.match(file.read_text(encoding="utf-8")) if file.is_file() else None
            if stamp is None or stamp["data"] != digest:
                found.append(f"{file.name} is stale: run python -m lab figures {claim.id!r}")
    league = digest_of(read_tables(FOLDER))
    for track in TRACKS:
        file = FIGURES / f"league-{track.name}.svg"
        if not file.is_file() or f"data={league} " not in file.read_text(encoding="utf-8")[:200]:
            found.append(f"{file.name} is stale: run python -m lab league")
    return found
