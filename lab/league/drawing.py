"""The league's figures: freshness against fetches, for recrawl, the rules in use and the papers."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.drawing import COLOURS, OURS, panels
from lab.league.entries import ENTRIES, FRAGMENTS
from lab.league.entries import OURS as OUR_NAME
from lab.league.numbers import Floats, League
from recrawl.refreshbench import ORACLE, Track

__all__ = ["league_figure"]

_PAPERS = (
    *("root of the rate", "optimal frequencies", "LambdaCrawl", "greedy", "greedy with signals"),
    *("third of the period", "importance alone"),
    *("content curves, fitted", "content curves, bounded"),
)
_RULES = tuple(
    entry.name
    for entry in ENTRIES
    if entry.name not in (*_PAPERS, OUR_NAME, FRAGMENTS, ORACLE) and entry.run is not None
)
_MARKERS = "osD^vP*X"


def _line(panel: Axes, league: League, track: Track, policy: str, y: Floats) -> None:
    x = league.fetches(track, policy)
    if policy == OUR_NAME:
        panel.plot(x, y, color=OURS, marker="o", linewidth=2.6, zorder=5, label=policy)
    elif policy == FRAGMENTS:
        panel.plot(x, y, color=OURS, marker="s", linestyle=":", zorder=4, label=policy)
    elif policy == ORACLE:
        said = "told rates" if track.is_recorded else "told rates and quality"
        panel.plot(x, y, color="black", linestyle="--", zorder=4, label=f"oracle ({said})")
    else:
        # The same look on all tracks.
        place = (_PAPERS if policy in _PAPERS else _RULES).index(policy)
        colour, marker = COLOURS[place % len(COLOURS)], _MARKERS[place % len(_MARKERS)]
        style = "-" if place < len(COLOURS) else "-."
        panel.plot(x, y, style, color=colour, marker=marker, linewidth=1.3, label=policy)


def league_figure(league: League, track: Track) -> Figure:
    """Return a track's figure: every policy's freshness against the fetches that it made.

    Beside the rules in use freshness itself; beside the papers' policies, which are closer, its
    share of the oracle's.
    """
    standings = {standing.policy for standing in league.standings(track)}
    taking_part = [entry.name for entry in ENTRIES if entry.name in standings]
    ours = [name for name in taking_part if name in (OUR_NAME, FRAGMENTS)]
    papers = [name for name in taking_part if name in _PAPERS]
    rules = [name for name in taking_part if name not in (*ours, *papers, ORACLE)]
    figure, (left, right) = panels(2, width=9.6, height=5.6)
    for name in (*rules, *ours, ORACLE):
        _line(left, league, track, name, league.freshness(track, name))
    best = league.freshness(track, ORACLE)
    for name in (*papers, *ours, ORACLE):
        _line(right, league, track, name, league.freshness(track, name) / best)
    left.set_title(f"{track.name}: rules in use", loc="left", fontweight="bold")
    left.set_ylabel("freshness (share of time, by importance)")
    right.set_title(f"{track.name}: policies of papers", loc="left", fontweight="bold")
    right.set_ylabel("freshness over the oracle's")
    for panel in (left, right):
        panel.set_xscale("log")
        panel.set_xticks(track.fetches_per_page_day)
        panel.set_xticklabels([f"{budget:g}" for budget in track.fetches_per_page_day])
        panel.minorticks_off()
        panel.set_xlabel("fetches per page and day")
        panel.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False, fontsize=9
        )
    return figure
