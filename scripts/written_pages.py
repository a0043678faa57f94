"""Write generated pages of the documentation, or check that they are up to date."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["ROOT", "stale_pages", "write_or_check"]

ROOT = Path(__file__).resolve().parent.parent


def stale_pages(pages: Mapping[Path, str], script: str) -> list[str]:
    """Return one line for each page that differs from what its script would write."""
    return [
        f"{page.relative_to(ROOT)} is out of date: run python -m {script}"
        for page, text in pages.items()
        if not page.exists() or page.read_text(encoding="utf-8") != text
    ]


def write_or_check(
    pages: Mapping[Path, str], problems: Callable[[], list[str]], arguments: list[str] | None
) -> int:
    """Write the pages, or with ``--check`` print the problems instead; return the exit status."""
    parser = argparse.ArgumentParser(description="Write pages of the documentation.")
    parser.add_argument("--check", action="store_true", help="write nothing, print problems")
    if not parser.parse_args(arguments).check:
        for page, text in pages.items():
            page.write_text(text, encoding="utf-8")
        return 0
    lines = problems()
    for line in lines:
        print(line)
    return 1 if lines else 0
