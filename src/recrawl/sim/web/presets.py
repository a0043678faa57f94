"""Ready-made webs to compare policies on: those of the papers, and a realistic one."""

import numpy as np
from scipy.stats import beta

from recrawl.core.arrays import FloatArray
from recrawl.sim.web.content import Content, Flapping, Replaces
from recrawl.sim.web.draws import Stream, normals, uniforms
from recrawl.sim.web.dynamics import HotStart, SiteWide, WeeklyCycle
from recrawl.sim.web.failures import Failures
from recrawl.sim.web.groups import GroupSizes
from recrawl.sim.web.signals import SignalSource
from recrawl.sim.web.webs import Web, make_web

__all__ = ["papers_web", "realistic_web", "signals_paper_web", "signals_web"]

HOUR = 3_600.0
DAY = 86_400.0


def _log_normal_rates(seed: int, n_pages: int, low: float, high: float) -> FloatArray:
    per_hour = np.exp(np.log(0.01) + 1.8 * normals(seed, Stream.RATE, n_pages))
    return np.asarray(np.clip(per_hour, low, high) / HOUR)


def papers_web(seed: int, *, horizon: float = 2_000 * HOUR, n_pages: int = 500) -> Web:
    """Make a web of Poisson pages of very different rates and importance, without signals.

    Rates are log-normal (median .01 per hour, sigma 1.8), importance is Zipf's with exponent .8
    in random order.  Only this order depends on the number of pages.
    """
    importance = np.arange(1.0, n_pages + 1) ** -0.8
    order = np.argsort(uniforms(seed, Stream.IMPORTANCE, n_pages))
    rate = _log_normal_rates(seed, n_pages, 1 / 15_000, 3.0)
    return make_web(seed, horizon, rate, importance=importance[order], requests_per_second=0.01)


def signals_web(
    seed: int, *, horizon: float = 2_000 * HOUR, n_pages: int = 300, n_groups: int = 15
) -> Web:
    """Make a web in which 70 % of groups signal, with recall .2-.98 and precision .1-.95."""
    rate = _log_normal_rates(seed, n_pages, 1e-5, 4.0)
    group = (uniforms(seed, Stream.GROUP_OF_PAGE, n_pages) * n_groups).astype(np.int64)
    # One draw decides whether a group has signals (from 0.3 on), and with which recall.
    u = uniforms(seed, Stream.RECALL, n_groups)
    recall = np.where(u < 0.3, 0.0, np.minimum(0.2 + 0.8 * (u - 0.3) / 0.7, 0.98))
    precision = 0.1 + 0.85 * uniforms(seed, Stream.PRECISION, n_groups)
    source = SignalSource.with_precision(
        change_rate=rate, recall=recall[group], precision=precision[group]
    )
    importance = np.arange(1.0, n_pages + 1) ** -0.8
    return make_web(seed, horizon, rate, importance=importance, group=group, sources=[source])


def signals_paper_web(seed: int, n_pages: int, *, horizon: float = 1_000.0) -> Web:
    """Make the web of the experiments in Signals, in its own unit of time.

    Change rates and importance are uniform on (0, 1), recall is Beta(.25, .25) and false signals
    come at rates uniform on (.1, .6).
    """
    false_rate = 0.1 + 0.5 * uniforms(seed, Stream.PRECISION, n_pages)
    recall = beta.ppf(uniforms(seed, Stream.RECALL, n_pages), 0.25, 0.25)
    return make_web(
        seed,
        horizon,
        uniforms(seed, Stream.RATE, n_pages),
        importance=uniforms(seed, Stream.IMPORTANCE, n_pages),
        sources=[SignalSource(recall=recall, false_rate=false_rate)],
    )


def realistic_web(seed: int, n_pages: int, *, horizon: float = 365 * DAY) -> Web:
    """Make a web with the properties of recorded histories of real pages.

    - Rates: 40 % of pages hardly ever change; the rates of the others are log-normal (median 4 a
      year, sigma 1.3).  20 % of pages are new, and change ten times as often at first.  Weekends
      have half as many changes.  7 % of changes are site-wide.
    - Intervals: 50 % of pages are bursty, 10 % are nearly regular.
    - Content: items are replaced in any order on 75 % of pages, oldest first (scroll) on 15 %, all
      at once (churn) on 10 %.  10 % of pages flap: most of their
      changes are soon undone.
    - Fetches: 3 % fail.  70 % of pages say when they last changed.
    - Groups: sizes follow a power law.  58 % of groups have a sitemap, and a fifth of the sitemaps
      are mostly wrong.

    The recall and delay of sitemaps, the median rate and the shares of content are assumptions,
    because the histories determine them only roughly.
    """
    u = uniforms(seed, Stream.KIND, n_pages)
    static = u < 0.4
    rate = np.exp(1.3 * normals(seed, Stream.RATE, n_pages)) * 4 / (365 * DAY)
    rate = np.where(static, 0.02 / (365 * DAY), rate)
    group = GroupSizes().assign_groups(seed=seed, n_pages=n_pages)
    n_groups = int(group[-1]) + 1
    shape_draw = uniforms(seed, Stream.INTERVALS, n_pages)
    shape = np.select([shape_draw < 0.5, shape_draw < 0.9], [0.65, 1.0], 8.0)
    age = uniforms(seed, Stream.AGE, n_pages)
    content_draw = (u * 977.0) % 1.0  # nearly independent of u
    replaces = np.select(
        [content_draw < 0.1, content_draw < 0.25], [Replaces.ALL, Replaces.OLDEST], Replaces.ANY
    )
    has_sitemap = uniforms(seed, Stream.RECALL, n_groups)
    precision = np.where(uniforms(seed, Stream.PRECISION, n_groups) < 0.8, 0.9, 0.02)
    sitemap = SignalSource.with_precision(
        change_rate=rate,
        recall=np.where(has_sitemap < 0.58, 0.8, 0.0)[group],
        precision=precision[group],
        delay_seconds=6 * HOUR,
    )
    live_rate = float(rate.mean())
    rank = 1.0 + n_pages * uniforms(seed, Stream.IMPORTANCE, n_pages)
    return make_web(
        seed,
        horizon,
        rate,
        importance=rank**-0.8,
        group=group,
        kind=replaces,
        interval_shape=shape,
        modulations=[
            HotStart(factor=np.where(age < 0.2, 10.0, 1.0), age_at_start=age / 0.2 * 180 * DAY),
            WeeklyCycle(weekend_factor=0.5),
        ],
        site_wide=SiteWide(rate=0.07 * live_rate, share=1.0),
        flapping=Flapping(share=np.where((u * 7919.0) % 1.0 < 0.1, 0.6, 0.0)),
        content=Content.of(n_pages, replaces=replaces, n_items=20, static_items=10.0),
        sources=[sitemap],
        requests_per_second=0.1,
        page_failures=Failures(share=0.03, seconds=HOUR),
        has_date=uniforms(seed, Stream.HAS_DATE, n_pages) < 0.7,
    )
