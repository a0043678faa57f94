"""The pages that Longevity's claims are tried on: recorded ones, and ones of its own model."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lab.policies.longevity.snapshots import Snapshots, snapshots_of
from lab.text_histories import TextHistories, histories_of_web, read_text_histories
from recrawl.sim import Content, Replaces, make_web
from recrawl.sim.web.webs import Web

__all__ = [
    "LIVELY",
    "RECORDED",
    "SIMULATED",
    "Corpus",
    "lively",
    "real_snapshots",
    "recorded_texts",
    "simulated_snapshots",
    "simulated_web",
]

RECORDED = "recorded pages"
LIVELY = "lively recorded pages"
SIMULATED = "simulated pages"

_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """How a corpus is cut into snapshots.

    Parameters
    ----------
    n_snapshots
        Of each page; 30 in the paper.
    apart_days
        Between two snapshots; 2 in the paper.
    n_windows_max
        Most windows of one recorded page.
    page_stride
        Of the recorded pages one in so many is used.
    n_simulated
        Simulated pages.
    """

    n_snapshots: int = 30
    apart_days: float = 2.0
    n_windows_max: int = 1
    page_stride: int = 1
    n_simulated: int = 600


@lru_cache(maxsize=2)
def recorded_texts(page_stride: int = 1) -> TextHistories:
    """Return one in so many of the recorded pages, all their versions; read only once."""
    texts = read_text_histories()
    if page_stride == 1:
        return texts
    return texts.of_pages(np.arange(0, texts.offsets.size - 1, page_stride))


@lru_cache(maxsize=4)
def _recorded_snapshots(
    page_stride: int,
    n_snapshots: int,
    apart_days: float,
    n_windows_max: int,
    sketch_size: int | None,
) -> Snapshots:
    return snapshots_of(
        recorded_texts(page_stride).histories(sketch_size),
        n_snapshots=n_snapshots,
        apart_seconds=apart_days * _DAY,
        n_windows_max=n_windows_max,
    )


def real_snapshots(corpus: Corpus, *, sketch_size: int | None = None) -> Snapshots:
    """Return the recorded pages that were observed for long enough, not to be written to.

    Several claims are tried on the same ones, so that they are kept.
    """
    return _recorded_snapshots(
        corpus.page_stride,
        corpus.n_snapshots,
        corpus.apart_days,
        corpus.n_windows_max,
        sketch_size,
    )


def simulated_web(seed: int, n_pages: int, horizon: float) -> Web:
    """Draw pages of the paper's model with like change rates and unlike longevity.

    Two fifths never change.  Of the others two thirds churn and one third scrolls, the paper's
    shares; change rates are spread evenly in the logarithm from one change in 100 days to ten a
    day, and both kinds have a dynamic part of any share.  Scrolls have 2 to 40 items.
    """
    rng = np.random.default_rng(seed)
    rate = np.exp(rng.uniform(np.log(0.01), np.log(10.0), n_pages)) / _DAY
    rate[rng.random(n_pages) < 0.4] = 0.0
    scrolls = rng.random(n_pages) < 1 / 3
    n_items = np.where(scrolls, np.exp(rng.uniform(np.log(2), np.log(40), n_pages)), 1.0)
    n_items = n_items.astype(np.int64)
    # A dynamic share c of K items leaves K (1 - c) / c static ones.
    dynamic = rng.uniform(0.05, 1.0, n_pages)
    content = Content.of(
        n_pages,
        replaces=np.where(scrolls, Replaces.OLDEST, Replaces.ALL),
        n_items=n_items,
        static_items=n_items * (1 - dynamic) / dynamic,
    )
    return make_web(seed, horizon, rate, content=content)


def simulated_snapshots(seed: int, corpus: Corpus) -> Snapshots:
    """Return simulated pages, each a cluster of its own."""
    length = corpus.n_snapshots * corpus.apart_days * _DAY
    web = simulated_web(seed, corpus.n_simulated, length)
    return snapshots_of(
        histories_of_web(web),
        n_snapshots=corpus.n_snapshots,
        apart_seconds=corpus.apart_days * _DAY,
    )


def lively(snapshots: Snapshots, *, change_share_min: float = 0.1) -> Snapshots:
    """Return the windows in which at least such a share of snapshots differs from the one before.

    They stand for the paper's random pages, which had more dynamic content than its good ones.
    """
    chosen = snapshots.change_share >= change_share_min
    return Snapshots(
        divergence=snapshots.divergence[chosen],
        differs=snapshots.differs[chosen],
        mean_divergence=snapshots.mean_divergence[chosen],
        stale_share=snapshots.stale_share[chosen],
        cluster=np.unique(snapshots.cluster[chosen], return_inverse=True)[1],
        page=snapshots.page[chosen],
    )
