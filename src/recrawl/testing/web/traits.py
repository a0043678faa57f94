"""What hosts of the local web are like: the kinds of robots.txt, sitemaps, feeds, validators."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "FeedKind",
    "HostTraits",
    "MissingPage",
    "ReplyFault",
    "RobotsKind",
    "SitemapDates",
    "SitemapForm",
    "TlsKind",
    "ValidatorKind",
]


class RobotsKind(StrEnum):
    """What a host answers for ``/robots.txt``.

    Pages below ``/private/`` are disallowed by every kind that has rules, unless it says
    otherwise.
    """

    ALLOW_ALL = "allow_all"
    MISSING = "missing"  # 404: everything is allowed
    FORBIDDEN = "forbidden"  # 403: everything is allowed (RFC 9309, section 2.3.1.3)
    DISALLOW_SOME = "disallow_some"
    DISALLOW_ALL = "disallow_all"
    PATTERNS = "patterns"  # with *, $ and a longer Allow
    OTHER_CRAWLER = "other_crawler"  # everything is disallowed, but for another crawler
    OWN_GROUP = "own_group"  # a group for recrawl, which is laxer than the one for all others
    CRAWL_DELAY = "crawl_delay"
    REDIRECT = "redirect"  # to another path, which has the rules
    REDIRECT_LOOP = "redirect_loop"  # unavailable: everything is allowed
    HUGE = "huge"  # 600 KiB; its rules are at the beginning
    HTML = "html"  # status 200 and a page in HTML, which has no rules
    ODD_BYTES = "odd_bytes"  # a byte order mark, carriage returns, bytes that are not UTF-8
    SLOW = "slow"  # answers after five seconds
    CHANGES = "changes"  # allows everything at first, and disallows pages after a day
    SERVER_ERROR = "server_error"  # 503: everything is disallowed
    UNREACHABLE_AT_FIRST = "unreachable_at_first"  # 503 for three hours, then the rules
    DROPPED = "dropped"  # closes the connection: everything is disallowed


class SitemapForm(StrEnum):
    """How a host sends its sitemap."""

    MISSING = "missing"
    PLAIN = "plain"
    GZIP = "gzip"  # a compressed file, sitemap.xml.gz
    INDEX = "index"  # an index of several sitemaps
    TEXT = "text"  # one URL per line
    BROKEN = "broken"  # ends in the middle of an element
    HUGE = "huge"  # has far more URLs than the host has pages


class SitemapDates(StrEnum):
    """What the dates (``lastmod``) in a sitemap say about its pages."""

    NONE = "none"
    RIGHT = "right"
    DATE_ONLY = "date_only"  # right, without the time of day
    STALE = "stale"  # right, but the sitemap is written once a day
    BUILD_TIME = "build_time"  # all the time at which the site was built last, every six hours
    WRONG = "wrong"  # random


class FeedKind(StrEnum):
    """What feed a host has at ``/feed.xml``: the ten pages that changed last."""

    MISSING = "missing"
    RSS = "rss"
    ATOM = "atom"
    BROKEN = "broken"  # ends in the middle of an element


class ValidatorKind(StrEnum):
    """Which validators a host sends with its pages, and when it answers 304."""

    RIGHT = "right"  # ETag and Last-Modified; 304 exactly if the page has not changed
    NONE = "none"
    WEAK = "weak"  # a weak ETag
    DATE_ONLY = "date_only"  # Last-Modified alone
    TWO_SERVERS = "two_servers"  # two servers, each with ETags of its own
    EVERY_ANSWER = "every_answer"  # a new ETag for each answer, so never 304
    DATE_OF_ANSWER = "date_of_answer"  # Last-Modified is the time of the request
    IGNORED = "ignored"  # ETags, but never 304
    WRONG_304 = "wrong_304"  # notices changes only at the end of the day, so some 304s are wrong


class MissingPage(StrEnum):
    """What a host answers for a page that it does not have."""

    NOT_FOUND = "not_found"
    GONE = "gone"
    SOFT_404 = "soft_404"
    HOME_PAGE = "home_page"  # redirects to the home page


class TlsKind(StrEnum):
    """What is wrong with the certificate or the handshake of a host."""

    RIGHT = "right"
    SELF_SIGNED = "self_signed"
    EXPIRED = "expired"
    WRONG_NAME = "wrong_name"
    PLAIN_TEXT = "plain_text"  # answers HTTP without TLS
    DROPPED = "dropped"  # closes the connection during the handshake
    GARBAGE = "garbage"  # sends random bytes instead of a handshake


class ReplyFault(StrEnum):
    """What is wrong with an answer of the local web.

    Every host shows each of them at the path ``/fault/NAME``.
    """

    # Status codes
    NOT_FOUND = "not_found"
    GONE = "gone"
    FORBIDDEN = "forbidden"
    SERVER_ERROR = "server_error"
    TOO_MANY = "too_many"  # 429 without Retry-After
    TOO_MANY_SECONDS = "too_many_seconds"  # 429 with Retry-After in seconds
    TOO_MANY_DATE = "too_many_date"  # 429 with Retry-After as a date
    UNAVAILABLE = "unavailable"  # 503 without Retry-After
    UNAVAILABLE_SECONDS = "unavailable_seconds"  # 503 with Retry-After in seconds
    BAD_RETRY_AFTER = "bad_retry_after"  # 503 with a Retry-After that nobody can read
    # Pages that are not the page
    SOFT_404 = "soft_404"
    BLOCKED = "blocked"
    EMPTY = "empty"
    # Redirects
    REDIRECT = "redirect"
    REDIRECT_TEMPORARY = "redirect_temporary"
    REDIRECT_CHAIN = "redirect_chain"  # four hops
    REDIRECT_LONG = "redirect_long"  # forty hops
    REDIRECT_LOOP = "redirect_loop"
    REDIRECT_OTHER_HOST = "redirect_other_host"
    REDIRECT_NOWHERE = "redirect_nowhere"  # without Location
    REDIRECT_BAD = "redirect_bad"  # to something that is not a URL
    REDIRECT_PRIVATE = "redirect_private"  # to an address inside a private network
    # Delivery
    SLOW_START = "slow_start"
    SLOW_BODY = "slow_body"
    STALLED = "stalled"  # never answers
    STALLED_BODY = "stalled_body"
    DROPPED = "dropped"  # closes the connection without an answer
    DROPPED_BODY = "dropped_body"
    RESET = "reset"
    OVERSIZED = "oversized"
    ENDLESS = "endless"
    # Lengths, encodings and headers
    LENGTH_TOO_LONG = "length_too_long"
    LENGTH_TOO_SHORT = "length_too_short"
    LENGTH_BAD = "length_bad"
    CHUNKS_BAD = "chunks_bad"
    BOMB = "bomb"
    BOMB_TWICE = "bomb_twice"
    GZIP_BAD = "gzip_bad"
    GZIP_CUT = "gzip_cut"
    ENCODING_UNKNOWN = "encoding_unknown"
    HEADER_HUGE = "header_huge"
    HEADERS_MANY = "headers_many"
    HEADER_BAD = "header_bad"
    STATUS_BAD = "status_bad"
    NOT_HTTP = "not_http"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTraits:
    """What a host of the local web is like.

    Parameters
    ----------
    name
        Name of the host.
    page_kind, seed, n_pages
        Pages of the host; see `recrawl.sim.pages.make_site`.
    rate_spread, shocks_per_day, shock_share
        How its pages change; see `recrawl.sim.pages.make_site`.
    robots
        Kind of its robots.txt.
    crawl_delay_seconds
        Crawl-delay of its robots.txt, where the kind is ``CRAWL_DELAY``.
    sitemap, sitemap_dates
        Form of its sitemap, and what the dates in it say.
    feed
        Kind of its feed.
    validators
        Validators of its pages.
    missing
        Answer for pages that it does not have.
    faults
        Faults of its answers, each with its share of the requests for pages.
    answer_seconds
        Time until an answer begins.
    is_compressed
        Whether pages are sent with gzip to clients that accept it.
    has_calendar
        Whether the pages link to a calendar without end.
    tls
        Fault of its TLS; ``None`` if it has none and is reached by plain HTTP.
    """

    name: str
    page_kind: str = "news_article"
    seed: int = 0
    n_pages: int = 12
    rate_spread: float = 0.0
    shocks_per_day: float = 0.0
    shock_share: float = 0.0
    robots: RobotsKind = RobotsKind.ALLOW_ALL
    crawl_delay_seconds: float = 5.0
    sitemap: SitemapForm = SitemapForm.PLAIN
    sitemap_dates: SitemapDates = SitemapDates.RIGHT
    feed: FeedKind = FeedKind.MISSING
    validators: ValidatorKind = ValidatorKind.RIGHT
    missing: MissingPage = MissingPage.NOT_FOUND
    faults: tuple[tuple[ReplyFault, float], ...] = ()
    answer_seconds: float = 0.05
    is_compressed: bool = False
    has_calendar: bool = False
    tls: TlsKind | None = None
