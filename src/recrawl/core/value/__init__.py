"""What fetching a page now is worth: Longevity's U, Signals' V, and both under uncertainty."""

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
