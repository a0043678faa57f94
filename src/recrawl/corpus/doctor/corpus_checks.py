"""Check the content of an open corpus: budget, limits, hosts, sources, pages that flap."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import FlagArray, FloatArray
from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.core.price.promise import latest_elapsed
from recrawl.corpus.corpus import Corpus
from recrawl.corpus.doctor.check_results import CheckResult, bad, ok, warn
from recrawl.corpus.doctor.disk_checks import count_pages_without_url
from recrawl.corpus.inspect.audits import audit_table
from recrawl.corpus.inspect.page_sample import sample_of
from recrawl.corpus.past.explanation_text import since_words
from recrawl.corpus.wrong_answers import wrong_answer_counts, wrong_answer_words
from recrawl.node.node import Node
from recrawl.shard import PriceMode, Transition
from recrawl.shard.state.codes import log2_of_code
from recrawl.shard.state.status import BudgetUnit
from recrawl.shard.state.tables import GROUP_CLOSED, SOURCE_PRECISION_GIVEN
from recrawl.store import ContentCounts, Cursor, Names
from recrawl.units import count_text, share_text

__all__ = [
    "audits_check",
    "budget_check",
    "consumers_check",
    "flapping_check",
    "hosts_check",
    "limits_check",
    "names_check",
    "pages_check",
    "sources_check",
    "wrong_answers_check",
]

PAGES_SAMPLED_MAX = 262_144
"""Largest number of pages of a partition whose limits are added up; of more, a sample."""
CHANGES_READ_MAX = 500_000
"""Number of changes of each partition in which flapping pages are searched, the latest ones."""
_RECORDS_READ_MAX = 200_000
_CHANGES_PER_READ = 10_000
_NAMED_MAX = 3
# A source with this many signals is unreliable if fewer than this share announce a change.
_SIGNALS_MIN = 30.0
_PRECISION_MIN = 0.2
_REVERTED_MIN = 3
# Doctor warns if there are this many wrong answers, and more than this share.
_WRONG_MIN = 10
_WRONG_SHARE_MAX = 0.05
# Doctor warns if limits alone take more than this share of the budget.
_LIMITS_SHARE_MAX = 0.8


def _list_names(names: Sequence[str], n: int | None = None) -> str:
    """Return the first few names, and how many more there are."""
    n = len(names) if n is None else n
    shown = ", ".join(names[:_NAMED_MAX])
    return shown if n <= _NAMED_MAX else f"{shown} and {n - _NAMED_MAX:,} more"


def _hourly(per_second: float) -> str:
    per_hour = per_second * 3_600
    if per_hour >= 3_600 * 10:
        return f"{per_second:,.0f}/s"
    if per_hour < 1:
        return f"{per_hour * 24:.2g}/d"
    return f"{per_hour:,.0f}/h" if per_hour >= 10 else f"{per_hour:.2g}/h"


# ---------------------------------------------------------------------------- pages and names


def pages_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Check that there are pages, and that some have been fetched."""
    stats = corpus.stats()
    if stats.n_pages == 0:
        yield warn("pages", "none", "Add some with `recrawl add urls.txt`.")
        return
    n_new = stats.pages_by_status["new"]
    n_retired = stats.pages_by_status["retired"]
    if n_new == stats.n_pages:
        todo = "Run `recrawl run`, or lease pages, fetch them and report the outcomes."
        yield warn("pages", f"{stats.n_pages:,}, and none has been fetched yet", todo)
        return
    parts = [f"{stats.n_pages:,}"]
    parts += [f"{n_new:,} never fetched"] if n_new else []
    parts += [f"{n_retired:,} given up"] if n_retired else []
    yield ok("pages", ", ".join(parts))


def names_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Check that every page has a URL; reads all of them."""
    n_missing = sum(count_pages_without_url(node.shard, node.store) for node in corpus.nodes)
    if n_missing:
        todo = "Move the store's folder away: recrawl rebuilds it from a snapshot and the log."
        yield bad("names", f"{n_missing:,} pages have no URL", todo)
    else:
        yield ok("names", "every page has a URL")


def consumers_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Check that the consumers of the change feed can continue, and have missed nothing."""
    consumers = corpus.consumers()
    for consumer in consumers:
        if consumer.problem is not None:
            todo = f"See `recrawl changes --consumer {consumer.name}`; remove it if it is not used."
            yield warn("consumers", consumer.problem, todo)
    sound = [f"{one.name} ({one.n_behind:,} to read)" for one in consumers if one.problem is None]
    if sound:
        yield ok("consumers", _list_names(sound))


