"""Crawl the local web for a month with the loop of `recrawl run`, and compare with an oracle.

The web has hosts of every kind, most of them with something wrong.  The crawl runs in stepped time
on real sockets.  Freshness, false changes and violations of politeness come from the log of the
server and its truth; `benchmarks.month_oracle` says what the oracle is.  At the middle budget the
crawl is repeated with each part switched off.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypedDict

from benchmarks.month_crawl import (
    DAY_MS,
    DELAY_SECONDS,
    START_MS,
    SWITCHES,
    MonthCrawl,
    Switch,
    crawl_month,
    make_month_web,
    month_pages,
)
from benchmarks.month_oracle import OracleRun, run_oracle
from recrawl.testing.web import (
    ChangeVerdicts,
    CopyMade,
    FeedKind,
    LocalWeb,
    RequestKind,
    RequestLog,
    SitemapForm,
    WebPage,
    copies_made,
    find_violations,
    judge_changes,
    mean_freshness,
)

__all__ = ["SWITCHES", "FreshnessJudge", "MonthRow", "measure", "parse_switches"]

DAYS_PER_FETCH = (10.0, 4.0, 1.5)
"""Budgets of the whole measurement: days in which each page can be fetched once."""


class MonthRow(TypedDict):
    """A crawl or a part of it.  Freshness is a mean over all of this time."""

    off: str
    from_day: float
    until_day: float
    fetches_per_day: float
    freshness: float
    oracle: float
    oracle_without_signals: float
    ratio_of_oracle: float
    n_changes: int
    false_change_ratio: float
    missed_change_ratio: float
    n_violations: int
    violations: list[str]
    n_bad_answers: int
    n_kinds_of_bad_answers: int
    n_requests: int
    n_dead_pages: int
    n_documents: int
    n_not_modified: int
    megabytes: float
    memory_megabytes: list[float]
    n_files: int
    cpu_seconds: float
    lost_by_hints: dict[str, float]


def _hint_of(web: LocalWeb, host: str) -> str:
    """Return which hints a host has, in a few words."""
    traits = web.hosts[host].traits
    feed = "" if traits.feed is FeedKind.MISSING else ", feed"
    if traits.sitemap in (SitemapForm.MISSING, SitemapForm.TEXT):
        return f"no dates{feed}"
    return f"{traits.sitemap_dates} dates{feed}"


class FreshnessJudge:
    """Computes freshness over the time of a crawl.

    Parameters
    ----------
    web
        The web, and the truth about its pages.
    until_day, from_day
        Days of the crawl that count; all from the first on, if ``from_day`` is not given.
    """

    def __init__(self, web: LocalWeb, until_day: float, from_day: float = 0.0) -> None:
        self.web = web
        self.pages = month_pages(web, until_day)
        self.from_day, self.until_day = from_day, until_day
        self.from_ms = START_MS + round(from_day * DAY_MS)
        self.until_ms = START_MS + round(until_day * DAY_MS)

    def freshness(
        self, copies: Iterable[CopyMade], pages: Sequence[WebPage] | None = None
    ) -> float:
        """Return the mean freshness of copies, over some pages or all that count."""
        return mean_freshness(
            self.web,
            copies,
            from_ms=self.from_ms,
            until_ms=self.until_ms,
            pages=self.pages if pages is None else pages,
        )

    def lost_by(
        self, key: Callable[[LocalWeb, str], str], best: list[CopyMade], copies: list[CopyMade]
    ) -> dict[str, float]:
        """Return how much of the mean freshness is lost against other copies, by kind of host."""
        groups: dict[str, list[WebPage]] = {}
        for page in self.pages:
            groups.setdefault(key(self.web, page.host), []).append(page)
        lost = {
            name: (self.freshness(best, pages) - self.freshness(copies, pages))
            * len(pages)
            / len(self.pages)
            for name, pages in groups.items()
        }
        return {name: round(lost[name], 4) for name in sorted(lost, key=lambda name: -lost[name])}

    def judge(
        self, log: RequestLog, reported: Sequence[tuple[str, int]]
    ) -> tuple[ChangeVerdicts, RequestLog]:
        """Return how many of the changes reported in this time are right, and its requests."""
        until, before, during = RequestLog(), RequestLog(), RequestLog()
        for row in log:
            if row.at_ms < self.until_ms:
                until.append(row)
                (before if row.at_ms < self.from_ms else during).append(row)
        earlier = [one for one in reported if one[1] < self.from_ms]
        total = judge_changes(self.web, until, [one for one in reported if one[1] < self.until_ms])
        past = judge_changes(self.web, before, earlier)
        verdicts = ChangeVerdicts(*(now - then for now, then in zip(total, past, strict=True)))
        return verdicts, during


def _row(
    found: MonthCrawl,
    judge: FreshnessJudge,
    oracles: tuple[OracleRun, OracleRun],
    fetches_per_day: float,
    off: str,
) -> MonthRow:
    copies = copies_made(found.log)
    best, without = oracles
    freshness = judge.freshness(copies)
    oracle = max(judge.freshness(best.copies), judge.freshness(without.copies))
    verdicts, log = judge.judge(found.log, found.changed)
    both, _ = judge.judge(found.log, found.changed + found.returned)
    violations = find_violations(found.web, log, delay_seconds=DELAY_SECONDS)
    rows = list(log)
    pages_asked = [row for row in rows if row.kind is RequestKind.PAGE]
    return {
        "off": off,
        "from_day": judge.from_day,
        "until_day": judge.until_day,
        "fetches_per_day": fetches_per_day,
        "freshness": round(freshness, 4),
        "oracle": round(oracle, 4),
        "oracle_without_signals": round(judge.freshness(without.copies), 4),
        "ratio_of_oracle": round(freshness / oracle, 4),
        "n_changes": verdicts.n_right + verdicts.n_false,
        "false_change_ratio": round(verdicts.false_ratio, 4),
        "missed_change_ratio": round(both.n_missed / max(both.n_missed + both.n_right, 1), 4),
        "n_violations": len(violations),
        "violations": [
            f"{one.kind} {one.request.host}{one.request.path}" for one in violations[:5]
        ],
        "n_bad_answers": sum(bool(row.fault) for row in rows),
        "n_kinds_of_bad_answers": len({row.fault for row in rows} - {""}),
        "n_requests": len(rows),
        "n_dead_pages": sum(row.page < 0 and row.status in (404, 410) for row in pages_asked),
        "n_documents": sum(row.kind in (RequestKind.SITEMAP, RequestKind.FEED) for row in rows),
        "n_not_modified": sum(row.status == 304 for row in rows),
        "megabytes": round(sum(row.n_bytes for row in rows) / 1e6, 1),
        "memory_megabytes": [round(one / 1e6, 1) for one in found.memory_bytes],
        "n_files": found.n_files,
        "cpu_seconds": round(found.cpu_seconds, 1),
        "lost_by_hints": judge.lost_by(_hint_of, best.copies, copies),
    }


def parse_switches(text: str) -> tuple[Switch, ...]:
    """Return the parts that a list names, separated by commas.

    Parameters
    ----------
    text
        Names of parts, or nothing.
    """
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in SWITCHES]
    if unknown:
        raise ValueError(f"parts must be of {', '.join(SWITCHES)}, got {unknown[0]!r}")
    return tuple(one for one in SWITCHES if one in names)


def measure(
    n_hosts: int = 45,
    n_pages: int = 1_350,
    n_days: float = 30.0,
    days_per_fetch: Sequence[float] = DAYS_PER_FETCH,
    switches: Sequence[Switch] = SWITCHES,
    seed: int = 0,
    *,
    n_parts: int = 1,
    has_huge_sitemaps: bool = True,
    on_row: Callable[[MonthRow], None] = lambda _: None,
) -> list[MonthRow]:
    """Return a row for each budget, and for each part that is switched off at the middle budget.

    Each crawl also has a row for each of its parts, if there are several.

    Parameters
    ----------
    n_hosts, n_pages
        Size of the web.
    n_days
        Length of each crawl.
    days_per_fetch
        Budgets: days in which each page can be fetched once.
    switches
        Parts that are switched off, one after the other.
    seed
        Random seed of the web.
    n_parts
        Number of equal parts of each crawl that have rows of their own, to see what it has learned.
        The change feed keeps 30 days, so the parts before have no changes.
    has_huge_sitemaps
        Whether some sitemaps name 60,000 pages that do not exist.
    on_row
        Function that is called with each row as soon as it is known.
    """
    rows: list[MonthRow] = []
    middle = days_per_fetch[len(days_per_fetch) // 2]
    web = make_month_web(n_hosts, n_pages, n_days, seed, has_huge_sitemaps=has_huge_sitemaps)
    judges = [FreshnessJudge(web, n_days)]
    if n_parts > 1:
        ends = [n_days * part / n_parts for part in range(n_parts + 1)]
        judges += [FreshnessJudge(web, end, start) for start, end in pairwise(ends)]
    pages = judges[0].pages
    for days in days_per_fetch:
        budget = n_pages / days
        oracles = (
            run_oracle(web, pages, budget, n_days),
            run_oracle(web, pages, budget, n_days, has_signals=False),
        )
        for off in ((), *((one,) for one in switches if days == middle)):
            found = crawl_month(web, budget, n_days, off)
            for judge in judges:
                rows.append(_row(found, judge, oracles, budget, "".join(off)))
                on_row(rows[-1])
    return rows
