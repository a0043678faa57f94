"""What the oracle of the month would lose without parts of its knowledge and of its budget."""

from typing import TypedDict

from benchmarks.month import FreshnessJudge
from benchmarks.month_crawl import make_month_web
from benchmarks.month_oracle import IGNORANCES, run_oracle

__all__ = ["OracleRow", "measure"]


class OracleRow(TypedDict):
    """An oracle that lacks something, and its freshness beside that of the whole oracle."""

    lacks: str
    freshness: float
    ratio_of_oracle: float


def measure(
    n_hosts: int = 45,
    n_pages: int = 1_350,
    n_days: float = 30.0,
    days_per_fetch: float = 4.0,
    seed: int = 0,
) -> list[OracleRow]:
    """Return how much fresher an oracle is for each thing that it has and a crawler has not.

    Parameters
    ----------
    n_hosts, n_pages
        Size of the web, which has no sitemaps of pages that do not exist.
    n_days
        Length of each crawl.
    days_per_fetch
        Budget: days in which each page can be fetched once.
    seed
        Random seed of the web.
    """
    web = make_month_web(n_hosts, n_pages, n_days, seed, has_huge_sitemaps=False)
    judge = FreshnessJudge(web, n_days)
    budget = n_pages / days_per_fetch
    runs = {"nothing": run_oracle(web, judge.pages, budget, n_days)}
    for one in IGNORANCES:
        runs[one] = run_oracle(web, judge.pages, budget, n_days, without=(one,))
    runs["a tenth of the budget"] = run_oracle(web, judge.pages, 0.9 * budget, n_days)
    runs["all of these"] = run_oracle(web, judge.pages, 0.9 * budget, n_days, without=IGNORANCES)
    runs["sitemaps and feeds"] = run_oracle(web, judge.pages, budget, n_days, has_signals=False)
    freshness = {lacks: judge.freshness(run.copies) for lacks, run in runs.items()}
    return [
        {
            "lacks": lacks,
            "freshness": round(value, 4),
            "ratio_of_oracle": round(value / freshness["nothing"], 4),
        }
        for lacks, value in freshness.items()
    ]
