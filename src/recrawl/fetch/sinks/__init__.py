"""Where new versions of pages go: a spool of bodies, and sinks that each receive every version."""

from recrawl.fetch.sinks.contract import BatchSettings, Sink
from recrawl.fetch.sinks.opening import SINK_KINDS, open_sink, parse_sink
from recrawl.fetch.sinks.runner import SinkRunner, SinkStatus
from recrawl.fetch.sinks.spool import SPOOL_BYTES_MAX, Spool
from recrawl.fetch.sinks.version import FetchedPage, PageVersion

__all__ = [
    "SINK_KINDS",
    "SPOOL_BYTES_MAX",
    "BatchSettings",
    "FetchedPage",
    "PageVersion",
    "Sink",
    "SinkRunner",
    "SinkStatus",
    "Spool",
    "open_sink",
    "parse_sink",
]
