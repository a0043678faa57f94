"""Control of the price, so that fetches stay within the budget."""

import math
from dataclasses import dataclass

__all__ = ["PriceController"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceController:
    """Moves a price so that about as many pages come due as the budget allows to fetch.

    The price is a forecast (from `recrawl.core.price.demand_at`) times e^correction.  Pages due
    and not yet fetched are the backlog.  A price too low lets it grow, one too high empties it;
    raising the log price by e holds back about ``responsiveness`` × e of all pages.  The
    correction takes back a share of the excess each time, and never moves further than it takes
    the budget to notice: a step of 1 % on a large corpus releases more pages than a day can fetch.

    Parameters
    ----------
    gain
        Share of the backlog's excess taken back per step; between 0 and 1.
    responsiveness
        Share of all pages held back per unit of log price.
    backlog_steps
        Target backlog, in steps' worth of fetches.
    correction_max
        Largest correction up or down, in log price.

    Examples
    --------
    A thousand fetches wait where ten would do; the budget is 5 a step, of a million pages:

    >>> controller = PriceController()
    >>> controller.next_correction(0.0, backlog=1_000, allowed=5, n_pages=1_000_000)
    5e-06

    References
    ----------
    Signals §5 (bandwidth control; there by taking the page of greatest value)
    """

    gain: float = 0.1
    responsiveness: float = 0.67
    backlog_steps: float = 2.0
    correction_max: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.gain < 1:
            raise ValueError(f"gain must be between 0 and 1, got {self.gain!r}")
        for name in ("responsiveness", "backlog_steps", "correction_max"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}")

    def next_correction(
        self, correction: float, *, backlog: float, allowed: float, n_pages: float
    ) -> float:
        """Return the correction after one step.

        Parameters
        ----------
        correction
            Correction before the step, in log price.
        backlog
            Number of pages due and not yet fetched.
        allowed
            Number of fetches that the budget allows in one step.
        n_pages
            Number of pages of the corpus.
        """
        if n_pages <= 0:
            return correction
        excess = backlog - self.backlog_steps * allowed
        step = self.gain * excess / (self.responsiveness * n_pages)
        slew_max = allowed / n_pages
        correction += min(max(step, -slew_max), slew_max)
        return min(max(correction, -self.correction_max), self.correction_max)
