"""A web on your own machine that misbehaves, with known truth, to test crawlers against.

Its hosts have pages from `recrawl.sim.pages`, robots.txt, sitemaps, feeds and validators of every
kind, and faults: redirects without end, answers that stall, bombs, wrong lengths.  The server logs
each request.  `find_violations`, `mean_freshness` and `judge_changes` say from the log how polite a
crawler was, how fresh its copies were, and which changes it reported falsely.
"""

from recrawl.testing.web.freshness import (
    ChangeVerdicts,
    CopyMade,
    copies_made,
    judge_changes,
    mean_freshness,
)
from recrawl.testing.web.hosts import make_hosts
from recrawl.testing.web.local_web import LocalWeb, RequestKind, WebPage
from recrawl.testing.web.politeness import Violation, ViolationKind, find_violations
from recrawl.testing.web.request_log import LoggedRequest, RequestLog, read_request_log
from recrawl.testing.web.server import WebServer, serve
from recrawl.testing.web.traits import (
    FeedKind,
    HostTraits,
    MissingPage,
    ReplyFault,
    RobotsKind,
    SitemapDates,
    SitemapForm,
    TlsKind,
    ValidatorKind,
)

__all__ = [
    "ChangeVerdicts",
    "CopyMade",
    "FeedKind",
    "HostTraits",
    "LocalWeb",
    "LoggedRequest",
    "MissingPage",
    "ReplyFault",
    "RequestKind",
    "RequestLog",
    "RobotsKind",
    "SitemapDates",
    "SitemapForm",
    "TlsKind",
    "ValidatorKind",
    "Violation",
    "ViolationKind",
    "WebPage",
    "WebServer",
    "copies_made",
    "find_violations",
    "judge_changes",
    "make_hosts",
    "mean_freshness",
    "read_request_log",
    "serve",
]
