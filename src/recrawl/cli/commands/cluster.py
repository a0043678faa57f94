"""``recrawl cluster``: look at the workers of a cluster, and move partitions among them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from recrawl.cli.support.corpus_access import corpus_option, value_errors_as_usage
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import Output, output_option, print_log_messages
from recrawl.units import seconds_text

if TYPE_CHECKING:
    from recrawl.cluster import ClusterStatus, ClusterView

__all__ = ["command"]

_PRICE_SHOWN_MIN: Final = 0.001


@click.group("cluster")
def command() -> None:
    """Look at the workers of a corpus on Kafka, and move partitions among them."""


@contextmanager
def _open_view(folder: Path) -> "Iterator[ClusterView]":
    from recrawl.cluster import open_view  # noqa: PLC0415

    print_log_messages()
    with value_errors_as_usage(), open_view(folder) as view:
        yield view


@example_command("status", examples=(CommandExample("recrawl cluster status", is_run=False),))
@corpus_option
@output_option
def show_status(folder: Path, out: Output) -> None:
    """Show the workers, and who owns and who follows each partition.

    Listens to the workers for some seconds.  Exits with 1 if a partition has no owner.
    """
    with _open_view(folder) as view:
        status = view.observe()
    for worker in status.workers:
        out.row(
            {
                "worker": worker.worker,
                "address": worker.address,
                "zone": worker.zone,
                "version": worker.version,
                "owned": sorted(worker.owned),
                "standbys": sorted(worker.standby_seconds),
                "is_leaving": worker.is_leaving,
                "can_own": worker.can_own,
                "is_drained": worker.worker in status.rules.drained,
                "is_away": False,
            }
        )
    for name in status.away:
        out.row(
            {
                "worker": name,
                "address": "",
                "zone": "",
                "version": "",
                "owned": [],
                "standbys": [],
                "is_leaving": False,
                "can_own": False,
                "is_drained": True,
                "is_away": True,
            }
        )
    for one in status.partitions:
        out.row(
            {
                "partition": one.partition,
                "owner": one.owner,
                "epoch": one.epoch,
                "n_pages": one.n_pages,
                "snapshot_seconds": one.snapshot_seconds,
                "quota_per_second": one.quota_per_second,
                "standbys": dict(one.standbys),
            }
        )
    clock_problem = "clocks differ" if status.do_all_clocks_differ else "wrong clock"
    out.table(
        ("worker", "address", "zone", "version", "owns", "follows", ""),
        [
            (
                worker.worker,
                worker.address,
                worker.zone or "-",
                worker.version,
                len(worker.owned),
                len(worker.standby_seconds),
                _remark(
                    is_leaving=worker.is_leaving,
                    reads_log=worker.reads_log,
                    can_own=worker.can_own,
                    clock_problem=clock_problem if worker.clock_ahead_seconds else "",
                    has_other_keys=worker.has_other_keys,
                    is_drained=worker.worker in status.rules.drained,
                ),
            )
            for worker in status.workers
        ]
        + [(name, "-", "-", "-", 0, 0, "drained, away") for name in status.away],
    )
    out.say()
    out.table(
        ("partition", "owner", "pages", "quota", "snapshot", "standby (behind)"),
        [
            (
                one.partition,
                one.owner or "none",
                f"{one.n_pages:,}",
                _rate_text(one.quota_per_second),
                "-"
                if one.snapshot_seconds is None
                else f"{seconds_text(one.snapshot_seconds)} ago",
                ", ".join(f"{name} ({lag:.1f} s)" for name, lag in one.standbys.items()) or "none",
            )
            for one in status.partitions
        ],
    )
    if status.budget_per_second is not None:
        out.say(
            f"Budget: {_rate_text(status.budget_per_second)}.  Price: {_price_text(status.price)}."
        )
        out.row({"budget_per_second": status.budget_per_second, "price": status.price})
    for problem in status.problems:
        out.say(problem)
        out.row({"problem": problem})
    if any(one.owner is None for one in status.partitions):
        raise click.exceptions.Exit(1)


def _rate_text(per_second: float | None) -> str:
    """Return a rate per hour, like all others, so that they can be compared."""
    if per_second is None:
        return "-"
    if per_second == inf:
        return "unlimited"
    per_hour = 3600 * per_second
    return f"{per_hour:,.0f}/h" if per_hour >= 100 else f"{per_hour:.3g}/h"


def _price_text(price: float | None) -> str:
    """Return what a fetch must save, in the words of `recrawl stats`."""
    if price is None:
        return "not known yet"
    seconds = seconds_text(price) if price >= _PRICE_SHOWN_MIN else "less than 0.001 s"
    return f"{seconds} of staleness that a fetch must save"


def _remark(
    *,
    is_leaving: bool,
    reads_log: bool,
    can_own: bool,
    clock_problem: str,
    has_other_keys: bool,
    is_drained: bool,
) -> str:
    if is_leaving:
        return "is stopping"
    if not reads_log:
        return "too old"
    if clock_problem:
        return clock_problem
    if has_other_keys:
        return "other keys"
    if not can_own:
        return "disk full"
    return "drained" if is_drained else ""


_absent_option = click.option(
    "--absent", is_flag=True, help="Also if the worker does not run now; it may start later."
)


def _check_runs(worker: str, status: "ClusterStatus") -> None:
    """Raise unless a worker takes part."""
    names = [one.worker for one in status.workers]
    if worker not in names:
        others = f"; these are: {', '.join(names)}" if names else ""
        raise click.ClickException(
            f"the worker {worker} is not running{others}.\nNothing was changed.  If it is down "
            "and you mean it, use --absent."
        )


@example_command("drain", examples=(CommandExample("recrawl cluster drain web3", is_run=False),))
@click.argument("worker")
@click.option("--undo", is_flag=True, help="Give it partitions again.")
@_absent_option
@corpus_option
@output_option
def drain(worker: str, undo: bool, absent: bool, folder: Path, out: Output) -> None:
    """Take all partitions from a worker, without a gap.  It goes on to answer requests.

    Listens to the workers for some seconds first.  Exits with 1 if the worker does not run.
    """
    with _open_view(folder) as view:
        if not absent:
            status = view.observe()
            if not (undo and worker in status.rules.drained):
                _check_runs(worker, status)
        view.drain(worker, is_drained=not undo)
    out.row({"worker": worker, "is_drained": not undo})
    out.say(
        f"{worker} gets partitions again."
        if undo
        else f"{worker} gives its partitions to others.  `recrawl cluster status` shows it."
    )


@example_command("pin", examples=(CommandExample("recrawl cluster pin 7 web3", is_run=False),))
@click.argument("partition", type=click.IntRange(0))
@click.argument("worker", required=False)
@click.option("--undo", is_flag=True, help="Let the partition go to any worker again.")
@_absent_option
@corpus_option
@output_option
def pin(
    partition: int, worker: str | None, undo: bool, absent: bool, folder: Path, out: Output
) -> None:
    """Give a partition to a worker for as long as that takes part.

    Listens to the workers for some seconds first.  Exits with 1 if the worker does not run.
    """
    if (worker is None) != undo:
        raise click.UsageError("give a worker, or --undo.")
    with _open_view(folder) as view:
        if worker is not None and not absent:
            _check_runs(worker, view.observe())
        view.pin(partition, worker)
    out.row({"partition": partition, "worker": worker})
    out.say(
        f"Partition {partition} goes to any worker."
        if undo
        else f"Partition {partition} goes to {worker}."
    )


@example_command("rotate-keys", examples=(CommandExample("recrawl cluster rotate-keys my.keys"),))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@output_option
def rotate_keys(file: Path, out: Output) -> None:
    """Add a key to the file that all workers share, and create the file if there is none.

    Copy the file to every worker within five minutes; they read it again by themselves, and use
    the new key after that time.
    """
    from recrawl.cluster import rotate_cluster_keys  # noqa: PLC0415

    key = rotate_cluster_keys(file, time.time_ns() // 1_000_000)
    out.row({"file": str(file), "key": key.id})
    out.say(f"{file} has the new key {key.id}.  Copy it to every worker now.")


for _command in (show_status, drain, pin, rotate_keys):
    command.add_command(_command)
