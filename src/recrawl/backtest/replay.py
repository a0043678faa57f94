"""Turn a history into a web that any policy can run on.

The replay covers one window in which all its pages were observed.  A history of fetches shows
only between which two fetches a page changed.  The number and times of these changes are drawn
from a Poisson process, at a rate drawn from the posterior given the page's own fetches and those
of all pages.  The uncertainty about a page thus adds spread to the results, not bias.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recrawl.backtest.history import History
from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.belief.population import PopulationPrior, rate_likelihoods
from recrawl.sim import Account, Bookkeeper, Web, recorded_web

__all__ = ["Gaps", "Replay", "gaps_of", "logged_account", "replay_of", "window_of"]

# Windows begin and end at so many quantiles of the pages' own beginnings and ends.
_N_EDGES = 48
# Most changes drawn between two fetches; at the budgets compared, more make no difference.
_CHANGES_BETWEEN_MAX = 64
# Most changes drawn in all.
_CHANGES_DRAWN_MAX = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gaps:
    """The times between fetches of a page, one row each, by page and time."""

    page: RowArray
    start_ms: CountArray
    end_ms: CountArray
    changed: FlagArray
    version: CountArray
    """Version of the page at the end of the gap."""

    @property
    def seconds(self) -> FloatArray:
        """Return the length of each gap."""
        return np.asarray((self.end_ms - self.start_ms) / 1000.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """A web made from a history, and the part of the history that it covers."""

    web: Web
    start_ms: int
    end_ms: int
    pages: RowArray
    """Pages of the history, in the order of the web's."""
    rate_per_second: FloatArray
    """Estimated changes per second of each page; the actual ones where changes are exact."""
    watched_share: float
    """Share of all page-time of the history that is replayed."""
    gap_seconds: float
    """Median gap between fetches of a page; 0 where changes are exact."""

    @property
    def seconds(self) -> float:
        """Return the length of the replay."""
        return (self.end_ms - self.start_ms) / 1000.0


def gaps_of(history: History) -> Gaps:
    """Return the times between the fetches of a history."""
    follows = np.zeros(history.page.size, np.bool_)
    follows[1:] = history.page[1:] == history.page[:-1]
    rows = np.flatnonzero(follows)
    return Gaps(
        page=history.page[rows],
        start_ms=history.at_ms[rows - 1],
        end_ms=history.at_ms[rows],
        changed=history.changed[rows],
        version=history.version[rows],
    )


def window_of(history: History) -> tuple[int, int]:
    """Return the window with the most page-time of pages observed from its start to its end.

    Examples
    --------
    Three pages, the last of which was added late:

    >>> import pyarrow as pa
    >>> none = np.empty(0, np.int64)
    >>> history = History(
    ...     urls=pa.array(["a", "b", "c"]), cluster=np.zeros(3, np.int64), importance=np.ones(3),
    ...     from_ms=np.array([0, 10, 900]), until_ms=np.array([1000, 1000, 1000]),
    ...     page=none, at_ms=none, changed=none.astype(bool), version=none, is_exact=True,
    ...     n_rows_read=0, n_errors=0, n_mute=0, kept_share=1.0)
    >>> window_of(history)
    (10, 1000)
    """
    if history.n_pages == 0:
        return 0, 0
    share = np.linspace(0.0, 1.0, _N_EDGES)
    starts = np.unique(np.quantile(history.from_ms, share, method="higher").astype(np.int64))
    ends = np.unique(np.quantile(history.until_ms, share, method="lower").astype(np.int64))
    best, window = 0.0, (int(history.from_ms.min()), int(history.from_ms.min()))
    for start in starts.tolist():
        until = np.sort(history.until_ms[history.from_ms <= start])
        n_through = until.size - np.searchsorted(until, ends, side="left")
        held = n_through * (ends - start).astype(np.float64)
        k = int(np.argmax(held))
        if held[k] > best:
            best, window = float(held[k]), (start, int(ends[k]))
    return window


