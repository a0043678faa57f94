"""What each part of the shard's learning buys, by one command: ``python -m lab learning``."""

import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table as Shown

from lab.claim import Scale
from lab.learning.drawing import learning_figures
from lab.learning.page import PAGE, learning_markdown
from lab.learning.plan import PLANS, RESULTS, measure
from lab.learning.summary import checks, checks_table, steps_table, summary_table
from lab.running import FIGURES
from lab.tables import Table, read_tables, write_tables

__all__ = ["learning", "tables_of"]


def tables_of(runs: Table, kept: Table | None = None) -> dict[str, Table]:
    """Return the runs and all that follows from them, by name of the file."""
    return {
        "runs": runs,
        "summary": summary_table(runs),
        "steps": steps_table(runs),
        "checks": checks_table(checks(runs, kept)),
    }


def _shown(tables: dict[str, Table]) -> list[Shown]:
    steps = Shown("what", "web", "fetches/h", "buys at first", "and in steady state", box=None)
    table = tables["steps"]
    for row in table.rows:
        said = dict(zip(table.names, row, strict=True))
        gains = [
            f"{float(said[f'{w}_points']):+.2f} "
            f"({float(said[f'{w}_low']):+.2f} to {float(said[f'{w}_high']):+.2f})"
            for w in ("first", "late")
        ]
        steps.add_row(said["step"], said["web"], said["fetches_per_hour"], *gains)
    judged = Shown("reference", "found", "wanted", "holds", box=None)
    for row in tables["checks"].rows:
        judged.add_row(*row)
    return [steps, judged]


@click.command()
@click.option("--quick", "scale", flag_value="quick", default="quick", help="Seconds.")
@click.option("--full", "scale", flag_value="full", help="What the page shows; writes it.")
@click.option("--resume", is_flag=True, help="Keep the runs that are there.")
def learning(scale: str, resume: bool) -> None:
    """Run the shard and its ablations on webs it knows nothing of.

    Points are of freshness, weighted by importance, with intervals of 95 %.  Exits with 1 if a
    reference is missed.  A quick run leaves nothing behind.
    """
    console = Console()
    started = time.perf_counter()
    kept = read_tables(RESULTS).get("runs")
    with tempfile.TemporaryDirectory() as scratch, console.status("") as status:
        folder = RESULTS if scale == Scale.FULL else Path(scratch)
        for what, done, n in measure(PLANS[Scale(scale)], folder, resume=resume):
            status.update(f"{done} of {n} runs: {what}")
        tables = tables_of(read_tables(folder)["runs"], kept)
        write_tables(folder, tables)
        tables = read_tables(folder)
        if scale == Scale.FULL:
            write_page(tables)
    for shown in _shown(tables):
        console.print(shown)
        console.print()
    holds = tables["checks"].texts("holds")
    n_wrong = len(holds) - holds.count("yes")
    console.print(
        f"{len(tables['runs'])} runs in {time.perf_counter() - started:.0f} s; "
        f"{len(holds)} references, {n_wrong} missed"
    )
    sys.exit(n_wrong > 0)


def write_page(tables: dict[str, Table]) -> None:
    """Write the figures and the page of the docs."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, svg in learning_figures(tables).items():
        (FIGURES / name).write_text(svg, encoding="utf-8")
    PAGE.write_text(learning_markdown(), encoding="utf-8")
