"""The benchmark of the browser runs."""

import pytest

from benchmarks.browser import measure


@pytest.mark.slow_without_jit
def test_the_cost_of_rendering_is_measured() -> None:
    result = measure(3)
    assert result["rendered"]["n_requests"] == 2
    assert result["rendered"]["n_bytes"] > result["plain"]["n_bytes"]
    assert result["share_of_shells_rendered"] == 1.0
    # The first and the third: rendering the first brought nothing.
    assert result["share_of_short_pages_rendered"] == 2 / 3
