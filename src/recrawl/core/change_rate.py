"""Deprecated: the estimators of change rates are in `recrawl.papers.change_rate`."""

from typing import TYPE_CHECKING

from recrawl.deprecated_names import find_moved_names

# Names of recrawl 0.1.0.
_MOVED = {
    "ClassBeliefs": "recrawl.papers.change_rate.ClassBeliefs",
    "EstimateMoments": "recrawl.papers.change_rate.EstimateMoments",
    "FrequencyClasses": "recrawl.papers.change_rate.FrequencyClasses",
    "INFORMATIVE_CHANGES": "recrawl.papers.change_rate.INFORMATIVE_CHANGES",
    "InitialIntervals": "recrawl.papers.change_rate.InitialIntervals",
    "LastModifiedChangeRate": "recrawl.papers.change_rate.LastModifiedChangeRate",
    "LastModifiedCounts": "recrawl.papers.change_rate.LastModifiedCounts",
    "PollCounts": "recrawl.papers.change_rate.PollCounts",
    "PollHistories": "recrawl.papers.change_rate.PollHistories",
    "PolledChangeRate": "recrawl.papers.change_rate.PolledChangeRate",
    "PseudoObservationFit": "recrawl.papers.change_rate.PseudoObservationFit",
    "PseudoObservations": "recrawl.papers.change_rate.PseudoObservations",
    "RateBounds": "recrawl.papers.change_rate.RateBounds",
    "RateFit": "recrawl.papers.change_rate.RateFit",
    "TrendTest": "recrawl.papers.change_rate.TrendTest",
    "best_initial_interval": "recrawl.papers.change_rate.best_initial_interval",
    "beta_change_rate": "recrawl.papers.change_rate.beta_change_rate",
    "count_polls": "recrawl.papers.change_rate.count_polls",
    "fit_pseudo_observations": "recrawl.papers.change_rate.fit_pseudo_observations",
    "informative_changes": "recrawl.papers.change_rate.informative_changes",
    "irregular_bounds": "recrawl.papers.change_rate.irregular_bounds",
    "irregular_change_rate": "recrawl.papers.change_rate.irregular_change_rate",
    "irregular_relative_error": "recrawl.papers.change_rate.irregular_relative_error",
    "last_modified_change_rate": "recrawl.papers.change_rate.last_modified_change_rate",
    "last_modified_moments": "recrawl.papers.change_rate.last_modified_moments",
    "naive_change_rate": "recrawl.papers.change_rate.naive_change_rate",
    "naive_moments": "recrawl.papers.change_rate.naive_moments",
    "naive_polls_required": "recrawl.papers.change_rate.naive_polls_required",
    "polls_required": "recrawl.papers.change_rate.polls_required",
    "regular_bounds": "recrawl.papers.change_rate.regular_bounds",
    "regular_change_rate": "recrawl.papers.change_rate.regular_change_rate",
    "regular_moments": "recrawl.papers.change_rate.regular_moments",
    "substitute_edges": "recrawl.papers.change_rate.substitute_edges",
    "trend_test": "recrawl.papers.change_rate.trend_test",
    "unbiased_up_to": "recrawl.papers.change_rate.unbiased_limit",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
