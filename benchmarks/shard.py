"""Measure a shard under load: bytes per page, orders per second and the cost of each step.

The state is generated as if the shard had run for a long time: beliefs of all shapes, signals on a
third of the pages, groups whose sizes follow a power law, and last fetches spread evenly over each
page's own interval at the price that spends the budget.
"""

import math
import resource
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.belief.codes import dither_of, encode_of
from recrawl.core.kernel import table_kernel
from recrawl.shard import (
    BudgetSet,
    Claimed,
    GroupsSet,
    Ordered,
    Outcomes,
    Shard,
    ShardSettings,
    Signals,
    event_of,
)
from recrawl.shard.due import Terms, due_at_of
from recrawl.shard.growth import empty_tables, set_group_defaults
from recrawl.shard.state.codes import rebuild_word
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.tables import (
    Groups,
    Links,
    Pages,
    Priors,
    Sources,
    bytes_per_row,
    dtypes_of,
    zeros,
)
from recrawl.shard.state.words import EPOCH_SECONDS, last_of, with_last

__all__ = ["generate_shard", "measure"]

_NOW_MS = 1_700_000_000_000
_DAY = 86_400.0
# Every decision or outcome reads these columns; with --mapped the others are in mapped files.
_RESIDENT = ("word", "fetched_at", "belief_shape", "belief_seconds")


@table_kernel
def _fill_pages(
    pages: Pages,
    links: Links,
    sources: Sources,
    priors: Priors,
    rules: Rules,
    group_end: NDArray[np.int64],
    now: int,
    signal_share: float,
) -> None:
    group = 0
    for slot in range(pages.word.size):
        while slot >= group_end[group]:
            group += 1
        u, v, w, x = (
            dither_of(slot, 1),
            dither_of(slot, 2),
            dither_of(slot, 3),
            dither_of(slot, 4),
        )
        # periods of 2 hours to 5 years, mostly long; shapes of 0.4 to 30
        period = 7_200.0 * math.exp2(14.0 * math.sqrt(u))
        shape = 0.4 * math.exp2(6.0 * v * v)
        pages.belief_shape[slot], pages.belief_seconds[slot] = encode_of(
            shape, shape * period, slot, 0
        )
        pages.group[slot] = group
        pages.status[slot] = 2
        pages.importance[slot] = 32_768 + int(1024.0 * (4.0 * w - 2.0))
        pages.cost[slot] = 32_768
        pages.first_seen[slot] = now - 100_000_000
        pages.fetched_at[slot] = now - 1
        if x < signal_share:
            pages.n_sources[slot] = 1
            pages.source[slot] = group % sources.flags.size
            pages.signal_count[slot] = max(1.0, 1e8 / period * 2.0 * dither_of(slot, 5))
        pages.word[slot] = with_last(np.uint64(0), now)
        rebuild_word(pages, links, sources, priors, rules, slot, float(now))


@table_kernel
def _spread_last_fetches(pages: Pages, terms: Terms, log2_price: float, now: int) -> None:
    """Set last fetches so that pages come due evenly."""
    for slot in range(pages.word.size):
        word = pages.word[slot]
        interval = min(due_at_of(word, terms, log2_price) - float(last_of(word)), 4e8)
        fetched = now - int(interval * dither_of(slot, 6))
        pages.word[slot] = with_last(word, fetched)
        pages.fetched_at[slot] = max(fetched, 1)


@table_kernel
def _demand(pages: Pages, terms: Terms, log2_price: float, stride: int) -> float:
    total = 0.0
    for slot in range(0, pages.word.size, stride):
        word = pages.word[slot]
        total += 1.0 / max(due_at_of(word, terms, log2_price) - float(last_of(word)), 1.0)
    return total * stride


