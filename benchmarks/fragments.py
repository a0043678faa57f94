"""Measure how much less stale fragments are with learned divergence curves.

Both policies are the shipped shard with equal budgets, which leases a few orders at a time: one has
the objective *freshness*, the other *fragments* and the divergence curves of `LearningCurves`.
Both start from a broad prior and learn from these fetches alone.  There are two corpora: simulated
pages that churn, scroll or are edited item by item, with an interval by resampling pages; and
histories of real pages (`lab.recorded`), with an interval by resampling repositories.
"""

import importlib
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from lab.recorded import data_folder
from lab.text_histories import TEXT_HISTORIES, Counts, Floats, Histories, histories_of_web
from recrawl.core.divergence import Sketches, compare_sketches
from recrawl.shard import GroupsSet, ShardSettings, event_of
from recrawl.sim import Content, FetchOutcomes, KnownPages, Replaces, Web, make_web
from recrawl.sim.policies.learned_curves import LearningCurves
from recrawl.sim.policies.shard_policy import START_MS, ShardPolicy, unlimited_settings

Objective = Literal["freshness", "fragments"]

DAY = 86_400.0
YEAR = 365 * DAY
# Fetches per page and year.
BUDGETS = (10.0, 20.0, 60.0)
_FETCHED_AT_ONCE = 10
_PAGE_SIZE = 60  # items of a simulated page


class Staleness(NamedTuple):
    """Seconds that the copies of each page were stale, and that each page existed."""

    of_fragments: Floats
    of_pages: Floats
    lived: Floats
    n_fetches: int


def simulated_web(seed: int, n_pages: int) -> Web:
    """Draw a year of pages with similar change rates that keep different shares of their items."""
    rng = np.random.default_rng(seed)
    rate = np.exp(rng.normal(np.log(0.15), 1.0, n_pages)).clip(0.005, 5.0) / DAY
    replaces = rng.choice([Replaces.ALL, Replaces.OLDEST, Replaces.ANY], n_pages)
    n_items = np.exp(rng.uniform(np.log(2), np.log(_PAGE_SIZE), n_pages)).astype(np.int64)
    churns = replaces == Replaces.ALL
    n_items[churns] = rng.integers(2, _PAGE_SIZE, churns.sum())
    static = rng.integers(0, _PAGE_SIZE - n_items + 1)
    content = Content.of(n_pages, replaces=replaces, n_items=n_items, static_items=static)
    return make_web(seed, YEAR, rate, content=content)


def read_real_histories(path: Path) -> Histories:
    """Read the last year of each real page, or its whole history if that is shorter."""
    return read_sketched_histories(path)[0]


def read_sketched_histories(path: Path) -> tuple[Histories, Sketches]:
    """Read the last year of each real page, with the sketches of its versions."""
    parquet = importlib.import_module("pyarrow.parquet")
    columns = ["page", "repo", "time", "digest", "shingles", "sketch"]
    table = parquet.read_table(path, columns=columns)
    lists = table["sketch"].combine_chunks()
    offsets = lists.offsets.to_numpy().astype(np.int64)
    page = table["page"].to_numpy()
    repository = np.unique(table["repo"].to_pylist(), return_inverse=True)[1]
    n_fragments = table["shingles"].to_numpy().astype(np.int64)
    at = table["time"].to_numpy().astype(np.float64)
    # Histories are shifted to end with the year; a version without text is a failed fetch.
    starts = np.flatnonzero(np.diff(page, prepend=-1))
    at += YEAR - np.repeat(np.maximum.reduceat(at, starts), np.diff(starts, append=page.size))
    superseded = np.append((page[1:] == page[:-1]) & (at[1:] <= 0.0), False)
    rows = np.flatnonzero((n_fragments > 0) & ~superseded)
    first = np.flatnonzero(np.diff(page[rows], prepend=-1))
    sizes = np.diff(offsets)[rows]
    new_offsets = np.concatenate([[0], np.cumsum(sizes)])
    hashes = np.repeat(offsets[rows] - new_offsets[:-1], sizes) + np.arange(new_offsets[-1])
    sketches = Sketches(
        lists.values.to_numpy()[hashes].astype(np.uint32), new_offsets, n_fragments[rows]
    )
    histories = Histories(
        offsets=np.append(first, rows.size),
        at=at[rows],
        digest=table["digest"].to_numpy()[rows],
        cluster=repository[rows[first]],
        ends_at=np.full(first.size, YEAR),
        compare=lambda one, other: compare_sketches(sketches, one, other).divergence,
    )
    return histories, sketches


