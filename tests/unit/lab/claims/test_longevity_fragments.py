"""Single fragments are followed through snapshots, and verdicts go by what stands in tables."""

import numpy as np

from lab.claims.l1_longevity.fragments import Presence, presence_of
from lab.policies.longevity.report import is_ahead
from lab.tables import Table
from lab.text_histories import TextHistories
from recrawl.core.divergence import Sketches


def test_stays_cut_by_the_ends_of_the_window_are_left_out() -> None:
    is_present = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 1], [0, 1, 0, 1, 0]], np.bool_)
    seen = Presence(is_present=is_present, is_update=np.array([0, 1, 1, 1, 1], np.bool_))
    begins, ends = seen.runs()
    assert begins.tolist() == [1, 1, 3]
    assert ends.tolist() == [3, 2, 4]


def test_a_fragment_survives_the_updates_between_its_coming_and_its_going() -> None:
    is_present = np.array([[0, 1, 1, 1, 0, 0]], np.bool_)
    # Updated at 1, 3 and 4: the one at 4 takes away what that at 1 had brought.
    seen = Presence(is_present=is_present, is_update=np.array([0, 1, 0, 1, 1, 0], np.bool_))
    assert seen.updates_survived().tolist() == [2]


def test_a_hash_that_an_incomplete_sketch_may_have_pushed_out_is_not_followed() -> None:
    texts = TextHistories(
        offsets=np.array([0, 2]),
        at=np.array([0.0, 1.0]),
        digest=np.array([1, 2], np.uint64),
        cluster=np.array([0]),
        sketches=Sketches.of([[2, 5, 9], [2, 3, 5]], n_fragments=[3, 50]),
    )
    seen = presence_of(texts, 0, start=0.0, n_snapshots=2, apart_seconds=1.0)
    # 9 is beyond 5, the largest hash of the sketch that does not hold all.
    assert seen.is_present.tolist() == [[True, True], [True, True], [False, True]]
    assert seen.is_update.tolist() == [False, True]


def _comparison_table(difference: float, high: float) -> Table:
    row: dict[str, str | float] = {"policy": "a", "rival": "b", "refresh_cost": 0.1}
    return Table.of([{**row, "difference": difference, "high": high}])


def test_a_policy_is_ahead_only_if_its_whole_interval_is() -> None:
    assert is_ahead(_comparison_table(-0.01, -0.001), "a", policy="a", rival="b").holds
    assert not is_ahead(_comparison_table(-0.01, 0.001), "a", policy="a", rival="b").holds
    assert is_ahead(
        _comparison_table(-0.01, 0.001), "a", is_sure=False, policy="a", rival="b"
    ).holds
    assert not is_ahead(
        _comparison_table(0.01, 0.02), "a", is_sure=False, policy="a", rival="b"
    ).holds


def test_no_policy_is_ahead_without_a_comparison() -> None:
    assert not is_ahead(_comparison_table(-0.01, -0.001), "a", policy="b", rival="a").holds
