"""``recrawl resize``: change the number of partitions of a corpus."""

from pathlib import Path

import click

from recrawl.cli.support.corpus_access import corpus_option, value_errors_as_usage
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import Output, output_option
from recrawl.units import count_text, seconds_text

__all__ = ["command"]


@example_command(
    "resize",
    examples=(CommandExample("recrawl resize --partitions 4"),),
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 4_096),
    required=True,
    metavar="N",
    help="New number of partitions.",
)
@corpus_option
@output_option
def command(partitions: int, folder: Path, out: Output) -> None:
    """Change the number of partitions of a corpus.

    Everything that is known of pages and hosts stays, orders that are out can still be reported,
    and readers of the change feed go on where they are.  If the command is interrupted, run it
    again.

    A corpus in a folder must not be used by another process.  A corpus on Kafka gets a new topic,
    and its workers go on with that; leases and writes wait in the end, after most was copied.  Run
    the command in a folder that no running worker uses, with recrawl.toml and space for all
    partitions.
    """
    from recrawl.corpus import present_config, resize_corpus  # noqa: PLC0415

    with value_errors_as_usage():
        if present_config(folder).ledger.kind == "kafka":
            from recrawl.cluster import resize_cluster  # noqa: PLC0415

            resized = resize_cluster(folder, partitions)
        else:
            resized = resize_corpus(folder, partitions)
    out.row(resized._asdict())
    if resized.partitions_before == resized.partitions:
        out.say(f"The corpus has {count_text(partitions, 'partition')} already.")
        return
    out.say(
        f"{count_text(resized.n_pages, 'page')} moved from {resized.partitions_before} to "
        f"{count_text(resized.partitions, 'partition')}, with "
        f"{count_text(resized.n_orders, 'order')} that can still be reported.  Nothing could be "
        f"written for {seconds_text(resized.pause_seconds)}"
        + ("." if resized.topic is None else ", and until the workers have begun again.")
    )
    if resized.topic is not None:
        out.say(
            f"The log is in topic {resized.topic} now.  Write this name and corpus.partitions = "
            f"{resized.partitions} into recrawl.toml when every machine has opened the corpus "
            "once; then you can delete the old topic."
        )
