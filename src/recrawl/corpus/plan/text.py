"""A plan in sentences: what the budget achieves, what a goal needs, and what targets cost."""

import math
from typing import NamedTuple

from recrawl.corpus.plan.corpus_plan import CorpusPlan
from recrawl.corpus.plan.planned_partition import INTERVAL_SECONDS_MIN
from recrawl.corpus.plan.targets import TargetAnswer
from recrawl.node.config.rates import unit_name
from recrawl.units import count_text, number_text, seconds_text, share_text

__all__ = [
    "Amounts",
    "ceiling_words",
    "coverage_words",
    "delay_words",
    "doubt_words",
    "next_goal",
    "plan_words",
    "target_words",
    "together_words",
]

# Least budget that is given per second or minute.
_SHORT_MIN = 10.0
_GOALS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


class Amounts(NamedTuple):
    """The unit of a plan's amounts: that of the budget, or per hour or day if it has none.

    A budget of few fetches per second or minute is given per hour as well, because parts of it
    would be tiny.
    """

    unit: str
    """Noun of amounts: fetches, cost or a currency."""
    per: str
    hours: float
    price: float = 1.0
    """Money for each unit of cost, if the budget is money."""

    @classmethod
    def of(cls, found: CorpusPlan) -> "Amounts":
        """Return the unit for the amounts of a plan."""
        unit = "fetches" if found.plan.unit == "fetches" else "of cost"
        least = found.budget_per_hour or found.plan.budget_for(0.9, weighted=found.is_weighted)
        per, hours = ("h", 1.0) if least >= 1 else ("day", 24.0)
        name = unit_name(found.period_seconds or 0.0)
        period_hours = (found.period_seconds or 0.0) / 3_600
        if name is not None and (period_hours >= 1 or least * period_hours >= _SHORT_MIN):
            per, hours = name, period_hours
        if found.cost_per_fetch is None:
            return cls(unit, per, hours)
        return cls(found.cost_per_fetch.currency, per, hours, float(found.cost_per_fetch.amount))

    @property
    def scale(self) -> float:
        """Factor on amounts per hour in fetches or cost."""
        return self.hours * self.price

    def number(self, per_hour: float) -> str:
        """Return an amount without its unit, rounded to two or three digits."""
        return _round_text(per_hour * self.scale)

    def fetches(self, per_hour: float) -> str:
        """Return a number of fetches, whatever the unit of the budget is."""
        return _round_text(per_hour * self.hours)

    def __call__(self, per_hour: float) -> str:
        """Return an amount with its unit."""
        number = self.number(per_hour)
        unit = "fetch" if (number, self.unit) == ("1", "fetches") else self.unit
        return f"{number} {unit}/{self.per}"


def _round_text(amount: float) -> str:
    if not 0 < amount < math.inf:
        return number_text(amount)
    digits = (1 if amount < 10 else 2) - math.floor(math.log10(amount))
    return number_text(round(amount, min(digits, 0) if amount >= 10 else digits))


def next_goal(found: CorpusPlan) -> tuple[float, float] | None:
    """Return the next round freshness above the current one, and the budget per hour it needs.

    None if no budget achieves more than the current one.
    """
    for goal in _GOALS:
        budget = found.plan.budget_for(goal, weighted=found.is_weighted)
        if goal > (found.freshness or 0.0) + 0.002 and budget < math.inf:
            return goal, budget
    return None


def doubt_words(found: CorpusPlan) -> str:
    """Return a warning that a plan rests on defaults; empty once pages were fetched enough."""
    n_pages, n_polls = found.plan.n_pages, found.n_polls
    if n_pages == 0 or n_polls >= n_pages:
        return ""
    if n_polls:
        fetches = count_text(n_polls, "fetch has", "fetches have")
        learned = f"Based mostly on defaults: only {fetches} shown so far whether a page changed."
    else:
        learned = "Based on defaults: nothing is learned from your pages yet."
    return f"{learned}  Run this again when most pages have been fetched a few times."


