"""Dividing the state of shards anew: nothing is lost, and nothing is there twice."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.shard import events as ev
from recrawl.shard.resize import (
    REMOVED_PAGE,
    NewNumbers,
    NewShard,
    OldShard,
    divide_slots,
    make_shard,
    reorder_slots,
)
from recrawl.shard.shard import Shard
from recrawl.shard.state.status import LeaseStage, PageStatus, Reason, Verdict
from recrawl.shard.state.tables import Tables
from tests.reference.shards import DAY, HOUR, Story, ms

N_GROUPS, N_KINDS = 12, 3
I64 = NDArray[np.int64]


def busy_story(seed: int, n_pages: int = 400) -> Story:
    """Return a shard in which everything has happened that a shard remembers."""
    rng = np.random.default_rng(seed)
    story = Story(group_delay=2.0, group_in_flight_max=3, lease_grace_seconds=DAY)
    story.budget(5.0, 1.0, burst_seconds=60.0)
    page = story.add(
        n_pages,
        group=rng.integers(0, N_GROUPS, n_pages),
        kind=rng.integers(0, N_KINDS, n_pages),
        importance=rng.uniform(0.5, 4.0, n_pages),
    )
    story.apply(
        ev.event_of(
            ev.LimitsSet,
            page=page[::7],
            interval_seconds_min=HOUR,
            interval_seconds_max=rng.integers(1, 4, page[::7].size) * DAY,
            stale_seconds=0.0,
            stale_probability=0.0,
        )
    )
    groups = story.shard.tables.pages.group
    for day in range(1, 6):
        story.tick(day * DAY)
        some = rng.choice(page, n_pages // 3, replace=False)
        verdict = rng.choice(
            [Verdict.CHANGED, Verdict.UNCHANGED, Verdict.TRANSIENT_ERROR], some.size
        )
        reason = np.where(np.arange(some.size) % 3 == 0, Reason.AUDIT, Reason.VALUE)
        story.report(some, verdict, order=story.order(some, lasts=HOUR, reason=reason))
        for k in range(3):  # up to three sources of a group
            signalled = rng.choice(page, 60, replace=False)
            source = groups[ev.slot_of_page(signalled)] * 3 + k
            story.signal(signalled, source=source.astype(np.int64))
    story.remove(page[5:25])
    story.add(8, at=5 * DAY, group=rng.integers(0, N_GROUPS, 8))
    story.set_group(3, delay_ms=9_000, blocked_until_ms=int(ms(9 * DAY)))
    left = page[~np.isin(page, page[5:25])]
    leased = rng.choice(left, 50, replace=False)
    orders = story.order(leased, at=6 * DAY, lasts=HOUR)
    story.report(leased[:10], order=orders[:10])
    story.remove(leased[10:12])  # removed while in flight
    return story


def old_shard(tables: Tables, partition: I64, group: I64) -> OldShard:
    source = np.arange(N_GROUPS * 3)
    return OldShard(
        tables,
        partition=partition,
        group=group,
        source=np.repeat(group * 3, 3) + source % 3,
        source_partition=np.repeat(partition, 3),
        kind=np.arange(N_KINDS),
    )


def numbers_of(n_groups: int) -> NewNumbers:
    return NewNumbers(n_groups, 3 * n_groups, N_KINDS, np.arange(n_groups))


def split(story: Story, partition: I64, n_new: int) -> tuple[list[NewShard], I64]:
    """Divide a shard; return the new ones, and the new number of each group."""
    group = np.zeros(N_GROUPS, np.int64)
    for i in range(n_new):
        group[partition == i] = np.arange(np.count_nonzero(partition == i))
    old = old_shard(story.shard.tables, partition, group)
    divided = [divide_slots(old, n_new)]
    counts = np.bincount(partition, minlength=n_new)
    new = [
        make_shard([old], divided, i, numbers_of(int(counts[i])), story.settings, story.shard.rules)
        for i in range(n_new)
    ]
    return new, group


def merge(story: Story, parts: list[NewShard], partition: I64, group: I64) -> NewShard:
    """Put divided shards together again, with the first numbers of groups."""
    olds = []
    for i, part in enumerate(parts):
        names = np.zeros(np.count_nonzero(partition == i), np.int64)
        names[group[partition == i]] = np.flatnonzero(partition == i)
        size = names.size
        olds.append(
            OldShard(
                part.tables,
                partition=np.zeros(size, np.int64),
                group=names,
                source=np.repeat(names * 3, 3) + np.arange(3 * size) % 3,
                source_partition=np.zeros(3 * size, np.int64),
                kind=np.arange(N_KINDS),
            )
        )
    divided = [divide_slots(old, 1) for old in olds]
    numbers = numbers_of(N_GROUPS)
    return make_shard(olds, divided, 0, numbers, story.settings, story.shard.rules)


def links_of(tables: Tables) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Return the further sources of pages, by slot and number."""
    links = tables.links
    found = {}
    for row in np.flatnonzero(links.key).tolist():
        name = int(links.key[row]) - 1
        slot, k = name >> 3, name & 7
        if k < tables.pages.n_sources[slot] and tables.pages.status[slot] != PageStatus.FREE:
            found[slot, k] = tuple(column[row] for column in links[1:])
    return found