# ---------------------------------------------------------------------------- budget and limits


def _budget_of(corpus: Corpus) -> tuple[float, bool]:
    """Return the budget per second, and whether it counts cost instead of fetches."""
    registers = [node.shard.tables.registers for node in corpus.nodes]
    is_cost = all(r.budget_unit[0] == BudgetUnit.COST for r in registers)
    return sum(float(r.budget[0]) for r in registers), is_cost


def budget_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Check that a budget is set."""
    registers = [node.shard.tables.registers for node in corpus.nodes]
    budget, _ = _budget_of(corpus)
    if any(r.price_mode[0] == PriceMode.FIXED for r in registers):
        yield ok("budget", f"a fixed price of {float(registers[0].fixed_price[0]):.4g}")
    elif math.isinf(budget):
        yield warn(
            "budget",
            "not set, so fetches are unlimited and every page is always due",
            "Set one with `recrawl set --budget 200/d`; `recrawl plan` shows what budgets achieve.",
        )
    else:
        yield ok("budget", corpus.stats().budget)


class _Demand(NamedTuple):
    """Fetches and cost per second that the limits of pages need."""

    fetches: float
    cost: float
    by_group: FloatArray
    n_pages: float


def _demand_of_limits(node: Node) -> _Demand:
    """Return what max_age and staleness limits of a partition's pages need."""
    tables = node.shard.tables
    pages, limits = tables.pages, tables.limits
    if tables.registers.n_limits[0] <= 1:  # row 0 has no limits
        return _Demand(0.0, 0.0, np.zeros(tables.groups.n_pages.size), 0.0)
    sample = sample_of(tables, PAGES_SAMPLED_MAX)
    row = pages.limits[sample.slot]
    has_any = (row > 0) & (pages.importance[sample.slot] > 0)
    slot, n, row = sample.slot[has_any], sample.n_pages[has_any], row[has_any]
    longest = limits.interval_max[row].copy()
    promised = np.flatnonzero(limits.stale_probability[row] > 0)
    if promised.size and node.shard.settings.estimator != "counts":
        of = slot[promised]
        latest = latest_elapsed(
            decode_beliefs(BeliefCodes(pages.belief_shape[of], pages.belief_seconds[of])),
            stale_for=limits.stale_for[row[promised]],
            probability=limits.stale_probability[row[promised]],
        )
        longest[promised] = np.minimum(longest[promised], latest)
    longest = np.maximum(longest, limits.interval_min[row])
    rate = n / np.maximum(longest, 1e-3)
    cost = np.exp2([log2_of_code(max(int(code), 1)) for code in np.unique(pages.cost[slot])])
    of_cost = np.searchsorted(np.unique(pages.cost[slot]), pages.cost[slot])
    by_group = np.bincount(pages.group[slot], rate, minlength=tables.groups.n_pages.size)
    return _Demand(
        float(rate.sum()),
        float((rate * cost[of_cost]).sum()) if slot.size else 0.0,
        by_group.astype(np.float64),
        float(n[np.isfinite(longest)].sum()),
    )


