"""Check that somebody fetches the pages that are due."""

from collections.abc import Iterator
from typing import Final

from recrawl.corpus.corpus import Corpus
from recrawl.corpus.doctor.check_results import CheckResult, ok, warn
from recrawl.corpus.leasing.shortfall import window_reason
from recrawl.corpus.past.explanation_text import since_words
from recrawl.shard.state.words import EPOCH_SECONDS
from recrawl.units import count_text, instant_text

__all__ = ["ASKED_SECONDS_MAX", "FETCHED_SECONDS_MAX", "fetchers_check", "idle_fetchers"]

ASKED_SECONDS_MAX: Final = 300.0
"""Longest time without a request for pages after which a server has a fetcher."""
FETCHED_SECONDS_MAX: Final = 2 * 86_400.0
"""Longest time without a fetch after which a corpus in a folder has a fetcher, perhaps a nightly
one."""
_TODO: Final = (
    "Run one: `recrawl run` in the folder of the corpus, or `recrawl run -C ADDRESS` beside a "
    "server, which prints the ADDRESS when it starts."
)


def fetchers_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Check that pages were fetched lately, if some are due."""
    stats = corpus.stats()
    found = list(idle_fetchers(corpus, stats.n_due, FETCHED_SECONDS_MAX))
    last_ms = _newest_fetch_ms(corpus)
    if found:
        yield from found
    elif last_ms is not None:
        yield ok("fetchers", f"last fetch {since_words(last_ms, corpus.time.now_ms())}")


def idle_fetchers(
    corpus: Corpus, n_due: float, seconds_max: float = ASKED_SECONDS_MAX
) -> Iterator[CheckResult]:
    """Yield that no fetcher asks for pages, if some are due and the budget pays for them.

    A corpus from which nothing was ever fetched is no problem here: see `pages_check`.

    Parameters
    ----------
    corpus
        Open corpus.
    n_due
        Number of pages that are due.
    seconds_max
        Longest time without a request for pages that is no problem.
    """
    now_ms = corpus.time.now_ms()
    fetched_ms = _newest_fetch_ms(corpus)
    if n_due < 1 or fetched_ms is None or not _is_budget_left(corpus, now_ms):
        return
    if window_reason(corpus.config, now_ms) is not None:
        return  # nothing is leased at this hour
    # The corpus may have been opened after the last fetch.
    since_ms = max(fetched_ms, corpus.lease_asked_at_ms or 0)
    if now_ms - since_ms > 1000 * seconds_max:
        pages = count_text(round(n_due), "page")
        are = "is" if round(n_due) == 1 else "are"
        yield warn(
            "fetchers",
            f"no fetcher has asked for pages since {instant_text(since_ms)} UTC "
            f"({since_words(since_ms, now_ms)}), and {pages} {are} due",
            _TODO,
        )


def _is_budget_left(corpus: Corpus, now_ms: int) -> bool:
    """Return whether the budget pays for a fetch now; one per run begins with a run."""
    if corpus.is_budget_per_run:
        return False
    return sum(node.shard.credit(now_ms) for node in corpus.nodes) >= 1


def _newest_fetch_ms(corpus: Corpus) -> int | None:
    """Return the time of the latest fetch; None if nothing was fetched yet."""
    newest = 0
    for node in corpus.nodes:
        n_slots = int(node.shard.tables.registers.n_slots[0])
        newest = max(newest, int(node.shard.tables.pages.fetched_at[:n_slots].max(initial=0)))
    return (newest + EPOCH_SECONDS) * 1000 if newest else None