@pytest.fixture(params=[1, 2, 3])
def story(request: pytest.FixtureRequest) -> Story:
    return busy_story(request.param)


@pytest.fixture
def partition(story: Story) -> I64:
    return np.random.default_rng(story.shard.n_pages).integers(0, 4, N_GROUPS)


def test_every_page_is_in_exactly_one_new_shard(story: Story, partition: I64) -> None:
    tables = story.shard.tables
    parts, group = split(story, partition, 4)
    used = np.flatnonzero(tables.pages.status[: int(tables.registers.n_slots[0])])
    assert sorted(np.concatenate([part.slots[0] for part in parts])) == used.tolist()
    for i, part in enumerate(parts):
        (slots,) = part.slots
        old, new, n = tables.pages, part.tables.pages, slots.size
        assert part.tables.registers.n_pages[0] == part.tables.registers.n_slots[0] == n
        assert (partition[old.group[slots]] == i).all()
        assert np.array_equal(new.group[:n], group[old.group[slots]])
        for name in ("word", "belief_shape", "belief_seconds", "status", "importance", "kind"):
            assert np.array_equal(getattr(new, name)[:n], getattr(old, name)[slots]), name
        limits = np.stack(tables.limits, axis=1)[old.limits[slots]]
        assert np.array_equal(np.stack(part.tables.limits, axis=1)[new.limits[:n]], limits)


def test_groups_keep_their_delays_blocks_and_fetches_in_flight(
    story: Story, partition: I64
) -> None:
    parts, group = split(story, partition, 4)
    old = story.shard.tables.groups
    for i, part in enumerate(parts):
        own = np.flatnonzero(partition == i)
        new = part.tables.groups
        for name in ("ready_at", "blocked_until", "delay_ms", "in_flight", "n_errors", "flags"):
            assert np.array_equal(getattr(new, name)[group[own]], getattr(old, name)[own]), name
        assert np.array_equal(new.domain_pages[group[own]], old.n_pages[own])


def test_open_leases_keep_page_and_expiry_and_can_be_reported(story: Story, partition: I64) -> None:
    old = story.shard.tables
    parts, _ = split(story, partition, 4)
    first, end = int(old.registers.first_order[0]), int(old.registers.next_order[0])
    moved = np.concatenate([part.orders[0][0] for part in parts])
    assert sorted(moved) == list(range(first, end))
    n_in_flight = 0
    for part in parts:
        (before, after), leases = part.orders[0], part.tables.leases
        row, old_row = after & (leases.page.size - 1), before & (old.leases.page.size - 1)
        for name in ("ordered_at", "expires_at", "stage", "reason"):
            found, wanted = getattr(leases, name)[row], getattr(old.leases, name)[old_row]
            assert np.array_equal(found, wanted), name
        assert (np.diff(leases.ordered_at[np.sort(after) & (leases.page.size - 1)]) >= 0).all()
        shard = Shard(story.settings, tables=part.tables)
        in_flight = leases.stage[row] == LeaseStage.IN_FLIGHT
        n_in_flight += int(np.count_nonzero(in_flight))
        pages = leases.page[row][in_flight]
        known = shard.has_pages(pages)
        slots = part.slots[0][ev.slot_of_page(pages[known])]
        generation = old.pages.generation[slots].astype(np.int64) << 32
        assert np.array_equal(old.leases.page[old_row][in_flight][known], slots | generation)
        if known.any():
            report = ev.event_of(
                ev.Outcomes,
                page=pages[known],
                order=after[in_flight][known],
                fetched_at_ms=shard.now_ms,
                verdict=Verdict.UNCHANGED,
                divergence=np.nan,
                last_modified_at_ms=0,
                status_class=2,
                retry_after_seconds=0.0,
            )
            assert shard.apply(report).valid.all()
    assert n_in_flight == old.registers.in_flight[0] == 40


