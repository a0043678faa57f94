"""``recrawl worker``: one of several processes that share the partitions of a corpus on Kafka."""

import socket
from pathlib import Path
from typing import Any, Final

import click

from recrawl.cli.support.corpus_access import (
    check_folder,
    check_server_packages,
    corpus_option,
    prepare_kernels,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import duration_option
from recrawl.cli.support.output import (
    Output,
    output_option,
    print_log_messages,
    print_log_times,
)
from recrawl.cli.support.serving import (
    SERVER_PACKAGES,
    listening_options,
    read_dashboard_option,
)

__all__ = ["command"]

_NEEDED: Final = (*SERVER_PACKAGES, "confluent_kafka")


@example_command(
    "worker",
    examples=(
        CommandExample("recrawl worker --keys cluster.keys", "on each machine", is_run=False),
        CommandExample(
            "recrawl worker --keys cluster.keys --host 0.0.0.0 --address http://10.1.0.7:8377/",
            "that others reach by its address",
            is_run=False,
        ),
    ),
)
@click.option(
    "--keys",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="File of keys that all workers share; `recrawl cluster rotate-keys FILE` creates it.",
)
@click.option(
    "--worker-name",
    "worker",
    default=socket.gethostname,
    show_default="the name of the machine",
    metavar="NAME",
    help="Name of the worker.  It stays the same when it is started again, and no other has it.",
)
@click.option(
    "--corpus-name",
    "name",
    default="corpus",
    show_default=True,
    metavar="NAME",
    help="Name of the corpus in paths: /v1/corpora/NAME/orders.  The same at all workers.",
)
@click.option(
    "--address",
    metavar="URL",
    help="Address at which other workers reach this one.  Default: where it listens.",
)
@click.option(
    "--zone",
    default="",
    metavar="NAME",
    help="Name of the place of this machine, which `recrawl cluster status` shows.",
)
@listening_options
@click.option(
    "--for",
    "for_seconds",
    metavar="TIME",
    callback=duration_option,
    help="End after TIME: 10m, 1h.  Default: work until Ctrl-C or SIGTERM.",
)
@corpus_option
@output_option
def command(folder: Path, out: Output, **options: Any) -> None:
    """Work on the partitions of a corpus on Kafka, together with other workers.

    Each worker has a folder of its own with the same recrawl.toml.  They divide the partitions
    among them, and each keeps copies of some partitions of others, to take them over.  All of them
    answer all requests.  When this one is told to stop, others take its partitions first.
    """
    print_log_times()
    check_server_packages(_NEEDED)
    if not (folder / "recrawl.toml").exists():
        raise click.UsageError(
            f'{folder} has no recrawl.toml, which must say ledger.kind = "kafka".'
        )

    def check_start() -> None:
        from recrawl.cluster import check_worker_start  # noqa: PLC0415

        names = ("worker", "keys", "address", "host")
        with value_errors_as_usage():
            check_worker_start(folder.resolve(), **{name: options[name] for name in names})
        check_folder(folder)

    # Whatever is wrong is said before this compiles for a minute.
    prepare_kernels(folder, n_bytes_input=None, compiles_first=True, before_compiling=check_start)
    print_log_messages()
    from recrawl.cluster import run_worker  # noqa: PLC0415

    read_dashboard_option(options)

    def say_ready(url: str) -> None:
        out.row({"worker": options["worker"], "url": url})
        out.say(f"Worker {options['worker']} answers at {url}v1/corpora/{options['name']}")

    with value_errors_as_usage():
        run_worker(folder.resolve(), on_ready=say_ready, **options)
    out.note("Stopped.  Everything that was answered is saved.")
