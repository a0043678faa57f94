"""The two arms of a hold-out: hosts, pages, audits since the start, and what they show.

Counts of audits never go down, so the counts at the start of an experiment are kept in a file of
the corpus's folder, and taken off later ones.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.atomic_files import replace_file
from recrawl.corpus.holdout.confidence import (
    ArmEstimate,
    Difference,
    arm_estimate,
    detectable_difference,
    difference_of,
    effective_number,
)
from recrawl.node.config.holdout_section import HoldoutConfig, keeps_old_rule
from recrawl.node.node import Node
from recrawl.store import Names

__all__ = ["HoldoutArm", "HoldoutView", "begin_holdout", "holdout_view"]

START_FILE = "holdout.npz"
FRESHNESS_ASSUMED = 0.8
"""Freshness assumed in a plan before there are audits."""
HOST_SPREAD_ASSUMED = 0.1
"""Standard deviation of the freshness of hosts assumed before there are audits."""
_DAY = 86_400.0
# Audits from which the spread between hosts is learned.
_AUDITS_LEARNED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutArm:
    """One arm of a hold-out."""

    n_hosts: int
    n_pages: int
    n_audited: int
    """Audits since the start that showed whether the copy was fresh."""
    n_audited_fresh: int
    n_hosts_audited: int
    freshness: float
    """Share of audited copies that were fresh; nan without audits."""
    fetches_per_page: float
    """Fetches of a page in a day that the budget, the interval and audits allow; nan if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutView:
    """A hold-out experiment: its arms, the difference so far, and what it can find."""

    is_running: bool
    """Whether the configuration holds hosts out; otherwise this is a plan."""
    share: float
    interval_seconds: float | None
    fair_interval_seconds: float | None
    """Interval with which both arms get fetches in proportion to their pages; None if unknown."""
    started_at_ms: int | None
    ours: HoldoutArm
    held_out: HoldoutArm
    difference: Difference
    """recrawl's freshness less that of the old rule; its interval holds for all looks together."""
    days: float
    audits_per_day: float
    detectable: float
    """Smallest difference that ``days`` days find with a probability of 80 %; inf if none."""

    @property
    def conclusion(self) -> str:
        """What the audits have shown so far, as a sentence."""
        if not self.difference.is_known:
            return "There are too few audited hosts for an interval yet: each arm needs about 20."
        if not self.difference.is_found:
            return "No difference is shown yet: the interval contains 0."
        if self.difference.low > 0:
            return "recrawl keeps copies fresher than the old rule."
        return "The old rule keeps copies fresher than recrawl."


class _Hosts:
    """Hosts of all partitions together: pages, and audits since the start."""

    def __init__(self, names: list[str], counts: NDArray[np.int64]) -> None:
        self.names = names
        self.n_pages, self.n_audited, self.n_fresh = counts


class _Start(NamedTuple):
    """Start of an experiment."""

    at_ms: int
    audits: dict[str, tuple[int, int]]
    """Audits of each host until then, and how many of them found a fresh copy.

    By the name of the host, which outlasts a change of the number of partitions.
    """


def begin_holdout(folder: Path, nodes: Sequence[Node], config: HoldoutConfig, now_ms: int) -> None:
    """Keep the counts of audits at the start of an experiment; nothing if it has started before.

    Parameters
    ----------
    folder
        Folder of the corpus.
    nodes
        Nodes of all partitions.
    config
        Hold-out of the configuration.
    now_ms
        Time of the start.
    """
    path = folder / START_FILE
    if not config.experiment:
        path.unlink(missing_ok=True)
        return
    if _load_start(path, config) is not None:
        return
    hosts = _hosts(nodes, {})
    rows = np.flatnonzero(hosts.n_audited)
    about = {"experiment": config.experiment, "started_at_ms": now_ms}
    columns: dict[str, Any] = {
        "about": np.array(json.dumps(about)),
        "hosts": np.array(json.dumps([hosts.names[row] for row in rows.tolist()])),
        "audited": hosts.n_audited[rows],
        "fresh": hosts.n_fresh[rows],
    }
    with replace_file(path, is_durable=True) as file:
        np.savez_compressed(file, **columns)


def _load_start(path: Path, config: HoldoutConfig) -> _Start | None:
    """Return the start of the experiment; None if it has not started."""
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            if about.get("experiment") != config.experiment:
                return None
            names = json.loads(str(file["hosts"]))
            counts = zip(file["audited"].tolist(), file["fresh"].tolist(), strict=True)
            audits = dict(zip(names, counts, strict=True))
    except (OSError, ValueError, KeyError):
        return None
    return _Start(int(about["started_at_ms"]), audits)


def _hosts(nodes: Sequence[Node], before: dict[str, tuple[int, int]]) -> _Hosts:
    """Return all hosts with their audits less those before; a host that is split is one host."""
    found: dict[str, NDArray[np.int64]] = {}
    for node in nodes:
        with node.lock:
            groups = node.shard.tables.groups
            n_named = min(node.store.n_names(Names.GROUP), groups.n_pages.size)
            columns = (groups.n_pages, groups.n_audited, groups.n_audited_fresh)
            counts = np.stack([column[:n_named].astype(np.int64) for column in columns])
        # Without the lock: names take long to read, and a number keeps its name.
        numbers = np.flatnonzero(counts.any(axis=0))
        names = node.store.names_of(Names.GROUP, numbers.tolist())
        for name, column in zip(names, counts[:, numbers].T, strict=True):
            if name is not None:
                found[name] = found.get(name, 0) + column
    for name in before.keys() & found.keys():
        found[name][1:] -= before[name]
    empty = np.zeros((3, 0), np.int64)
    return _Hosts(list(found), np.stack(list(found.values()), axis=1) if found else empty)