def limits_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Check that the budget and the delays of hosts allow for max_age and staleness limits."""
    demands = [_demand_of_limits(node) for node in corpus.nodes]
    n_pages = sum(demand.n_pages for demand in demands)
    if n_pages == 0:
        yield ok("limits", "no max_age or staleness limits are set")
        return
    budget, is_cost = _budget_of(corpus)
    wanted = sum(demand.cost if is_cost else demand.fetches for demand in demands)
    needs = f"max_age and staleness limits of {n_pages:,.0f} pages need {_hourly(wanted)}"
    if 0 < budget < wanted:
        yield bad(
            "limits",
            f"{needs}, but the budget is {_hourly(budget)}: they cannot be kept",
            f"Raise the budget to at least {_hourly(wanted)}, or raise max_age and stale_for.",
        )
    elif 0 < budget < math.inf and wanted > _LIMITS_SHARE_MAX * budget:
        todo = "Raise the budget, max_age or stale_for: little is left for other pages."
        yield warn("limits", f"{needs} of a budget of {_hourly(budget)}", todo)
    else:
        yield ok("limits", needs)
    yield from _host_limits(corpus, demands)


def _host_limits(corpus: Corpus, demands: Sequence[_Demand]) -> Iterator[CheckResult]:
    over: list[tuple[float, str]] = []
    for node, demand in zip(corpus.nodes, demands, strict=True):
        groups = node.shard.tables.groups
        with np.errstate(divide="ignore"):
            most = 1_000.0 / groups.delay_ms[: demand.by_group.size]
        for group in np.flatnonzero(demand.by_group > most).tolist():
            name = node.store.names_of(Names.GROUP, [group])[0] or str(group)
            share = float(demand.by_group[group] / most[group])
            wanted = _hourly(float(demand.by_group[group]))
            over.append((share, f"{name} ({wanted}, allowed {_hourly(float(most[group]))})"))
    if over:
        names = [text for _, text in sorted(over, reverse=True)]
        yield bad(
            "host limits",
            f"the delay between fetches is too long for the limits of pages: {_list_names(names)}",
            "Raise max_age or stale_for of their pages, or shorten the delay of the host.",
        )


# ---------------------------------------------------------------------------- hosts


class _Hosts(NamedTuple):
    """Hosts in one state: their number, and the names of the largest."""

    n: int
    names: list[str]


def _hosts_where(node: Node, is_wanted: FlagArray, now_ms: int | None) -> _Hosts:
    """Return some hosts of a partition; with ``now_ms``, also when they are tried again."""
    groups = node.shard.tables.groups
    rows = np.flatnonzero(is_wanted)
    largest = rows[np.argsort(-groups.n_pages[rows].astype(np.int64))][:_NAMED_MAX].tolist()
    names = []
    for row, name in zip(largest, node.store.names_of(Names.GROUP, largest), strict=True):
        again = "" if now_ms is None else since_words(int(groups.blocked_until[row]), now_ms)
        names.append(f"{name or row} (tried again {again})" if again else f"{name or row}")
    return _Hosts(rows.size, names)


def hosts_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Find hosts that are closed, paused or failing."""
    now_ms = corpus.time.now_ms()
    closed, blocked = [], []
    n_hosts = n_failing = 0
    for node in corpus.nodes:
        groups = node.shard.tables.groups
        is_there = groups.n_pages > 0
        is_closed = is_there & ((groups.flags & GROUP_CLOSED) > 0)
        is_blocked = is_there & ~is_closed & (groups.blocked_until > now_ms)
        closed.append(_hosts_where(node, is_closed, None))
        blocked.append(_hosts_where(node, is_blocked, now_ms))
        n_hosts += int(np.count_nonzero(is_there))
        n_failing += int(np.count_nonzero(is_there & (groups.n_errors > 0)))
    found = (
        (
            closed,
            "closed",
            "Nothing, if its robots.txt forbids it; `recrawl set --host HOST --open` opens it.",
        ),
        (blocked, "paused after errors, or on request", "Check whether the host answers you."),
    )
    for hosts, what, todo in found:
        n = sum(one.n for one in hosts)
        if n:
            names = [name for one in hosts for name in one.names]
            yield warn("hosts", f"{what}: {_list_names(names, n)}", todo)
    if not any(one.n for one in (*closed, *blocked)):
        more = f"; {n_failing:,} failed at the last fetch" if n_failing else ""
        yield ok("hosts", f"{n_hosts:,}, none closed or paused{more}")


# ---------------------------------------------------------------------------- sources and flapping


class _Source(NamedTuple):
    """Signals of one source on all hosts."""

    true: float
    total: float
    n_signals: float


def _sources(corpus: Corpus) -> dict[str, _Source]:
    found: dict[str, _Source] = {}
    for node in corpus.nodes:
        sources = node.shard.tables.sources
        for number in np.flatnonzero(sources.n_signals > 0).tolist():
            if sources.flags[number] & SOURCE_PRECISION_GIVEN:
                continue  # the configuration sets its precision
            name = (node.store.names_of(Names.SOURCE, [number])[0] or str(number)).split("\t")[0]
            before = found.get(name, _Source(0.0, 0.0, 0.0))
            found[name] = _Source(
                before.true + float(sources.true[number]),
                before.total + float(sources.total[number]),
                before.n_signals + float(sources.n_signals[number]),
            )
    return found


def _precision(source: _Source) -> float:
    return min(max(source.true / source.total, 0.0), 1.0)


