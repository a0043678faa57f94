"""Every generator of the simulated web has the law it names.

Tolerances are 5 standard errors: a test fails for 1 seed in 1.7 million, times its comparisons.
"""

import numpy as np
import pytest
from scipy import stats

from recrawl.core.divergence import churn_divergence, scroll_divergence
from recrawl.sim import (
    Bookkeeper,
    Content,
    Drift,
    Failures,
    Flapping,
    GroupSizes,
    HotStart,
    Replaces,
    SignalSource,
    SiteWide,
    WeeklyCycle,
    change_times,
    emit_signals,
    make_web,
)
from recrawl.sim.web.draws import normals, uniforms

DAY = 86_400.0
N = 20_000
pytestmark = pytest.mark.slow_without_jit
# The chance of a deviation of more than 5 sigma.
CHANCE = 2 * stats.norm.sf(5)


def assert_mean(sample: np.ndarray, expected: float) -> None:
    error = sample.std(ddof=1) / np.sqrt(sample.size)
    assert abs(sample.mean() - expected) < 5 * error


def test_draws_are_uniform_and_normal(seed: int) -> None:
    u = uniforms(seed, 77, 200_000)
    assert stats.kstest(u, "uniform").pvalue > CHANCE
    assert stats.kstest(normals(seed, 78, 200_000), "norm").pvalue > CHANCE
    # Neighbours, other streams and other seeds are independent.
    for other in (np.roll(u, 1), uniforms(seed, 78, u.size), uniforms(seed + 1, 77, u.size)):
        assert abs(np.corrcoef(u, other)[0, 1]) < 5 / np.sqrt(u.size)


def test_poisson_counts_have_their_mean_variance_and_law(seed: int) -> None:
    counts = change_times(seed, np.full(N, 0.3), 20.0).counts()
    assert_mean(counts, 6.0)
    assert_mean((counts - 6.0) ** 2, 6.0)
    cells = np.arange(1, 14)
    seen = np.array(
        [(counts < 1).sum(), *[(counts == k).sum() for k in cells], (counts > 13).sum()]
    )
    law = stats.poisson(6)
    share = np.array([law.pmf(0), *law.pmf(cells), law.sf(13)])
    assert stats.chisquare(seen, share * N).pvalue > CHANCE


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0, 10.0])
def test_intervals_are_gamma_and_the_process_stationary(seed: int, shape: float) -> None:
    times = change_times(seed, np.full(2_000, 1.0), 50.0, interval_shape=shape)
    counts = times.counts()
    assert_mean(counts, 50.0)
    early = np.array([(times.at < 0.5).sum() / 2_000])
    # Even the first half unit has its share, whatever the shape: the start is no change.
    spread = np.sqrt(0.5 * max(1.0, 1 / shape) * 1.5 / 2_000)
    assert abs(early[0] - 0.5) < 5 * spread
    page = times.pages()
    gaps = np.diff(times.at)[np.diff(page) == 0]
    # Long gaps are cut off at the end; a page's first ten are not, for all but a few pages.
    nth = np.arange(page.size) - times.offsets[page]
    first = gaps[(nth[1:] <= 10)[np.diff(page) == 0]]
    assert stats.kstest(first, stats.gamma(shape, scale=1 / shape).cdf).pvalue > CHANCE


def test_new_pages_are_hot_and_cool_down(seed: int) -> None:
    hot = HotStart(factor=10.0, seconds=30 * DAY)
    times = change_times(seed, np.full(N, 0.02 / DAY), 120 * DAY, modulations=[hot])
    for start, end in ((0, 10), (30, 60), (90, 120)):
        decay = np.exp(-start / 30) - np.exp(-end / 30)
        expected = N * 0.02 * ((end - start) + 9 * 30 * decay)
        n = ((times.at >= start * DAY) & (times.at < end * DAY)).sum()
        assert abs(n - expected) < 5 * np.sqrt(expected)


