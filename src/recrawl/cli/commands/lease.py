"""``recrawl lease``: print the pages to fetch now, for a fetcher in a pipe.

``recrawl lease 100 | my-fetcher | recrawl report``

All three processes start at once, and only one process can write to a corpus.  So ``lease`` closes
the corpus before it prints, and ``report`` opens it when the first outcome arrives.
"""

import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpus_access import corpus_option, open_to_change, value_errors_as_usage
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import duration_option
from recrawl.cli.support.outcomes import header_text
from recrawl.cli.support.output import Output, discard_output, output_option, relative_time_text
from recrawl.errors import RecrawlError
from recrawl.units import count_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus, Order, Orders

__all__ = ["command"]


class _PageCount(click.IntRange):
    name = "whole number"  # the word in click's message for a value such as "ten"


@example_command(
    "lease",
    examples=(
        CommandExample("recrawl lease 10"),
        CommandExample("recrawl lease 100 | python fetch.py | recrawl report"),
        CommandExample("recrawl lease 1 --wait 1s --lease-seconds 60"),
    ),
)
@click.argument("n", type=_PageCount(1))
@click.option(
    "--wait",
    metavar="TIME",
    default="0s",
    callback=duration_option,
    help="Wait up to TIME until a page is due: 30s, 5m.",
)
@click.option(
    "--lease-seconds",
    metavar="TIME",
    callback=duration_option,
    help="How long the pages are reserved for you: 60 (seconds), 10m.  Default: 5m, or "
    "leases.length in recrawl.toml.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Find the best pages of a large corpus exactly, for one large batch a night.  Slower.",
)
@click.option(
    "--run",
    metavar="NAME",
    help="Name of the run that pays, if the budget is per run (100/run).  Commands with the same "
    "NAME share its budget.  Default: today's date.",
)
@corpus_option
@output_option
def command(
    n: int,
    wait: float,
    lease_seconds: float | None,
    exact: bool,
    run: str | None,
    folder: Path,
    out: Output,
) -> None:
    """Print up to N pages to fetch now.

    There are fewer than N, or none, if the budget or the limits of hosts (see [politeness] in
    recrawl.toml) allow no more; the standard error output says why.  Each page is reserved for you
    (leased) until you report it or the lease ends.  A row has fetch_url (the URL to fetch), handle
    (the number to report it with), and etag and last_modified (for a conditional request).
    """
    with open_to_change(folder) as corpus, value_errors_as_usage():
        orders = _lease_or_wait(corpus, n, wait, lease_seconds, exact, run)
        now_ms = corpus.now_ms()
        if orders.shortfall is not None:
            out.note(f"{'' if orders else 'Nothing to fetch now: '}{orders.shortfall.text}")
    unseen = deque(order.handle for order in orders)
    try:
        for order in orders:
            out.row(_row_of(order))
            if out.is_json:
                unseen.popleft()
        if orders:
            out.table(("handle", "URL", "reason", "reserved for"), _table_rows(orders, now_ms))
    except (OSError, KeyboardInterrupt):
        # The fetcher never sees orders that could not be printed.
        discard_output()
        if unseen:
            _give_back(folder, list(unseen), out)
        raise


_REASONS = {
    "value": "worth the price",
    "ceiling": "max_age or staleness limit",
    "discovery": "never fetched",
    "audit": "audit",
    "spare": "unspent budget",
}


def _table_rows(orders: "list[Order]", now_ms: int) -> list[tuple[str, ...]]:
    return [
        (str(o.handle), o.fetch_url, _REASONS[o.reason.name.lower()], _time_left(o, now_ms))
        for o in orders
    ]


def _give_back(folder: Path, handles: list[int], out: Output) -> None:
    """Give back orders that could not be printed, and print a note."""
    what = count_text(len(handles), "page")
    try:
        with open_to_change(folder) as corpus:
            corpus.release(handles)
    except RecrawlError as error:
        out.note(
            f"The output could not be written.  Reserved until the lease ends: {what} ({error})."
        )
    else:
        out.note(f"The output could not be written.  Given back, to be leased again: {what}.")


def _lease_or_wait(
    corpus: "Corpus",
    n: int,
    wait_seconds: float,
    lease_seconds: float | None,
    exact: bool,
    run: str | None,
) -> "Orders":
    """Return orders as soon as there are any, or no orders after ``wait_seconds``."""
    ends = time.monotonic() + wait_seconds
    while True:
        orders = corpus.lease(n, seconds=lease_seconds, exact=exact, run=run)
        left = ends - time.monotonic()
        if orders or left <= 0:
            return orders
        time.sleep(min(left, corpus.wait_seconds(), 1.0))


def _time_left(order: "Order", now_ms: int) -> str:
    return relative_time_text(order.expires_at_ms, now_ms).removeprefix("in ")


def _row_of(order: "Order") -> dict[str, Any]:
    return {
        "handle": order.handle,
        "url": order.url,
        "fetch_url": order.fetch_url,
        "etag": header_text(order.etag),
        "last_modified": header_text(order.last_modified),
        "reason": order.reason,
        "expires_at_ms": order.expires_at_ms,
        "doc_id": order.doc_id,
        "metadata": order.metadata,
    }