def _draw_rates(
    gaps: Gaps, n_pages: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return a rate drawn from each page's posterior, and the mean of the posterior."""
    if gaps.page.size == 0:
        return np.zeros(n_pages), np.zeros(n_pages)
    prior = PopulationPrior()
    rates = prior.rates()
    fitted = prior.fit(gaps.page, gaps.seconds, gaps.changed, kind=np.zeros(n_pages, np.int64))
    shape, seconds = float(fitted.shape[0]), float(fitted.seconds[0])
    # Gamma density per step of log rate: α^a e^(-bα).
    log_prior = shape * np.log(rates) - seconds * rates
    log_posterior = rate_likelihoods(gaps.page, gaps.seconds, gaps.changed, n_pages, rates)
    log_posterior += log_prior
    log_posterior -= log_posterior.max(axis=1, keepdims=True)
    weight = np.exp(log_posterior)
    weight /= weight.sum(axis=1, keepdims=True)
    reached = np.cumsum(weight, axis=1)
    chosen = np.minimum((reached < rng.random((n_pages, 1))).sum(axis=1), rates.size - 1)
    # Within a step of the grid, the log rate is uniform.
    step = np.log(rates[1] / rates[0])
    drawn = rates[chosen] * np.exp(step * (rng.random(n_pages) - 0.5))
    return drawn, weight @ rates


def _draw_changes(
    gaps: Gaps, rate: FloatArray, rng: np.random.Generator
) -> tuple[RowArray, FloatArray, NDArray[np.int64]]:
    """Draw changes within the gaps that have some: pages, instants in ms and versions."""
    rows = np.flatnonzero(gaps.changed)
    expected = rate[gaps.page[rows]] * gaps.seconds[rows]
    # The first change in a gap with at least one is exponential, truncated at the gap's end; the
    # later ones come at the rate.  So the number of changes is Poisson, given that it is not 0.
    first = -np.log1p(rng.random(rows.size) * np.expm1(-expected)) / np.maximum(expected, 1e-300)
    first = np.where(expected > 1e-12, np.clip(first, 0.0, 1.0), rng.random(rows.size))
    most = min(_CHANGES_BETWEEN_MAX, _CHANGES_DRAWN_MAX // max(rows.size, 1))
    n_more = np.minimum(rng.poisson(np.minimum(expected * (1.0 - first), 1e6)), most)
    of = np.repeat(np.arange(rows.size), n_more)
    more = first[of] + (1.0 - first[of]) * rng.random(of.size)
    gap = np.concatenate([np.arange(rows.size), of])
    place = np.concatenate([first, more])
    order = np.lexsort((place, gap))
    gap, place = gap[order], place[order]
    row = rows[gap]
    at_ms = gaps.start_ms[row] + place * (gaps.end_ms[row] - gaps.start_ms[row])
    is_last = np.ones(gap.size, np.bool_)
    is_last[:-1] = gap[1:] != gap[:-1]
    # Nobody saw the versions in between, so each is different from all others.
    unseen = -1 - np.arange(gap.size)
    version = np.where(is_last, gaps.version[row], np.iinfo(np.int64).min // 2 + unseen)
    return gaps.page[row], at_ms, version


def replay_of(history: History, *, seed: int = 0) -> Replay:
    """Turn a history into a web.

    Parameters
    ----------
    history
        History of fetches or of changes.
    seed
        Random seed.
    """
    start_ms, end_ms = window_of(history)
    through = (history.from_ms <= start_ms) & (history.until_ms >= end_ms)
    pages = np.flatnonzero(through)
    number = np.full(history.n_pages, -1, np.int64)
    number[pages] = np.arange(pages.size)
    seconds = max((end_ms - start_ms) / 1000.0, 1e-3)
    gap_seconds = 0.0
    if history.is_exact:
        page, at_ms, version = history.page, history.at_ms.astype(np.float64), history.version
    else:
        gaps = gaps_of(history)
        rng = np.random.default_rng(seed)
        drawn, mean = _draw_rates(gaps, history.n_pages, rng)
        page, at_ms, version = _draw_changes(gaps, drawn, rng)
        gap_seconds = float(np.median(gaps.seconds)) if gaps.page.size else 0.0
    inside = through[page]
    web = recorded_web(
        number[page[inside]],
        at_ms[inside] / 1000.0,
        start_at=start_ms / 1000.0,
        end_at=start_ms / 1000.0 + seconds,
        n_pages=pages.size,
        version=version[inside],
        importance=history.importance[pages],
        group=history.cluster[pages],
        seed=seed,
    )
    rate = web.changes.counts() / seconds if history.is_exact else mean[pages]
    watched = float((history.until_ms - history.from_ms).sum())
    return Replay(
        web=web,
        start_ms=start_ms,
        end_ms=end_ms,
        pages=pages,
        rate_per_second=rate,
        watched_share=pages.size * (end_ms - start_ms) / watched if watched > 0 else 0.0,
        gap_seconds=gap_seconds,
    )


def logged_account(history: History, replay: Replay) -> Account | None:
    """Return the account of the history's own fetches; None for a history of changes."""
    if history.is_exact:
        return None
    number = np.full(history.n_pages, -1, np.int64)
    number[replay.pages] = np.arange(replay.pages.size)
    inside = (number[history.page] >= 0) & (history.at_ms > replay.start_ms)
    inside &= history.at_ms <= replay.end_ms
    books = Bookkeeper(replay.web)
    at = (history.at_ms[inside] - replay.start_ms) / 1000.0
    books.record(number[history.page[inside]], at)
    return books.close()