def plan_words(found: CorpusPlan) -> str:
    """Return the summary of a plan.

    Examples
    --------
    "Your budget of 30 fetches/h keeps pages 91 % fresh.  95 % needs 41 fetches/h; twice the
    budget gives 95 %."
    """
    if found.plan.n_pages == 0:
        parts: tuple[str, ...] = ("No pages to plan for yet.", coverage_words(found))
    else:
        parts = (
            _budget_sentences(found),
            ceiling_words(found),
            _hours_sentence(found),
            coverage_words(found),
        )
    return "  ".join(words for words in parts if words)


def coverage_words(found: CorpusPlan) -> str:
    """Return which share of the pages a plan covers; empty if it covers all."""
    coverage = found.coverage
    if not coverage.n_away:
        return ""
    away = count_text(coverage.n_away, "partition")
    lacks = "it cannot" if coverage.n_away == 1 else "they cannot"
    return (
        f"The plan covers about {share_text(coverage.share)} of the pages: {away} of "
        f"{number_text(coverage.n_partitions)} are left out, because {lacks} be reached now.  All "
        "figures, also the budget, are those of the pages that it covers."
    )


def _hours_sentence(found: CorpusPlan) -> str:
    if found.hours is None:
        return ""
    return (
        f"The plan assumes fetches at any hour, but pages are leased only between {found.hours}: "
        "pages that change at other times are less fresh than it says."
    )


def _budget_sentences(found: CorpusPlan) -> str:
    plan, say = found.plan, Amounts.of(found)
    if found.budget_per_hour is None or found.freshness is None:
        needs = [
            f"{share_text(goal)} {'fresh ' if goal == 0.8 else ''}needs {say(budget)}"
            for goal in (0.8, 0.9, 0.95, 0.99)
            if (budget := plan.budget_for(goal, weighted=found.is_weighted)) < math.inf
        ]
        most = f"Pages can be kept {share_text(found.freshness_max)} fresh at most"
        words = ", ".join(needs) or most
        return f"{words}; the corpus has no budget per hour or day to compare with."
    goal = next_goal(found)
    now = (
        f"A budget of {say(found.budget_per_hour)} keeps pages {share_text(found.freshness)} fresh"
    )
    if goal is not None:
        twice = plan.freshness_at(2 * found.budget_per_hour, weighted=found.is_weighted)
        return (
            f"{now}.  {share_text(goal[0])} needs {say(goal[1])}; "
            f"twice the budget gives {share_text(twice)}."
        )
    if found.is_held_by_delays:
        most = share_text(found.freshness_max)
        return f"{now}.  More than {most} is not possible because of host delays."
    half = plan.freshness_at(0.5 * found.budget_per_hour, weighted=found.is_weighted)
    return f"{now}, and more would help little.  Half the budget gives {share_text(half)}."


def ceiling_words(found: CorpusPlan) -> str:
    """Return what max_age and staleness limits need, if that is a problem; otherwise nothing."""
    parts = []
    n_always, asked = found.ceilings.n_always, found.ceilings_per_hour
    if n_always:
        pages = f"{count_text(n_always, 'page')} {'has' if n_always == 1 else 'have'}"
        least = seconds_text(INTERVAL_SECONDS_MIN)
        parts.append(f"{pages} limits that mean fetching all the time, counted as every {least}.")
    if found.budget_per_hour is not None and asked > found.budget_per_hour:
        amount = Amounts.of(found)(asked)
        parts.append(
            f"Limits (max_age, stale_for) alone need {amount}, more than the budget: "
            "almost nothing is left for other pages."
        )
    return "  ".join(parts)


def delay_words(found: CorpusPlan) -> str:
    """Return what the delays of hosts cost; empty if they cost nothing."""
    hosts = found.hosts
    if not hosts.slowed:
        return ""
    lost = found.hosts.freshness_lost
    much = "less than 0.1" if lost < 0.001 else number_text(round(100 * lost, 1))
    slowed = "is fetched from as often as its delay allows"
    if hosts.n_slowed != 1:
        slowed = "are fetched from as often as their delays allow"
    hosts_text = count_text(hosts.n_slowed, "host")
    return f"Host delays cost {much} points of freshness: {hosts_text} {slowed}."


