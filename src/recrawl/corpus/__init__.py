"""The durable node: a clock, configuration, and shards whose every change is on disk first."""

from recrawl.corpus.aio import AsyncCorpus
from recrawl.corpus.corpus import Added, Corpus, Reported
from recrawl.corpus.inspect.change_feed import Change
from recrawl.corpus.inspect.explanation import PageExplanation
from recrawl.corpus.inspect.stats import Stats
from recrawl.corpus.opening import open_corpus
from recrawl.corpus.plan.curve import Plan
from recrawl.node.clock import Clock, SystemClock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.orders import Order, Outcome
from recrawl.node.settings.pages import PageSettings

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
