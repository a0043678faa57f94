"""Memories of hosts: counts by key, updates in place, and repeated answers of settled pages."""

import numpy as np
import pytest

from recrawl.content import ContentVerdict, HostMemory, judge, observe_text
from recrawl.content.judging.count_table import COUNT_MAX, CountTable
from recrawl.content.judging.host_memory import PASSAGES_COUNTED_MAX, pack_update
from recrawl.content.judging.places import PassageGaps, gap_keys

TEXT = "\n".join(f"Paragraph {word} of the story says something." for word in "abcdefgh")


def table(*counts: int) -> CountTable:
    keys = np.arange(10, 10 + len(counts)).astype("<u4")
    return CountTable(keys, np.array(counts, np.uint8))


@pytest.mark.parametrize("is_read", [False, True])
def test_a_table_finds_frequent_keys_whether_it_is_read_or_not(is_read: bool) -> None:
    counts = table(1, 3, 2, 5)
    if is_read:
        assert counts.by_key[13] == 5
    upper = 7 << 32
    assert counts.frequent_among([10, upper | 11, 12, 13, 99], 2.5) == {upper | 11, 13}
    assert counts.frequent_among([10], 6) == set()
    assert len(counts) == 4
    assert counts.to_bytes() == table(1, 3, 2, 5).to_bytes()


def test_a_copy_of_a_table_changes_alone() -> None:
    for is_read in (False, True):
        counts = table(1, 2)
        if is_read:
            assert counts.by_key
        copy = counts.copy()
        copy.by_key[10] = 9
        assert counts.by_key[10] == 1


def test_updates_in_place_and_of_a_copy_are_the_same() -> None:
    rng = np.random.default_rng(5)
    changed, copied = HostMemory(), HostMemory()
    for _ in range(120):
        columns = [rng.integers(0, 2**32, n).tolist() for n in (60, 5, 4, 2, 1)]
        update = pack_update(
            is_new_page=True,
            added=np.array(columns[0], np.uint64) | np.uint64(1 << 40),
            removed=columns[1],
            places=columns[2],
            doubts=columns[3],
            texts=columns[4],
        )
        before = copied.to_bytes()
        following = copied.with_update(update)
        assert copied.to_bytes() == before
        changed.apply(update)
        copied = HostMemory.from_bytes(following.to_bytes())
        assert changed.to_bytes() == copied.to_bytes()
    assert changed.n_pages == copied.n_pages


def test_counts_stay_within_their_limits() -> None:
    host = HostMemory()
    for _ in range(COUNT_MAX + 3):
        host.apply(pack_update(added=[1]))
    assert host.n_others(1, is_counted=False) == COUNT_MAX
    host.apply(pack_update(added=range(2, PASSAGES_COUNTED_MAX + 10)))
    assert host.n_others_of(np.array([1, 2], np.uint64), is_counted=True) == [COUNT_MAX - 1, -1]


def test_passages_stand_between_stable_ones() -> None:
    gaps = PassageGaps([8, 16, 24, 32, 40], {16, 32})
    before, after = zip(*(gaps[p] for p in (8, 16, 24, 32, 40)), strict=True)
    assert before == tuple(gap_keys(p)[0] for p in (0, 0, 16, 16, 32))
    assert after == tuple(gap_keys(p)[1] for p in (16, 32, 32, 0, 0))


def test_a_settled_page_keeps_its_memory_and_its_passages() -> None:
    seen = observe_text(TEXT)
    host = HostMemory()
    first = judge(seen, None, host)
    second = judge(seen, first.memory, host)
    third = judge(seen, second.memory, host)
    assert third.verdict == second.verdict == ContentVerdict.UNCHANGED
    assert third.memory is second.memory  # nothing to write
    assert third.kept.tolist() == first.added.tolist() == seen.passages.tolist()
    assert third.is_counted.all()
    assert third.digest == first.digest
    assert not third.host_update
