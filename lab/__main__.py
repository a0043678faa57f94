"""Reproduce the papers: ``python -m lab claims --quick``."""

import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table as Shown

from lab.claim import Scale
from lab.league.run import league
from lab.learning.run import learning
from lab.running import FIGURES, Report, all_claims, draw_claim, folder_of, run_claim
from lab.tables import read_tables

_STYLE = {
    "holds": "green",
    "holds, corrected": "green",
    "drawn": "cyan",
    "does not hold": "yellow",
    "not run": "magenta",
}


@click.group()
def main() -> None:
    """Reproduce the papers' claims, rank policies, and see what learning buys."""


def _shown(reports: list[Report]) -> Shown:
    shown = Shown("claim", "paper", "kind", "what", "verdict", "seconds", box=None)
    for report in reports:
        claim, verdict = report.claim, report.verdict
        style = _STYLE.get(verdict, "bold red")
        cells = (claim.id, f"{claim.paper} {claim.figures}", str(claim.kind), claim.title)
        shown.add_row(*cells, f"[{style}]{verdict}[/]", f"{report.seconds:.0f}")
        for check in report.checks:
            if check.is_judged and not check.holds:
                told = f"  {check.what}: found {check.found}, wanted {check.wanted}"
                shown.add_row("", "", "", told, "", "")
        if report.missing:
            shown.add_row("", "", "", f"  needs {report.missing}; set RECRAWL_DATA", "", "")
    return shown


def _write(figures: dict[str, str]) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, svg in figures.items():
        (FIGURES / name).write_text(svg, encoding="utf-8")


@main.command()
@click.option("--quick", "scale", flag_value="quick", default="quick", help="Seconds each.")
@click.option("--full", "scale", flag_value="full", help="What the pages show; writes figures.")
@click.option("--require-data", is_flag=True, help="Claims whose data are missing count as wrong.")
@click.argument("claims", nargs=-1)
def claims(scale: str, require_data: bool, claims: tuple[str, ...]) -> None:
    """Run all CLAIMS, or those named; exit with 1 if one that should hold does not.

    A quick run leaves nothing behind.
    """
    console = Console()
    reports = []
    known = [claim.id for claim in all_claims(claims)]
    if len(known) < len(claims):
        raise click.UsageError(
            f"Of {', '.join(claims)} only {', '.join(known) or 'none'} is there."
        )
    with tempfile.TemporaryDirectory() as scratch:
        for claim in all_claims(claims):
            with console.status(f"{claim.id}: {claim.title}"):
                is_full = scale == Scale.FULL
                into = None if is_full else Path(scratch) / claim.slug
                report = run_claim(claim, Scale(scale), into)
                if not report.missing:
                    drawn = draw_claim(claim, read_tables(into or folder_of(claim) / scale))
                    if is_full:
                        _write(drawn)
            reports.append(report)
    console.print(_shown(reports))
    n_wrong = sum(
        require_data if report.missing else not report.is_as_expected for report in reports
    )
    console.print(f"{len(reports)} claims, {n_wrong} not as they should be")
    sys.exit(n_wrong > 0)


@main.command()
@click.argument("claims", nargs=-1)
def figures(claims: tuple[str, ...]) -> None:
    """Draw the figures of CLAIMS anew from the numbers that are kept."""
    for claim in all_claims(claims):
        _write(draw_claim(claim, read_tables(folder_of(claim) / Scale.FULL)))


@main.command("pages")
@click.option("--check", is_flag=True, help="Write nothing; name what is stale.")
def pages_(check: bool) -> None:
    """Make the pages of the documentation from the numbers that are kept."""
    from lab import pages  # noqa: PLC0415 (reads every claim)

    if not check:
        pages.write_pages()
        return
    found = pages.problems()
    for problem in found:
        click.echo(problem)
    sys.exit(bool(found))


main.add_command(league)
main.add_command(learning)

if __name__ == "__main__":
    main()