def test_weekends_are_quieter_and_the_mean_stays(seed: int) -> None:
    cycle = WeeklyCycle(weekend_factor=0.5)
    times = change_times(seed, np.full(N, 0.05 / DAY), 140 * DAY, modulations=[cycle])
    weekend = (times.at // DAY) % 7 >= 5
    expected = N * 0.05 * 140
    assert abs(times.at.size - expected) < 5 * np.sqrt(expected)
    assert abs(weekend.mean() - 1 / 6) < 5 * np.sqrt(5 / 36 / times.at.size)


def test_drifting_rates_keep_their_mean_and_spread(seed: int) -> None:
    drift = Drift(sigma=0.7, seconds=20 * DAY)
    times = change_times(seed, np.full(N, 1 / DAY), 10 * DAY, modulations=[drift])
    counts = times.counts().astype(float)
    assert_mean(counts, 10.0)
    # Var N = E Λ + Var Λ, the log rates of days j and k having the covariance σ² e^{-|j-k|/20}.
    lag = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    covariance = np.expm1(0.49 * np.exp(-lag / 20)).sum()
    assert_mean((counts - 10) ** 2, 10 + covariance)


def test_site_wide_changes_come_together(seed: int) -> None:
    group = np.repeat(np.arange(2_000), 5)
    site_wide = SiteWide(rate=0.05, share=0.6)
    web = make_web(seed, 100.0, np.zeros(group.size), group=group, site_wide=site_wide)
    assert_mean(web.changes.counts().reshape(-1, 5).sum(axis=1), 5 * 0.05 * 100 * 0.6)
    for g in range(20):
        rows = slice(web.changes.offsets[5 * g], web.changes.offsets[5 * g + 5])
        n_instants = np.unique(web.changes.at[rows]).size
        assert n_instants <= 30
    expected = web.changes.at.size / (5 * 0.6 / (1 - 0.4**5))
    n_together = sum(
        np.unique(web.changes.at[web.changes.offsets[5 * g] : web.changes.offsets[5 * g + 5]]).size
        for g in range(2_000)
    )
    assert abs(n_together - expected) < 5 * np.sqrt(expected)


def test_flapping_pages_make_excursions_of_their_length(seed: int) -> None:
    times = change_times(seed, np.full(N, 0.001), 1_000.0)
    changes, version = Flapping(share=0.4, seconds=2.0).add_returns(seed, times, 1e9)
    excursion = np.flatnonzero(version < 0)
    assert abs(excursion.size - 0.4 * times.at.size) < 5 * np.sqrt(0.24 * times.at.size)
    page = changes.pages()
    alone = excursion[times.counts()[page[excursion]] == 1]
    assert_mean(changes.at[alone + 1] - changes.at[alone], 2.0)


def test_signals_have_their_precision_recall_and_delay(seed: int) -> None:
    n_pages = 5_000
    rate = np.full(n_pages, 0.1)
    changes = change_times(seed, rate, 50.0)
    source = SignalSource.with_precision(
        change_rate=rate, recall=0.7, precision=0.4, delay_seconds=3.0
    )
    signals = emit_signals(seed, changes, [source, source], 200.0)
    for number in (0, 1):
        mine = signals.source == number
        true = mine & (signals.at > signals.claimed_at)
        n = changes.at.size
        assert abs(true.sum() - 0.7 * n) < 5 * np.sqrt(0.21 * n)
        assert_mean((signals.at - signals.claimed_at)[true], 3.0)
        false = (mine & ~true).sum() / (n_pages * 200.0)
        assert abs(false - 0.1 * 0.7 * 1.5) < 5 * np.sqrt(false / (n_pages * 200.0))
    # Two sources announce the same change independently.
    claims = [signals.claimed_at[(signals.source == k) & (signals.at > signals.claimed_at)]
              for k in (0, 1)]  # fmt: skip
    both = np.intersect1d(*claims).size
    assert abs(both - 0.49 * changes.at.size) < 5 * np.sqrt(0.25 * changes.at.size)


def test_failures_have_their_share_and_length(seed: int) -> None:
    windows = Failures(share=0.1, seconds=5.0).of_pages(seed, 5_000, 400.0)
    length = np.minimum(windows.end, 400.0) - windows.start
    page = np.repeat(np.arange(5_000), np.diff(windows.offsets))
    assert_mean(np.bincount(page, length, minlength=5_000), 40.0)
    assert_mean((windows.end - windows.start)[windows.start > 0], 5.0)


def test_groups_have_their_mean_and_median(seed: int) -> None:
    """With a low upper end, so that the mean has a standard error."""
    sizes = GroupSizes(size_max=2_000, mean=30.0, median=7.0).sizes(seed=seed, n_groups=200_000)
    assert_mean(sizes.astype(float), 30.0)
    assert abs((sizes <= 6).mean() - 0.5) < 0.04
    assert np.median(sizes) in (6, 7, 8)


def test_requests_follow_importance(seed: int) -> None:
    importance = np.repeat([1.0, 3.0], 5_000)
    web = make_web(
        seed, 100.0, np.zeros(10_000), importance=importance, requests_per_second=1_000.0
    )
    counts = web.requests.counts()
    assert_mean(counts[:5_000], 100.0 * 1_000 / 20_000)
    assert_mean(counts[5_000:], 3 * 100.0 * 1_000 / 20_000)


@pytest.mark.parametrize("elapsed", [5.0, 40.0])
def test_items_diverge_as_the_curves_of_the_maths_say(seed: int, elapsed: float) -> None:
    rate = 0.1
    expected = {
        Replaces.ALL: churn_divergence(rate, elapsed, ceiling=2 * 8 / (4 + 2 * 8)),
        Replaces.OLDEST: scroll_divergence(rate, elapsed, n_items=8, static_items=4.0),
    }
    for replaces, curve in expected.items():
        content = Content.of(N, replaces=replaces, n_items=8, static_items=4.0)
        web = make_web(seed, elapsed + 1e-3, np.full(N, rate), content=content)
        late = Bookkeeper(web, burn_in_seconds=elapsed).close().unweighted_fragment_staleness
        assert abs(late - float(curve)) < 5 * 0.5 / np.sqrt(N)