def sources_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Find unreliable sources, whose signals seldom announce a change."""
    known = _sources(corpus)
    unreliable = []
    for name, source in sorted(known.items()):
        if source.total < _SIGNALS_MIN:
            continue
        if _precision(source) < _PRECISION_MIN:
            unreliable.append(name)
            share = share_text(_precision(source))
            yield warn(
                "sources",
                f"{name}: only {share} of {source.n_signals:,.0f} signals announced a change",
                "recrawl gives it little weight already; stop sending its signals to save work.",
            )
    if not known:
        yield ok("sources", "no signals")
    elif not unreliable:
        shares = [
            f"{name} {share_text(_precision(source))} true"
            for name, source in sorted(known.items())
            if source.total > 0
        ]
        yield ok("sources", _list_names(shares) or f"{len(known)}, with too few signals to judge")


def audits_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Find kinds and hosts whose audits find another freshness than the model expected."""
    table = audit_table(corpus.nodes)
    whole = table.rows[0]
    if whole.audited is None or whole.modelled is None:
        yield ok("audits", "none; set audit.share to measure freshness, such as 0.01")
        return
    for row in [row for row in table.rows if row.disagrees][:_NAMED_MAX]:
        name = {"corpus": "all pages", "kind": f"kind {row.name or 'without a name'}"}
        yield warn(
            "audits",
            f"{name.get(row.part, row.name)}: {share_text(row.audited or 0.0)} of "
            f"{row.n_audited:,} audited copies were fresh, the model expected "
            f"{share_text(row.modelled or 0.0)}",
            "See `recrawl stats --audited`; give pages that change in different ways different "
            "kinds, and look with `recrawl explain` at what counts as a change.",
        )
    if not any(row.disagrees for row in table.rows):
        found = f"{share_text(whole.audited)} of {whole.n_audited:,} copies were fresh"
        yield ok("audits", f"{found}, the model expected {share_text(whole.modelled)}")


def wrong_answers_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Find out whether many answers were not the pages they should be."""
    # Not from `Corpus.stats`, which looks at all pages while it holds all locks.
    counts = [node.store.content_counts or ContentCounts() for node in corpus.nodes]
    n_texts = sum(one.n_observed for one in counts)
    if n_texts == 0:
        return
    wrong = wrong_answer_counts([one.n_wrong_answers for one in counts])
    n_wrong = sum(wrong.values())
    share = n_wrong / n_texts
    kinds = [wrong_answer_words(name, n) for name, n in wrong.items()]
    said = f"{share_text(share)} of {count_text(n_texts, 'answer')} were not the page"
    if n_wrong == 0:
        yield ok("wrong answers", f"none of {count_text(n_texts, 'answer')}")
    elif n_wrong >= _WRONG_MIN and share > _WRONG_SHARE_MAX:
        yield warn(
            "wrong answers",
            f"{said}: {', '.join(kinds)}",
            "Look at what your fetcher gets, for instance with `recrawl content FILE`: it may be "
            "blocked, or need a login, a cookie or a browser.  `recrawl explain URL` says what "
            "came instead of a page.",
        )
    else:
        yield ok("wrong answers", f"{said}: {', '.join(kinds)}")


def flapping_check(corpus: Corpus) -> Iterator[CheckResult]:
    """Find pages that go back and forth between versions."""
    n_reverted: Counter[str] = Counter()
    n_read = 0
    for node in corpus.nodes:
        store = node.store
        first = store.first_change
        after = max(first, Cursor(max(store.position - _RECORDS_READ_MAX, 0), 0))
        for _ in range(CHANGES_READ_MAX // _CHANGES_PER_READ):
            changes = store.changes(after, _CHANGES_PER_READ)
            n_read += len(changes)
            n_reverted.update(
                change.url
                for change in changes
                if change.transition == Transition.REVERTED and change.url is not None
            )
            if len(changes) < _CHANGES_PER_READ:
                break
            after = changes[-1].cursor
    flapping = [(url, n) for url, n in n_reverted.most_common() if n >= _REVERTED_MIN]
    if not flapping:
        yield ok("flapping", f"no page flips between versions in {count_text(n_read, 'change')}")
        return
    names = [f"{url} ({n} times)" for url, n in flapping]
    yield warn(
        "flapping",
        f"pages that flip between versions: {_list_names(names)}",
        "Compare two fetches: often an advertisement, a session or one of the servers differs.  "
        "Remove that part before you compute the digest.",
    )
