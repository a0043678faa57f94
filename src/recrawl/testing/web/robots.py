"""The robots.txt of hosts, and what they allow."""

from recrawl.testing.web.replies import Reply
from recrawl.testing.web.traits import HostTraits, ReplyFault, RobotsKind

__all__ = ["CRAWLER_NAME", "answer_robots", "is_allowed", "robots_delay_seconds"]

CRAWLER_NAME = "recrawl"
"""Name of the crawler in the robots.txt of kind ``OWN_GROUP``."""

CHANGES_AFTER_SECONDS = 86_400
UNREACHABLE_SECONDS = 3 * 3_600
SLOW_SECONDS = 5.0
_HUGE_BYTES = 600 * 1024

_SOME = "User-agent: *\nDisallow: /private/\n"
_TEXTS = {
    RobotsKind.ALLOW_ALL: "User-agent: *\nDisallow:\n",
    RobotsKind.DISALLOW_ALL: "User-agent: *\nDisallow: /\n",
    RobotsKind.OTHER_CRAWLER: (
        "User-agent: otherbot\nUser-agent: thirdbot\nDisallow: /\n\nUser-agent: *\nDisallow:\n"
    ),
    RobotsKind.OWN_GROUP: (
        f"User-agent: *\nDisallow: /\n\nUser-agent: {CRAWLER_NAME.title()}\nDisallow: /private/\n"
    ),
    RobotsKind.PATTERNS: (
        "# longest match wins\nUser-agent: *\nDisallow: /*/9$\nDisallow: /*?session=\n"
        "Disallow: /private/\nAllow: /private/19$\nDisallow: /*.pdf$\n"
    ),
}
_UNREACHABLE = (RobotsKind.SERVER_ERROR, RobotsKind.DROPPED)
_WITHOUT_RULES = (
    RobotsKind.ALLOW_ALL,
    RobotsKind.MISSING,
    RobotsKind.FORBIDDEN,
    RobotsKind.OTHER_CRAWLER,
    RobotsKind.REDIRECT_LOOP,
    RobotsKind.HTML,
    RobotsKind.CRAWL_DELAY,
)


def answer_robots(
    traits: HostTraits, path: str, since_start_seconds: float, sitemap_url: str | None
) -> Reply:
    """Return the answer for the robots.txt of a host, or for the path it redirects to.

    Parameters
    ----------
    traits
        Traits of the host.
    path
        Path of the request.
    since_start_seconds
        Time since the web started.
    sitemap_url
        URL of the sitemap that the robots.txt names; ``None`` if it names none.
    """
    kind = traits.robots
    if kind in (RobotsKind.MISSING, RobotsKind.FORBIDDEN):
        status = 404 if kind is RobotsKind.MISSING else 403
        return Reply(status=status, headers=_HTML, body=b"<h1>Error</h1>")
    if kind is RobotsKind.SERVER_ERROR or (
        kind is RobotsKind.UNREACHABLE_AT_FIRST and since_start_seconds < UNREACHABLE_SECONDS
    ):
        return Reply(status=503, headers=_HTML, body=b"<h1>Unavailable</h1>")
    if kind is RobotsKind.DROPPED:
        return Reply(fault=ReplyFault.DROPPED)
    if kind is RobotsKind.REDIRECT_LOOP:
        return Reply(status=302, headers=(("Location", "/robots.txt"),))
    if kind is RobotsKind.REDIRECT and path == "/robots.txt":
        return Reply(status=301, headers=(("Location", "/robots/rules.txt"),))
    if kind is RobotsKind.HTML:
        page = b"<!DOCTYPE html><html><head><title>Welcome</title></head><body><p>Hello</p></body>"
        return Reply(headers=_HTML, body=page + b"</html>\n")
    text = _rules(traits, since_start_seconds)
    if sitemap_url is not None:
        text += f"\nSitemap: {sitemap_url}\n"
    body = text.encode()
    if kind is RobotsKind.HUGE:
        line = b"# a long comment that fills the file\n"
        body += line * (_HUGE_BYTES // len(line))
    if kind is RobotsKind.ODD_BYTES:
        odd = b"\xef\xbb\xbf# caf\xe9 \x00\xff\r\n" + body.replace(b"\n", b"\r\n")
        body = odd.replace(b"Disallow: /private/", b"DISALLOW :/private/ # \xfc")
    wait_seconds = SLOW_SECONDS if kind is RobotsKind.SLOW else 0.0
    return Reply(headers=_TEXT, body=body, wait_seconds=wait_seconds)


_HTML = (("Content-Type", "text/html; charset=utf-8"),)
_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)


def _rules(traits: HostTraits, since_start_seconds: float) -> str:
    if traits.robots is RobotsKind.CRAWL_DELAY:
        return f"User-agent: *\nCrawl-delay: {traits.crawl_delay_seconds:g}\nDisallow:\n"
    if traits.robots is RobotsKind.CHANGES and since_start_seconds < CHANGES_AFTER_SECONDS:
        return _TEXTS[RobotsKind.ALLOW_ALL]
    return _TEXTS.get(traits.robots, _SOME)


def is_allowed(traits: HostTraits, path: str, since_start_seconds: float) -> bool:
    """Return whether the robots.txt of a host lets `CRAWLER_NAME` fetch a path.

    This says what the rules mean; it does not parse them, so it can judge a parser.

    Parameters
    ----------
    traits
        Traits of the host.
    path
        Path with its query.
    since_start_seconds
        Time since the web started.
    """
    kind = traits.robots
    if kind in _WITHOUT_RULES or path.startswith("/robots"):
        return True
    if kind is RobotsKind.DISALLOW_ALL or kind in _UNREACHABLE:
        return False
    if kind is RobotsKind.UNREACHABLE_AT_FIRST and since_start_seconds < UNREACHABLE_SECONDS:
        return False
    if kind is RobotsKind.CHANGES and since_start_seconds < CHANGES_AFTER_SECONDS:
        return True
    if kind is RobotsKind.PATTERNS:
        is_refused = "?session=" in path or path[1:].endswith((".pdf", "/9"))
        return not is_refused and (path == "/private/19" or not path.startswith("/private/"))
    return not path.startswith("/private/")


def robots_delay_seconds(traits: HostTraits) -> float:
    """Return the Crawl-delay of a host; 0 if it has none."""
    return traits.crawl_delay_seconds if traits.robots is RobotsKind.CRAWL_DELAY else 0.0
