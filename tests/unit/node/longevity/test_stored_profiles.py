"""Profiles survive the way to bytes and back, and fit into the record of a page."""

import numpy as np
import pytest

from recrawl.core.divergence import pack_sketch, read_sketches
from recrawl.node.longevity.stored_profiles import (
    BASE_HASHES,
    N_BASES,
    PROFILE_BYTES,
    PageProfiles,
    read_profiles,
    write_profiles,
)
from recrawl.store import PROFILE_BYTES_MAX


def random_profiles(n_pages: int) -> PageProfiles:
    """Return profiles with 0, 1, 2 … bases, each with some observations and a sketch."""
    rng = np.random.default_rng(0)
    pages = read_profiles([None] * n_pages)
    evidence, profiles = pages.evidence, pages.evidence.profiles
    for column in evidence.totals:
        column[:] = rng.uniform(0, 9, n_pages).astype(np.float32)
    evidence.n_since_base[:] = rng.integers(0, 3, n_pages)
    for page in range(n_pages):
        n_bases = page % (N_BASES + 1)
        profiles.base_at[page, :n_bases] = rng.integers(1, 2**31, n_bases)
        profiles.n_observed[page, :n_bases] = rng.integers(0, 13, n_bases)
        for slot in range(n_bases):
            n = profiles.n_observed[page, slot]
            profiles.ages[page, slot, :n] = np.cumsum(rng.integers(1, 10**5, n))
            profiles.divergences[page, slot, :n] = rng.uniform(0, 1, n)
            hashes = np.unique(rng.integers(0, 2**32, 2 + 20 * slot, dtype=np.uint32))
            sketch = pack_sketch(hashes, n_fragments=1000, scheme=slot)
            pages.keep_sketches(np.array([page]), np.array([slot]), read_sketches([sketch]))
    return pages


def test_profiles_are_read_as_they_were_written() -> None:
    pages = random_profiles(20)
    values = write_profiles(pages)
    read = read_profiles(values)
    for found, wanted in zip(read.evidence.totals, pages.evidence.totals, strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(read.evidence.n_since_base, pages.evidence.n_since_base)
    after, before = read.evidence.profiles, pages.evidence.profiles
    np.testing.assert_array_equal(after.base_at, before.base_at)
    np.testing.assert_array_equal(after.n_observed, before.n_observed)
    np.testing.assert_array_equal(after.ages, before.ages)
    np.testing.assert_allclose(after.divergences, before.divergences, atol=1e-5)
    assert write_profiles(read) == values


def test_a_base_keeps_the_smallest_hashes_of_its_sketch() -> None:
    hashes = np.arange(10, 200, dtype=np.uint32)
    pages = read_profiles([None])
    pages.evidence.profiles.base_at[0, 0] = 5.0
    sketch = read_sketches([pack_sketch(hashes, n_fragments=190, scheme=7)])
    pages.keep_sketches(np.array([0]), np.array([0]), sketch)
    kept = read_profiles(write_profiles(pages)).base_sketches()
    assert kept.scheme.tolist() == [7, -1, -1, -1, -1]
    assert kept.sketches.hashes.tolist() == hashes[:BASE_HASHES].tolist()
    assert kept.sketches.n_fragments.tolist() == [190, 1, 1, 1, 1]


def test_a_profile_grows_with_its_bases_up_to_a_limit() -> None:
    sizes = [len(value) for value in write_profiles(random_profiles(6))]
    assert sizes == [14 + 211 * n for n in range(6)]
    assert sizes[-1] == PROFILE_BYTES <= PROFILE_BYTES_MAX


@pytest.mark.parametrize("value", [b"", b"\1", b"p", b"\2" + bytes(13), bytes(14), b"\1" * 100])
def test_other_bytes_are_no_profile(value: bytes) -> None:
    evidence = read_profiles([value]).evidence
    assert evidence.totals.n_changed.tolist() == [0.0]
    assert np.isnan(evidence.profiles.base_at).all()


def test_damaged_numbers_are_within_their_limits() -> None:
    rng = np.random.default_rng(1)
    values = [b"\1" + rng.bytes(PROFILE_BYTES - 1) for _ in range(50)]
    pages = read_profiles(values)
    assert pages.evidence.profiles.n_observed.max() <= 12
    for column in pages.evidence.totals:
        assert np.isfinite(column).all()
        assert (column >= 0).all()
    assert pages.base_sketches().scheme.size == 50 * N_BASES
