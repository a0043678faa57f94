"""``recrawl lease``: print the pages to fetch now, for a fetcher in a pipe.

``recrawl lease 100 | my-fetcher | recrawl report``

All three processes start at once, and only one process can write to a corpus.  So ``lease`` closes
the corpus before it prints, and ``report`` opens it when the first outcome arrives.
"""

import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpus_access import (
    CorpusPlace,
    corpus_or_service_option,
    open_to_change,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.input_files import input_pages, is_url, key_option, split_inputs
from recrawl.cli.support.instants import duration_option
from recrawl.cli.support.outcomes import header_text
from recrawl.cli.support.output import Output, discard_output, output_option, relative_time_text
from recrawl.errors import RecrawlError
from recrawl.units import count_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus, LeasedUrls, Order, Orders, Why

__all__ = ["command"]

# Number of answers of a batch among which a reason with its time is looked for.
_REFUSED_LOOKED_AT = 1_000


class _PageCount(click.IntRange):
    name = "whole number"  # the word in click's message for a value such as "ten"


@example_command(
    "lease",
    examples=(
        CommandExample("recrawl lease 10"),
        CommandExample("recrawl lease 100 | python fetch.py | recrawl report"),
        CommandExample("recrawl lease 1 --wait 1s --lease-seconds 60"),
        CommandExample("recrawl lease https://example.com/news", "only if it is worth a fetch"),
        CommandExample("recrawl lease --urls urls.txt --add"),
    ),
)
@click.argument("pages", nargs=-1, metavar="[N|URL...]")
@click.option(
    "--urls",
    "url_file",
    metavar="FILE",
    help="Lease the pages of FILE, or of stdin (-), as far as each may be fetched now.",
)
@click.option("--add", "is_adding", is_flag=True, help="Add given URLs that are not tracked yet.")
@key_option
@click.option(
    "--with-refused",
    is_flag=True,
    help="Print given URLs that may not be fetched now, too, with the reason (why, text, seconds).",
)
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
@corpus_or_service_option
@output_option
def command(
    pages: tuple[str, ...],
    wait: float,
    lease_seconds: float | None,
    exact: bool,
    run: str | None,
    folder: CorpusPlace,
    out: Output,
    **by_url: Any,
) -> None:
    """Print up to N pages to fetch now, or those of given URLs that may be fetched now.

    There are fewer than N, or none, if the budget or the limits of hosts (see [politeness] in
    recrawl.toml) allow no more; the standard error output says why.  Each page is reserved for you
    (leased) until you report it or the lease ends.  A row has fetch_url (the URL to fetch), handle
    (the number to report it with), and etag and last_modified (for a conditional request).
    """
    url_file: str | None = by_url["url_file"]
    is_adding, key, with_refused = (by_url[name] for name in ("is_adding", "key", "with_refused"))
    if url_file is not None or (pages and is_url(pages[0])):
        if wait or exact:
            raise click.UsageError("--wait and --exact go with a number of pages, not with URLs.")
        inputs = (*pages, *(() if url_file is None else (url_file,)))
        leased = {"add": is_adding, "seconds": lease_seconds, "run": run}
        answers, now_ms = _lease_urls(folder, inputs, key, leased, out)
        orders = [order for part in answers for order in part.orders]
        _print_orders(folder, orders, now_ms, out)
        if with_refused:
            _print_refused(answers, out)
        return
    if is_adding or with_refused or key is not None:
        raise click.UsageError("--add, --key and --with-refused go with URLs or --urls.")
    n = _page_count(pages)
    with open_to_change(folder) as corpus, value_errors_as_usage():
        _note_run(corpus, run, out)
        orders = _lease_or_wait(corpus, n, wait, lease_seconds, exact, run)
        now_ms = corpus.now_ms()
        if orders.shortfall is not None:
            out.note(orders.shortfall.text)
    _print_orders(folder, orders, now_ms, out)


def _page_count(pages: tuple[str, ...]) -> int:
    """Return the number of pages that the argument N asks for."""
    if len(pages) != 1:
        raise click.UsageError("give the number of pages, N, or URLs, or --urls FILE.")
    context = click.get_current_context()
    parameter = next(one for one in context.command.params if one.name == "pages")
    n: Any = pages[0]
    return int(_PageCount(1).convert(n, parameter, context))


def _lease_urls(
    folder: CorpusPlace,
    inputs: tuple[str, ...],
    key: str | None,
    leased: dict[str, Any],
    out: Output,
) -> "tuple[list[LeasedUrls], int]":
    """Return the answers for given URLs, in batches, and the time."""
    given = split_inputs(inputs)
    with open_to_change(folder, n_bytes_input=given.n_bytes) as corpus, value_errors_as_usage():
        _note_run(corpus, leased["run"], out)
        answers = [
            corpus.lease_urls(urls, **keys, **leased)
            for urls, keys in input_pages(corpus, given, key, out)
        ]
        now_ms = corpus.now_ms()
    _note_refused(answers, out)
    return answers, now_ms


def _note_refused(answers: "list[LeasedUrls]", out: Output) -> None:
    """Print how many URLs may not be fetched now, by reason."""
    counts: Counter[Why] = Counter()
    for part in answers:
        counts.update(part.counts())
    n_given = sum(counts.values())
    first = {answer.why: answer for part in answers for answer in part[:_REFUSED_LOOKED_AT]}
    from recrawl.corpus import reason_text  # noqa: PLC0415

    reasons = [
        f"{n:,} × {first[why].text if n == 1 and why in first else reason_text(why)}"
        for why, n in counts.most_common()
        if why.name != "DUE"
    ]
    if reasons:
        n_due = n_given - sum(n for why, n in counts.items() if why.name != "DUE")
        out.note(f"{n_due:,} of {count_text(n_given, 'URL')}: {'; '.join(reasons)}.")


def _print_refused(answers: "list[LeasedUrls]", out: Output) -> None:
    refused = [answer for part in answers for answer in part if answer.order is None]
    for answer in refused:
        out.row(answer.as_dict())
    if refused:
        out.table(("URL", "why not"), [(answer.url, answer.text) for answer in refused])


def _print_orders(folder: CorpusPlace, orders: "list[Order]", now_ms: int, out: Output) -> None:
    """Print orders; give back those that could not be printed."""
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


def _give_back(folder: CorpusPlace, handles: list[int], out: Output) -> None:
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


def _note_run(corpus: "Corpus", run: str | None, out: Output) -> None:
    """Say that the name of a run has no effect, if the budget is not per run."""
    if run is not None and not corpus.is_budget_per_run:
        out.note(
            "The budget is not per run, so --run has no effect.  `recrawl set --budget 100/run` "
            "sets one for each run."
        )


# A wait up to this long is not worth telling the user about.
_WAIT_UNSAID_SECONDS = 0.5


def _lease_or_wait(
    corpus: "Corpus",
    n: int,
    wait_seconds: float,
    lease_seconds: float | None,
    exact: bool,
    run: str | None,
) -> "Orders":
    """Return orders as soon as there are any, or no orders after ``wait_seconds``."""
    ends = time.monotonic() + max(wait_seconds, _WAIT_UNSAID_SECONDS)
    while True:
        orders = corpus.lease(n, seconds=lease_seconds, exact=exact, run=run)
        left = ends - time.monotonic()
        soon = orders.shortfall.seconds if orders.shortfall is not None else None
        if not wait_seconds and (soon is None or soon > left):
            left = 0.0
        if orders or left <= 0:
            return orders
        time.sleep(min(left, max(soon or 0.0, 0.01), 1.0) if soon else min(left, 0.1))


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
        "key": order.key,
    }
