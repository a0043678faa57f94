"""The profile of a page as bytes: what its polls have shown about its divergence curve.

A profile has a head, with totals over the page's changed polls, and up to `N_BASES` bases.  A base
is an earlier version of the page: its time, the smallest hashes of its sketch, and the divergences
from it that later fetches showed.  A page without sketches has a head only, of 14 bytes; each base
takes 211 more.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.divergence import CurveEvidence, Sketches
from recrawl.core.divergence.sketch_bytes import ReadSketches

__all__ = [
    "BASE_HASHES",
    "N_BASES",
    "PROFILE_BYTES",
    "PageProfiles",
    "read_profiles",
    "write_profiles",
]

N_BASES = 5
_N_OBSERVATIONS = 12
BASE_HASHES = 32
"""Number of hashes kept of the sketch of a base.  They decide when to fetch, not whether a page
changed, and 8 already do that nearly as well as 256."""

_LAYOUT = 1
_HEAD = np.dtype(
    [
        ("layout", "u1"),
        ("n_since_base", "u1"),
        ("n_changed", "<f4"),
        ("expected_changes", "<f4"),
        ("divergence", "<f4"),
    ]
)
_BASE = np.dtype(
    [
        ("at", "<u4"),
        ("n_observed", "u1"),
        ("scheme", "u1"),
        ("n_hashes", "u1"),
        ("n_fragments", "<u4"),
        ("ages", "<u4", _N_OBSERVATIONS),
        ("divergences", "<u2", _N_OBSERVATIONS),
        ("hashes", "<u4", BASE_HASHES),
    ]
)
_PROFILE = np.dtype([("head", _HEAD), ("bases", _BASE, N_BASES)])
PROFILE_BYTES = _PROFILE.itemsize
"""Size of a profile with all its bases."""
# A divergence is stored as a 16-bit fraction.
_DIVERGENCE_ONE = 65_535.0


class PageProfiles(NamedTuple):
    """Profiles of pages, one row per page."""

    evidence: CurveEvidence
    base: NDArray[Any]
    """Scheme, sizes and hashes of the bases, as stored.  [page, slot]"""

    def base_sketches(self) -> ReadSketches:
        """Return the sketches of all bases, those of the first page first."""
        base = self.base.ravel()
        n_hashes = np.minimum(base["n_hashes"], BASE_HASHES).astype(np.int64)
        is_used = np.arange(BASE_HASHES) < n_hashes[:, np.newaxis]
        is_free = np.isnan(self.evidence.profiles.base_at).ravel()
        sketches = Sketches(
            base["hashes"][is_used].astype(np.uint32),
            np.concatenate([[0], np.cumsum(n_hashes)]),
            np.where(is_free, 1, base["n_fragments"].astype(np.int64)),
        )
        scheme = base["scheme"].astype(np.int16)
        scheme[is_free] = -1
        return ReadSketches(sketches, scheme)

    def keep_sketches(
        self, rows: NDArray[np.int64], slots: NDArray[np.int64], read: ReadSketches
    ) -> None:
        """Keep the sketches of new bases, one for each row and slot, in place."""
        offsets, n_fragments = read.sketches.offsets, read.sketches.n_fragments
        for i, (row, slot) in enumerate(zip(rows.tolist(), slots.tolist(), strict=True)):
            hashes = read.sketches.hashes[offsets[i] : offsets[i + 1]][:BASE_HASHES]
            base = self.base[row : row + 1, slot]
            base["scheme"], base["n_hashes"] = read.scheme[i], hashes.size
            base["n_fragments"] = min(int(n_fragments[i]), 0xFFFFFFFF)
            base["hashes"][0, : hashes.size] = hashes
            base["hashes"][0, hashes.size :] = 0


def read_profiles(values: Sequence[bytes | None]) -> PageProfiles:
    """Return profiles from their bytes; bytes that are not a profile count as none."""
    whole = bytearray(PROFILE_BYTES * len(values))
    for i, value in enumerate(values):
        if value and _is_profile(value):
            whole[i * PROFILE_BYTES : i * PROFILE_BYTES + len(value)] = value
    stored = np.frombuffer(whole, _PROFILE)
    head, base = stored["head"], stored["bases"].copy()
    evidence = CurveEvidence.empty(len(values), n_bases=N_BASES, n_observations=_N_OBSERVATIONS)
    for name, column in zip(evidence.totals._fields, evidence.totals, strict=True):
        total = head[name]
        is_total = np.isfinite(total) & (total > 0)
        column[is_total] = total[is_total]
    profiles = evidence.profiles
    profiles.base_at[:] = np.where(base["at"] > 0, base["at"], np.nan)
    profiles.n_observed[:] = np.where(
        base["at"] > 0, np.minimum(base["n_observed"], _N_OBSERVATIONS), 0
    )
    profiles.ages[:] = base["ages"]
    profiles.divergences[:] = base["divergences"] / _DIVERGENCE_ONE
    evidence.n_since_base[:] = head["n_since_base"]
    return PageProfiles(evidence, base)


def _is_profile(value: bytes) -> bool:
    n_bytes = len(value) - _HEAD.itemsize
    return value[0] == _LAYOUT and n_bytes % _BASE.itemsize == 0 and 0 <= n_bytes <= PROFILE_BYTES


def write_profiles(pages: PageProfiles) -> list[bytes]:
    """Return profiles as bytes."""
    evidence, base = pages
    profiles = evidence.profiles
    stored = np.zeros(evidence.n_since_base.size, _PROFILE)
    head = stored["head"]
    head["layout"] = _LAYOUT
    head["n_since_base"] = evidence.n_since_base
    for name, column in zip(evidence.totals._fields, evidence.totals, strict=True):
        head[name] = column
    base = base.copy()
    base["at"] = np.nan_to_num(profiles.base_at)
    base["n_observed"] = profiles.n_observed
    is_used = np.arange(_N_OBSERVATIONS) < profiles.n_observed[:, :, np.newaxis]
    base["ages"] = np.where(is_used, profiles.ages, 0)
    base["divergences"] = np.where(is_used, np.rint(profiles.divergences * _DIVERGENCE_ONE), 0)
    stored["bases"] = base
    # Slots are filled from the first on, so the free ones are at the end.
    n_used = np.count_nonzero(base["at"], axis=1)
    ends = (_HEAD.itemsize + n_used * _BASE.itemsize).tolist()
    data = stored.tobytes()
    starts = range(0, len(data), PROFILE_BYTES)
    return [data[start : start + end] for start, end in zip(starts, ends, strict=True)]
