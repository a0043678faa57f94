"""Change profiles: how far a page has moved from a few of its earlier versions, in bounded memory.

A profile has a base, the version fetched at some time, and the divergences from it that later
fetches showed.  A page keeps the profiles of its last few bases.
"""

import math
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import ArrayLike, CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.kernel import kernel

SmallFloatArray: TypeAlias = NDArray[np.float32]
SmallCountArray: TypeAlias = NDArray[np.uint8]

__all__ = [
    "ChangeProfiles",
    "CombinedProfiles",
    "StartedBases",
    "add_observations",
    "combine_profiles",
    "start_bases",
]


class ChangeProfiles(NamedTuple):
    """The change profiles of many pages: 9 + 8n bytes a base of n observations.

    The default, 5 bases of up to 12 observations, is 525 bytes a page, kept on disk with the
    page's record.  The sketch of the version at each base is kept beside it, by slot.
    """

    base_at: FloatArray
    """When each base was fetched, seconds; nan where the slot is free.  [page, slot]"""
    n_observed: SmallCountArray
    """Observations of each base.  [page, slot]"""
    ages: SmallFloatArray
    """Seconds since the base of each observation, ascending.  [page, slot, observation]"""
    divergences: SmallFloatArray
    """Divergence of the page from the base at these ages.  [page, slot, observation]"""

    @classmethod
    def empty(cls, n_pages: int, *, n_bases: int = 5, n_observations: int = 12) -> Self:
        """Return the profiles of pages never fetched.

        Parameters
        ----------
        n_pages
            Number of pages, one row each.
        n_bases
            Largest number of bases a page keeps (Longevity's h).
        n_observations
            Largest number of observations a base keeps, 2 to 255.
        """
        if n_bases < 1:
            raise ValueError(f"n_bases must be at least 1, got {n_bases!r}")
        if not 2 <= n_observations <= 255:
            raise ValueError(f"n_observations must be from 2 to 255, got {n_observations!r}")
        shape = (n_pages, n_bases)
        return cls(
            np.full(shape, np.nan),
            np.zeros(shape, np.uint8),
            np.zeros((*shape, n_observations), np.float32),
            np.zeros((*shape, n_observations), np.float32),
        )


