"""The page of results, every number of which stands in the files of the league."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from lab.drawing import look, svg_of
from lab.league.drawing import league_figure
from lab.league.entries import ENTRIES, FRAGMENTS, OURS, TUNED
from lab.league.files import FOLDER
from lab.league.numbers import League, Mean, places, read_league
from lab.league.reasons import IN_GENERAL
from lab.running import FIGURES
from lab.tables import digest_of, markdown_table, read_tables
from recrawl.refreshbench import ORACLE, TRACKS, VERSION, Interval, Standing, Track
from recrawl.units import seconds_text

__all__ = ["PAGE", "lead_text", "league_figures", "league_markdown", "write_figures"]

PAGE = FIGURES.parent / "results.md"
_NUTCH, _STORM, _THIRD = "Nutch adaptive", "StormCrawler", "third of the period"
_COLUMNS = {
    "freshness": "freshness",
    "very_stale_share": "very stale share",
    "fragment_staleness": "fragment staleness",
}


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(markdown_table(heads, rows))


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")


def _interval(interval: Interval) -> str:
    if math.isnan(interval.low):
        return _signed(interval.value)
    return f"{_signed(interval.value)} ± {(interval.high - interval.low) / 2:.4f}"


def lead_text(interval: Interval) -> str:
    """Return in words by how much recrawl is ahead or behind, and whether that is significant."""
    text = f"{'ahead' if interval.value >= 0 else 'behind'} by {abs(interval.value):.4f}"
    if math.isnan(interval.low):
        return text
    text += f" ± {(interval.high - interval.low) / 2:.4f}"
    return text if interval.low > 0 or interval.high < 0 else f"{text} (not significant)"


def _mean(mean: Mean) -> str:
    if not math.isfinite(mean.value):
        return "–" if math.isnan(mean.value) else "not reached"
    text = f"{mean.value:.2f}"
    return text if math.isnan(mean.half_width) else f"{text} ± {mean.half_width:.2f}"


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _bold(text: str, *, when: bool) -> str:
    return f"**{text}**" if when else text


def _shown(standing: Standing) -> str:
    if standing.policy == ORACLE:
        return f"*{ORACLE}*"
    return _bold(standing.policy, when=standing.policy in (OURS, FRAGMENTS))


# ---------------------------------------------------------------------- one track


def _columns_of(track: Track) -> list[str]:
    return [name for name in _COLUMNS if track.has_content or name != "fragment_staleness"]


def _policies(league: League, track: Track) -> str:
    standings = league.standings(track)
    by_freshness = places(standings, "freshness")
    heads = [
        *("place", "policy"),
        *(f"at {budget:g}" for budget in track.fetches_per_page_day),
        *("recrawl ahead by", "very stale"),
        *(["wrong"] if track.has_content else []),
    ]
    rows = []
    for standing in standings:
        name = standing.policy
        freshness = league.freshness(track, name)
        rows.append(
            [
                str(by_freshness.get(name, "")),
                _shown(standing),
                *(_share(float(share)) for share in freshness),
                "" if name == OURS else _interval(standing.ahead),
                _share(standing.very_stale_share),
                *([_share(standing.fragment_staleness)] if track.has_content else []),
            ]
        )
    return _table(heads, rows)


def _as_they_come(league: League, track: Track) -> str:
    rows = [
        (
            each.policy,
            f"{each.fetches_per_page_day:.3g}",
            _share(each.freshness),
            _bold(_share(each.ours_freshness), when=each.ours_freshness > each.freshness),
            "–" if math.isnan(each.ours_fetches_ratio) else f"{each.ours_fetches_ratio:.2f}",
            _share(each.very_stale_share),
            _bold(
                _share(each.ours_very_stale_share),
                when=each.ours_very_stale_share < each.very_stale_share,
            ),
        )
        for each in league.as_they_come(track)
    ]
    heads = (
        *("rule as it comes", "fetches a day", "fresh", "recrawl fresh"),
        *("recrawl's fetches", "very stale", "recrawl very stale"),
    )
    return _table(heads, rows)


def _section(league: League, track: Track) -> str:
    web = league.first_web(track)
    n_webs = league.n_webs(track)
    of = f"{n_webs} webs, of which the first has" if n_webs > 1 else "1 web with"
    limit = track.very_stale_seconds
    parts = [
        f"### {track.name}",
        track.about,
        f"{of} {web.n_pages:,} pages and {web.n_changes:,} changes in "
        f"{web.days:.0f} days.  A copy is very stale after {seconds_text(limit)}.  "
        f"The oracle is told {track.oracle_knows}.",
        f"![Freshness against fetches on {track.name}](figures/league-{track.name}.svg)",
        _policies(league, track),
    ]
    if league.as_they_come(track):
        parts.append(_as_they_come(league, track))
    return "\n\n".join(parts)


# ---------------------------------------------------------------------- all tracks


def _ours_in(what: str) -> str:
    return FRAGMENTS if what == "fragment_staleness" else OURS


def _next_best(standings: Sequence[Standing]) -> Standing:
    aside = (OURS, FRAGMENTS, ORACLE)
    return next(standing for standing in standings if standing.policy not in aside)


def _place_text(standings: Sequence[Standing], what: str) -> str:
    place = places(standings, what)[_ours_in(what)]
    return _bold(str(place), when=place == 1)


def _overview(league: League) -> str:
    rows = []
    for track in league.tracks():
        standings = league.standings(track)
        own = next(standing for standing in standings if standing.policy == OURS)
        rival = _next_best(standings)
        rows.append(
            (
                f"[{track.name}](#{track.name})",
                _place_text(standings, "freshness"),
                f"{own.ratio_to_oracle:.3f}",
                rival.policy,
                lead_text(rival.ahead),
            )
        )
    heads = ("track", "place by freshness", "of the oracle", "best other", "recrawl is")
    return _table(heads, rows)


def _beside(league: League) -> str:
    """Return what else is measured: other places, and fetches for the freshness of rules."""
    rows = []
    for track in league.tracks():
        standings = league.standings(track)
        rows.append(
            (
                track.name,
                _place_text(standings, "very_stale_share"),
                _place_text(standings, "fragment_staleness") if track.has_content else "",
                _mean(league.fetches_ratio(track, OURS, _NUTCH)),
                _mean(league.fetches_ratio(track, OURS, _STORM)),
                _mean(league.fetches_ratio(track, OURS, TUNED)),
            )
        )
    heads = (
        *("track", "place: very stale", "place: fragments"),
        *("fetches: Nutch", "StormCrawler", "best-tuned rule"),
    )
    return _table(heads, rows)


def _webs_run(league: League) -> str:
    """Return on how many of the webs that are held out the league has been run, if not on all."""
    short = [
        f"{league.n_webs(track)} of {track.n_held_out} on {track.name}"
        for track in league.tracks()
        if league.n_webs(track) < track.n_held_out
    ]
    if not short:
        return "The league was run on all webs that are held out."
    return (
        f"Of the webs that are held out the league has been run on {', '.join(short)}, and on all "
        "of the other tracks.  A single made-up web gives no interval; those [on the open "
        "webs](#on-the-open-webs) say how much is chance."
    )


def _on_open_webs(league: League, on_open: League) -> str:
    """Return recrawl's places on the webs that are held out, and on the open ones."""
    rows = []
    for track in on_open.tracks():
        cells = [track.name]
        for each in (league, on_open):
            standings = each.standings(track)
            own = next(standing for standing in standings if standing.policy == OURS)
            cells += [_place_text(standings, "freshness"), f"{own.ratio_to_oracle:.3f}"]
            cells.append(_interval(_next_best(standings).ahead))
        rows.append(cells)
    heads = (
        *("track", "held out: place", "of the oracle", "ahead by"),
        *("open: place", "of the oracle", "ahead by"),
    )
    return _table(heads, rows)


