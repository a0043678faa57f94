"""How often a page changes, estimated from polls.

Which estimator suits which polls:

- regular polls: `regular_change_rate`, or `PolledChangeRate` to learn online from counts;
- polls at any intervals: `irregular_change_rate` from whole histories, best with
  `PseudoObservations` that keep it finite;
- pages with a good last-modified date: `LastModifiedChangeRate`;
- when a few classes are enough: `FrequencyClasses`.

Beside each stand its uncertainty (`regular_bounds`, `irregular_bounds`), what it takes to learn
a rate (`polls_required`, `informative_changes`, `best_initial_interval`), and a test for rates
that drift (`trend_test`).
"""

from recrawl.papers.change_rate.classes import ClassBeliefs, FrequencyClasses
from recrawl.papers.change_rate.confidence import RateBounds, irregular_bounds, regular_bounds
from recrawl.papers.change_rate.initial_interval import InitialIntervals, best_initial_interval
from recrawl.papers.change_rate.irregular import (
    RateFit,
    irregular_change_rate,
    irregular_relative_error,
    substitute_edges,
)
from recrawl.papers.change_rate.last_modified import (
    LastModifiedChangeRate,
    LastModifiedCounts,
    last_modified_change_rate,
)
from recrawl.papers.change_rate.polls import PollCounts, PollHistories, count_polls
from recrawl.papers.change_rate.precision import (
    INFORMATIVE_CHANGES,
    informative_changes,
    naive_polls_required,
    polls_required,
)
from recrawl.papers.change_rate.pseudo_observations import (
    PseudoObservationFit,
    PseudoObservations,
    fit_pseudo_observations,
)
from recrawl.papers.change_rate.regular import (
    PolledChangeRate,
    beta_change_rate,
    naive_change_rate,
    regular_change_rate,
)
from recrawl.papers.change_rate.sampling import (
    EstimateMoments,
    last_modified_moments,
    naive_moments,
    regular_moments,
    unbiased_limit,
)
from recrawl.papers.change_rate.stationarity import TrendTest, trend_test

__all__ = [
    "INFORMATIVE_CHANGES",
    "ClassBeliefs",
    "EstimateMoments",
    "FrequencyClasses",
    "InitialIntervals",
    "LastModifiedChangeRate",
    "LastModifiedCounts",
    "PollCounts",
    "PollHistories",
    "PolledChangeRate",
    "PseudoObservationFit",
    "PseudoObservations",
    "RateBounds",
    "RateFit",
    "TrendTest",
    "best_initial_interval",
    "beta_change_rate",
    "count_polls",
    "fit_pseudo_observations",
    "informative_changes",
    "irregular_bounds",
    "irregular_change_rate",
    "irregular_relative_error",
    "last_modified_change_rate",
    "last_modified_moments",
    "naive_change_rate",
    "naive_moments",
    "naive_polls_required",
    "polls_required",
    "regular_bounds",
    "regular_change_rate",
    "regular_moments",
    "substitute_edges",
    "trend_test",
    "unbiased_limit",
]
