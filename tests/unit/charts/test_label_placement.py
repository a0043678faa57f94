import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.charts.label_placement import Box, best_place, push_apart


def test_labels_with_room_stay_where_they_are() -> None:
    assert push_apart([10, 50, 90], gap=15, low=0, high=100) == [10, 50, 90]


def test_labels_too_near_move_apart_around_their_middle() -> None:
    assert push_apart([50, 50, 52], gap=12, low=0, high=100) == pytest.approx(
        [38.667, 50.667, 62.667], abs=1e-3
    )


@given(st.lists(st.floats(0, 100), max_size=30))
def test_labels_stay_inside_apart_and_in_order(wanted: list[float]) -> None:
    gap = min(7.0, 100 / max(len(wanted) - 1, 1))
    places = push_apart(wanted, gap=7.0, low=0, high=100)
    assert all(-1e-6 <= place <= 100 + 1e-6 for place in places)
    assert np.all(np.diff(np.sort(places)) >= gap - 1e-6)
    for i, a in enumerate(wanted):
        for j, b in enumerate(wanted):
            if a < b:
                assert places[i] < places[j]


def test_labels_are_placed_where_no_line_is() -> None:
    boxes = [Box(0, 0, 10, 10), Box(20, 0, 30, 10), Box(40, 0, 50, 10)]
    points = np.array([[5.0, 5.0]])
    assert best_place(boxes, points=points, taken=[]) == 1
    assert best_place(boxes, points=points, taken=[Box(25, 5, 60, 6)]) in (0, 2)
    assert best_place(boxes, points=np.zeros((0, 2)), taken=[]) == 0
