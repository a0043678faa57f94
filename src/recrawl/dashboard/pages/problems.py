"""The problems of a corpus now, each with where to solve it."""

import math
from typing import Final, NamedTuple

from recrawl.corpus import CheckResult, OverviewPart
from recrawl.messages.samples import Sample
from recrawl.units import count_text, share_text

__all__ = ["PageProblem", "find_problems"]

_DOCS: Final = "https://github.com/recrawl/recrawl/blob/main/docs/how-to"
_FETCHER_GUIDE: Final = f"{_DOCS}/watch-in-the-browser.md#run-a-fetcher"
# Page of the dashboard, or guide, that helps with the results of each check.
_SOLUTIONS: Final = {
    "fetchers": (_FETCHER_GUIDE, "Read how to run a fetcher"),
    "limits": ("plan", "See what the limits cost"),
    "host limits": ("hosts", "Change the delays of hosts"),
    "hosts": ("hosts", "See the hosts"),
    "sources": ("sources", "See the sources"),
    "audits": ("proof", "See what audits have found"),
    "wrong answers": ("hosts", "See the hosts"),
    "consumers": (f"{_DOCS}/follow-changes.md", "Read how to follow changes"),
}
_BEGINNINGS: Final = {
    "audits": "Audits of ",
    "consumers": "Consumers: ",
    "host limits": "Host limits: ",
    "hosts": "Hosts ",
    "limits": "Limits: ",
    "sources": "Source ",
}
_FAILED_SHARE_MAX: Final = 0.2
_FETCHES_MIN: Final = 100


class PageProblem(NamedTuple):
    """Something that a person should look at."""

    level: str
    """``bad`` if something is broken or cannot be kept, otherwise ``warn``."""
    what: str
    todo: str
    target: str
    """Section of the dashboard, or the address of a guide."""
    link: str
    """Text of the link."""


def find_problems(said: OverviewPart, sample: Sample) -> list[PageProblem]:
    """Return the problems of a corpus, the worst first.

    Parameters
    ----------
    said
        Problems that checks have found, and workers that have not answered.
    sample
        Present state of all partitions.
    """
    found = [*_in_figures(sample), *(_in_words(one) for one in said.problems)]
    if said.workers_away:
        names = ", ".join(said.workers_away)
        workers = "The workers" if len(said.workers_away) > 1 else "The worker"
        have = "have" if len(said.workers_away) > 1 else "has"
        found.append(
            PageProblem(
                "warn",
                f"{workers} {names} {have} not answered in time: problems and changes there are "
                "missing here",
                "See `recrawl cluster status`.",
                f"{_DOCS}/run-a-cluster.md",
                "Read how to run a cluster",
            )
        )
    return sorted(found, key=lambda one: one.level != "bad")


def _in_words(result: CheckResult) -> PageProblem:
    default = (f"{_DOCS}/index.md", "Read the guides")
    target, link = _SOLUTIONS.get(result.check, default)
    what = _BEGINNINGS.get(result.check, "") + result.what
    what = what[:1].upper() + what[1:]
    return PageProblem(str(result.level), what, result.todo, target, link)


def _in_figures(sample: Sample) -> list[PageProblem]:
    total, found = sample.total, []
    if sample.n_partitions_away:
        away = count_text(sample.n_partitions_away, "partition")
        found.append(
            PageProblem(
                "bad",
                f"{away} cannot be reached, and nothing of them is counted here",
                "See `recrawl cluster status`: another worker takes them over soon.",
                f"{_DOCS}/run-a-cluster.md",
                "Read how to run a cluster",
            )
        )
    if not total.n_pages:
        add = "Add some with `recrawl add urls.txt`."
        found.append(
            PageProblem(
                "warn",
                "There are no pages",
                add,
                f"{_DOCS}/find-pages.md",
                "Read how to find pages",
            )
        )
    elif not total.n_fetches and not total.fresh_pages:
        found.append(
            PageProblem(
                "warn",
                "No page has been fetched yet",
                "Run a fetcher beside the server: `recrawl run -C ADDRESS`, with the address that "
                "`recrawl serve` printed.",
                _FETCHER_GUIDE,
                "Read how to run a fetcher",
            )
        )
    if sample.budget_per_second is None or math.isinf(sample.budget_per_second):
        found.append(
            PageProblem(
                "warn",
                "No budget is set, so every page is always due",
                "Set one with `recrawl set --budget 200/d`.",
                "plan",
                "See what budgets achieve",
            )
        )
    n_failed = total.results["failed"] + total.results["wrong_answer"]
    if total.n_fetches >= _FETCHES_MIN and n_failed > _FAILED_SHARE_MAX * total.n_fetches:
        share = share_text(n_failed / total.n_fetches)
        found.append(
            PageProblem(
                "warn",
                f"{share} of all fetches failed or got a wrong answer",
                "Look at the hosts with the most errors.",
                "hosts",
                "See the hosts",
            )
        )
    return found
