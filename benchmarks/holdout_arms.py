"""Check on simulated webs that audits show the true freshness of both arms of a hold-out.

Each web is crawled by a real corpus with its picker, on a clock that is set by hand.  Both arms get
the same fetches per page, so recrawl can only be ahead where pages change at different rates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import recrawl
from recrawl.corpus import Corpus, CorpusConfig, Difference, HoldoutView, Outcome
from recrawl.node.config.holdout_section import HoldoutConfig, keeps_old_rule

__all__ = [
    "DESIGNS",
    "ArmAudits",
    "ArmsDesign",
    "ArmsError",
    "CrawledArms",
    "crawl_arms",
    "measure",
]

_DAY = 86_400.0
# Every web begins then.
_START_MS = 1_700_000_000_000
# Webs of a design differ by up to so many hosts.
_MORE_HOSTS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmsDesign:
    """One kind of web, and how it is crawled."""

    name: str
    rate_spread: float = 0.0
    """Standard deviation of the logarithm of the change rates of pages, and of their hosts."""
    budget_factor: float = 1.0
    """Budget, in fetches of each page in a day."""
    interval_days: float | None = None
    """Interval of held-out pages; None for the one that gives both arms the same fetches."""
    delay_hours: float = 0.0
    """Delay between two fetches of a host."""
    n_hosts: int = 80
    """Number of hosts, of the smallest webs."""
    pages_per_host: int = 4
    audit_share: float = 0.2
    leases_per_day: int = 8
    n_days_before: int = 4
    """Days before audits and freshness are counted."""
    n_days: int = 12
    """Days in which they are counted."""


DESIGNS = (
    ArmsDesign(name="equal change rates"),
    ArmsDesign(name="unequal change rates", rate_spread=1.0),
    ArmsDesign(name="more budget than the old rule had", budget_factor=2.0, interval_days=1.0),
    ArmsDesign(name="hosts with delays", delay_hours=0.9, leases_per_day=48, n_days=8),
)


class ArmAudits(NamedTuple):
    """True and audited freshness of one arm."""

    freshness: float
    """Share of copies that equal their page, on average over all leases."""
    n_audited: int
    n_fresh: int
    fetches_per_page: float
    """Fetches of a page in a day."""

    @property
    def audited(self) -> float:
        """Share of audited copies that were fresh."""
        return self.n_fresh / max(self.n_audited, 1)

    @property
    def deviations(self) -> float:
        """Audited less true freshness, in standard errors."""
        variance = self.freshness * (1 - self.freshness) / max(self.n_audited, 1)
        return (self.audited - self.freshness) / max(variance, 1e-12) ** 0.5


class CrawledArms(NamedTuple):
    """Both arms of one web."""

    ours: ArmAudits
    held_out: ArmAudits
    difference: Difference
    """What the hold-out reports at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmsError:
    """Results of all webs of one design, in percentage points."""

    design: str
    n_webs: int
    true_difference: float
    """Mean freshness of recrawl less that of the held-out hosts."""
    audited_difference: float
    error_ours: float
    """Audited less true freshness of recrawl, over all webs together."""
    standard_error_ours: float
    error_held_out: float
    standard_error_held_out: float
    fetches_ratio: float
    """Fetches of a held-out page for each fetch of another."""
    found_share: float
    """Share of webs in which the hold-out reports a difference."""


class _Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self._ms = 0

    def wall_ms(self) -> int:
        return _START_MS + self._ms

    def running_ms(self) -> int:
        return self._ms

    def sleep(self, seconds: float) -> None:
        self.pass_seconds(seconds)

    def pass_seconds(self, seconds: float) -> None:
        self._ms += round(1000 * seconds)


def crawl_arms(design: ArmsDesign, seed: int) -> CrawledArms:
    """Crawl one web, and compare the audits of both arms with their true freshness.

    Parameters
    ----------
    design
        Kind of web.
    seed
        Random seed of the changes; it chooses the held-out hosts, too.
    """
    with TemporaryDirectory() as folder:
        return _Crawl(design, seed, Path(folder)).run()