def _not_first(league: League) -> str:
    lines = []
    general = []
    for track in league.tracks():
        standings = league.standings(track)
        by_name = {standing.policy: standing for standing in standings}
        for what in _columns_of(track):
            placed = places(standings, what)
            ours = _ours_in(what)
            if placed[ours] == 1:
                continue
            first = next(name for name, place in placed.items() if place == 1)
            theirs, own = getattr(by_name[first], what), getattr(by_name[ours], what)
            text = (
                f"- **{track.name}, {_COLUMNS[what]}**: place {placed[ours]}; *{first}* has "
                f"{_share(theirs)}, recrawl {_share(own)}."
            )
            if what == "freshness":
                text += f"  recrawl is {lead_text(by_name[first].ahead)}."
            lines.append(text)
            general.append(IN_GENERAL.get(what, ""))
    reasons = [text for text in dict.fromkeys(general) if text]
    return "\n\n".join(["\n".join(lines), *reasons]) if lines else "Nowhere."


def _least_spent(league: League) -> str:
    """Return how far below the budget of a run some rule stayed, and all did on average."""
    ours = {score[:3]: score.n_fetches for score in league.scores if score.policy == OURS}
    shares = [score.n_fetches / ours[score[:3]] for score in league.scores if score[:3] in ours]
    mean = sum(shares) / len(shares)
    least = min(shares)
    return f"{100 * mean:.1f} % of recrawl's on average, {100 * least:.0f} % at least"


def _goals(league: League) -> str:
    rows = []
    for track in league.tracks():
        by_name = {standing.policy: standing for standing in league.standings(track)}
        own, cost = by_name[OURS].very_stale_share, by_name[_THIRD].very_stale_share
        budgets = range(len(track.fetches_per_page_day))
        tuned = [league.fetches_ratio(track, OURS, TUNED, budget) for budget in budgets]
        rows.append(
            (
                track.name,
                *(_share(own), _share(cost), _bold(f"{own / cost:.2f}", when=own < cost / 2)),
                *(_bold(_mean(ratio), when=ratio.value <= 0.5) for ratio in tuned),
            )
        )
    heads = (
        *("track", "very stale: recrawl", "third of the period", "ratio"),
        *("fetches: scarcest", "second", "third", "ample"),
    )
    return _table(heads, rows)


