"""Places of pages in new partitions, while the old ones change."""

import numpy as np
import pytest

from recrawl.corpus.resize.placing import PlacedPages

N_OLDS, N_NEWS = 3, 4


def test_the_first_places_are_in_the_order_of_the_old_ones() -> None:
    placed = PlacedPages(2, 2)
    changes = placed.update([np.array([0, 1, -1, 0]), np.array([1, 0])])
    assert [slots.tolist() for slots in changes.added] == [[0, 1, 3], [0, 1]]
    assert [slots.tolist() for slots in changes.vacated] == [[], []]
    assert [one.slot.tolist() for one in placed.moves] == [[0, 0, -1, 1], [1, 2]]


def test_the_last_page_moves_into_a_gap() -> None:
    placed = PlacedPages(1, 1)
    placed.update([np.array([0, 0, 0, 0])])
    changes = placed.update([np.array([0, -1, 0, 0])])
    assert changes.added[0].tolist() == [3]
    assert changes.vacated[0].tolist() == [1, 3]
    assert changes.moved_to[0].tolist() == [-1, 1]
    assert placed.moves[0].slot.tolist() == [0, -1, 2, 1]


def test_a_page_that_replaces_another_one_is_copied() -> None:
    placed = PlacedPages(1, 1)
    placed.update([np.array([0, 0, 0])])
    changes = placed.update([np.array([0, 0, 0])], [np.array([False, True, False])])
    assert changes.added[0].tolist() == [1]
    assert changes.vacated[0].tolist() == [1]
    assert changes.moved_to[0].tolist() == [-1]


@pytest.mark.parametrize("case", range(20))
def test_slots_have_no_gaps_and_pages_stay_where_they_are(case: int) -> None:
    rng = np.random.default_rng(case)
    placed = PlacedPages(N_OLDS, N_NEWS)
    wanted = [np.empty(0, np.int64)] * N_OLDS
    by_place: dict[tuple[int, int], tuple[int, int]] = {}
    for _ in range(6):
        wanted = [np.append(one, np.full(rng.integers(12), -1)) for one in wanted]
        is_new = [rng.random(one.size) < 0.2 for one in wanted]
        for one, flags in zip(wanted, is_new, strict=True):
            # Pages of some slots go away, and others come.
            one[flags] = rng.integers(-1, N_NEWS, int(flags.sum()))
        before = [(one.partition.copy(), one.slot.copy()) for one in placed.moves]
        changes = placed.update(wanted, is_new)
        for new, (slots, moved_to) in enumerate(
            zip(changes.vacated, changes.moved_to, strict=True)
        ):
            assert (np.diff(slots) > 0).all()
            for slot, now in zip(slots.tolist(), moved_to.tolist(), strict=True):
                page = by_place.pop((new, slot))
                if now >= 0:
                    assert placed.moves[page[0]].slot[page[1]] == now
        n_copied = 0
        for old, (moves, slots, added) in enumerate(
            zip(placed.moves, wanted, changes.added, strict=True)
        ):
            np.testing.assert_array_equal(moves.partition, slots)
            kept = np.setdiff1d(np.flatnonzero(slots >= 0), added)
            np.testing.assert_array_equal(moves.slot[kept], before[old][1][kept])
            for row in added.tolist():
                place = int(moves.partition[row]), int(moves.slot[row])
                assert place not in by_place
                by_place[place] = old, row
            n_copied += added.size
        for new in range(N_NEWS):
            used = sorted(slot for partition, slot in by_place if partition == new)
            assert used == list(range(len(used)))
