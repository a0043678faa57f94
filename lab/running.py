"""Runs claims, keeps their numbers, and says which hold."""

import importlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.claim import Check, Claim, Scale, Tables
from lab.drawing import look, svg_of
from lab.recorded import has_data
from lab.tables import digest_of, read_tables, write_tables

__all__ = [
    "CLAIMS",
    "FIGURES",
    "Report",
    "all_claims",
    "draw_claim",
    "folder_of",
    "judged",
    "run_claim",
]

CLAIMS = Path(__file__).parent / "claims"
FIGURES = Path(__file__).parents[1] / "docs" / "results" / "figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a claim."""

    claim: Claim
    checks: tuple[Check, ...]
    scale: Scale = Scale.FULL
    seconds: float = 0.0
    missing: str = ""

    @property
    def holds(self) -> bool:
        """Whether every check that is judged holds."""
        return all(check.holds for check in self.checks if check.is_judged)

    @property
    def is_as_expected(self) -> bool:
        """Whether all checks hold but those that are known to fail, of which the report says why.

        In a quick run these may hold; where they all do in a full one, the report is out of date.
        """
        failing = [check for check in self.checks if check.is_judged and not check.holds]
        if not all(check.what.startswith(self.claim.failing) for check in failing):
            return False
        return bool(failing) or not self.claim.failing or self.scale is Scale.QUICK

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.missing:
            return "not run"
        if self.claim.judge is None:
            return "drawn"
        if self.holds:
            return "holds, corrected" if self.claim.corrected else "holds"
        return "does not hold" if self.is_as_expected else "BROKEN"


def all_claims(wanted: Sequence[str] = ()) -> Iterator[Claim]:
    """Yield the claims by folder, or only those with these ids or folders."""
    for path in sorted(CLAIMS.glob("*/claim.py"), key=_order):
        claim: Claim = importlib.import_module(f"lab.claims.{path.parent.name}.claim").CLAIM
        if not wanted or claim.id in wanted or path.parent.name in wanted:
            yield claim


def _order(path: Path) -> tuple[str, str, int]:
    """Return what sorts claims as the papers number them."""
    letters, number = re.match(r"([a-z]+)(\d*)", path.parent.name).groups()  # type: ignore[union-attr]
    return letters[0], letters, int(number or 0)


def folder_of(claim: Claim) -> Path:
    """Return the folder of a claim."""
    return CLAIMS / claim.measure.__module__.split(".")[-2]


def run_claim(claim: Claim, scale: Scale, folder: Path | None = None) -> Report:
    """Measure a claim, write its numbers, and judge what stands in the files."""
    if not has_data(*claim.needs):
        missing = ", ".join(name for name in claim.needs if not has_data(name))
        return Report(claim=claim, checks=(), scale=scale, missing=missing)
    started = time.perf_counter()
    into = folder or folder_of(claim) / scale
    write_tables(into, claim.measure(scale))
    seconds = time.perf_counter() - started
    checks = judged(claim, read_tables(into))
    return Report(claim=claim, checks=checks, scale=scale, seconds=seconds)


def judged(claim: Claim, tables: Tables) -> tuple[Check, ...]:
    """Return the checks of a claim, none for a figure."""
    return claim.judge(tables) if claim.judge else ()


def draw_claim(claim: Claim, tables: Tables) -> dict[str, str]:
    """Return a claim's figures as SVG, by the name of their file."""
    with look():
        figures = claim.draw(tables)
    if set(figures) != set(claim.captions):
        raise ValueError(f"captions of {claim.id} must be of {sorted(figures)}")
    data = {"claim": claim.slug, "data": digest_of(tables)}
    return {claim.figure_file(name): svg_of(figure, data) for name, figure in figures.items()}
