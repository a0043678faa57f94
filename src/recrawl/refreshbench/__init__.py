"""RefreshBench: the same webs, budgets and scores for every policy that keeps copies fresh.

A *track* is a kind of web with its seeds, its horizon and four budgets.  Its webs are open, for
developing a policy, or held out, for judging it.  A policy has the four
methods of `recrawl.sim.Policy`; ``recrawl bench my_policy.py`` runs it and says its place among
the policies whose scores come with the package.
"""

from typing import TYPE_CHECKING

from recrawl.deprecated_names import find_moved_names
from recrawl.refreshbench.recorded import data_folder, is_held_out
from recrawl.refreshbench.reference import (
    ORACLE,
    KnownWeb,
    check_web,
    known_web_of_row,
    known_webs,
    reference_scores,
    score_of_row,
    score_row,
)
from recrawl.refreshbench.results import (
    Results,
    bench_policy,
    check_results,
    read_results,
    runs_of,
    write_results,
)
from recrawl.refreshbench.scoring import (
    Score,
    digest_of,
    part_weights,
    parts_of,
    run_policy,
    score_of,
    time_and_score,
)
from recrawl.refreshbench.standings import Interval, Standing, paired_interval, standings_of
from recrawl.refreshbench.tracks import (
    QUICK_BUDGETS,
    QUICK_WEBS,
    TRACKS,
    VERSION,
    Track,
    track_named,
)

__all__ = [
    "ORACLE",
    "QUICK_BUDGETS",
    "QUICK_WEBS",
    "TRACKS",
    "VERSION",
    "Interval",
    "KnownWeb",
    "Results",
    "Score",
    "Standing",
    "Track",
    "bench_policy",
    "check_results",
    "check_web",
    "data_folder",
    "digest_of",
    "is_held_out",
    "known_web_of_row",
    "known_webs",
    "paired_interval",
    "part_weights",
    "parts_of",
    "read_results",
    "reference_scores",
    "run_policy",
    "runs_of",
    "score_of",
    "score_of_row",
    "score_row",
    "standings_of",
    "time_and_score",
    "track_named",
    "write_results",
]

# Names of recrawl 0.1.0.
_MOVED = {
    "scored": "recrawl.refreshbench.time_and_score",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