def first_fetches(web: Histories) -> Floats:
    """Return the time of the first fetch of each page."""
    return np.maximum(web.at[web.offsets[:-1]], 0.0)


class VersionReader:
    """Versions of pages, read by a policy that learns divergence curves."""

    def __init__(self, web: Histories) -> None:
        self._web = web
        # One sorted key for all versions: by page, then by time.
        self._key = _version_key(np.repeat(np.arange(web.n_pages), np.diff(web.offsets)), web.at)

    def read(self, page: Counts, at: Floats) -> Counts:
        """Return the rows of the versions that fetches of ``page`` at ``at`` bring."""
        row = np.searchsorted(self._key, _version_key(page, at), side="right") - 1
        return np.maximum(row, self._web.offsets[page])

    def divergence(self, page: Counts, copy: Counts, version: Counts) -> Floats:  # noqa: ARG002
        """Return the divergence of each ``version`` from a ``copy`` of the same page."""
        return self._web.compare(copy, version)


def _version_key(page: Counts, at: Floats) -> Floats:
    # Versions before the year have negative times; none is older than 200 years.
    return page * (200 * YEAR) + at


def run(web: Histories, fetches_per_page: float, objective: Objective) -> Staleness:
    """Fetch with a shard for a year, and return the staleness of its copies."""
    n_pages, start = web.n_pages, first_fetches(web)
    contents = VersionReader(web)
    shard = ShardPolicy(unlimited_settings(ShardSettings(objective=objective)))
    policy = LearningCurves(shard, contents) if objective == "fragments" else shard
    ones, none = np.ones(n_pages), np.zeros(n_pages, np.int64)
    # Each page is a group of its own, so that it can be blocked until its history begins.
    policy.start(KnownPages(ones, ones, np.arange(n_pages), none, has_copies=False), 0.0)
    closed = event_of(
        GroupsSet,
        group=np.arange(n_pages),
        delay_ms=0,
        in_flight_max=65_535,
        burst=1,
        blocked_until_ms=START_MS + np.ceil(1000 * start).astype(np.int64),
        is_closed=0,
    )
    shard.shard.apply(closed)
    fetched_at, version = np.full(n_pages, -np.inf), web.offsets[:-1].copy()
    log: list[tuple[Counts, Floats, Counts]] = []

    def fetch(rows: Counts, at: Floats) -> None:
        found = contents.read(rows, at)
        changed = web.digest[found] != web.digest[version[rows]]
        divergence = web.compare(version[rows], found)
        no, undated = np.zeros(rows.size, np.bool_), np.full(rows.size, np.nan)
        elapsed = at - fetched_at[rows]
        policy.learn(at, rows, FetchOutcomes(changed, elapsed, undated, no, no, divergence))
        fetched_at[rows], version[rows] = at, found
        log.append((rows, at, found))

    n_rounds = int(fetches_per_page * n_pages / _FETCHED_AT_ONCE)
    beginning = np.argsort(start, kind="stable")
    begun = 0
    for now in YEAR * np.arange(n_rounds) / n_rounds:
        ready = int(np.searchsorted(start[beginning], now, side="right"))
        if ready > begun:
            fetch(beginning[begun:ready], start[beginning[begun:ready]])
            begun = ready
        if now > 0.0:
            rows = policy.pick(float(now), _FETCHED_AT_ONCE)
            fetch(rows, np.full(rows.size, now))
    return staleness_of(web, *(np.concatenate(column) for column in zip(*log, strict=True)))


