"""Sketches and divergence rates of real pages, if their histories are available."""

import os
from typing import NamedTuple

import numpy as np
import pytest

from recrawl.core.divergence import (
    ChangeProfiles,
    DivergencePrior,
    Sketches,
    add_observations,
    compare_sketches,
    start_bases,
)
from tests.reference.data_folder import data_file, reader

SKETCH_SIZE = 256
# One page in so many: 870 pages in all.
pytestmark = pytest.mark.data
EVERY = 40 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 6


class Histories(NamedTuple):
    """Versions of pages, sorted by page and time."""

    page: np.ndarray
    at: np.ndarray
    digest: np.ndarray
    sketches: Sketches


@pytest.fixture(scope="module")
def histories() -> Histories:
    path = data_file("text_histories.parquet")
    parquet = reader("pyarrow.parquet")
    pages = list(range(0, 870, EVERY))
    columns = ["page", "time", "digest", "shingles", "sketch"]
    table = parquet.read_table(path, columns=columns, filters=[("page", "in", pages)])
    lists = table["sketch"].combine_chunks()
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return Histories(
        table["page"].to_numpy(),
        table["time"].to_numpy().astype(np.float64),
        table["digest"].to_numpy(),
        Sketches(
            lists.values.to_numpy().astype(np.uint32),
            offsets,
            table["shingles"].to_numpy().astype(np.int64),
        ),
    )


def test_many_pairs_agree_with_plain_sets(histories: Histories, rng: np.random.Generator) -> None:
    """300 pairs of versions of the same page, by merging Python sets."""
    sketches = histories.sketches
    first = rng.integers(histories.page.size, size=300)
    shift = rng.integers(1, 40, size=300)
    second = np.minimum(first + shift, histories.page.size - 1)
    second = np.where(histories.page[first] == histories.page[second], second, first)
    got = compare_sketches(sketches, first, second)
    for k, (i, j) in enumerate(zip(first, second, strict=True)):
        a = set(sketches.hashes[sketches.offsets[i] : sketches.offsets[i + 1]].tolist())
        b = set(sketches.hashes[sketches.offsets[j] : sketches.offsets[j + 1]].tolist())
        is_whole = max(sketches.n_fragments[i], sketches.n_fragments[j]) <= SKETCH_SIZE
        union = sorted(a | b)[: None if is_whole else SKETCH_SIZE]
        shared = sum(h in a and h in b for h in union)
        expected = 1 - shared / len(union) if union else 0.0
        assert got.divergence[k] == pytest.approx(expected)
        assert 0 <= got.standard_error[k] <= 0.5 / np.sqrt(SKETCH_SIZE)


def test_an_unchanged_digest_is_no_divergence(histories: Histories) -> None:
    same = (histories.digest[1:] == histories.digest[:-1]) & (
        histories.page[1:] == histories.page[:-1]
    )
    rows = np.flatnonzero(same)
    assert rows.size > 100
    assert np.all(compare_sketches(histories.sketches, rows, rows + 1).divergence == 0.0)


def polled_profiles(
    histories: Histories, changes_per_poll: float, n_polls: int
) -> tuple[ChangeProfiles, np.ndarray]:
    """Poll the middle of each page's history evenly; return profiles and change rates."""
    rates, rows_of = [], []
    for page in np.unique(histories.page):
        rows = np.flatnonzero(histories.page == page)
        span = histories.at[rows[-1]] - histories.at[rows[0]]
        n_changes = np.count_nonzero(np.diff(histories.digest[rows]))
        if n_changes >= 15 and span > 0:
            rates.append(n_changes / span)
            rows_of.append(rows)
    profiles = ChangeProfiles.empty(len(rates))
    base_rows = np.zeros(profiles.base_at.shape, np.int64)
    for k, (rate, rows) in enumerate(zip(rates, rows_of, strict=True)):
        times = histories.at[rows]
        interval = changes_per_poll / rate
        n = min(n_polls, int((times[-1] - times[0]) / interval))
        start = (times[0] + times[-1] - n * interval) / 2
        for poll in range(n + 1):
            at = start + poll * interval
            version = rows[max(np.searchsorted(times, at, side="right") - 1, 0)]
            seen = compare_sketches(histories.sketches, base_rows[k], version).divergence
            add_observations(profiles, k, at, seen)
            if poll % 3 == 0:
                base_rows[k, start_bases(profiles, k, at).slot[0]] = version
    return profiles, np.array(rates)


def test_most_changes_leave_most_of_the_page_standing(histories: Histories) -> None:
    """The divergence rate is a small part of the change rate: .07 at the median of all pages.

    From 25 polls of each page it is learned within a factor of 2, and starting from a prior that
    expects churn (a ratio of 1) within a factor of 4.
    """
    profiles, change_rate = polled_profiles(histories, changes_per_poll=5.0, n_polls=25)
    fit = DivergencePrior().fit(profiles, change_rate)
    assert fit.is_converged.all()
    assert 0.035 < np.median(fit.rate / change_rate) < 0.14
    from_churn = DivergencePrior(ratio_median=1.0, log_ratio_sd=3.0)
    fit = from_churn.fit(profiles, change_rate)
    assert 0.0175 < np.median(fit.rate / change_rate) < 0.28
