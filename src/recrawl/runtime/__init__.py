"""The durable node: a clock, configuration, and shards whose every change is on disk first."""

from recrawl.runtime.aio import AsyncCorpus
from recrawl.runtime.clock import Clock, SystemClock
from recrawl.runtime.config import CorpusConfig
from recrawl.runtime.corpus import Added, Corpus, Reported
from recrawl.runtime.explaining import PageExplanation
from recrawl.runtime.feed import Change
from recrawl.runtime.opening import open_corpus
from recrawl.runtime.orders import Order, Outcome
from recrawl.runtime.plan import Plan
from recrawl.runtime.setting import PageSettings
from recrawl.runtime.stats import Stats

__all__ = [
    "Added",
    "AsyncCorpus",
    "Change",
    "Clock",
    "Corpus",
    "CorpusConfig",
    "Order",
    "Outcome",
    "PageExplanation",
    "PageSettings",
    "Plan",
    "Reported",
    "Stats",
    "SystemClock",
    "open_corpus",
]
