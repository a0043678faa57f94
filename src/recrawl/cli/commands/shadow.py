"""``recrawl shadow``: report weekly what recrawl would have done beside an existing crawler."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpus_access import value_errors_as_usage
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.input_files import (
    column_option,
    format_option,
    named_columns,
    sampled_pages_option,
)
from recrawl.cli.support.kernels import kernels_exist, require_compiled
from recrawl.cli.support.output import CHECK_FAILED, Output, output_option

if TYPE_CHECKING:
    from recrawl.backtest import Estimate
    from recrawl.shadow import FollowedLog, Shadow, ShadowReport

__all__ = ["command"]

_FOLLOW_SECONDS = 5.0
_TABLES = ("csv", "jsonl")


@example_command(
    "shadow",
    examples=(
        CommandExample("recrawl shadow crawl-log.jsonl --once", needs_corpus=False),
        CommandExample("recrawl shadow /var/log/crawler/fetches.jsonl -o weekly", is_run=False),
        CommandExample(
            "recrawl shadow --kafka kafka-1:9092 --topic fetches", "a topic", is_run=False
        ),
    ),
    short_help="Report weekly what recrawl would have done.",
)
@click.argument("log", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--once",
    is_flag=True,
    help="Report on what the log has now, too, and end.  Default: follow it.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default="shadow",
    show_default=True,
    metavar="FOLDER",
    help="Folder for the reports, and for the place up to which the log was read.",
)
@click.option(
    "--weeks",
    "n_weeks",
    type=click.IntRange(1, 104),
    default=8,
    show_default=True,
    metavar="N",
    help="Weeks that each report looks back on.",
)
@format_option(*_TABLES, "cdx", "cdxj")
@column_option
@sampled_pages_option
@click.option(
    "--kafka",
    "brokers",
    metavar="BROKERS",
    help="Read a topic of Kafka instead of a file; addresses such as kafka-1:9092,kafka-2:9092.",
)
@click.option("--topic", metavar="NAME", help="Topic of --kafka; each message is a JSON object.")
@click.option(
    "--kafka-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Properties file with further settings of the Kafka client.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31),
    default=0,
    show_default=True,
    metavar="N",
    help="Random seed.",
)
@output_option
def command(log: Path | None, once: bool, folder: Path, out: Output, **options: Any) -> None:
    """Report weekly what recrawl would have done with the fetches of an existing crawler.

    LOG is the file that the crawler appends its fetches to: JSON lines or CSV with url, at, and
    digest or changed, or CDX or CDXJ.  recrawl reads it as it grows, also across rotations, and
    fetches nothing.  After each week of the log it prints how fresh the crawler kept its copies
    and how fresh recrawl would have kept them with the same fetches, with 95 % intervals, and
    writes an HTML report.

    A restarted command continues where it stopped.  With --once it also reports on what there is
    now, and ends; exit code 3 if that is too little to conclude from.
    """
    _check(log, options)
    if not kernels_exist():
        require_compiled("shadow")
    from recrawl.shadow import FollowedFile, FollowedTopic, Shadow, ShadowSettings  # noqa: PLC0415

    def open_log(place: Mapping[str, Any] | None) -> "FollowedLog":
        if log is not None:
            return FollowedFile(log, place)
        settings = _client_settings(options["kafka_config"])
        return FollowedTopic(options["brokers"], options["topic"], place, settings=settings)

    format_name = options["format_name"]
    with value_errors_as_usage():
        settings = ShadowSettings(
            n_weeks=options["n_weeks"],
            n_pages_max=options["n_pages_max"],
            seed=options["seed"],
            format=None if format_name in _TABLES else format_name,
            columns=named_columns(options["columns"]),
        )
    try:
        shadow = Shadow(folder, open_log, settings=settings)
    except ImportError as error:
        raise click.UsageError(str(error)) from None
    try:
        _follow(shadow, folder, out, once=once)
    finally:
        shadow.close()


def _check(log: Path | None, options: dict[str, Any]) -> None:
    """Raise a usage error if the options do not name one log."""
    if (log is None) == (options["brokers"] is None):
        raise click.UsageError("name a LOG, or give --kafka and --topic, but not both.")
    if (options["brokers"] is None) != (options["topic"] is None):
        raise click.UsageError("--kafka and --topic need each other.")
    if options["kafka_config"] is not None and options["brokers"] is None:
        raise click.UsageError("--kafka-config needs --kafka and --topic.")
    if log is not None and not log.exists():
        raise click.UsageError(f"there is no file {log}.")


def _client_settings(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    from recrawl.service import read_client_settings  # noqa: PLC0415

    with value_errors_as_usage():
        return read_client_settings(path.read_text(encoding="utf-8"))


def _follow(shadow: "Shadow", folder: Path, out: Output, *, once: bool) -> None:
    out.status(f"Reading {shadow.log.name} …")
    while True:
        has_read = shadow.read()
        while (report := shadow.next_report()) is not None:
            _show(report, shadow, folder, out)
            shadow.finish(report)
        if has_read:
            continue
        if once:
            break
        time.sleep(_FOLLOW_SECONDS)
    report = shadow.report_now()
    _show(report, shadow, folder, out)
    if report.estimate is None:
        click.get_current_context().exit(CHECK_FAILED)


def _show(report: "ShadowReport", shadow: "Shadow", folder: Path, out: Output) -> None:
    from recrawl import __version__  # noqa: PLC0415
    from recrawl.atomic_files import replace_file  # noqa: PLC0415
    from recrawl.shadow import shadow_html, shadow_lines  # noqa: PLC0415

    page = shadow_html(report, name=Path(shadow.log.name).name, version=__version__)
    path = folder / f"{report.name}.html"
    try:
        with replace_file(path) as file:
            file.write(page.encode())
    except OSError as error:
        raise click.FileError(str(path), error.strerror or str(error)) from error
    estimate = report.estimate
    row: dict[str, Any] = {"what": "shadow", "week": report.name, "until_ms": report.until_ms}
    if estimate is None:
        row["refused"] = report.support.texts("refusal")
    else:
        row |= {
            "n_pages": estimate.n_pages,
            "n_fetches": estimate.n_fetches,
            "freshness": _interval(estimate.freshness),
            "freshness_of_recrawl": _interval(estimate.freshness_of_ours),
            "gain": _interval(estimate.gain),
            "savings": _interval(estimate.savings),
            "is_difference_found": estimate.is_difference_found,
        }
    counts = report.counts
    row |= {
        "n_rows": counts.n_rows,
        "n_rows_refused": counts.n_refused + counts.n_future + counts.n_long_lines,
        "n_rests_lost": counts.n_rests_lost,
        "path": str(path),
    }
    out.row(row)
    for line in shadow_lines(report):
        out.say(line)
    out.say(f"The full report is in {path}.", style="dim")
    out.say()


def _interval(estimate: "Estimate") -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}
