"""The state of a crawl in words: lines of a live view, and sentences of the summary."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeAlias

from recrawl.corpus import Stats
from recrawl.messages.samples import FRESHNESS_KNOWN_WORDS
from recrawl.run.crawl import CrawlEnd, CrawlSummary
from recrawl.run.progress import CrawlProgress, FetchResult
from recrawl.run.session import CrawlSession
from recrawl.units import count_text, seconds_text

__all__ = [
    "FetchRate",
    "Line",
    "freshness_sentence",
    "live_lines",
    "progress_sentence",
    "summary_sentences",
]

Line: TypeAlias = Sequence[tuple[str, str]]

_RECENT_SHOWN: Final = 8
_HOSTS_SHOWN: Final = 3
_PROBLEMS_SHOWN: Final = 3
_WIDTH: Final = 11
_STYLES: Final = {
    FetchResult.NEW: "green",
    FetchResult.CHANGED: "yellow",
    FetchResult.GONE: "red",
    FetchResult.FAILED: "red",
}


class FetchRate:
    """Fetches per second over the latest seconds."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def update(self, now_seconds: float, n_fetches: int) -> float:
        """Return the rate, after noting the present number of fetches.

        Parameters
        ----------
        now_seconds
            Present time, in seconds of any clock.
        n_fetches
            Number of fetches so far.
        """
        self._seen = [*self._seen[-20:], (now_seconds, n_fetches)]
        (since, before), (now, after) = self._seen[0], self._seen[-1]
        return (after - before) / (now - since) if now > since else 0.0


def live_lines(
    session: CrawlSession,
    stats: Stats | None,
    *,
    per_second: float,
    seconds: float,
    is_stopping: bool = False,
) -> list[Line]:
    """Return the lines of a live view.

    Parameters
    ----------
    session
        Session that is watched.
    stats
        Latest statistics of the corpus; None if there are none yet.
    per_second
        Fetches per second.
    seconds
        Time since the start.
    is_stopping
        Whether the crawl ends as soon as fetches that have begun are done.
    """
    progress = session.progress
    head = f"recrawl run, {seconds_text(seconds)}"
    about = "Ctrl-C stops; the next run goes on"
    if is_stopping:
        about = "stopping: fetches that have begun get a few seconds"
    lines: list[Line] = [
        [(head, "bold"), (f"   {about}", "yellow" if is_stopping else "dim")],
        [
            *_label("fetches", f"{progress.n_fetches:,}  "),
            (f"{per_second:.1f}/s  ", ""),
            *_result_parts(progress),
        ],
    ]
    if stats is not None:
        lines.append(_pages_line(session, stats))
        budget = stats.budget
        if stats.credit_text is not None:
            budget += f"; {stats.credit_text} may be used at once"
        lines.append([*_label("budget", budget)])
    lines.append(_hosts_line(session))
    lines += [
        [*_label("sink", str(status)), ("", "")]
        if status.error is None
        else [*_label("sink", ""), (str(status), "red")]
        for status in session.sink_statuses
    ]
    n_left = progress.n_sites - progress.n_sites_answered
    if n_left:
        sites = count_text(n_left, "site")
        lines.append([*_label("now", f"reading robots.txt and the sitemaps of {sites}")])
    if progress.pause is not None:
        lines.append([*_label("paused", ""), (progress.pause, "yellow")])
    recent = list(progress.recent)[-_RECENT_SHOWN:]
    for one in reversed(recent):
        at = datetime.fromtimestamp(one.at_ms / 1000).astimezone().strftime("%H:%M:%S")
        style = _STYLES.get(one.result, "")
        lines.append([(f"  {at}  ", "dim"), (f"{one.result:8} ", style), (one.url, "")])
    return lines


def _n_known(session: CrawlSession, stats: Stats) -> int:
    """Return the number of pages without sitemaps and feeds."""
    return max(stats.n_pages - session.n_documents, 0)


def _pages_line(session: CrawlSession, stats: Stats) -> Line:
    n = count_text(_n_known(session, stats), "page")
    if not stats.is_freshness_known:
        about = f"   how fresh they are is known {FRESHNESS_KNOWN_WORDS}"
        return [*_label("pages", f"{n} known"), (about if stats.n_pages else "", "dim")]
    fresh = f"{n}, about {stats.weighted_freshness_modelled:.1%} of the copies up to date"
    return [*_label("pages", fresh), ("   (estimate)", "dim")]


def freshness_sentence(session: CrawlSession, stats: Stats) -> str:
    """Return how many pages there are, and how fresh their copies are, as far as it is known.

    Parameters
    ----------
    session
        Session that is watched.
    stats
        Latest statistics of the corpus.
    """
    n = _n_known(session, stats)
    if not stats.is_freshness_known:
        return (
            f"{count_text(n, 'page')} known. How fresh the copies stay is not known yet, but "
            f"will be {FRESHNESS_KNOWN_WORDS}."
        )
    share = f"{stats.weighted_freshness_modelled:.0%}"
    return (
        f"About {share} of the copies of {count_text(n, 'page')} are up to date now, by how often "
        "the pages changed so far."
    )