def test_counts_credit_and_budget_add_up(story: Story, partition: I64) -> None:
    old = story.shard.tables.registers
    parts = [part.tables.registers for part in split(story, partition, 4)[0]]
    for name in ("n_polls", "n_outcomes", "n_changed", "n_ordered", "n_signals", "n_pages"):
        total = sum(int(getattr(part, name)[0]) for part in parts)
        assert total == getattr(old, name)[0], name
    for name in ("budget", "credit", "newcomer_credit"):
        amount = sum(float(getattr(part, name)[0]) for part in parts)
        assert amount == pytest.approx(float(getattr(old, name)[0])), name


def test_dividing_and_putting_together_gives_the_same_state(story: Story, partition: I64) -> None:
    before = story.shard.tables
    parts, group = split(story, partition, 4)
    after = merge(story, parts, partition, group)
    # The new slot of each page: first in its part, then in the whole.
    old_slot = np.concatenate(
        [part.slots[0][slots] for part, slots in zip(parts, after.slots, strict=True)]
    )
    n = old_slot.size
    for name, column in before.pages._asdict().items():
        # The number of a source that a page does not have means nothing.
        rows = old_slot if name != "source" else old_slot[before.pages.n_sources[old_slot] > 0]
        here = np.isin(old_slot, rows)
        if name not in ("generation", "limits"):
            found = getattr(after.tables.pages, name)[:n][here]
            assert np.array_equal(found, column[rows]), name
    new_slot = {slot: i for i, slot in enumerate(old_slot.tolist())}
    wanted = {(new_slot[slot], k): link for (slot, k), link in links_of(before).items()}
    assert links_of(after.tables) == wanted
    assert len(wanted) == after.tables.registers.n_links[0] > 0
    for name, column in before.groups._asdict().items():
        if name != "credited_order":
            found = getattr(after.tables.groups, name)[:N_GROUPS]
            assert np.array_equal(found, column[:N_GROUPS]), name
    for name, column in before.sources._asdict().items():
        n_sources = min(column.size, 3 * N_GROUPS)
        assert np.array_equal(getattr(after.tables.sources, name)[:n_sources], column[:n_sources])
    for name, column in before.priors._asdict().items():
        found = getattr(after.tables.priors, name)
        if name.startswith("audited_") or name == "spent":
            assert found == pytest.approx(column), name
        else:
            assert np.array_equal(found, column), name
    assert before.priors.n_audited.all()
    exact = (
        "now",
        "n_pages",
        "in_flight",
        "n_polls",
        "n_ordered",
        "price",
        "memory_lost",
        "n_audited",
    )
    for name in exact:
        assert getattr(after.tables.registers, name) == getattr(before.registers, name), name


def test_beliefs_of_different_priors_keep_their_evidence() -> None:
    stories = [busy_story(seed) for seed in (4, 5)]
    for i, one in enumerate(stories):
        prior = {"kind": np.arange(N_KINDS), "shape": 0.5 + 0.2 * i, "seconds": (1 + i) * DAY}
        one.apply(ev.event_of(ev.PriorsSet, epoch=1, **prior))
    everything = np.zeros(N_GROUPS, np.int64)
    olds = [
        old_shard(one.shard.tables, everything, np.arange(N_GROUPS) + N_GROUPS * i)
        for i, one in enumerate(stories)
    ]
    divided = [divide_slots(old, 1) for old in olds]
    numbers = numbers_of(2 * N_GROUPS)
    rules = stories[0].shard.rules
    new = make_shard(olds, divided, 0, numbers, stories[0].settings, rules).tables
    assert 0.5 < new.priors.shape[0] < 0.7
    first = 0
    for one, (slots,) in zip(stories, divided, strict=True):
        old, before = one.shard.tables, slots[:50]
        evidence = []
        for tables, some in ((new, first + np.arange(before.size)), (old, before)):
            pages = tables.pages
            belief = decode_beliefs(
                BeliefCodes(pages.belief_shape[some], pages.belief_seconds[some])
            )
            evidence.append(belief.shape - tables.priors.shape[pages.kind[some]])
        assert evidence[0] == pytest.approx(evidence[1], abs=0.1)
        assert np.ptp(evidence[1]) > 0.9
        first += slots.size


