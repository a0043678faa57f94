"""The prior of change rates, learned from the short poll histories of many pages."""

from dataclasses import dataclass

import numpy as np
import scipy  # submodules load on first use, which saves importers a second

from recrawl.core.arrays import ArrayLike, FlagArray, FloatArray, RowArray, as_floats
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.kernel import kernel
from recrawl.core.poll_columns import as_poll_columns

__all__ = ["BROAD", "PopulationPrior", "rate_likelihoods", "refit_from_beliefs"]

# Prior of a corpus without polls: a shape as on real corpora (0.4 to 0.9) and a mean rate of one
# change in 50 days, deliberately broad.
BROAD = GammaBelief.of(0.5, 0.5 * 50 * 86_400.0)


@kernel
def _add_log_likelihoods(
    page: RowArray, elapsed: FloatArray, changed: FlagArray, rates: FloatArray, out: FloatArray
) -> None:
    for i in range(page.size):
        if elapsed[i] <= 0.0:
            continue  # two fetches within one second say nothing
        for k in range(rates.size):
            exposure = rates[k] * elapsed[i]
            if changed[i]:
                out[page[i], k] += np.log(-np.expm1(-exposure))
            else:
                out[page[i], k] -= exposure


def rate_likelihoods(
    page: ArrayLike, elapsed: ArrayLike, changed: ArrayLike, n_pages: int, rates: ArrayLike
) -> FloatArray:
    """Return the log likelihood of every page's polls at every rate, one row per page.

    Parameters
    ----------
    page
        Row of the page of each poll, 0 to ``n_pages`` - 1, in any order.
    elapsed
        Seconds since the previous poll.
    changed
        Whether the poll found a change.
    n_pages
        Number of rows of the result; pages never polled get zeros.
    rates
        Changes per second.

    References
    ----------
    CGM App. C (the likelihood of irregular polls)
    """
    rows, seconds, found = as_poll_columns(page, elapsed, changed, n_pages)
    out = np.zeros((n_pages, np.size(rates)))
    _add_log_likelihoods(rows, seconds, found, as_floats(rates).reshape(-1), out)
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationPrior:
    """Learns the distribution of change rates of a corpus, and of each kind of page in it.

    Empirical Bayes: the Gamma distribution under which the observed polls of all pages are most
    likely.  A kind (a site, a path pattern, a content type, an age, an importance, or a crossing
    of these, numbered 0, 1, …) gets its own prior, shrunk towards that of the whole corpus; the
    fewer its pages, the more.

    Parameters
    ----------
    rate_min, rate_max
        The slowest and the fastest change rates considered, per second.
    n_rates
        Number of points between them, evenly spaced in log rate.
    mean_spread, shape_spread
        Standard deviations of the log mean rate and log shape of kinds, around those of the
        whole corpus.  The defaults are those of twelve kinds of real pages.

    Examples
    --------
    >>> day = 86_400.0
    >>> page = [0, 0, 1, 1, 2, 2, 3, 3]
    >>> elapsed = np.full(8, day)
    >>> changed = [1, 1, 1, 0, 0, 0, 0, 0]
    >>> prior = PopulationPrior().fit(page, elapsed, changed, kind=[0, 0, 1, 1])
    >>> bool(prior.shape[0] / prior.seconds[0] > prior.shape[1] / prior.seconds[1])
    True

    References
    ----------
    Prior §4.3, §4.4 (a prior fitted to a population; here to its polls, not to known rates)
    """

    rate_min: float = 1 / (40 * 365 * 86_400.0)
    rate_max: float = 1 / 30.0
    n_rates: int = 96
    mean_spread: float = 1.0
    shape_spread: float = 0.6

    def __post_init__(self) -> None:
        if not 0 < self.rate_min < self.rate_max < np.inf:
            raise ValueError(
                "rate_min and rate_max must be positive, finite and in order, "
                f"got {self.rate_min!r} and {self.rate_max!r}"
            )
        if self.n_rates < 8:
            raise ValueError(f"n_rates must be at least 8, got {self.n_rates!r}")

    def rates(self) -> FloatArray:
        """Return the rates considered."""
        return np.geomspace(self.rate_min, self.rate_max, self.n_rates)

    def fit(
        self,
        page: ArrayLike,
        elapsed: ArrayLike,
        changed: ArrayLike,
        kind: ArrayLike | None = None,
    ) -> GammaBelief:
        """Return the prior of each kind 0, 1, …, shrunk towards that of the whole corpus.

        The prior of page i is then ``GammaBelief.of(prior.shape[kind[i]],
        prior.seconds[kind[i]])``.

        Parameters
        ----------
        page
            Row of the page of each poll, 0, 1, …, in any order.
        elapsed
            Seconds since the previous poll; polls after 0 seconds are ignored.
        changed
            Whether the poll found a change.
        kind
            Kind of each page, numbered 0, 1, …; one kind for all if not given.  A kind without
            polls gets the prior of the whole corpus.
        """
        if kind is None:
            kinds = np.zeros(int(np.max(page, initial=0)) + 1, np.int64)
        else:
            kinds = np.asarray(kind, dtype=np.int64)
        if kinds.ndim != 1 or kinds.size == 0 or kinds.min() < 0:
            raise ValueError("kind must be one column of numbers from 0 on, one per page")
        likelihood = rate_likelihoods(page, elapsed, changed, kinds.size, self.rates())
        whole = self.fit_whole(likelihood)
        by_kind = np.argsort(kinds, kind="stable")
        ends = np.cumsum(np.bincount(kinds))
        priors = [self._fit_kind(likelihood[rows], whole) for rows in np.split(by_kind, ends[:-1])]
        return GammaBelief(
            np.array([shape for shape, _ in priors]), np.array([b for _, b in priors])
        )

    def fit_whole(self, log_likelihood: FloatArray) -> GammaBelief:
        """Return the Gamma prior that makes these likelihoods (`rate_likelihoods`) greatest.

        `BROAD` regularises the fit weakly, so that a corpus without polls gets `BROAD`.
        """
        shape, seconds = self._fit(log_likelihood, BROAD, spreads=(3.0, 1.0))
        return GammaBelief.of(shape, seconds)

    def _fit_kind(self, log_likelihood: FloatArray, whole: GammaBelief) -> tuple[float, float]:
        return self._fit(log_likelihood, whole, (self.mean_spread, self.shape_spread))

    def _fit(
        self, log_likelihood: FloatArray, centre: GammaBelief, spreads: tuple[float, float]
    ) -> tuple[float, float]:
        polled = log_likelihood[np.any(log_likelihood != 0, axis=1)]
        peak = polled.max(axis=1, keepdims=True) if polled.size else polled
        # Cut off before numbers become subnormal, which are slow.
        likelihood = np.exp(np.maximum(polled - peak, -300.0))
        rates = self.rates()
        edges = np.sqrt(rates[1:] * rates[:-1])
        mass = np.empty(rates.size)
        at_centre = np.log([float(centre.shape / centre.seconds), float(centre.shape)])

        def loss(parameters: FloatArray) -> float:
            shape = np.exp(parameters[1])
            cumulative = scipy.special.gammainc(shape, shape / np.exp(parameters[0]) * edges)
            mass[:-1] = cumulative
            mass[-1] = 1.0
            mass[1:] -= cumulative
            marginal = np.log(likelihood @ np.maximum(mass, 1e-100)).sum()
            return float(-marginal + 0.5 * np.sum(((parameters - at_centre) / spreads) ** 2))

        best = scipy.optimize.minimize(
            loss,
            at_centre,
            method="Nelder-Mead",
            options={"xatol": 1e-4, "fatol": 1e-6, "initial_simplex": at_centre + _SIMPLEX},
        ).x
        shape = float(np.exp(np.clip(best[1], -4.0, 5.0)))
        return shape, shape / float(np.exp(best[0]))


_SIMPLEX = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.5]])


def refit_from_beliefs(belief: GammaBelief, weight: ArrayLike = 1.0) -> GammaBelief:
    """Return the Gamma prior closest to the beliefs about a corpus' pages (one step of EM).

    No histories are needed: repeated now and then, with `rebase_beliefs` in between, it moves a
    corpus from the prior it started with to its own.

    Parameters
    ----------
    belief
        Belief about each page, or about each cell of pages with equal codes.
    weight
        Number of pages per row.
    """
    weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), belief.shape.shape)
    total = weights.sum()
    mean = float((weights * belief.shape / belief.seconds).sum() / total)
    log_mean = float(
        (weights * (scipy.special.digamma(belief.shape) - np.log(belief.seconds))).sum() / total
    )
    # The M step solves log a - ψ(a) = log E[α] - E[log α]; Newton in log a from a start of
    # relative error under 2 % (Minka 2002), where it cannot leave its basin.
    gap = np.log(mean) - log_mean
    shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(8):
        slope = 1 - shape * scipy.special.polygamma(1, shape)
        shape *= np.exp(-(np.log(shape) - scipy.special.digamma(shape) - gap) / slope)
    return GammaBelief.of(shape, shape / mean)