def holdout_view(
    folder: Path,
    nodes: Sequence[Node],
    running: HoldoutConfig,
    *,
    share: float | None,
    days: float,
    fetches_per_day: float | None,
    audit_share: float,
) -> HoldoutView:
    """Return the experiment of a corpus, or the plan of one.

    Parameters
    ----------
    folder, nodes
        Folder and nodes of the corpus.
    running
        Hold-out of the configuration.
    share
        Share of hosts to plan with; None for that of the configuration.
    days
        Days that the experiment lasts.
    fetches_per_day
        Budget; None if it is not a number of fetches per time.
    audit_share
        Share of fetches that are audits.
    """
    import pyarrow as pa  # noqa: PLC0415

    is_running = running.share > 0 and share in (None, running.share)
    planned = running
    if not is_running:
        planned = HoldoutConfig(
            share=share or 0.0, interval=running.interval or _DAY, name=running.name
        )
    start = _load_start(folder / START_FILE, running) if is_running else None
    hosts = _hosts(nodes, {} if start is None else start.audits)
    held = keeps_old_rule(pa.array(hosts.names, pa.string()), planned)
    arms = [arm_estimate(hosts.n_audited[rows], hosts.n_fresh[rows]) for rows in (~held, held)]
    n_pages = int(hosts.n_pages.sum())
    n_held = int(hosts.n_pages[held].sum())
    interval = running.interval if is_running else None
    per_page, fair = math.nan, None
    if fetches_per_day and n_pages:
        per_page = fetches_per_day / n_pages
        fair = _fair_interval(per_page, audit_share)
    held_per_page = per_page
    if interval is not None:
        audits_per_page = 0.0 if math.isnan(per_page) else audit_share * per_page
        held_per_page = _held_fetches(interval, audits_per_page)
    ours_per_page = math.nan
    if fetches_per_day is not None and n_pages > n_held:
        left = max(fetches_per_day - n_held * held_per_page, 0.0)
        ours_per_page = left / (n_pages - n_held)
    audits = (fetches_per_day or math.nan) * audit_share
    pages = [hosts.n_pages[rows] for rows in (~held, held)]
    return HoldoutView(
        is_running=is_running,
        share=planned.share,
        interval_seconds=interval,
        fair_interval_seconds=fair,
        started_at_ms=None if start is None else start.at_ms,
        ours=_arm(hosts, ~held, arms[0], ours_per_page),
        held_out=_arm(hosts, held, arms[1], held_per_page),
        difference=_difference(arms, has_started=start is not None),
        days=days,
        audits_per_day=audits,
        detectable=_detectable(hosts, pages, audits * days),
    )


def _fair_interval(per_page: float, audit_share: float) -> float | None:
    """Return the interval, in seconds, with which a held-out page gets as many fetches as another.

    It is the inverse of `_held_fetches`; None if all fetches are audits.

    Parameters
    ----------
    per_page
        Fetches of the budget for each page in a day.
    audit_share
        Share of fetches that are audits.
    """
    if audit_share >= 1:
        return None
    factor = -math.log1p(-audit_share) / audit_share if audit_share > 0 else 1.0
    return factor * _DAY / per_page


def _held_fetches(interval: float, audits_per_page: float) -> float:
    """Return the fetches of a held-out page in a day, audits included.

    An audit comes at random and counts as a fetch, so the next one is due an interval after it:
    the time between fetches is the interval, or that to the next audit if it comes before.
    """
    expected = audits_per_page * interval / _DAY
    return _DAY / interval * (expected / -math.expm1(-expected) if expected > 0 else 1.0)


def _arm(
    hosts: _Hosts, rows: NDArray[np.bool_], estimate: ArmEstimate, fetches_per_page: float
) -> HoldoutArm:
    return HoldoutArm(
        n_hosts=int(np.count_nonzero(hosts.n_pages[rows])),
        n_pages=int(hosts.n_pages[rows].sum()),
        n_audited=int(hosts.n_audited[rows].sum()),
        n_audited_fresh=int(hosts.n_fresh[rows].sum()),
        n_hosts_audited=estimate.n_hosts,
        freshness=estimate.freshness,
        fetches_per_page=fetches_per_page,
    )


def _difference(arms: list[ArmEstimate], *, has_started: bool) -> Difference:
    if not has_started:
        return Difference(value=math.nan, low=math.nan, high=math.nan)
    return difference_of(arms[0], arms[1])


def _detectable(hosts: _Hosts, pages: list[NDArray[np.int64]], n_audits: float) -> float:
    """Return the smallest detectable difference, with what audits have shown of hosts so far."""
    total = sum(int(each.sum()) for each in pages)
    if not n_audits > 0 or total == 0:
        return math.inf
    freshness, spread = FRESHNESS_ASSUMED, HOST_SPREAD_ASSUMED
    if int(hosts.n_audited.sum()) >= _AUDITS_LEARNED:
        freshness, spread = _learn_spread(hosts)
    return detectable_difference(
        n_hosts=(effective_number(pages[0]), effective_number(pages[1])),
        n_audits=(n_audits * pages[0].sum() / total, n_audits * pages[1].sum() / total),
        freshness=freshness,
        host_spread=spread,
    )


def _learn_spread(hosts: _Hosts) -> tuple[float, float]:
    """Return the freshness of all hosts and its spread between them, beyond chance."""
    estimate = arm_estimate(hosts.n_audited, hosts.n_fresh)
    share, total = estimate.freshness, float(hosts.n_audited.sum())
    # The variance of the ratio is that by chance, and the spread over the effective hosts.
    spread = (estimate.variance - share * (1 - share) / total) * estimate.n_effective
    return share, math.sqrt(max(spread, 0.0))