def test_credit_of_a_domain_is_divided_by_pages() -> None:
    story = Story()
    story.add(30, group=np.repeat([0, 1, 2], 10))
    story.apply(ev.event_of(ev.DomainsSet, group=[1, 2], domain=0, is_unlimited=0))
    groups = story.shard.tables.groups
    assert groups.domain_pages[0] == 30
    groups.newcomer_credit[0], groups.growth_pages[0] = 6.0, 27
    partition = np.zeros(N_GROUPS, np.int64)
    partition[1] = 1
    group = np.arange(N_GROUPS)
    group[1] = 0
    old = old_shard(story.shard.tables, partition, group)
    divided = [divide_slots(old, 2)]
    keeper = np.arange(N_GROUPS)
    keeper[2] = 0
    rules = story.shard.rules
    with_two = make_shard(
        [old], divided, 0, NewNumbers(N_GROUPS, 36, N_KINDS, keeper), story.settings, rules
    ).tables.groups
    with_one = make_shard([old], divided, 1, numbers_of(1), story.settings, rules).tables.groups
    assert (with_two.domain_pages[0], with_one.domain_pages[0]) == (20, 10)
    assert (with_two.newcomer_credit[0], with_one.newcomer_credit[0]) == (4.0, 2.0)
    assert (with_two.growth_pages[0], with_one.growth_pages[0]) == (18, 9)
    assert with_two.domain[2] == 1


def test_everything_after_the_end_of_the_log_is_void() -> None:
    story = Story()
    page = story.add(3)
    order = story.order(page)
    assert not story.apply(
        ev.event_of(ev.Closed, epoch=9, generation=1, n_partitions=4)
    ).valid.any()
    assert not story.shard.is_closed
    assert story.apply(ev.event_of(ev.Closed, epoch=1, generation=1, n_partitions=4)).valid.all()
    assert story.shard.closed_for == (1, 4)
    before = [column.copy() for column in story.shard.tables.pages]
    assert not story.report(page, Verdict.CHANGED, order=order).valid.any()
    assert not story.claim(5).valid.any()
    assert not story.remove(page).valid.any()
    assert not story.signal(page).valid.any()
    assert not story.budget(1.0, 1.0).valid.any()
    after = [column.copy() for column in story.shard.tables.pages]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    snapshot = story.shard.snapshot("7")
    buffer = np.zeros(snapshot.n_bytes, np.uint8)
    for piece in snapshot:
        buffer[piece.offset : piece.offset + piece.data.size] = piece.data
    restored, _ = Shard.restore(snapshot.manifest, buffer)
    assert restored.closed_for == (1, 4)


def test_pages_have_everything_in_other_slots(story: Story, partition: I64) -> None:
    parts, _ = split(story, partition, 4)
    for part in parts:
        tables, n_slots = part.tables, part.tables.registers.n_slots[0]
        new_slot = np.random.default_rng(0).permutation(n_slots)
        moved = reorder_slots(tables, new_slot)
        for name, column in tables.pages._asdict().items():
            found = getattr(moved.pages, name)
            np.testing.assert_array_equal(found[new_slot], column[:n_slots], err_msg=name)
            np.testing.assert_array_equal(found[n_slots:], column[n_slots:], err_msg=name)
        expected = {(int(new_slot[slot]), k): row for (slot, k), row in links_of(tables).items()}
        assert links_of(moved) == expected
        page = tables.leases.page
        used = tables.leases.stage != LeaseStage.EMPTY
        known = used & (page != REMOVED_PAGE)
        np.testing.assert_array_equal(moved.leases.page[known], new_slot[page[known]])
        np.testing.assert_array_equal(moved.leases.page[~known], page[~known])
        for name in ("groups", "sources", "limits", "priors", "registers"):
            for before, after in zip(getattr(tables, name), getattr(moved, name), strict=True):
                np.testing.assert_array_equal(before, after)
