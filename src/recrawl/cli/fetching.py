"""``recrawl lease`` and ``report``: the two ends of a fetcher, made for pipes.

``recrawl lease 100 | my-fetcher | recrawl report``

All three begin at once, and only one process may change a corpus.  So ``lease`` has closed the
corpus before it prints, and ``report`` opens it when the first outcome arrives.
"""

import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.amounts import count_text, seconds_text
from recrawl.cli.corpora import checked_arguments, corpus_option, open_to_change, prepare
from recrawl.cli.examples import Example, example_command
from recrawl.cli.instants import seconds_or_text
from recrawl.cli.outcomes import BadOutcome, header_text, lines_of, outcome_of
from recrawl.cli.presenting import Output, ago, drop_output, output_option
from recrawl.errors import RecrawlError

if TYPE_CHECKING:
    from recrawl.runtime import Corpus, Order, Outcome

__all__ = ["lease", "report"]

OUTCOMES_PER_BATCH_MAX = 1_000
_EXAMPLES_MAX = 5


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
def lease(
    n: int, wait: str, lease_seconds: float | None, exact: bool, folder: Path, out: Output
) -> None:
    """Print up to N pages that are to be fetched now, within budget and politeness.

    Each is held for you until it is reported or its time is up.  A row has the handle to report
    it by, what to ask for (fetch_url), and etag and last_modified for a conditional request.
    """
    with open_to_change(folder) as corpus, checked_arguments():
        from recrawl.runtime.config import duration  # noqa: PLC0415

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


class _Reporting:
    """Outcomes that are being reported, and what became of them."""

    def __init__(self) -> None:
        self.n_lines = self.n_counted = self.n_void = self.n_bad = 0
        self.transitions: Counter[str] = Counter()
        self.examples: list[str] = []

    def read(self, lines: list[bytes]) -> "list[Outcome]":
        """Return the outcomes of lines; bad ones are counted."""
        found = []
        for line in lines:
            self.n_lines += 1
            try:
                found.append(outcome_of(line))
            except BadOutcome as error:
                self.n_bad += 1
                if len(self.examples) < _EXAMPLES_MAX:
                    self.examples.append(f"line {self.n_lines}: {error}")
        return found

    def report(self, corpus: "Corpus", outcomes: "list[Outcome]") -> None:
        """Tell the corpus."""
        from recrawl.shard import Transition  # noqa: PLC0415

        with checked_arguments():
            reported = corpus.report(outcomes)
        n_counted = int(reported.counted.sum())
        self.n_counted += n_counted
        self.n_void += len(outcomes) - n_counted
        for number in reported.transition[reported.counted].tolist():
            self.transitions[Transition(number).name.lower()] += 1

    def row(self) -> dict[str, Any]:
        """Return what became of them, as a program wants it."""
        from recrawl.shard import Transition  # noqa: PLC0415

        told = {"n_lines": self.n_lines, "n_counted": self.n_counted, "n_void": self.n_void}
        told |= {"n_bad": self.n_bad}
        names = [t.name.lower() for t in Transition if t is not Transition.NONE]
        return told | {f"n_{name}": self.transitions[name] for name in names}

    def words(self) -> str:
        """Return the same in words."""
        parts = [f"{count_text(self.n_counted, 'outcome')} counted"]
        changes = [f"{n:,} {name}" for name, n in self.transitions.items() if name != "none"]
        parts[0] += f" ({', '.join(changes)})" if changes else ""
        if self.n_void:
            parts.append(f"{self.n_void:,} void (reported before, or of no page that is kept)")
        if self.n_bad:
            parts.append(f"{count_text(self.n_bad, 'bad line')}")
        return ", ".join(parts) + "."


@example_command(
    "report",
    examples=(
        Example("recrawl lease 100 | python fetch.py | recrawl report"),
        Example("recrawl report outcomes.jsonl"),
    ),
)
@click.argument("file", type=click.File("rb"), default="-")
@corpus_option
@output_option
def report(file: Any, folder: Path, out: Output) -> None:
    """Say what fetches found: JSON lines from FILE or stdin.

    A line has a handle (or the url of a page), a status (0: no answer), and for content a
    digest, a body, or a body_path whose file is read; or changed: true or false.  It may have
    etag, last_modified, fetched_at_ms, retry_after_seconds, moved_to, disallowed, divergence.
    Other keys are left alone, so an order with these added is a good line.
    """
    reporting = _Reporting()
    with ExitStack() as stack:
        corpus: Corpus | None = None
        for lines in lines_of(file):
            if corpus is None:
                # What is there at first says how much to expect.
                prepare(folder, n_bytes_input=sum(map(len, lines)))
            for batch in _batches(lines):
                outcomes = reporting.read(batch)
                if not outcomes:
                    continue
                corpus = corpus or stack.enter_context(open_to_change(folder))
                reporting.report(corpus, outcomes)
    out.row(reporting.row())
    out.say(reporting.words() if reporting.n_lines else "No outcomes were given.")
    for text in reporting.examples:
        out.note(f"  {text}")
    if reporting.n_bad and reporting.n_bad == reporting.n_lines:
        raise click.ClickException("no line was an outcome.\n`recrawl report --help` says more.")


def _batches(lines: list[bytes]) -> Iterator[list[bytes]]:
    for i in range(0, len(lines), OUTCOMES_PER_BATCH_MAX):
        yield lines[i : i + OUTCOMES_PER_BATCH_MAX]