def staleness_of(web: Histories, page: Counts, fetched_at: Floats, version: Counts) -> Staleness:
    """Compare each copy with all versions that appeared while it was stored."""
    order = np.lexsort((fetched_at, page))
    page, fetched_at, version = page[order], fetched_at[order], version[order]
    is_replaced = np.append(page[1:] == page[:-1], False)
    ends_at = np.where(is_replaced, np.roll(fetched_at, -1), YEAR)
    n_missed = np.where(is_replaced, np.roll(version, -1), web.offsets[page + 1] - 1) - version
    copy, owner = np.repeat(version, n_missed), np.repeat(page, n_missed)
    missed = copy + 1 + np.arange(copy.size) - np.repeat(np.cumsum(n_missed) - n_missed, n_missed)
    is_last = missed + 1 == web.offsets[owner + 1]
    until = np.where(is_last, YEAR, web.at[np.minimum(missed + 1, web.at.size - 1)])
    seconds = np.minimum(until, np.repeat(ends_at, n_missed)) - web.at[missed]
    differs = web.digest[copy] != web.digest[missed]
    divergence = web.compare(copy, missed)
    return Staleness(
        np.bincount(owner, differs * divergence * seconds, web.n_pages).astype(np.float64),
        np.bincount(owner, differs * seconds, web.n_pages).astype(np.float64),
        YEAR - first_fetches(web),
        page.size - web.n_pages,
    )


def _compare_objectives(web: Histories, budget: float, n_resamples: int) -> dict[str, object]:
    """Run both objectives; return their staleness and an interval of the relative difference."""
    freshness = run(web, budget, "freshness")
    return compare_runs(web, budget, freshness, run(web, budget, "fragments"), n_resamples)


def compare_runs(
    web: Histories, budget: float, freshness: Staleness, fragments: Staleness, n_resamples: int
) -> dict[str, object]:
    """Return the staleness with each objective, and an interval of the relative difference."""
    cluster = np.unique(web.cluster, return_inverse=True)[1]
    old = np.bincount(cluster, freshness.of_fragments)
    new = np.bincount(cluster, fragments.of_fragments)
    drawn = np.random.default_rng(0).integers(0, old.size, (n_resamples, old.size))
    change = new[drawn].sum(axis=1) / old[drawn].sum(axis=1) - 1
    lived = freshness.lived.sum()
    return {
        "fetches_per_page_and_year": budget,
        "fetches_freshness": freshness.n_fetches,
        "fetches_fragments": fragments.n_fetches,
        "fragment_staleness_freshness": round(float(old.sum() / lived), 5),
        "fragment_staleness_fragments": round(float(new.sum() / lived), 5),
        "change": round(float(new.sum() / old.sum() - 1), 4),
        "change_95_interval": [round(float(q), 4) for q in np.quantile(change, [0.025, 0.975])],
        "stale_pages_freshness": round(float(freshness.of_pages.sum() / lived), 4),
        "stale_pages_fragments": round(float(fragments.of_pages.sum() / lived), 4),
    }


def measure(
    n_webs: int = 3, n_pages: int = 300, budgets: tuple[float, ...] = BUDGETS
) -> dict[str, object]:
    """Compare both objectives on simulated webs and on real histories."""
    simulated = [
        {
            "web": seed,
            **_compare_objectives(histories_of_web(simulated_web(seed, n_pages)), budget, 1_000),
        }
        for seed in range(n_webs)
        for budget in budgets
    ]
    path = data_folder() / TEXT_HISTORIES
    real: object = f"{path.name} is not in {path.parent}; set RECRAWL_DATA"
    if path.is_file():
        web = read_real_histories(path)
        real = [_compare_objectives(web, budget, 2_000) for budget in budgets]
    return {"simulated": simulated, "real": real}
