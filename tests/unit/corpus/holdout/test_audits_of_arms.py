"""The audits of a real corpus show the true freshness of both arms of a hold-out."""

import numpy as np
import pytest

from benchmarks.holdout_arms import ArmsDesign, crawl_arms

DESIGN = ArmsDesign(name="small", leases_per_day=8, n_days_before=3, n_days=9)


@pytest.mark.slow_without_jit
def test_audits_show_the_true_freshness_of_both_arms(rng: np.random.Generator) -> None:
    """Within 5 standard errors of a share, so it fails once in 0.9 million runs.

    Audits of held-out pages only when they are due would find 30 points less than there are, which
    is 9 standard errors even if there were as many of them.
    """
    web = crawl_arms(DESIGN, int(rng.integers(1 << 30)))
    assert web.ours.n_audited > 200
    # All pages are equally likely, so both arms have about as many audits for each page.
    assert web.held_out.n_audited > 100
    assert abs(web.ours.deviations) < 5
    assert abs(web.held_out.deviations) < 5
