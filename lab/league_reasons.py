"""Why recrawl is not first where it is not: words beside the league's numbers."""

__all__ = ["IN_GENERAL", "REASONS"]

REASONS: dict[tuple[str, str], str] = {
    ("papers-signals", "freshness"): (
        "Every page is a host of its own here and its signals have a quality of their own, so "
        "nothing that is learned of one source helps with another.  recrawl takes a source never "
        "heard of for right every second time (`signal_precision`), which is too much here, and "
        "finds that out page by page, which costs most while budgets are scarce."
    ),
    ("hourly", "freshness"): (
        "Changes come in bursts and by the time of day here, which recrawl, like all who estimate "
        "a rate, does not know of: over all budgets even an oracle that is told each page's mean "
        "rate is no fresher.  A rule that shortens its waits after each change follows bursts; "
        "with numbers chosen in hindsight it comes first."
    ),
}
"""By track and column; a column is a field of `recrawl.refreshbench.Standing`."""

IN_GENERAL = {
    "very_stale_share": (
        "Freshness and few very stale copies are not the same aim: the optimum of freshness gives "
        "up pages that change faster than they can be followed, and these stay stale.  Policies "
        "that never give up a page, such as LambdaCrawl with its harmonic penalty, have fewer of "
        "them; so has GREEDY-NCIS with estimates on some tracks, and we do not know why.  Whoever "
        "minds can promise pages that they are seldom stale for long (`stale_for` in "
        "{doc}`../reference/configuration`); here recrawl ran with its defaults, without that."
    ),
}
"""By column, where the reason is the same on all tracks."""
