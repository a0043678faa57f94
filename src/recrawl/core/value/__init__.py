"""What fetching a page now is worth: Longevity's U, Signals' V, and both under uncertainty."""

from typing import TYPE_CHECKING

from recrawl.core.value.averaged import (
    averaged_noisy_value,
    averaged_value,
    learning_bonus,
    never_fetched_value,
)
from recrawl.core.value.no_signals import crawl_value
from recrawl.core.value.noisy import (
    approximate_noisy_value,
    expected_fetch_interval,
    expected_fresh_time,
    noiseless_value,
    noisy_value,
)
from recrawl.core.value.renewal_line import RenewalLine, renewal_value
from recrawl.core.value.scroll import (
    scroll_due,
    scroll_due_under_belief,
    scroll_value,
    scroll_value_under_belief,
)
from recrawl.deprecated_names import find_moved_names

__all__ = [
    "RenewalLine",
    "approximate_noisy_value",
    "averaged_noisy_value",
    "averaged_value",
    "crawl_value",
    "expected_fetch_interval",
    "expected_fresh_time",
    "learning_bonus",
    "never_fetched_value",
    "noiseless_value",
    "noisy_value",
    "renewal_value",
    "scroll_due",
    "scroll_due_under_belief",
    "scroll_value",
    "scroll_value_under_belief",
]

# Names of recrawl 0.1.0.
_MOVED = {
    "churn_due": "recrawl.papers.value.churn_due",
    "churn_value": "recrawl.papers.value.churn_value",
    "fitted_due": "recrawl.papers.value.fitted_due",
    "fitted_value": "recrawl.papers.value.fitted_value",
    "mean_divergence": "recrawl.papers.value.mean_divergence",
    "regions_value": "recrawl.papers.value.regions_value",
    "several_sources_value": "recrawl.papers.value.several_sources_value",
    "value_of_curve": "recrawl.papers.value.value_of_curve",
    "value_of_samples": "recrawl.papers.value.value_of_samples",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
