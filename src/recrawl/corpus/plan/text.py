"""A plan in words: what a goal needs, what is spent and got, and what more would buy."""

import math
from typing import NamedTuple

from recrawl.corpus.plan.corpus_plan import CorpusPlan
from recrawl.corpus.plan.priced_pages import INTERVAL_SECONDS_MIN
from recrawl.corpus.plan.targets import TargetAnswer
from recrawl.units import count_text, number_text, seconds_text, share_text

__all__ = [
    "Amounts",
    "ceiling_words",
    "delay_words",
    "doubt_words",
    "next_goal",
    "plan_words",
    "target_words",
    "together_words",
]

_GOALS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


class Amounts(NamedTuple):
    """How amounts of a plan are said: per hour, or per day where an hour has less than one."""

    unit: str
    per: str
    hours: float

    @classmethod
    def of(cls, found: CorpusPlan) -> "Amounts":
        """Return how to say the amounts of a plan."""
        unit = "fetches" if found.plan.unit == "fetches" else "of cost"
        least = found.budget_per_hour or found.plan.budget_for(0.9, weighted=found.is_weighted)
        return cls(unit, "h", 1.0) if least >= 1 else cls(unit, "day", 24.0)

    def number(self, per_hour: float) -> str:
        """Return an amount without its unit, to two or three digits."""
        amount = per_hour * self.hours
        if not 0 < amount < math.inf:
            return number_text(amount)
        digits = (1 if amount < 10 else 2) - math.floor(math.log10(amount))
        return number_text(round(amount, min(digits, 0) if amount >= 10 else digits))

    def __call__(self, per_hour: float) -> str:
        """Return an amount with its unit."""
        return f"{self.number(per_hour)} {self.unit}/{self.per}"


def next_goal(found: CorpusPlan) -> tuple[float, float] | None:
    """Return the freshness that somebody would ask for next, and what it needs per hour.

    None where no budget buys more than the one there is.
    """
    for goal in _GOALS:
        budget = found.plan.budget_for(goal, weighted=found.is_weighted)
        if goal > (found.freshness or 0.0) + 0.002 and budget < math.inf:
            return goal, budget
    return None


def doubt_words(found: CorpusPlan, n_polls: int) -> str:
    """Return why a plan is not worth much yet; nothing where enough polls were made."""
    n_pages = found.plan.n_pages
    if n_pages == 0 or n_polls >= n_pages:
        return ""
    seen = count_text(n_polls, "fetch", "fetches") if n_polls else "nothing"
    return (
        f"This goes by what pages are like in general: {seen} so far could tell how often these "
        "change.  Ask again once most were fetched a few times."
    )


def plan_words(found: CorpusPlan) -> str:
    """Return what a plan says first.

    Examples
    --------
    "95 % needs 41 fetches/h; you spend 30 and get 91 %; twice the budget would buy 95 %."
    """
    if found.plan.n_pages == 0:
        return "No pages to plan for yet."
    return "  ".join(words for words in (_bought(found), ceiling_words(found)) if words)


def _bought(found: CorpusPlan) -> str:
    plan, say = found.plan, Amounts.of(found)
    if found.budget_per_hour is None or found.freshness is None:
        needs = [
            f"{share_text(goal)} needs {say(budget)}"
            for goal in (0.8, 0.9, 0.95, 0.99)
            if (budget := plan.budget_for(goal, weighted=found.is_weighted)) < math.inf
        ]
        words = ", ".join(needs) or f"At most {share_text(found.freshness_max)} can be kept fresh"
        return f"{words}; no budget per time is set."
    goal = next_goal(found)
    got = share_text(found.freshness)
    if goal is not None:
        twice = plan.freshness_at(2 * found.budget_per_hour, weighted=found.is_weighted)
        return (
            f"{share_text(goal[0])} needs {say(goal[1])}; you spend "
            f"{say.number(found.budget_per_hour)} and get {got}; "
            f"twice the budget would buy {share_text(twice)}."
        )
    spent = f"You spend {say(found.budget_per_hour)} and get {got}"
    if found.is_held_by_delays:
        most = share_text(found.freshness_max)
        return f"{spent}; at most {most} can be had, because of the delays of hosts."
    half = plan.freshness_at(0.5 * found.budget_per_hour, weighted=found.is_weighted)
    return f"{spent}; half the budget would buy {share_text(half)}."


def ceiling_words(found: CorpusPlan) -> str:
    """Return what pages ask for whatever it costs, where that is more than there is or no bound."""
    parts = []
    n_always, asked = found.ceilings.n_always, found.ceilings_per_hour
    if n_always:
        pages = f"{count_text(n_always, 'page')} {'is' if n_always == 1 else 'are'}"
        least = seconds_text(INTERVAL_SECONDS_MIN)
        parts.append(f"{pages} to be fetched always, which counts as every {least}.")
    if found.budget_per_hour is not None and asked > found.budget_per_hour:
        amount = Amounts.of(found)(asked)
        parts.append(
            f"Longest intervals and promises alone ask for {amount}, more than is spent: "
            "next to nothing is left for other pages."
        )
    return "  ".join(parts)


