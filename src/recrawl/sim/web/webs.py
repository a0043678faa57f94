"""A simulated web in columns: all its changes are drawn before the first fetch."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.sim.web.content import Content, Flapping, version_at_start
from recrawl.sim.web.draws import Stream
from recrawl.sim.web.dynamics import (
    Modulation,
    SiteWide,
    change_times,
    merge_times,
    poisson_times,
    site_wide_times,
)
from recrawl.sim.web.failures import Failures
from recrawl.sim.web.groups import group_delays
from recrawl.sim.web.signals import SignalSource, WebSignals, emit_signals
from recrawl.sim.web.times import Times, Windows

__all__ = ["Web", "make_web", "request_counts"]


class Web(NamedTuple):
    """The pages of a simulated web and all their changes, in seconds from its start.

    Every page has version 0 at the start.  ``version`` has the version after each change, or is
    empty if the n-th change of a page makes version n.  ``recall`` and ``false_rate`` have
    a row for each page and a column for each source; only an oracle may read them and
    ``change_rate``.
    """

    seed: int
    horizon: float
    importance: FloatArray
    cost: FloatArray
    group: RowArray
    kind: CountArray
    change_rate: FloatArray
    changes: Times
    version: CountArray
    content: Content
    signals: WebSignals
    recall: FloatArray
    false_rate: FloatArray
    request_rate: FloatArray
    requests: Times
    errors: Windows
    outages: Windows
    group_delay: FloatArray
    has_date: FlagArray

    @property
    def n_pages(self) -> int:
        """Return the number of pages."""
        return int(self.importance.size)


@kernel
def version_after(web: Web, page: int, row: int) -> int:
    """Return a page's version just before row ``row`` of all changes."""
    if row == web.changes.offsets[page]:
        return version_at_start()
    if web.version.size == 0:
        return int(row - web.changes.offsets[page])
    return int(web.version[row - 1])


def make_web(  # noqa: PLR0913 (all but three are keywords, each a part to leave out)
    seed: int,
    horizon: float,
    change_rate: ArrayLike,
    *,
    importance: ArrayLike = 1.0,
    cost: ArrayLike = 1.0,
    group: ArrayLike = 0,
    kind: ArrayLike = 0,
    interval_shape: ArrayLike = 1.0,
    modulations: Sequence[Modulation] = (),
    site_wide: SiteWide | None = None,
    flapping: Flapping | None = None,
    content: Content | None = None,
    sources: Sequence[SignalSource] = (),
    requests_per_second: float = 0.0,
    page_failures: Failures | None = None,
    group_failures: Failures | None = None,
    has_date: ArrayLike = False,
    changes: Times | None = None,
) -> Web:
    """Make a simulated web; by default it has changes and nothing else.

    Parameters
    ----------
    seed
        Random seed.  The history of a page depends only on the seed, its number and its own
        parameters, not on other pages or on the policy.
    horizon
        Seconds to simulate.
    change_rate
        Changes per second of each page; its length is the number of pages.
    importance, cost, group, kind
        Columns with a row for each page, known to policies.
    interval_shape, modulations
        See `change_times`.
    site_wide
        Changes of whole groups, in addition to those of ``change_rate``.
    flapping
        Excursions to another version and back.
    content
        Items of each page; by default a changed page has nothing in common with its copy.
    sources
        Sources of signals.
    requests_per_second
        Requests per second for all pages together, in proportion to importance.
    page_failures, group_failures
        Failures of fetches.
    has_date
        Whether a fetch of the page returns the time of its last change.
    changes
        Change times; by default they are drawn.

    Examples
    --------
    >>> day = 86_400.0
    >>> web = make_web(0, 30 * day, [1 / day, 0.1 / day, 0.0], importance=[1.0, 5.0, 1.0])
    >>> web.changes.counts()
    array([45,  0,  0])
    """
    rate = np.ascontiguousarray(np.atleast_1d(np.asarray(change_rate, np.float64)))
    n_pages = rate.size

    def floats(quantity: ArrayLike) -> FloatArray:
        return np.broadcast_to(np.asarray(quantity, np.float64), n_pages).copy()

    def integers(quantity: ArrayLike) -> CountArray:
        return np.broadcast_to(np.asarray(quantity, np.int64), n_pages).copy()

    groups = integers(group)
    n_groups = int(groups.max()) + 1 if n_pages else 0
    if changes is None:
        changes = change_times(
            seed, rate, horizon, interval_shape=interval_shape, modulations=modulations
        )
    if site_wide is not None:
        together = site_wide_times(seed, site_wide, groups, horizon)
        changes = merge_times(changes, together)
        rate = rate + site_wide.rate * site_wide.share
    version = np.empty(0, np.int64)
    # Sources announce changes, not the returns from excursions.
    signals = emit_signals(seed, changes, sources, horizon)
    if flapping is not None:
        changes, version = flapping.add_returns(seed, changes, horizon)
    weight = floats(importance)
    request_rate = requests_per_second * weight / weight.sum() if weight.sum() > 0 else 0 * weight
    none = Failures(share=0.0)
    return Web(
        seed=seed,
        horizon=float(horizon),
        importance=weight,
        cost=floats(cost),
        group=groups,
        kind=integers(kind),
        change_rate=rate,
        changes=changes,
        version=version,
        content=Content.of(n_pages) if content is None else content,
        signals=signals,
        recall=_by_source([source.recall for source in sources], n_pages),
        false_rate=_by_source([source.false_rate for source in sources], n_pages),
        request_rate=request_rate,
        requests=poisson_times(seed, Stream.REQUESTS, request_rate, horizon),
        errors=(page_failures or none).of_pages(seed, n_pages, horizon),
        outages=(group_failures or none).of_groups(seed, n_groups, horizon),
        group_delay=group_delays(seed, n_groups),
        has_date=np.broadcast_to(np.asarray(has_date, np.bool_), n_pages).copy(),
    )


def _by_source(quantities: list[ArrayLike], n_pages: int) -> FloatArray:
    columns = np.zeros((n_pages, len(quantities)))
    for number, quantity in enumerate(quantities):
        columns[:, number] = np.asarray(quantity, np.float64)
    return columns


def request_counts(requests: Times, edges: ArrayLike) -> CountArray:
    """Return the number of requests of each page in each window between ``edges``.

    Examples
    --------
    >>> requests = Times(np.array([0, 3, 4]), np.array([1.0, 2.0, 9.0, 4.0]))
    >>> request_counts(requests, [0.0, 5.0, 10.0])
    array([[2, 1],
           [1, 0]])
    """
    bounds = np.asarray(edges, np.float64)
    window = np.searchsorted(bounds, requests.at, side="right") - 1
    inside = (window >= 0) & (window < bounds.size - 1)
    n_pages = requests.offsets.size - 1
    n_windows = bounds.size - 1
    cell = requests.pages()[inside] * n_windows + window[inside]
    return np.bincount(cell, minlength=n_pages * n_windows).reshape(n_pages, n_windows)
