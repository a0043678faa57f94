"""What fetching a page now is worth: Longevity's U, Signals' V, and both under uncertainty."""

from recrawl.core.value.averaged import (
    averaged_noisy_value,
    averaged_value,
    learning_bonus,
    never_fetched_value,
)
from recrawl.core.value.longevity import (
    churn_due,
    churn_value,
    fitted_due,
    fitted_value,
    mean_divergence,
    regions_value,
    value_of_curve,
    value_of_samples,
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
from recrawl.core.value.several_sources import several_sources_value

__all__ = [
    "RenewalLine",
    "approximate_noisy_value",
    "averaged_noisy_value",
    "averaged_value",
    "churn_due",
    "churn_value",
    "crawl_value",
    "expected_fetch_interval",
    "expected_fresh_time",
    "fitted_due",
    "fitted_value",
    "learning_bonus",
    "mean_divergence",
    "never_fetched_value",
    "noiseless_value",
    "noisy_value",
    "regions_value",
    "renewal_value",
    "scroll_due",
    "scroll_due_under_belief",
    "scroll_value",
    "scroll_value_under_belief",
    "several_sources_value",
    "value_of_curve",
    "value_of_samples",
]
