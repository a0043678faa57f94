"""Run one shard under random faults, on virtual time and from a random seed.

There is a log, its owner, sometimes a zombie (an owner that does not know it has been replaced),
and fetchers that die, are slow or report twice.  Events are lost, late, duplicated and out of
order; owners restart from a snapshot and the log; clocks jump.  `recrawl.sim.faults.laws` checks
the invariants.
"""

import heapq
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recrawl.shard import events
from recrawl.shard.events import Event, event_of
from recrawl.shard.settings import ShardSettings
from recrawl.shard.shard import Shard
from recrawl.sim.faults.laws import BrokenLawError, Laws

__all__ = ["SETTINGS", "FaultReport", "record_log", "run_faults"]

_START_MS = 1_700_000_000_000
_N_VERDICTS = 7

SETTINGS = ShardSettings(
    lease_seconds=60,
    lease_seconds_max=300,
    lease_grace_seconds=120,
    group_delay=2.0,
    backoff_seconds=5,
    backoff_seconds_max=60,
    breaker_errors=3,
    breaker_seconds=10,
    breaker_seconds_max=60,
    disallowed_seconds=60,
    gone_polls_max=3,
    belief_half_life=86_400.0,
    prior_period=3_600.0,
    request_half_life=3_600.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    """Summary of a run.

    Parameters
    ----------
    n_events, n_batches
        Numbers of rows and batches applied.
    n_orders, n_handed_out
        Numbers of valid orders, and of orders that reached a fetcher.
    n_void
        Number of void rows.
    n_claims, n_restarts
        Numbers of takeovers by owners, and of restarts from a snapshot.
    n_pages
        Number of pages at the end.
    digest
        Digest of the state at the end: the same for the same seed.
    """

    n_events: int
    n_batches: int
    n_orders: int
    n_handed_out: int
    n_void: int
    n_claims: int
    n_restarts: int
    n_pages: int
    digest: str


@dataclass(slots=True)
class _Node:
    """An owner of the shard, or a node that still believes to be one."""

    shard: Shard
    position: int
    epoch: int
    clock_ms: int = 0
    """Milliseconds by which its clock is ahead."""


@dataclass(slots=True)
class _World:
    rng: np.random.Generator
    laws: Laws
    settings: ShardSettings
    n_pages_max: int
    n_groups: int
    now_ms: int = _START_MS
    log: list[Event] = field(default_factory=list)
    mail: list[tuple[int, int, Event]] = field(default_factory=list)
    """Events in transit: arrival time, a number that breaks ties, and the event."""
    n_sent: int = 0
    n_claims: int = 0
    n_restarts: int = 0
    saved: tuple[str, NDArray[np.uint8], int] | None = None

    # ------------------------------------------------------------ log and mail

    def append(self, event: Event) -> None:
        if event[0].size:
            self.log.append(event)
            self.laws.follow(event)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def send(self, event: Event, delay_seconds: float = 0.0) -> None:
        """Send an event to the log; it may be lost, late or duplicated."""
        if self.chance(0.03):
            return
        copies = 2 if self.chance(0.05) else 1
        for _ in range(copies):
            late = self.rng.exponential(200.0) if self.chance(0.05) else self.rng.random()
            arrives = self.now_ms + round(1000 * (delay_seconds + late))
            heapq.heappush(self.mail, (arrives, self.n_sent, event))
            self.n_sent += 1

    def deliver(self) -> None:
        while self.mail and self.mail[0][0] <= self.now_ms:
            self.append(heapq.heappop(self.mail)[2])

    # ------------------------------------------------------------ owners

    def take_over(self, shard: Shard, position: int) -> _Node:
        self.n_claims += 1
        epoch = self.laws.shard.epoch + 1
        at_ms = self.now_ms
        self.append(event_of(events.Claimed, owner=epoch, epoch=epoch, at_ms=at_ms))
        return _Node(shard, position, epoch)

    def read(self, node: _Node, end: int) -> None:
        """Let a node read the log, and hand out its own orders when it finds them there."""
        while node.position < end:
            event = self.log[node.position]
            applied = node.shard.apply(event)
            node.position += 1
            if isinstance(event, events.Ordered):
                for row in np.flatnonzero(applied.valid & (event.epoch == node.epoch)):
                    self.laws.hand_out(int(event.order[row]), int(event.page[row]))
                    self.fetch(int(event.order[row]), int(event.page[row]))

    def work(self, node: _Node) -> None:
        """Let a node propose orders, from the part of the log it has read."""
        rng, shard = self.rng, node.shard
        now_ms = self.now_ms + node.clock_ms
        self.append(shard.tick(now_ms)._replace(epoch=np.array([node.epoch])))
        overdue = shard.overdue(now_ms)
        if not self.chance(0.1):
            self.append(overdue._replace(epoch=np.full(overdue.order.size, node.epoch)))
        orders = shard.decide(now_ms, int(rng.integers(1, 12)), exact=self.chance(0.2))
        if self.chance(0.05):
            return  # the node dies before its orders are logged
        orders = orders._replace(epoch=np.full(orders.page.size, node.epoch))
        self.append(orders)
        if self.chance(0.02):
            self.append(orders)
        if self.chance(0.01) and (priors := shard.learn_priors()) is not None:
            self.append(priors._replace(epoch=np.full(priors.kind.size, node.epoch)))

    def save(self, shard: Shard) -> None:
        snapshot = shard.snapshot(str(len(self.log)))
        data = np.zeros(snapshot.n_bytes, np.uint8)
        for piece in snapshot:
            data[piece.offset : piece.offset + piece.data.size] = piece.data
        self.saved = snapshot.manifest, data, len(self.log)

    def restart(self) -> tuple[Shard, int]:
        """Restore a shard from the last snapshot and the log, and check its state."""
        self.n_restarts += 1
        if self.saved is None:
            shard, position = Shard(self.settings), 0
        else:
            manifest, data, position = self.saved
            shard, label = Shard.restore(manifest, data.copy())
            if label != str(position):
                raise BrokenLawError(f"a snapshot at {position} is labelled {label}")
        shard.apply_all(self.log[position:])
        if shard.digest() != self.laws.shard.digest():
            raise BrokenLawError(f"a restart at {len(self.log)} ends in another state")
        return shard, len(self.log)

    # ------------------------------------------------------------ fetchers

    def fetch(self, order: int, page: int) -> None:
        """Give an order to a fetcher, which may fail in several ways."""
        rng = self.rng
        fate = rng.random()
        seconds = float(rng.exponential(3.0))
        if fate < 0.05:
            return  # the fetcher dies
        if fate < 0.08:
            self.send(event_of(events.LeasesReleased, order=order), seconds)
            return
        if fate < 0.15:
            seconds += float(rng.exponential(100.0))  # possibly after its lease has expired
        if fate < 0.2:
            until = self.now_ms + int(rng.integers(-10_000, 400_000))
            self.send(event_of(events.LeasesExtended, order=order, expires_at_ms=until), 1.0)
        clock_ms = round(rng.normal(0.0, 1e7)) if self.chance(0.05) else 0
        fetched_at_ms = self.now_ms + round(1000 * seconds) + clock_ms
        self.send(self.outcome(page, order, fetched_at_ms), seconds)
        if fate < 0.25:
            self.send(self.outcome(page, order, fetched_at_ms), seconds + 5.0)

    def outcome(self, page: int, order: int, fetched_at_ms: int) -> events.Outcomes:
        rng = self.rng
        verdict = int(rng.integers(0, 2)) if self.chance(0.7) else int(rng.integers(_N_VERDICTS))
        return event_of(
            events.Outcomes,
            page=page,
            order=order,
            fetched_at_ms=fetched_at_ms,
            verdict=verdict,
            divergence=np.nan,
            last_modified_at_ms=0,
            status_class=2,
            retry_after_seconds=float(rng.integers(1, 30)) if self.chance(0.1) else 0.0,
        )

    # ------------------------------------------------------------ users

    def some_pages(self, n: int) -> NDArray[np.int64]:
        """Return random pages, a few of which no longer exist."""
        t = self.laws.shard.tables
        slot = self.rng.integers(0, max(int(t.registers.n_slots[0]), 1), n)
        generation = t.pages.generation[slot].astype(np.int64)
        generation -= self.rng.random(n) < 0.03
        page: NDArray[np.int64] = events.page_of(slot, generation & 0xFF)
        return page

    def add_pages(self, n: int) -> None:
        page = self.laws.shard.free_pages(n)
        group = self.rng.integers(0, self.n_groups, n)
        event = event_of(
            events.PagesAdded,
            page=page,
            group=group,
            kind=group % 3,
            importance=self.rng.lognormal(0.0, 1.0, n),
            cost=np.exp2(self.rng.integers(0, 3, n)),
            at_ms=self.now_ms,
        )
        self.append(event)
        if self.chance(0.1):
            self.append(event)

    def send_random_event(self) -> None:
        rng = self.rng
        n = int(rng.integers(1, 8))
        n_pages = self.laws.shard.n_pages
        match int(rng.integers(0, 9)):
            case 0 if n_pages < self.n_pages_max:
                self.add_pages(4 * n)
            case 1 if n_pages > self.n_pages_max // 2:
                self.send(event_of(events.PagesRemoved, page=self.some_pages(n)))
            case 2:
                self.set_policies()
            case 3:
                page = self.some_pages(n)
                at_ms = self.now_ms - round(rng.exponential(1e4))
                self.send(event_of(events.RequestsSeen, page=page, n_requests=n, at_ms=at_ms))
                self.send(event_of(events.ImportanceSet, page=page, importance=rng.random(n)))
            case 4:
                self.send(self.outcome(int(self.some_pages(1)[0]), 0, self.now_ms))
            case _:
                self.send(self.signals(4 * n))

    def signals(self, n: int) -> events.Signals:
        rng = self.rng
        heard_ms = self.now_ms - np.rint(rng.exponential(2e3, n)).astype(np.int64)
        claimed = heard_ms - np.rint(rng.normal(1e4, 2e4, n)).astype(np.int64)
        return event_of(
            events.Signals,
            page=self.some_pages(n),
            source=rng.integers(0, 6, n),
            at_ms=heard_ms + (round(rng.normal(0.0, 1e8)) if self.chance(0.05) else 0),
            claimed_at_ms=np.where(rng.random(n) < 0.7, claimed, 0),
        )

    def set_policies(self) -> None:
        """Set the budget or the limits of a group, appended to the log without delay."""
        rng = self.rng
        if self.chance(0.2):
            self.append(
                event_of(
                    events.BudgetSet,
                    amount=float(rng.integers(1, 40)),
                    period_seconds=float(rng.choice([0.0, 1.0, 10.0])),
                    burst_seconds=float(rng.integers(0, 5)),
                    unit=int(rng.integers(0, 2)),
                    price_mode=0,
                    price=0.0,
                )
            )
            return
        self.append(
            event_of(
                events.GroupsSet,
                group=int(rng.integers(0, self.n_groups)),
                delay_ms=int(rng.integers(0, 5_000)),
                in_flight_max=int(rng.integers(1, 4)),
                burst=int(rng.integers(1, 4)),
                blocked_until_ms=self.now_ms + 5_000 if self.chance(0.2) else 0,
                is_closed=int(self.chance(0.1)),
            )
        )


def run_faults(
    seed: int,
    n_events: int,
    *,
    picker: Literal["scan", "sweep"] = "scan",
    n_pages_max: int = 300,
    n_groups: int = 20,
) -> FaultReport:
    """Run one shard under random faults and check all invariants after every batch.

    Parameters
    ----------
    seed
        Random seed; the same seed gives the same run.
    n_events
        Smallest number of rows to apply.
    picker
        Algorithm that chooses orders.
    n_pages_max, n_groups
        Largest numbers of pages and groups.

    Raises
    ------
    recrawl.sim.faults.laws.BrokenLawError
        If an invariant is violated; the message has the batch and the seed to repeat it.
    """
    settings = replace(SETTINGS, picker=picker)
    world = _run_world(seed, n_events, settings, n_pages_max, n_groups)
    laws = world.laws
    return FaultReport(
        n_events=laws.n_rows,
        n_batches=laws.n_batches,
        n_orders=len(laws.orders),
        n_handed_out=len(laws.handed_out),
        n_void=int(laws.shard.tables.registers.n_void[0]),
        n_claims=world.n_claims,
        n_restarts=world.n_restarts,
        n_pages=laws.shard.n_pages,
        digest=laws.shard.digest(),
    )


def record_log(seed: int, n_events: int) -> list[Event]:
    """Run a shard with `SETTINGS` under random faults, and return its log."""
    return _run_world(seed, n_events, SETTINGS, 300, 20).log


def _run_world(
    seed: int, n_events: int, settings: ShardSettings, n_pages_max: int, n_groups: int
) -> _World:
    laws = Laws(Shard(settings))
    world = _World(np.random.default_rng(seed), laws, settings, n_pages_max, n_groups)
    try:
        _run(world, n_events)
    except BrokenLawError as error:
        raise BrokenLawError(f"seed {seed}: {error}") from error
    return world


def _run(world: _World, n_events: int) -> None:
    owner = world.take_over(Shard(world.settings), 0)
    zombie: _Node | None = None
    world.add_pages(world.n_pages_max // 2)
    world.append(
        event_of(
            events.BudgetSet,
            amount=5.0,
            period_seconds=1.0,
            burst_seconds=2.0,
            unit=0,
            price_mode=0,
            price=0.0,
        )
    )
    while world.laws.n_rows < n_events:
        world.now_ms += int(world.rng.integers(1, 2_000))
        world.deliver()
        world.send_random_event()
        if world.chance(0.01):
            owner.clock_ms = round(world.rng.normal(0.0, 3e4))
        world.read(owner, len(world.log))
        world.work(owner)
        if zombie is not None:
            # The zombie lags behind, proposes orders, and finally reads that it was replaced.
            world.read(zombie, min(zombie.position + 20, len(world.log)))
            world.work(zombie)
            if zombie.shard.epoch > zombie.epoch:
                zombie = None
        fate = world.rng.random()
        if fate < 0.02:
            world.read(owner, len(world.log))
            world.save(owner.shard)
        elif fate < 0.03:
            owner = world.take_over(*world.restart())
        elif fate < 0.035 and zombie is None:
            zombie, owner = owner, world.take_over(*world.restart())
