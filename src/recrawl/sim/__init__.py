"""A simulated web, exact accounts of freshness, and the policies that people run today.

Everything runs on virtual time, in seconds from the start, and draws from seeds only.  What
happens to a page depends on the seed and the page alone, so rivals see the same web.
"""

from recrawl.sim.accounting import Account, Bookkeeper, Sum
from recrawl.sim.driver import Fetcher, OnFetches, run_freely, scale_for_budget, simulate
from recrawl.sim.policies.averaged import AveragedArgmax
from recrawl.sim.policies.compiled_rules import PageTotals, compiled_rule, run_compiled
from recrawl.sim.policies.interval_policy import IntervalPolicy, trust_signals
from recrawl.sim.policies.interval_rules import (
    CC_NEWS,
    ChangeRatio,
    FixedInterval,
    Heritrix,
    IntervalRule,
    NutchAdaptive,
    Polls,
    StormCrawler,
    Waits,
    YaCy,
)
from recrawl.sim.policies.oracle import Oracle
from recrawl.sim.policies.policy import (
    KnownPages,
    Outcomes,
    Policy,
    ProportionalToImportance,
    Uniform,
)
from recrawl.sim.policies.shard_policy import ShardPolicy, unlimited
from recrawl.sim.web.content import Content, Flapping, Replaces
from recrawl.sim.web.dynamics import Drift, HotStart, SiteWide, WeeklyCycle, change_times
from recrawl.sim.web.failures import Failures
from recrawl.sim.web.groups import GroupSizes
from recrawl.sim.web.histories import recorded_web, renumbered_versions
from recrawl.sim.web.presets import papers_web, realistic_web, signals_paper_web, signals_web
from recrawl.sim.web.signals import Signals, SignalSource, emitted_signals
from recrawl.sim.web.times import Times, Windows
from recrawl.sim.web.webs import Web, make_web, request_counts

__all__ = [
    "CC_NEWS",
    "Account",
    "AveragedArgmax",
    "Bookkeeper",
    "ChangeRatio",
    "Content",
    "Drift",
    "Failures",
    "Fetcher",
    "FixedInterval",
    "Flapping",
    "GroupSizes",
    "Heritrix",
    "HotStart",
    "IntervalPolicy",
    "IntervalRule",
    "KnownPages",
    "NutchAdaptive",
    "OnFetches",
    "Oracle",
    "Outcomes",
    "PageTotals",
    "Policy",
    "Polls",
    "ProportionalToImportance",
    "Replaces",
    "ShardPolicy",
    "SignalSource",
    "Signals",
    "SiteWide",
    "StormCrawler",
    "Sum",
    "Times",
    "Uniform",
    "Waits",
    "Web",
    "WeeklyCycle",
    "Windows",
    "YaCy",
    "change_times",
    "compiled_rule",
    "emitted_signals",
    "make_web",
    "papers_web",
    "realistic_web",
    "recorded_web",
    "renumbered_versions",
    "request_counts",
    "run_compiled",
    "run_freely",
    "scale_for_budget",
    "signals_paper_web",
    "signals_web",
    "simulate",
    "trust_signals",
    "unlimited",
]
