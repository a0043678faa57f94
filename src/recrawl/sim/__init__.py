"""Simulated webs, exact accounts of freshness, and the scheduling rules of other crawlers.

Everything runs on virtual time, in seconds from the start, and is determined by random seeds.
The history of a page depends only on the seed and the page, so all policies see the same web.
"""

from typing import TYPE_CHECKING

from recrawl.deprecated_names import find_moved_names
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
    FetchOutcomes,
    KnownPages,
    Policy,
    ProportionalToImportance,
    Uniform,
)
from recrawl.sim.policies.shard_policy import ShardPolicy, unlimited_settings
from recrawl.sim.web.content import Content, Flapping, Replaces
from recrawl.sim.web.dynamics import Drift, HotStart, SiteWide, WeeklyCycle, change_times
from recrawl.sim.web.failures import Failures
from recrawl.sim.web.groups import GroupSizes
from recrawl.sim.web.histories import recorded_web, renumber_versions
from recrawl.sim.web.presets import papers_web, realistic_web, signals_paper_web, signals_web
from recrawl.sim.web.signals import SignalSource, WebSignals, emit_signals
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
    "FetchOutcomes",
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
    "PageTotals",
    "Policy",
    "Polls",
    "ProportionalToImportance",
    "Replaces",
    "ShardPolicy",
    "SignalSource",
    "SiteWide",
    "StormCrawler",
    "Sum",
    "Times",
    "Uniform",
    "Waits",
    "Web",
    "WebSignals",
    "WeeklyCycle",
    "Windows",
    "YaCy",
    "change_times",
    "compiled_rule",
    "emit_signals",
    "make_web",
    "papers_web",
    "realistic_web",
    "recorded_web",
    "renumber_versions",
    "request_counts",
    "run_compiled",
    "run_freely",
    "scale_for_budget",
    "signals_paper_web",
    "signals_web",
    "simulate",
    "trust_signals",
    "unlimited_settings",
]

# Names of recrawl 0.1.0.
_MOVED = {
    "Outcomes": "recrawl.sim.FetchOutcomes",
    "Signals": "recrawl.sim.WebSignals",
    "emitted_signals": "recrawl.sim.emit_signals",
    "renumbered_versions": "recrawl.sim.renumber_versions",
    "unlimited": "recrawl.sim.unlimited_settings",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
