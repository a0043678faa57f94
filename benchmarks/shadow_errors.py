"""Check how often shadow mode finds a difference where there is one, and where there is none.

Webs are drawn from one distribution.  Without a difference, the log is that of recrawl itself, so
an interval should contain 0 in 19 of 20 webs.  With a planted difference, a crawler fetches all
pages at one interval; the truth is what recrawl gains on the web itself with as many fetches.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from recrawl.backtest import Point, history_of
from recrawl.backtest.policy_runs import our_policy, run_at_budget
from recrawl.core.arrays import FloatArray, RowArray
from recrawl.shadow import ShadowEstimate, estimate_shadow
from recrawl.shadow.estimates import IMPUTATIONS
from recrawl.sim import FetchOutcomes, Web, make_web
from tests.reference.backtest_logs import DAY, START_MS, TableSource, names_of, polled_log

N_PAGES, N_HOSTS, N_DAYS, FETCHES_PER_PAGE = 200, 50, 56.0, 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowErrors:
    """Results of many webs."""

    what: str
    n_webs: int
    n_unknown: int
    n_found: int
    n_covered: int
    """Number of intervals that contain the true difference."""
    mean_gain: float
    mean_truth: float
    mean_width: float


def web_of(seed: int) -> Web:
    """Draw a web: pages with Poisson changes at very different rates, four to a host."""
    rng = np.random.default_rng(seed)
    rate = rng.gamma(0.3, 0.8, N_PAGES) / DAY
    return make_web(seed, N_DAYS * DAY, rate, group=np.arange(N_PAGES) % N_HOSTS)


def own_log(web: Web) -> tuple[TableSource, Point]:
    """Return the log of recrawl on a web, beginning with a fetch of every page."""
    pages: list[RowArray] = [np.arange(web.n_pages)]
    times: list[FloatArray] = [np.zeros(web.n_pages)]

    def record(page: RowArray, at: FloatArray, outcomes: FetchOutcomes) -> None:
        del outcomes
        pages.append(page)
        times.append(at)

    budget = FETCHES_PER_PAGE * web.n_pages / web.horizon
    point = run_at_budget(web, our_policy(budget), budget, on_fetches=record)
    page, at = np.concatenate(pages), np.concatenate(times)
    version = np.empty(page.size, np.int64)
    for p in range(web.n_pages):
        own = web.changes.at[web.changes.offsets[p] : web.changes.offsets[p + 1]]
        rows = np.flatnonzero(page == p)
        version[rows] = np.searchsorted(own, at[rows], side="right")
    digests = [f"{p}:{v}".encode() for p, v in zip(page, version, strict=True)]
    table = pa.table(
        {
            "url": names_of(web).take(pa.array(page)),
            "at_ms": pa.array(START_MS + np.rint(1000 * at).astype(np.int64)),
            "digest": pa.array(digests, pa.binary()),
        }
    )
    return TableSource("observed", table), point


def _true_gain(web: Web, log: TableSource) -> float:
    """Return what recrawl gains on the web itself, with as many fetches as a log has."""
    from recrawl.sim import Bookkeeper  # noqa: PLC0415

    table = pa.Table.from_batches(list(log.batches()))
    number = {name: i for i, name in enumerate(names_of(web).to_pylist())}
    page = np.array([number[name] for name in table["url"].to_pylist()])
    at = (table["at_ms"].to_numpy() - START_MS) / 1000.0
    inside = (at > 0) & (at <= web.horizon)
    order = np.argsort(at[inside], kind="stable")
    books = Bookkeeper(web)
    books.record(page[inside][order], at[inside][order])
    logged = books.close()
    budget = logged.n_fetches / web.horizon
    ours = run_at_budget(web, our_policy(budget), budget)
    weight = web.importance / web.importance.sum()
    return float((weight * ours.fresh_seconds).sum() / web.horizon) - logged.freshness


def measure(
    n_webs: int, *, first_seed: int = 0, n_imputations: int = IMPUTATIONS
) -> list[ShadowErrors]:
    """Run shadow mode on many webs, with and without a difference."""
    found: dict[str, list[tuple[ShadowEstimate | None, float]]] = {"none": [], "planted": []}
    for seed in range(first_seed, first_seed + n_webs):
        web = web_of(seed)
        log, _ = own_log(web)
        _, none = estimate_shadow(history_of(log), n_imputations=n_imputations, seed=seed)
        found["none"].append((none, 0.0))
        polled = polled_log(web, N_DAYS * DAY / FETCHES_PER_PAGE)
        _, some = estimate_shadow(history_of(polled), n_imputations=n_imputations, seed=seed)
        found["planted"].append((some, _true_gain(web, polled)))
    return [_summary(what, rows) for what, rows in found.items()]


def _summary(what: str, rows: list[tuple[ShadowEstimate | None, float]]) -> ShadowErrors:
    known = [(e, t) for e, t in rows if e is not None and e.gain.is_known]
    return ShadowErrors(
        what=what,
        n_webs=len(rows),
        n_unknown=len(rows) - len(known),
        n_found=sum(e.is_difference_found for e, _ in known),
        n_covered=sum(e.gain.low <= t <= e.gain.high for e, t in known),
        mean_gain=float(np.mean([e.gain.value for e, _ in known])) if known else float("nan"),
        mean_truth=float(np.mean([t for _, t in known])) if known else float("nan"),
        mean_width=float(np.mean([e.gain.high - e.gain.low for e, _ in known])) if known else 0.0,
    )