class _Crawl:
    """The crawl of one web.  The version of a page grows with each change."""

    def __init__(self, design: ArmsDesign, seed: int, folder: Path) -> None:
        self._design = design
        self._rng = rng = np.random.default_rng([46, seed])
        # Audits are chosen by the number of the order and that of all pages, so webs of the same
        # size would have the same audits, and their errors would not be independent.
        n_hosts = design.n_hosts + int(rng.integers(_MORE_HOSTS))
        hosts = [f"site{i}.example" for i in range(n_hosts)]
        self._urls = [f"https://{host}/{i}" for host in hosts for i in range(design.pages_per_host)]
        self._page = {url: i for i, url in enumerate(self._urls)}
        n = len(self._urls)
        by_host = np.repeat(rng.standard_normal(n_hosts), design.pages_per_host)
        speed = np.exp(design.rate_spread * (by_host + rng.standard_normal(n)))
        # One change for each fetch that a page gets on average.
        self._changes_per_day = design.budget_factor * speed
        self._version = np.zeros(n, np.int64)
        self._copy = np.full(n, -1, np.int64)
        self._n_fetched = np.zeros(n, np.int64)
        self._clock = _Clock()
        self._folder = folder
        # The interval does not matter to who is held out.
        held = HoldoutConfig(share=0.5, interval=_DAY, name=f"web {seed}")
        self._is_held = np.repeat(
            keeps_old_rule(pa.array(hosts, pa.string()), held), design.pages_per_host
        )
        self._config: dict[str, Any] = {
            "budget": {"rate": f"{design.budget_factor * n}/d"},
            "audit": {"share": design.audit_share},
            "politeness": {
                "delay": 3_600 * design.delay_hours,
                "in_flight_max": 1 if design.delay_hours else 1_000,
                "burst": 1 if design.delay_hours else 1_000,
            },
            "holdout": {"share": 0.5, "interval": _DAY, "name": held.name},
        }

    def run(self) -> CrawledArms:
        """Crawl all days, and return what was found in the last ones."""
        design = self._design
        interval = design.interval_days and _DAY * design.interval_days
        if interval is None:
            with self._open() as corpus:
                corpus.add(self._urls)
                interval = corpus.holdout().fair_interval_seconds
        self._config["holdout"]["interval"] = interval
        with self._open() as corpus:
            corpus.add(self._urls)
            self._crawl(corpus, design.n_days_before)
            before = corpus.holdout()
            self._n_fetched[:] = 0
            freshness = self._crawl(corpus, design.n_days)
            after = corpus.holdout()
        return CrawledArms(
            self._arm(~self._is_held, freshness[0], _counts(before)[0], _counts(after)[0]),
            self._arm(self._is_held, freshness[1], _counts(before)[1], _counts(after)[1]),
            after.difference,
        )

    def _open(self) -> Corpus:
        config = CorpusConfig.from_dict(self._config)
        return recrawl.open(self._folder / "corpus", config, clock=self._clock)

    def _crawl(self, corpus: Corpus, n_days: int) -> tuple[float, float]:
        """Crawl some days; return the mean freshness of each arm at all leases."""
        design = self._design
        step = _DAY / design.leases_per_day
        n_leases = n_days * design.leases_per_day
        fresh = np.zeros((n_leases, 2))
        for i in range(n_leases):
            self._clock.pass_seconds(step)
            self._version += self._rng.poisson(self._changes_per_day * step / _DAY)
            is_fresh = self._version == self._copy
            fresh[i] = is_fresh[~self._is_held].mean(), is_fresh[self._is_held].mean()
            outcomes = []
            for order in corpus.lease(len(self._urls)):
                page = self._page[order.url]
                self._copy[page] = self._version[page]
                self._n_fetched[page] += 1
                outcomes.append(Outcome(handle=order.handle, digest=b"%d" % self._version[page]))
            corpus.report(outcomes)
        ours, held_out = fresh.mean(axis=0).tolist()
        return ours, held_out

    def _arm(
        self,
        pages: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
        freshness: float,
        before: tuple[int, int],
        after: tuple[int, int],
    ) -> ArmAudits:
        return ArmAudits(
            freshness,
            after[0] - before[0],
            after[1] - before[1],
            float(self._n_fetched[pages].mean()) / self._design.n_days,
        )


def _counts(view: HoldoutView) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the audits of each arm, and how many of them found a fresh copy."""
    ours, held_out = view.ours, view.held_out
    return (ours.n_audited, ours.n_audited_fresh), (held_out.n_audited, held_out.n_audited_fresh)


def measure(n_webs: int, designs: Sequence[ArmsDesign] = DESIGNS) -> list[ArmsError]:
    """Crawl some webs of each design, and compare audits with the truth."""
    found = []
    for design in designs:
        webs = [crawl_arms(design, seed) for seed in range(n_webs)]
        error_ours, standard_error_ours = _error([web.ours for web in webs])
        error_held_out, standard_error_held_out = _error([web.held_out for web in webs])
        found.append(
            ArmsError(
                design=design.name,
                n_webs=n_webs,
                true_difference=_mean([w.ours.freshness - w.held_out.freshness for w in webs]),
                audited_difference=_mean([w.ours.audited - w.held_out.audited for w in webs]),
                error_ours=error_ours,
                standard_error_ours=standard_error_ours,
                error_held_out=error_held_out,
                standard_error_held_out=standard_error_held_out,
                fetches_ratio=sum(w.held_out.fetches_per_page for w in webs)
                / sum(w.ours.fetches_per_page for w in webs),
                found_share=float(np.mean([web.difference.is_found for web in webs])),
            )
        )
    return found


def _mean(shares: list[float]) -> float:
    return 100 * float(np.mean(shares))


def _error(arms: list[ArmAudits]) -> tuple[float, float]:
    """Return the error of an arm's audits over all webs, and its standard error, in points."""
    audits = np.array([arm.n_audited for arm in arms])
    errors = np.array([arm.audited - arm.freshness for arm in arms])
    variances = np.array([arm.freshness * (1 - arm.freshness) for arm in arms])
    n = max(int(audits.sum()), 1)
    return 100 * float(audits @ errors) / n, 100 * float(audits @ variances) ** 0.5 / n
