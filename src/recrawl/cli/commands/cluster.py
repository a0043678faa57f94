"""``recrawl cluster``: look at the workers of a cluster, and move partitions among them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recrawl.cli.support.corpus_access import corpus_option, value_errors_as_usage
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import Output, output_option
from recrawl.units import seconds_text

if TYPE_CHECKING:
    from recrawl.cluster import ClusterView

__all__ = ["command"]


@click.group("cluster")
def command() -> None:
    """Look at the workers of a corpus on Kafka, and move partitions among them."""


@contextmanager
def _open_view(folder: Path) -> "Iterator[ClusterView]":
    from recrawl.cluster import open_view  # noqa: PLC0415

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
                    is_drained=worker.worker in status.rules.drained,
                ),
            )
            for worker in status.workers
        ],
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
        price = "not known yet" if status.price is None else f"{status.price:.3g}"
        out.say(f"Budget: {_rate_text(status.budget_per_second)}.  Price: {price}.")
        out.row({"budget_per_second": status.budget_per_second, "price": status.price})
    for problem in status.problems:
        out.say(problem)
        out.row({"problem": problem})
    if any(one.owner is None for one in status.partitions):
        raise click.exceptions.Exit(1)


def _rate_text(per_second: float | None) -> str:
    """Return a rate in a unit of time in which it is easy to read."""
    if per_second is None:
        return "-"
    if per_second == inf:
        return "unlimited"
    if per_second >= 1:
        return f"{per_second:,.3g}/s" if per_second < 1_000 else f"{per_second:,.0f}/s"
    return f"{3600 * per_second:.3g}/h"


def _remark(
    *, is_leaving: bool, reads_log: bool, can_own: bool, clock_problem: str, is_drained: bool
) -> str:
    if is_leaving:
        return "ends"
    if not reads_log:
        return "too old"
    if clock_problem:
        return clock_problem
    if not can_own:
        return "disk full"
    return "drained" if is_drained else ""


@example_command("drain", examples=(CommandExample("recrawl cluster drain web3", is_run=False),))
@click.argument("worker")
@click.option("--undo", is_flag=True, help="Give it partitions again.")
@corpus_option
@output_option
def drain(worker: str, undo: bool, folder: Path, out: Output) -> None:
    """Take all partitions from a worker, without a gap.  It goes on to answer requests."""
    with _open_view(folder) as view:
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
@corpus_option
@output_option
def pin(partition: int, worker: str | None, undo: bool, folder: Path, out: Output) -> None:
    """Give a partition to a worker for as long as that takes part."""
    if (worker is None) != undo:
        raise click.UsageError("give a worker, or --undo.")
    with _open_view(folder) as view:
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