def delay_words(found: CorpusPlan) -> str:
    """Return what the delays of hosts cost; nothing where they cost nothing."""
    hosts = found.hosts
    if not hosts.slowed:
        return ""
    lost = found.hosts.freshness_lost
    much = "less than 0.1" if lost < 0.001 else number_text(round(100 * lost, 1))
    asked = "is asked as often as its delay allows"
    if hosts.n_slowed != 1:
        asked = "are asked as often as their delays allow"
    return f"Delays cost {much} points of freshness: {count_text(hosts.n_slowed, 'host')} {asked}."


def target_words(answer: TargetAnswer, found: CorpusPlan) -> str:
    """Return whether a target can be met, and what it costs."""
    say = Amounts.of(found)
    head = str(answer.target)
    match answer.verdict:
        case "no pages":
            looked = count_text(found.plan.n_counted, "page")
            return f"{head}: cannot be said, as none of the {looked} looked at matches."
        case "out of reach":
            return f"{head}: cannot be met. {_out_of_reach(answer)}"
        case "met":
            spent = say.number(answer.spent_now_per_hour or 0.0)
            return (
                f"{head}: met, with {share_text(answer.share_now or 0.0)} "
                f"for {spent} of {say(found.budget_per_hour or 0.0)}."
            )
        case "too dear":
            return (
                f"{head}: not with this budget. {_pages(answer)} need "
                f"{say(answer.needed_per_hour)} by themselves, and "
                f"{say.number(found.budget_per_hour or 0.0)} are spent in all; "
                f"now it is {share_text(answer.share_now or 0.0)}."
            )
        case "possible" if answer.share_now is None or answer.spent_now_per_hour is None:
            alike = ""
            if answer.target.of is not None:
                alike = f"; {say.number(answer.needed_overall_per_hour)} if all pages get the same"
            return f"{head}: possible. {_pages(answer)} need {say(answer.needed_per_hour)}{alike}."
        case _:
            return f"{head}: possible. {_possible(answer, say)}"


def _possible(answer: TargetAnswer, say: Amounts) -> str:
    spent = say.number(answer.spent_now_per_hour or 0.0)
    words = (
        f"Now it is {share_text(answer.share_now or 0.0)}. {_pages(answer)} need "
        f"{say(answer.needed_per_hour)} instead of {spent}"
    )
    now, then = answer.others_freshness_now, answer.others_freshness_then
    if now is not None and then is not None:
        words += f", and the others {_moved(now, then)}"
    factor = answer.importance_factor
    if factor is not None and factor > 1.005:
        words += f": make them {number_text(round(factor, 1))} times as important"
    return words + f"; or {say(answer.needed_overall_per_hour)} in all, without."


def _below(share: float, target: float) -> str:
    """Return a share with as many digits as it takes to see that it is below another."""
    for digits in range(4):
        rounded = round(100 * share, digits)
        if rounded < 100 * target - 1e-9:
            return f"{rounded:.{digits}f} %"
    return share_text(share)


def _moved(now: float, then: float) -> str:
    if share_text(now) == share_text(then):
        return f"stay at {share_text(now)}"
    return f"go from {share_text(now)} to {share_text(then)}"


def _pages(answer: TargetAnswer) -> str:
    if answer.target.of is None:
        return "All pages"
    about = "about " if answer.n_counted < answer.n_pages else ""
    return f"These {about}{number_text(answer.n_pages)} pages" if answer.n_pages != 1 else "It"


def _out_of_reach(answer: TargetAnswer) -> str:
    most = f"At most it is {_below(answer.share_max, answer.target.share)}, whatever is spent"
    if answer.share_max_without_delays >= answer.target.share:
        return f"{most}: the delays of hosts allow no more, and without them it could be met."
    return f"{most}: pages may not be fetched often enough (min_age, closed hosts)."


def together_words(found: CorpusPlan) -> str:
    """Return whether all targets can be met at once; nothing of one or none."""
    at_once = found.together
    if at_once is None:
        return ""
    say = Amounts.of(found)
    if not at_once.is_possible:
        if not at_once.needed_per_hour < math.inf:
            return "All together: no, as one of them cannot be met."
        return (
            f"All together: not with this budget; they need {say(at_once.needed_per_hour)}, "
            f"and {say.number(found.budget_per_hour or 0.0)} are spent."
        )
    words = f"All together: possible, for {say(at_once.needed_per_hour)}"
    now, then = at_once.others_freshness_now, at_once.others_freshness_then
    if now is not None and then is not None:
        words += f"; all other pages {_moved(now, then)}"
    return words + "."