def _group_ends(n_pages: int, n_groups: int) -> NDArray[np.int64]:
    """Return the end of each group's pages, for sizes that follow a power law."""
    share = (np.arange(n_groups) + 0.5) / n_groups
    sizes = np.minimum(share ** (-1 / 1.16), n_pages / 50)
    sizes = np.maximum(1, sizes * (n_pages - n_groups) / sizes.sum())
    order = np.random.default_rng(0).permutation(n_groups)
    ends = np.cumsum(sizes[order])
    ends = np.ceil(ends * n_pages / ends[-1]).astype(np.int64)
    ends[-1] = n_pages
    return ends


def _mapped_pages(n_pages: int, folder: Path) -> Pages:
    columns = []
    for name, dtype in dtypes_of(Pages).items():
        if name in _RESIDENT:
            columns.append(np.zeros(n_pages, dtype))
        else:
            columns.append(np.memmap(folder / name, dtype, "w+", shape=(n_pages,)).view(np.ndarray))
    return Pages(*columns)


def generate_shard(
    n_pages: int,
    n_groups: int,
    rate: float,
    *,
    settings: ShardSettings | None = None,
    signal_share: float = 0.33,
    folder: Path | None = None,
) -> Shard:
    """Return a shard in the state of a long run at ``rate`` orders per second."""
    settings = settings or ShardSettings(picker="sweep", group_delay=1.0)
    empty = empty_tables(settings)
    pages = zeros(Pages, n_pages) if folder is None else _mapped_pages(n_pages, folder)
    groups = zeros(Groups, n_groups)
    set_group_defaults(groups, settings, 0)
    n_sources = max(min(n_groups, 1_000_000), 1)
    tables = empty._replace(pages=pages, groups=groups, sources=zeros(Sources, n_sources))
    tables.registers.n_slots[0] = tables.registers.n_pages[0] = n_pages
    tables.registers.rebased_to[0] = n_pages
    tables.registers.now[0] = tables.registers.credited_at[0] = _NOW_MS
    shard = Shard(settings, tables=tables)
    now = _NOW_MS // 1000 - EPOCH_SECONDS
    ends = _group_ends(n_pages, n_groups)
    groups.n_pages[:] = np.diff(ends, prepend=0)
    _fill_pages(
        pages, tables.links, tables.sources, tables.priors, shard.rules, ends, now, signal_share
    )
    low, high = -20.0, 40.0
    stride = max(1, n_pages // 200_000)
    for _ in range(40):
        middle = 0.5 * (low + high)
        if _demand(pages, shard.terms, middle, stride) > rate:
            low = middle
        else:
            high = middle
    _spread_last_fetches(pages, shard.terms, high, now)
    shard.picker.set_price(2.0**high)
    shard.apply(event_of(Claimed, owner=1, epoch=1, at_ms=_NOW_MS))
    budget = event_of(
        BudgetSet,
        amount=rate,
        period_seconds=1.0,
        burst_seconds=2.0,
        unit=0,
        price_mode=0,
        price=0.0,
    )
    shard.apply(budget)
    _open_large_groups(shard, rate)
    return shard


def _open_large_groups(shard: Shard, rate: float) -> None:
    """Allow several fetches at a time from groups with many pages, as large sites do."""
    sizes = shard.tables.groups.n_pages
    large = np.flatnonzero(sizes > 2_000).astype(np.uint32)
    if large.size:
        wanted = rate * sizes[large] / shard.n_pages
        event = event_of(
            GroupsSet,
            group=large,
            delay_ms=np.maximum(1000 / (1.5 * wanted + 1e-9), 1).clip(max=1000).astype(np.uint32),
            in_flight_max=1000,
            burst=4,
            blocked_until_ms=0,
            is_closed=0,
        )
        shard.apply(event)


class _StepTimer:
    """CPU and wall time of the steps of a tick."""

    def __init__(self) -> None:
        self.cpu: dict[str, list[float]] = {}
        self.wall: dict[str, list[float]] = {}

    def time(self, name: str, run: Any, *arguments: Any) -> Any:
        cpu, wall = time.thread_time(), time.perf_counter()
        result = run(*arguments)
        self.cpu.setdefault(name, []).append(time.thread_time() - cpu)
        self.wall.setdefault(name, []).append(time.perf_counter() - wall)
        return result


class _Load(NamedTuple):
    """The signals and changes of a tick."""

    n_signals: int
    changed_share: float


def _tick(
    shard: Shard, now_ms: int, before: Ordered, load: _Load, clock: _StepTimer, rng: Any
) -> Ordered:
    shard.apply(shard.tick(now_ms))
    n_slots = int(shard.tables.registers.n_slots[0])
    slots = rng.integers(0, n_slots, load.n_signals)
    signals = event_of(
        Signals,
        page=slots,
        source=shard.tables.pages.source[slots],
        at_ms=now_ms,
        claimed_at_ms=0,
    )
    clock.time("signals", shard.apply, signals)
    outcomes = event_of(
        Outcomes,
        page=before.page,
        order=before.order,
        fetched_at_ms=now_ms - 500,
        verdict=rng.random(before.page.size) < load.changed_share,
        divergence=np.nan,
        last_modified_at_ms=0,
        status_class=2,
        retry_after_seconds=0.0,
    )
    clock.time("outcomes", shard.apply, outcomes)
    orders: Ordered = clock.time("decide", shard.decide, now_ms)
    clock.time("orders", shard.apply, orders)
    return orders


def _read_bytes_per_second() -> float:
    """Return the bytes per second that one core reads from memory."""
    column = np.ones(1 << 24)
    best = math.inf
    for _ in range(5):
        start = time.thread_time()
        column.sum()
        best = min(best, time.thread_time() - start)
    return column.nbytes / best


def _quantiles(seconds: list[float]) -> dict[str, float]:
    p50, p99 = np.quantile(seconds, [0.5, 0.99])
    return {"p50_ms": round(1e3 * float(p50), 3), "p99_ms": round(1e3 * float(p99), 3)}


def _anonymous_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return 1024 * int(fields["RssAnon"].split()[0])


def _per_row(clock: _StepTimer, name: str, n: int) -> float:
    return round(1e9 * sum(clock.cpu[name]) / max(n, 1), 1)


def measure(
    n_pages: int, n_groups: int, rate: float, *, ticks: int = 120, mapped: bool = False
) -> dict[str, object]:
    """Run a shard for ``ticks`` seconds of virtual time, then take a snapshot under load."""
    with tempfile.TemporaryDirectory() as folder:
        return _measure(n_pages, n_groups, rate, ticks, Path(folder) if mapped else None)


def _measure(
    n_pages: int, n_groups: int, rate: float, ticks: int, folder: Path | None
) -> dict[str, object]:
    rss_before = _anonymous_bytes()
    start = time.perf_counter()
    shard = generate_shard(n_pages, n_groups, rate, folder=folder)
    generated = time.perf_counter() - start
    rng = np.random.default_rng(1)
    load = _Load(round(rate), 0.3)
    orders = shard.decide(_NOW_MS, 0)
    now = _NOW_MS
    warm = _StepTimer()
    # One sweep before the measurement fills the wheel and compiles kernels.
    warm_ticks = 5 if folder is not None else min(int(shard.picker.sweep_seconds) + 5, 400)
    for _ in range(warm_ticks):
        now += 1000
        orders = _tick(shard, now, orders, load, warm, rng)
    clock = _StepTimer()
    n_orders = []
    n_wheel = _n_touched(shard)
    begun = time.perf_counter()
    for _ in range(ticks):
        now += 1000
        orders = _tick(shard, now, orders, load, clock, rng)
        n_orders.append(orders.page.size)
    wall = time.perf_counter() - begun
    total = sum(n_orders)
    touched = _n_touched(shard) - n_wheel
    cpu = {name: sum(spent) for name, spent in clock.cpu.items()}
    sweep_ns = 1e9 * cpu["decide"] / (ticks * n_pages / max(shard.picker.sweep_seconds, 1.0))
    result: dict[str, object] = {
        "pages": n_pages,
        "groups": n_groups,
        "rate_per_second": rate,
        "generated_seconds": round(generated, 1),
        "bytes_per_page_by_column": bytes_per_row(Pages),
        "bytes_per_group": sum(bytes_per_row(Groups).values()),
        "anonymous_bytes_per_page": round((_anonymous_bytes() - rss_before) / n_pages, 2),
        "peak_bytes_per_page": round(
            1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / n_pages, 2
        ),
        "ticks": ticks,
        "orders_per_tick": {"min": min(n_orders), "mean": total / ticks, "max": max(n_orders)},
        "share_of_one_core": round(sum(cpu.values()) / ticks, 4),
        "microseconds_per_order": round(1e6 * sum(cpu.values()) / max(total, 1), 2),
        "orders_per_second_possible": round(total / max(sum(cpu.values()), 1e-9)),
        "wall_seconds": round(wall, 2),
        "nanoseconds_per_signal": _per_row(clock, "signals", ticks * load.n_signals),
        "nanoseconds_per_outcome": _per_row(clock, "outcomes", total),
        "nanoseconds_per_order_applied": _per_row(clock, "orders", total),
        "touches_per_order": round(touched / max(total, 1), 2),
        "sweep_seconds": shard.picker.sweep_seconds,
        "decide_nanoseconds_per_page_swept": round(sweep_ns, 2),
        "memory_floor_nanoseconds_per_page": round(8e9 / _read_bytes_per_second(), 2),
        "decide": _quantiles(clock.wall["decide"]),
        "decide_cpu": _quantiles(clock.cpu["decide"]),
        "price": shard.picker.price,
        "backlog": shard.picker.backlog,
    }
    if folder is None:
        result["snapshot"] = _measure_snapshot(shard, now, orders, load, rng)
    return result


def _n_touched(shard: Shard) -> int:
    return int(getattr(shard.picker, "n_touched", 0))


def _measure_snapshot(
    shard: Shard, now: int, orders: Ordered, load: _Load, rng: Any
) -> dict[str, object]:
    """Write a snapshot piece by piece between ticks, and restore it."""
    begun = time.perf_counter()
    snapshot = shard.snapshot("0")
    began = time.perf_counter() - begun
    clock = _StepTimer()
    buffer = np.zeros(snapshot.n_bytes, np.uint8)
    n_ticks = 100
    n_pieces = max(1, int(27 * (shard.n_pages / (1 << 17) + 1) / n_ticks))
    taken = 0.0
    is_done = False
    while not is_done or len(clock.wall.get("decide", ())) < n_ticks:
        now += 1000
        orders = _tick(shard, now, orders, load, clock, rng)
        start = time.perf_counter()
        for _ in range(n_pieces):
            piece = next(snapshot, None)
            if piece is None:
                is_done = True
                break
            buffer[piece.offset : piece.offset + piece.data.size] = piece.data
        taken += time.perf_counter() - start
    start = time.perf_counter()
    Shard.restore(snapshot.manifest, buffer, check=False)
    mapped = time.perf_counter() - start
    start = time.perf_counter()
    restored, _ = Shard.restore(snapshot.manifest, buffer)
    checked = time.perf_counter() - start
    start = time.perf_counter()
    restored.decide(now, 1)
    first = time.perf_counter() - start
    return {
        "bytes": snapshot.n_bytes,
        "begin_ms": round(1e3 * began, 2),
        "pieces_seconds": round(taken, 2),
        "decide": _quantiles(clock.wall["decide"]),
        "outcomes": _quantiles(clock.wall["outcomes"]),
        "restore_seconds": round(mapped, 3),
        "restore_with_checksums_seconds": round(checked, 2),
        "first_decision_seconds": round(first, 2),
    }
