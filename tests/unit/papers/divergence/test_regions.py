"""Pages of several regions, against enumeration of what happened to each."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recrawl.core.divergence import churn_ceiling, churn_divergence, scroll_divergence
from recrawl.papers.divergence import PageRegions, regions_divergence
from tests.reference import content_curves

sizes = st.floats(0, 1e3)
rates = st.floats(0, 10)


@given(
    static=sizes,
    churn=st.tuples(sizes, rates),
    scroll=st.tuples(st.floats(1e-3, 1e3), st.integers(0, 30), rates),
    elapsed=st.floats(1e-3, 1e2),
)
def test_is_the_mean_over_what_happened_to_each_region(
    static: float,
    churn: tuple[float, float],
    scroll: tuple[float, int, float],
    elapsed: float,
) -> None:
    assume(static + churn[0] + scroll[0] * scroll[1] > 1e-3)
    expected = content_curves.regions_divergence(elapsed, static, churn, scroll)
    page = PageRegions(static, *churn, *scroll)
    np.testing.assert_allclose(regions_divergence(page, elapsed), expected, rtol=1e-9, atol=1e-13)


def test_one_region_has_the_curve_of_its_kind() -> None:
    elapsed = np.geomspace(1e-3, 1e3, 30)
    churn = PageRegions(static_size=3, churn_size=1, churn_rate=0.2)
    np.testing.assert_allclose(
        regions_divergence(churn, elapsed),
        churn_divergence(0.2, elapsed, ceiling=churn_ceiling(0.25)),
        rtol=1e-12,
    )
    scroll = PageRegions(static_size=50, item_size=10, n_items=7, scroll_rate=0.2)
    np.testing.assert_allclose(
        regions_divergence(scroll, elapsed),
        scroll_divergence(0.2, elapsed, n_items=7, static_items=5),
        rtol=1e-12,
    )


def test_a_page_of_nothing_does_not_diverge() -> None:
    assert regions_divergence(PageRegions(), 1.0) == 0.0


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_unit_of_size_does_not_matter(factor: float) -> None:
    page = PageRegions(3.0, 2.0, 0.1, 1.0, 4, 0.3)
    other = page._replace(static_size=3.0 * factor, churn_size=2.0 * factor, item_size=1.0 * factor)
    np.testing.assert_allclose(
        regions_divergence(page, [1.0, 9.0]), regions_divergence(other, [1.0, 9.0]), rtol=1e-12
    )
