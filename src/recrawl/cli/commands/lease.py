"""``recrawl lease``: print pages to fetch now, for a fetcher in a pipe.

``recrawl lease 100 | my-fetcher | recrawl report``

All three start at once, and only one process may change a corpus.  So ``lease`` closes the corpus
before it prints, and ``report`` opens it when the first outcome arrives.
"""

import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpora import checked_arguments, corpus_option, open_to_change
from recrawl.cli.support.examples import Example, example_command
from recrawl.cli.support.instants import seconds_or_text
from recrawl.cli.support.outcomes import header_text
from recrawl.cli.support.presenting import Output, ago, drop_output, output_option
from recrawl.errors import RecrawlError
from recrawl.units import count_text, seconds_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus, Order

__all__ = ["command"]


@example_command(
    "lease",
    examples=(
        Example("recrawl lease 10"),
        Example("recrawl lease 100 | python fetch.py | recrawl report"),
        Example("recrawl lease 1 --wait 1s --lease-seconds 60"),
    ),
)
@click.argument("n", type=click.IntRange(1))
@click.option("--wait", metavar="TIME", default="0s", help="Wait so long for something to do.")
@click.option(
    "--lease-seconds", type=float, metavar="S", help="How long the orders are held for you."
)
@click.option("--exact", is_flag=True, help="Look at every page: for a batch once a night.")
@corpus_option
@output_option
def command(
    n: int, wait: str, lease_seconds: float | None, exact: bool, folder: Path, out: Output
) -> None:
    """Print up to N pages that are to be fetched now, within budget and politeness.

    Each is held for you until it is reported or its time is up.  A row has the handle to report
    it by, what to ask for (fetch_url), and etag and last_modified for a conditional request.
    """
    with open_to_change(folder) as corpus, checked_arguments():
        from recrawl.node.config.corpus_config import duration  # noqa: PLC0415

        wait_seconds = duration(seconds_or_text(wait))
        orders = _leased(corpus, n, wait_seconds, lease_seconds, exact)
        now_ms = corpus.time.now_ms()
        if not orders:
            out.note(f"Nothing to fetch{_why_no_more(corpus)}")
        elif len(orders) < n and _is_watched():
            out.note(f"{len(orders)} of {n:,}{_why_no_more(corpus)}")
    unseen = deque(order.handle for order in orders)
    try:
        for order in orders:
            out.row(_row_of(order))
            if out.is_json:
                unseen.popleft()
        if orders:
            out.table(("handle", "fetch", "because", "held for"), _shown_rows(orders, now_ms))
    except (OSError, KeyboardInterrupt):
        # Whoever was to fetch them does not know of them.
        drop_output()
        if unseen:
            _release(folder, list(unseen), out)
        raise


def _shown_rows(orders: "list[Order]", now_ms: int) -> list[tuple[str, ...]]:
    return [(str(o.handle), o.fetch_url, o.reason.name.lower(), _left(o, now_ms)) for o in orders]


def _release(folder: Path, handles: list[int], out: Output) -> None:
    """Give back orders that could not be printed, and say so."""
    what = count_text(len(handles), "order")
    try:
        with open_to_change(folder) as corpus:
            corpus.release(handles)
    except RecrawlError as error:
        out.note(
            f"Held until their time is up, though they could not be printed: {what} ({error})."
        )
    else:
        out.note(f"Given back, as they could not be printed: {what}.")


def _leased(
    corpus: "Corpus", n: int, wait_seconds: float, lease_seconds: float | None, exact: bool
) -> list["Order"]:
    """Return orders as soon as there are any, or none after so many seconds."""
    ends = time.monotonic() + wait_seconds
    while True:
        orders = corpus.lease(n, seconds=lease_seconds, exact=exact)
        left = ends - time.monotonic()
        if orders or left <= 0:
            return orders
        time.sleep(min(left, corpus.wait_seconds(), 1.0))


def _is_watched() -> bool:
    """Return whether somebody looks on who may wonder; for a loop it is not worth the time."""
    return sys.stderr.isatty()


def _why_no_more(corpus: "Corpus") -> str:
    """Return why nothing else is to be fetched now, as the end of a sentence."""
    stats = corpus.stats()
    if stats.n_pages == 0:
        return ": there are no pages yet; `recrawl add` some."
    if stats.credit is not None and stats.credit < 1:
        if not stats.budget_per_second:
            return (
                ": the budget is 0, or that of this run is spent; `recrawl set "
                "--budget RATE` sets another."
            )
        seconds = (1 - stats.credit) / stats.budget_per_second
        return f" now: the budget allows the next fetch in {seconds_text(seconds)}."
    if stats.in_flight:
        orders = count_text(stats.in_flight, "order")
        return f" now: {orders} in flight, and no other host is ready."
    return " now: no page is due on a host that may be asked."


def _left(order: "Order", now_ms: int) -> str:
    return ago(order.expires_at_ms, now_ms).removeprefix("in ")


def _row_of(order: "Order") -> dict[str, Any]:
    return {
        "handle": order.handle,
        "url": order.url,
        "fetch_url": order.fetch_url,
        "etag": header_text(order.etag),
        "last_modified": header_text(order.last_modified),
        "reason": order.reason,
        "expires_at_ms": order.expires_at_ms,
    }
