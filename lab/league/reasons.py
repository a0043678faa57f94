"""Why recrawl is not first where it is not: words beside the league's numbers."""

__all__ = ["IN_GENERAL"]

IN_GENERAL = {
    "very_stale_share": (
        "Freshness and few very stale copies are not the same aim: the optimum of freshness gives "
        "up pages that change faster than they can be followed, and these stay stale.  Policies "
        "that never give up a page, such as LambdaCrawl with its harmonic penalty, have fewer of "
        "them; so has *greedy with signals* on some tracks, and we do not know why.  Whoever "
        "minds can promise pages that they are seldom stale for long (`stale_for` in "
        "{doc}`../reference/configuration`); here recrawl ran with its defaults, without that."
    ),
}
"""By column; a column is a field of `recrawl.refreshbench.Standing`."""