def league_markdown(folder: Path = FOLDER) -> str:
    """Return the page of results, made from the files of a league."""
    league, on_open = read_league(folder), read_league(folder, held_out=False)
    missing = [track.name for track in TRACKS if track not in league.tracks()]
    if missing:
        raise ValueError(f"the league must have all tracks, got none of {', '.join(missing)}")
    n_runs = len(league.scores) + len(on_open.scores)
    entries = "\n".join(f"- **{entry.name}**: {entry.about}." for entry in ENTRIES)
    sections = "\n\n".join(_section(league, track) for track in league.tracks())
    return f"""\
# The league

Every policy on every track of RefreshBench {VERSION}, at four budgets from scarce to ample.
Policies are judged on the webs that are held out; those on which they may be developed are
[further down](#on-the-open-webs).
{{doc}}`../reference/refreshbench` says what the tracks are, {{doc}}`../how-to/run-refreshbench` how
to enter a policy of your own.

This page is made by `python -m lab pages` from `lab/results/league/`, which `python -m lab league`
writes: {n_runs:,} runs at budgets and {len(league.own):,} of rules as they come.

## In short

{_overview(league)}

*Of the oracle*: freshness over that of a policy that is told all rates, mean over budgets.
*Ahead*: freshness of recrawl less the other's, mean over budgets, with a 95 % interval over paired
webs; on recorded tracks over twelve parts of whole hosts.  A lead is not significant where the
interval holds 0.
Places leave out the oracle, which is told what others must learn.
[Who takes part](#who-takes-part) says what the other policies are.

{_beside(league)}

*Place* by the share of very stale copies and, where pages change in part, of wrong fragments.
*Fetches*: those with which recrawl is as fresh as the rule is at its most ample budget, over the
rule's; by interpolation between recrawl's budgets, mean over webs.

{_webs_run(league)}

**How clean the hold-out is.**
The made-up tracks (the first four) are held out by seeds on which nothing was chosen.
The recorded ones (the last four) are contaminated: two defaults of recrawl that matter there, how
much echo is tolerated and in which steps memory is learned, were chosen before there was a
hold-out, with all hosts in view ({{doc}}`../adr/0020-memory-is-learned-from-surprises`), which
flatters recrawl a little.
No other policy was tuned so, but for the rule that is tuned in hindsight.

### On the open webs

Places and leads on the webs that are held out, and on the open ones, where five defaults of recrawl
were chosen.

{_on_open_webs(league, on_open)}

### Where recrawl is not first

{_not_first(league)}

### Two goals

Less than half of the very stale share of *third of the period* (the loop of the Cost paper) at
equal fetches, and at most half of the fetches of the best-tuned rule for its freshness at each of
the four budgets; bold where reached.  A dash stands where recrawl is fresher than that with its
least budget already.
Rules as they come know nothing of importance, and where pages differ in it that is a large part of
what they lose; those *by importance*, and the best-tuned rule, know as much of it as recrawl does.
On the recorded tracks all pages weigh the same.

{_goals(league)}

## Track by track

Columns *at* have the freshness at budgets in fetches per page and day.
*Very stale* and *wrong* (the share of fragments) are means over budgets.
Rules of intervals know no budget.  Each runs on a clock that is slower or faster by the factor at
which it spends the budget or a little less ({_least_spent(league)}): all its constants that are
times are multiplied, and the age of a version counts by the same clock where it is slowed.  Each
page is fetched the moment it is due, which nobody could do better.
Policies that warm up by polling all pages a few times (*root of the rate*, *optimal frequencies*,
LambdaCrawl) are hardly more than *round robin* where the budget pays for few polls of each.
The second table has the rules *as they come*, with as many fetches per page and day as they like,
and recrawl given as many, on the first web that is held out; *recrawl's fetches* are those with
which it is as fresh, over the rule's.

{sections}

## Who takes part

{entries}
"""


def league_figures(folder: Path = FOLDER) -> dict[str, str]:
    """Return the figures of all tracks as SVG, by the name of their file."""
    league = read_league(folder)
    data = {"league": VERSION, "data": digest_of(read_tables(folder))}
    return {
        f"league-{track.name}.svg": svg_of(_drawn(league, track), data) for track in league.tracks()
    }


def _drawn(league: League, track: Track) -> Figure:
    with look():
        return league_figure(league, track)


def write_figures(folder: Path = FOLDER, into: Path = FIGURES) -> None:
    """Draw the figures of all tracks of which there are scores."""
    into.mkdir(parents=True, exist_ok=True)
    for name, svg in league_figures(folder).items():
        (into / name).write_text(svg, encoding="utf-8")