def _as_column(quantity: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    return np.array(np.broadcast_to(np.asarray(quantity, dtype=np.float64), shape))


class StartedBases(NamedTuple):
    """Slots that hold the new bases."""

    slot: CountArray
    """The slot that now holds the new base, where one was started."""
    is_started: FlagArray
    """Whether a base was started: not where the only slot holds the base to be kept."""


@kernel
def _most_crowded(ages: SmallFloatArray, newest: float) -> int:
    """Return the observation, not the first, whose neighbours' ages have the smallest ratio."""
    best = 1
    best_ratio = math.inf
    for i in range(1, ages.size):
        after = float(ages[i + 1]) if i + 1 < ages.size else newest
        ratio = after / float(ages[i - 1])
        if ratio < best_ratio:
            best_ratio = ratio
            best = i
    return best


@kernel
def _add_observations(
    base_at: FloatArray,
    n_observed: SmallCountArray,
    ages: SmallFloatArray,
    divergences: SmallFloatArray,
    rows: RowArray,
    at: FloatArray,
    divergence: FloatArray,
) -> None:
    n_max = ages.shape[2]
    for k in range(rows.size):
        row = rows[k]
        for slot in range(base_at.shape[1]):
            age = at[k] - base_at[row, slot]
            n = int(n_observed[row, slot])
            # A free slot, a version that was not compared, or no time since the last one.
            if not age > 0.0 or math.isnan(divergence[k, slot]):
                continue
            if n > 0 and np.float32(age) <= ages[row, slot, n - 1]:
                continue
            if n == n_max:
                # Forget where observations are densest in the logarithm of age: short and long
                # ages both stay covered, however long the base is kept.
                for i in range(_most_crowded(ages[row, slot], age), n_max - 1):
                    ages[row, slot, i] = ages[row, slot, i + 1]
                    divergences[row, slot, i] = divergences[row, slot, i + 1]
                n = n_max - 1
            ages[row, slot, n] = age
            divergences[row, slot, n] = divergence[k, slot]
            n_observed[row, slot] = n + 1


def add_observations(
    profiles: ChangeProfiles, rows: ArrayLike, at: ArrayLike, divergence: ArrayLike
) -> None:
    """Add the divergences that fetches showed to the profiles of their pages, in place.

    A base with no room left forgets one of its observations, where they lie closest in the
    logarithm of age.

    Parameters
    ----------
    profiles
        Profiles of all pages.
    rows
        Rows of the pages fetched; may repeat a page, in the order of its fetches.
    at
        Times of the fetches, in seconds.
    divergence
        Divergence of the fetched version from the page's base in each slot, one column per slot;
        nan where not compared.

    Examples
    --------
    The paper's example, a page fetched at 10, 12, 15 and 23:

    >>> profiles = ChangeProfiles.empty(n_pages=1, n_bases=1)
    >>> _ = start_bases(profiles, [0], at=10.0)
    >>> add_observations(profiles, [0, 0, 0], [12.0, 15.0, 23.0], [[0.2], [0.2], [0.3]])
    >>> profiles.ages[0, 0, :3]
    array([ 2.,  5., 13.], dtype=float32)

    References
    ----------
    Longevity §4.1
    """
    row_column = np.atleast_1d(np.asarray(rows, dtype=np.int64))
    shape = (row_column.size, profiles.base_at.shape[1])
    _add_observations(
        *profiles, row_column, _as_column(at, row_column.shape), _as_column(divergence, shape)
    )


@kernel
def _start_bases(
    base_at: FloatArray,
    n_observed: SmallCountArray,
    rows: RowArray,
    at: FloatArray,
    keep_at: FloatArray,
    slots: CountArray,
) -> None:
    for k in range(rows.size):
        row = rows[k]
        best = -1
        for slot in range(base_at.shape[1]):
            if math.isnan(base_at[row, slot]):
                best = slot
                break
            is_kept = base_at[row, slot] == keep_at[k]
            if not is_kept and (best < 0 or base_at[row, slot] < base_at[row, best]):
                best = slot
        slots[k] = best
        if best >= 0:
            base_at[row, best] = at[k]
            n_observed[row, best] = 0


def start_bases(
    profiles: ChangeProfiles, rows: ArrayLike, at: ArrayLike, *, keep_at: ArrayLike = math.nan
) -> StartedBases:
    """Make the versions just fetched bases of new profiles, in place of the oldest ones.

    The paper starts a base at every fetch.  Where bases are compared by sketches on disk it is
    cheaper to start one now and then; the profile's observations then reach further.

    Parameters
    ----------
    profiles
        Profiles of all pages; call `add_observations` for this fetch first.
    rows
        Rows of the pages fetched.
    at
        Times of the fetches, in seconds.
    keep_at
        Time of a base that is not dropped, however old: the bound-based policy must not lose the
        version fetched at its reference time.

    Returns
    -------
    StartedBases
        The slot of each new base, where the caller puts the sketch of the version.

    Examples
    --------
    >>> profiles = ChangeProfiles.empty(n_pages=1, n_bases=2)
    >>> [start_bases(profiles, 0, at).slot.item() for at in (10.0, 12.0, 15.0)]
    [0, 1, 0]
    >>> start_bases(profiles, 0, 23.0, keep_at=12.0).slot
    array([0])

    References
    ----------
    Longevity §4.1
    """
    row_column = np.atleast_1d(np.asarray(rows, dtype=np.int64))
    slots = np.empty(row_column.size, np.int64)
    _start_bases(
        profiles.base_at,
        profiles.n_observed,
        row_column,
        _as_column(at, row_column.shape),
        _as_column(keep_at, row_column.shape),
        slots,
    )
    return StartedBases(np.maximum(slots, 0), slots >= 0)


class CombinedProfiles(NamedTuple):
    """One profile a page, made of those of all its bases: points with ascending ages."""

    n_points: CountArray
    """Points of each page.  [page]"""
    ages: FloatArray
    """Seconds since the base, ascending; unset beyond ``n_points``.  [page, point]"""
    divergences: FloatArray
    """Mean divergence at this age.  [page, point]"""


@kernel
def _combine(
    base_at: FloatArray,
    n_observed: SmallCountArray,
    ages: SmallFloatArray,
    divergences: SmallFloatArray,
    rows: RowArray,
    n_points: CountArray,
    all_ages: FloatArray,
    all_divergences: FloatArray,
) -> None:
    n_slots = base_at.shape[1]
    next_index = np.zeros(n_slots, np.int64)
    for k in range(rows.size):
        row = rows[k]
        next_index[:] = 0
        n = 0
        while True:
            # Merge: the least age not yet taken, and the mean of all that share it.
            age = math.inf
            for slot in range(n_slots):
                i = next_index[slot]
                if i < n_observed[row, slot] and ages[row, slot, i] < age:
                    age = float(ages[row, slot, i])
            if age == math.inf:
                break
            total = 0.0
            n_equal = 0
            for slot in range(n_slots):
                i = next_index[slot]
                if i < n_observed[row, slot] and ages[row, slot, i] == age:
                    total += divergences[row, slot, i]
                    n_equal += 1
                    next_index[slot] += 1
            all_ages[k, n] = age
            all_divergences[k, n] = total / n_equal
            n += 1
        n_points[k] = n


def combine_profiles(profiles: ChangeProfiles, rows: ArrayLike | None = None) -> CombinedProfiles:
    """Return the profiles of each page as one, with equal ages averaged.

    Parameters
    ----------
    profiles
        Profiles of all pages.
    rows
        Rows of the requested pages; all if not given.

    Examples
    --------
    A page fetched at 0, 10 and 20.  It has been seen twice ten seconds after a base:

    >>> profiles = ChangeProfiles.empty(n_pages=1, n_bases=2)
    >>> _ = start_bases(profiles, 0, 0.0)
    >>> add_observations(profiles, 0, 10.0, [0.2, np.nan])
    >>> _ = start_bases(profiles, 0, 10.0)
    >>> add_observations(profiles, 0, 20.0, [0.3, 0.1])
    >>> profile = combine_profiles(profiles)
    >>> profile.ages[0, :2], profile.divergences[0, :2].round(3)
    (array([10., 20.]), array([0.15, 0.3 ]))

    References
    ----------
    Longevity §4.2 (combine, step 1)
    """
    n_pages, n_bases, n_observations = profiles.ages.shape
    row_column = np.arange(n_pages) if rows is None else np.asarray(rows, dtype=np.int64)
    row_column = np.atleast_1d(row_column)
    out = CombinedProfiles(
        np.zeros(row_column.size, np.int64),
        np.zeros((row_column.size, n_bases * n_observations)),
        np.zeros((row_column.size, n_bases * n_observations)),
    )
    _combine(*profiles, row_column, *out)
    return out