def _label(name: str, text: str) -> list[tuple[str, str]]:
    return [(f"{name:{_WIDTH}}", "dim"), (text, "")]


def _result_parts(progress: CrawlProgress) -> list[tuple[str, str]]:
    parts = []
    for result in FetchResult:
        n = progress.results[result]
        if n and result != FetchResult.GIVEN_BACK:
            parts.append((f" {result} {n:,} ", _STYLES.get(result, "")))
    return parts


def _hosts_line(session: CrawlSession) -> Line:
    now_ms = session.corpus.now_ms()
    delayed = sorted(session.delayed_hosts.items(), key=lambda item: -item[1])
    in_flight = count_text(session.progress.n_open, "fetch", "fetches") + " in flight"
    if not delayed:
        return [*_label("hosts", in_flight)]
    shown = ", ".join(
        f"{host} ({seconds_text((at_ms - now_ms) / 1000)})"
        for host, at_ms in delayed[:_HOSTS_SHOWN]
    )
    more = "" if len(delayed) <= _HOSTS_SHOWN else f" and {len(delayed) - _HOSTS_SHOWN:,} more"
    return [*_label("hosts", f"{in_flight}; "), (f"left alone: {shown}{more}", "yellow")]


def progress_sentence(session: CrawlSession, seconds: float) -> str:
    """Return one plain line about a crawl, for logs.

    Parameters
    ----------
    session
        Session that is watched.
    seconds
        Time since the start.
    """
    parts = "".join(text.rstrip() + "," for text, _ in _result_parts(session.progress)).rstrip(",")
    text = f"{seconds_text(seconds)}: {count_text(session.progress.n_fetches, 'fetch', 'fetches')}"
    text = f"{text}:{parts}." if parts else f"{text}."
    recent = session.progress.recent
    return f"{text} Latest: {recent[-1].result} {recent[-1].url}" if recent else text


def summary_sentences(session: CrawlSession, summary: CrawlSummary) -> list[str]:
    """Return sentences that say what a crawl did, and why it ended.

    Parameters
    ----------
    session
        Session that has ended.
    summary
        Result of the crawl.
    """
    progress, results = summary.progress, summary.progress.results
    why = {
        CrawlEnd.STOPPED: "Stopped",
        CrawlEnd.TIME_OVER: "The time is over",
        CrawlEnd.PASS_OVER: "Everything that was due has been fetched",
        CrawlEnd.RUN_SPENT: "The budget of this run is spent",
    }[summary.end]
    if summary.end == CrawlEnd.PASS_OVER and not results:
        why = "Nothing was due, so nothing was fetched"
    sentences = [f"{why}, after {seconds_text(summary.seconds)}."]
    if summary.left is not None:
        sentences.append(summary.left)
    n_new, n_changed, n_gone = (
        results[one] for one in (FetchResult.NEW, FetchResult.CHANGED, FetchResult.GONE)
    )
    n_same = results[FetchResult.UNCHANGED] + results[FetchResult.NOT_MODIFIED]
    sentences.append(
        f"{count_text(progress.n_fetches, 'fetch', 'fetches')} of pages "
        f"({progress.n_bytes / 1e6:,.1f} MB): {n_new:,} new, {n_changed:,} changed, "
        f"{n_same:,} unchanged, {n_gone:,} gone."
    )
    n_bad = results[FetchResult.FAILED] + results[FetchResult.WRONG_ANSWER]
    n_missing = results[FetchResult.NOT_FOUND]
    if n_bad or n_missing or results[FetchResult.DISALLOWED]:
        often = progress.problems.most_common(_PROBLEMS_SHOWN)
        why_text = ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in often)
        sentences.append(
            f"Not fetched: {n_bad:,} failed, {n_missing:,} not found, "
            f"{results[FetchResult.DISALLOWED]:,} disallowed"
            + (f" ({why_text})." if why_text else ".")
        )
    if results[FetchResult.GIVEN_BACK]:
        n = count_text(results[FetchResult.GIVEN_BACK], "fetch", "fetches")
        sentences.append(f"Put off: {n}, because a site or its robots.txt is unreachable for now.")
    if progress.n_found:
        n_documents = session.discovery_counts.n_documents
        where = count_text(n_documents, "sitemap or feed", "sitemaps and feeds")
        found = f"Found {count_text(progress.n_found, 'page')} by itself"
        sentences.append(f"{found}, and {where}." if n_documents else f"{found}.")
    refused = session.discovery_counts.refused
    if refused:
        sentences.append(
            "Not added: "
            + ", ".join(
                f"{n:,} × {reason.replace('_', ' ')}" for reason, n in refused.most_common()
            )
            + "."
        )
    return sentences + [
        f"Sink {status}; the next run sends it."
        for status in session.sink_statuses
        if status.n_waiting or status.error is not None
    ]
