"""Pages with changes and noisy signals, simulated event by event."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class SignalledPages(NamedTuple):
    """Changes per second, the share of them signalled, and the share of signals that are true."""

    change_rate: Floats
    recall: Floats
    precision: Floats

    @classmethod
    def lognormal(
        cls, rng: np.random.Generator, n_pages: int, recall: object, precision: float
    ) -> "SignalledPages":
        """Return pages that change every 100 h or so, a thousandfold more or less often."""
        rates = rng.lognormal(np.log(0.01), 1.8, n_pages).clip(1e-5, 4) / 3_600
        recalls = np.broadcast_to(np.asarray(recall, np.float64), n_pages)
        return cls(rates, recalls, np.full(n_pages, precision))

    def poll(
        self, rng: np.random.Generator, elapsed: Floats
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the signals of each page's next ``elapsed`` seconds and whether it changed."""
        announced = rng.poisson(self.change_rate * self.recall * elapsed)
        silent = rng.poisson(self.change_rate * (1 - self.recall) * elapsed)
        # Of n signals n·precision are true: false ones come at (1 - precision)/precision of these.
        false = rng.poisson(
            self.change_rate * self.recall * (1 - self.precision) / self.precision * elapsed
        )
        return announced + false, announced + silent > 0
