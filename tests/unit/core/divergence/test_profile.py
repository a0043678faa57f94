"""Change profiles, against lists of what was seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.core.divergence import ChangeProfiles, add_observations, combine_profiles, start_bases


def seen(profiles: ChangeProfiles, page: int, slot: int) -> list[tuple[float, float]]:
    n = profiles.n_observed[page, slot]
    pairs = zip(profiles.ages[page, slot, :n], profiles.divergences[page, slot, :n], strict=True)
    return [(float(age), round(float(divergence), 6)) for age, divergence in pairs]


def test_the_papers_profile() -> None:
    """⟨(10, 0), (12, 0.2), (15, 0.2), (23, 0.3)⟩, Longevity §4.1, Example profile."""
    profiles = ChangeProfiles.empty(n_pages=1, n_bases=1)
    start_bases(profiles, 0, at=10.0)
    add_observations(profiles, [0, 0, 0], [12.0, 15.0, 23.0], [[0.2], [0.2], [0.3]])
    assert profiles.base_at[0, 0] == 10.0
    assert seen(profiles, 0, 0) == [(2.0, 0.2), (5.0, 0.2), (13.0, 0.3)]


def test_a_new_base_takes_the_place_of_the_oldest() -> None:
    profiles = ChangeProfiles.empty(n_pages=2, n_bases=3)
    slots = [start_bases(profiles, [0, 1], at).slot.tolist() for at in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert slots == [[0, 0], [1, 1], [2, 2], [0, 0], [1, 1]]
    np.testing.assert_array_equal(profiles.base_at, [[4.0, 5.0, 3.0]] * 2)


def test_a_new_base_forgets_what_the_old_one_saw() -> None:
    profiles = ChangeProfiles.empty(n_pages=1, n_bases=1)
    start_bases(profiles, 0, 0.0)
    add_observations(profiles, 0, 5.0, [0.5])
    start_bases(profiles, 0, 5.0)
    assert seen(profiles, 0, 0) == []


def test_a_base_that_is_kept_is_not_dropped() -> None:
    profiles = ChangeProfiles.empty(n_pages=1, n_bases=2)
    for at in (1.0, 2.0, 3.0, 4.0):
        start_bases(profiles, 0, at, keep_at=1.0)
    np.testing.assert_array_equal(profiles.base_at, [[1.0, 4.0]])


def test_where_only_the_kept_base_is_left_none_is_started() -> None:
    profiles = ChangeProfiles.empty(n_pages=1, n_bases=1)
    assert start_bases(profiles, 0, 1.0, keep_at=1.0).is_started.all()
    assert not start_bases(profiles, 0, 2.0, keep_at=1.0).is_started.any()
    assert profiles.base_at[0, 0] == 1.0


def test_versions_that_were_not_compared_add_no_observation() -> None:
    profiles = ChangeProfiles.empty(n_pages=1, n_bases=3)
    start_bases(profiles, 0, 0.0)
    start_bases(profiles, 0, 1.0)
    add_observations(profiles, 0, 2.0, [0.3, np.nan, 0.9])
    assert seen(profiles, 0, 0) == [(2.0, 0.3)]
    assert seen(profiles, 0, 1) == []
    assert seen(profiles, 0, 2) == []


def test_a_second_fetch_at_the_same_time_adds_no_observation() -> None:
    profiles = ChangeProfiles.empty(n_pages=1, n_bases=1)
    start_bases(profiles, 0, 1e9)
    add_observations(profiles, [0, 0, 0, 0], [1e9, 1e9 + 5, 1e9 + 5, 1e9 + 4], [[0.1]])
    assert seen(profiles, 0, 0) == [(5.0, 0.1)]


def test_a_full_profile_keeps_short_and_long_ages() -> None:
    """A thousand regular fetches, of which 12 are kept: about evenly spaced in log age."""
    profiles = ChangeProfiles.empty(n_pages=1, n_bases=1)
    start_bases(profiles, 0, 0.0)
    at = np.arange(1.0, 1001.0)
    add_observations(profiles, np.zeros(1000, int), at, (at / 2000)[:, None])
    ages = profiles.ages[0, 0]
    np.testing.assert_allclose(profiles.divergences[0, 0], ages / 2000, rtol=1e-6)
    assert ages[0] == 1.0
    assert ages[-1] == 1000.0
    assert np.diff(np.log(ages)).max() < 3 * np.log(1000) / 11


def test_combines_equal_ages_by_their_mean() -> None:
    """Longevity §4.2, step 1: profiles start from 0, and equal times are averaged."""
    profiles = ChangeProfiles.empty(n_pages=2, n_bases=3)
    start_bases(profiles, 1, 0.0)
    add_observations(profiles, 1, 10.0, [0.2, np.nan, np.nan])
    start_bases(profiles, 1, 10.0)
    add_observations(profiles, 1, 20.0, [0.3, 0.1, np.nan])
    start_bases(profiles, 1, 20.0)
    add_observations(profiles, 1, 25.0, [0.4, 0.3, 0.05])
    both = combine_profiles(profiles)
    assert both.n_points.tolist() == [0, 5]
    np.testing.assert_array_equal(both.ages[1, :5], [5.0, 10.0, 15.0, 20.0, 25.0])
    np.testing.assert_allclose(both.divergences[1, :5], [0.05, 0.15, 0.3, 0.3, 0.4], rtol=1e-6)


fetches = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 50), st.floats(0, 1)), min_size=1, max_size=40
)


@given(fetches=fetches, n_bases=st.integers(1, 4), n_observations=st.integers(2, 5))
def test_pages_one_by_one_or_all_at_once(
    fetches: list[tuple[int, int, float]], n_bases: int, n_observations: int
) -> None:
    """Interleaving the fetches of pages, or adding several of one page at once, is the same."""
    one, many = (
        ChangeProfiles.empty(3, n_bases=n_bases, n_observations=n_observations) for _ in range(2)
    )
    for profiles in (one, many):
        start_bases(profiles, [0, 1, 2], 0.0)
    rows = np.array([row for row, _, _ in fetches])
    at = np.cumsum([gap for _, gap, _ in fetches]).astype(float)
    divergence = np.array([d for _, _, d in fetches])[:, None]
    add_observations(many, rows, at, divergence)
    for i in range(rows.size):
        add_observations(one, rows[i], at[i], divergence[i])
    for column, other in zip(one, many, strict=True):
        np.testing.assert_array_equal(column, other)
    assert np.all(np.diff(combine_profiles(many).n_points) <= n_bases * n_observations)


def test_says_how_many_bytes_a_page_takes() -> None:
    profiles = ChangeProfiles.empty(n_pages=10)
    assert sum(column.nbytes for column in profiles) == 10 * 525


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n_bases": 0}, "n_bases must be at least 1, got 0"),
        ({"n_observations": 1}, "n_observations must be from 2 to 255, got 1"),
    ],
)
def test_refuses_sizes_that_hold_nothing(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChangeProfiles.empty(1, **sizes)