def target_words(answer: TargetAnswer, found: CorpusPlan) -> str:
    """Return whether a target can be met, and what it costs."""
    say = Amounts.of(found)
    head = str(answer.target)
    match answer.verdict:
        case "no pages":
            looked = count_text(found.plan.n_counted, "page")
            return f"{head}: unknown, because none of the {looked} looked at matches."
        case "out of reach":
            return f"{head}: cannot be met. {_out_of_reach_sentence(answer)}"
        case "met":
            spent = say.number(answer.spent_now_per_hour or 0.0)
            return (
                f"{head}: met. It is {share_text(answer.share_now or 0.0)} now, "
                f"with {spent} of {say(found.budget_per_hour or 0.0)}."
            )
        case "too dear":
            return (
                f"{head}: not with this budget. {_pages(answer)} need "
                f"{say(answer.needed_per_hour)}, and the whole budget is "
                f"{say.number(found.budget_per_hour or 0.0)}. "
                f"Now it is {share_text(answer.share_now or 0.0)}."
            )
        case "possible" if answer.share_now is None or answer.spent_now_per_hour is None:
            total = ""
            if answer.target.of is not None:
                overall = say.number(answer.needed_overall_per_hour)
                total = f"; without favouring them, all pages together need {overall}"
            return f"{head}: possible. {_pages(answer)} need {say(answer.needed_per_hour)}{total}."
        case _:
            return f"{head}: possible. {_possible_sentences(answer, say)}"


def _possible_sentences(answer: TargetAnswer, say: Amounts) -> str:
    spent = say.number(answer.spent_now_per_hour or 0.0)
    words = (
        f"Now it is {share_text(answer.share_now or 0.0)}. {_pages(answer)} need "
        f"{say(answer.needed_per_hour)} instead of {spent}"
    )
    now, then = answer.others_freshness_now, answer.others_freshness_then
    if now is not None and then is not None:
        words += f", and the other pages {_freshness_change(now, then)}"
    factor = answer.importance_factor
    if factor is not None and factor > 1.005:
        words += f": make them {number_text(round(factor, 1))} times as important"
    return words + f"; or raise the total budget to {say(answer.needed_overall_per_hour)}."


def _below(share: float, target: float) -> str:
    """Return a share with enough digits to show that it is below the target."""
    for digits in range(4):
        rounded = round(100 * share, digits)
        if rounded < 100 * target - 1e-9:
            return f"{rounded:.{digits}f} %"
    return share_text(share)


def _freshness_change(now: float, then: float) -> str:
    if share_text(now) == share_text(then):
        return f"stay at {share_text(now)}"
    return f"go from {share_text(now)} to {share_text(then)}"


def _pages(answer: TargetAnswer) -> str:
    if answer.target.of is None:
        return "All pages"
    about = "about " if answer.n_counted < answer.n_pages else ""
    return f"These {about}{number_text(answer.n_pages)} pages" if answer.n_pages != 1 else "It"


def _out_of_reach_sentence(answer: TargetAnswer) -> str:
    most = f"Any budget reaches at most {_below(answer.share_max, answer.target.share)}"
    if answer.share_max_without_delays >= answer.target.share:
        return f"{most}: host delays allow no more, and without them the target could be met."
    return f"{most}: pages may not be fetched often enough (min_age, closed hosts)."


def together_words(found: CorpusPlan) -> str:
    """Return whether all targets can be met at once; empty for fewer than two targets."""
    at_once = found.together
    if at_once is None:
        return ""
    say = Amounts.of(found)
    if not at_once.is_possible:
        if not at_once.needed_per_hour < math.inf:
            return "All together: no, because one of them cannot be met."
        return (
            f"All together: not with this budget. They need {say(at_once.needed_per_hour)}, "
            f"and the budget is {say.number(found.budget_per_hour or 0.0)}."
        )
    words = f"All together: possible, for {say(at_once.needed_per_hour)}"
    now, then = at_once.others_freshness_now, at_once.others_freshness_then
    if now is not None and then is not None:
        words += f"; all other pages {_freshness_change(now, then)}"
    return words + "."
