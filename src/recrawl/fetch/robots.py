"""Rules of robots.txt files, and how long each file holds.

References
----------
RFC 9309 (Robots Exclusion Protocol)
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import Final, Self

from protego import Protego

from recrawl.messages.robots import ROBOTS_LINES_MAX, RobotsNote

__all__ = [
    "CRAWL_DELAY_SECONDS_MAX",
    "ROBOTS_BYTES_MAX",
    "ROBOTS_SECONDS",
    "UNREACHABLE_SECONDS_MAX",
    "RobotsFile",
    "RobotsRules",
    "RobotsState",
    "product_token",
]

ROBOTS_BYTES_MAX: Final = 500 << 10
"""Bytes of a file that are read: the least that the standard allows."""
ROBOTS_SECONDS: Final = 86_400.0
"""Time after which a file is fetched again."""
UNREACHABLE_SECONDS_MAX: Final = 30 * 86_400.0
"""Time for which the last good copy of an unreachable file is used."""
CRAWL_DELAY_SECONDS_MAX: Final = 3_600.0
"""Longest delay that a file can ask for; a longer one counts as this."""

_RETRY_SECONDS = 300.0
_SITEMAPS_MAX = 100
_URL_CHARACTERS_MAX = 8_192
_PRODUCT = re.compile(r"[A-Za-z_-]+")
_AGENT_LINE = re.compile(r"(?i)\s*(?:user[- ]?agent)(?:\s*:|\s)(.*)")
_AGENT_NAME = re.compile(r"([a-z_-]+)[/ \t*]")
# No fetcher has this name, because names consist of letters.
_OTHER_AGENT = "0"
# Also as people misspell it.
_RULE_LINE = re.compile(r"(?i)\s*(allow|diss?all?ow|diasllow|disallaw)(?:\s*:|\s)\s*(\S.*)")
_SITE_LINE = re.compile(r"(?i)\s*(?:sitemaps?|site-map|host)(?:\s*:|\s)")
_DELAY_LINE = re.compile(r"(?i)\s*crawl[- ]delay(?:\s*:|\s)(.*)")
_DELAY = re.compile(r"([0-9]+(?:[.,][0-9]+)?(?:e[0-9]+)?|inf)\s*([a-z]*)")
_UNIT_SECONDS = {"ms": 0.001, "m": 60.0, "min": 60.0, "minutes": 60.0, "h": 3_600.0}
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
_TOO_MANY_REQUESTS = 429


def product_token(user_agent: str) -> str:
    """Return the name by which robots.txt files address a fetcher.

    Parameters
    ----------
    user_agent
        Value of the header ``User-Agent``, such as ``example-bot/1.0 (+https://example.com)``.

    Raises
    ------
    ValueError
        If it does not begin with a name of letters, ``_`` and ``-``.
    """
    found = _PRODUCT.match(user_agent)
    if found is None:
        raise ValueError(f"user_agent must begin with a name of letters, got {user_agent!r}")
    return found[0]


class RobotsRules:
    r"""Rules of one file for one fetcher.

    Parameters
    ----------
    text
        Text of the file.
    product
        Name of the fetcher, see `product_token`.

    Examples
    --------
    >>> rules = RobotsRules("User-agent: *\nDisallow: /private\nCrawl-delay: 2", "example-bot")
    >>> rules.allows("https://example.com/private/x"), rules.crawl_delay_seconds
    (False, 2.0)
    """

    def __init__(self, text: str, product: str) -> None:
        text = "\n".join(_plain_line(line, product.lower()) for line in text.splitlines())
        parsed = Protego.parse(text)
        self._parsed: Protego | None = parsed
        self._text = text
        self._product = product
        delay = parsed.crawl_delay(product) or 0.0
        rate = parsed.request_rate(product)
        if rate is not None and rate.requests > 0:
            delay = max(delay, rate.seconds / rate.requests)
        self.crawl_delay_seconds = min(delay, CRAWL_DELAY_SECONDS_MAX) if delay > 0 else None
        """Least seconds between two requests that the file asks for; None if it does not."""
        urls = (url for url in parsed.sitemaps if len(url) <= _URL_CHARACTERS_MAX)
        self.sitemaps = tuple(url for _, url in zip(range(_SITEMAPS_MAX), urls, strict=False))
        """URLs of the sitemaps that the file names."""

    @classmethod
    def of_body(cls, body: bytes, product: str) -> Self:
        """Return the rules in the body of an answer, whatever its bytes are.

        Parameters
        ----------
        body
            Body of the answer; only the first `ROBOTS_BYTES_MAX` bytes are read.
        product
            Name of the fetcher.
        """
        cut = body[:ROBOTS_BYTES_MAX]
        if len(body) > ROBOTS_BYTES_MAX:
            # Half a line could be a rule that nobody wrote.
            cut = cut[: cut.rfind(b"\n") + 1]
        encoding = "utf-16" if cut.startswith(_BYTE_ORDER_MARKS) else "utf-8-sig"
        # Without such a mark, UTF-16 is UTF-8 with zeros in between.
        return cls(cut.decode(encoding, "replace").replace("\0", ""), product)

    def allows(self, url: str) -> bool:
        """Return whether a URL may be fetched.

        Parameters
        ----------
        url
            Absolute URL on the host of the file.
        """
        if self._parsed is None:
            self._parsed = Protego.parse(self._text)
        return bool(self._parsed.can_fetch(url, self._product))

    def own_rules(self) -> list[tuple[bool, str]]:
        """Return the rules that hold for the fetcher: whether each allows, and its path."""
        rules_of: dict[str, list[tuple[bool, str]]] = {}
        names: list[str] = []
        are_names_open = False
        for line in self._text.splitlines():
            if found := _AGENT_LINE.match(line):
                if not are_names_open:
                    names = []
                are_names_open = True
                if name := found[1].strip():
                    names.append(name)
                    rules_of.setdefault(name, [])
            elif line.strip() and not _SITE_LINE.match(line):
                are_names_open = False
                if rule := _RULE_LINE.match(line):
                    for name in names:
                        rules_of[name].append((rule[1].lower() == "allow", rule[2].strip()))
        # A group of the fetcher itself counts alone, whatever those of all fetchers say.
        own = [name for name in rules_of if name not in ("*", _OTHER_AGENT)]
        return rules_of.get(max(own, key=len) if own else "*", [])

    @property
    def n_bytes(self) -> int:
        """Size of the text, in characters."""
        return len(self._text)

    def free_memory(self) -> None:
        """Drop the parsed rules, which are 25 times as large as the text; `allows` parses again."""
        self._parsed = None


def _plain_line(line: str, product: str) -> str:
    """Return a line of a file as the parser reads it best.

    All fetchers but this one get the same name: rules of ten thousand names in a group would be
    stored ten thousand times.
    """
    line = line.partition("#")[0]
    if found := _AGENT_LINE.match(line):
        value = found[1].strip().lower()
        # People copy the whole name from their logs: "User-agent: example-bot/1.0".
        name = value if (start := _AGENT_NAME.match(value)) is None else start[1]
        plain = name.replace("*", "")
        is_ours = name == "*" or (bool(plain) and product.startswith(plain))
        return f"User-agent: {name if is_ours or not value else _OTHER_AGENT}"
    if (found := _DELAY_LINE.match(line)) and (delay := _DELAY.fullmatch(found[1].strip().lower())):
        seconds = float(delay[1].replace(",", ".")) * _UNIT_SECONDS.get(delay[2], 1.0)
        return f"Crawl-delay: {min(seconds, CRAWL_DELAY_SECONDS_MAX)}"
    return line


class RobotsState(IntEnum):
    """What the latest attempt to fetch a file found."""

    FOUND = 0
    MISSING = 1
    """The site has no file, so everything is allowed."""
    UNREACHABLE = 2
    """The site did not answer, or with an error: nothing is allowed without an earlier copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsFile:
    """The robots.txt file of a site as it is known, and until when that holds.

    Parameters
    ----------
    state
        Result of the latest attempt to fetch it.
    rules
        Rules that apply; None if all or nothing is allowed, by ``state``.
    good_at_ms
        Instant of the latest answer that was not an error; 0 if there was none.
    expires_at_ms
        Instant at which to fetch the file again.
    n_failures
        Number of attempts that failed since then.
    """

    state: RobotsState
    rules: RobotsRules | None
    good_at_ms: int
    expires_at_ms: int
    n_failures: int = 0

    def allows(self, url: str) -> bool:
        """Return whether a URL may be fetched."""
        if self.rules is not None:
            return url_path(url) == "/robots.txt" or self.rules.allows(url)
        return self.state == RobotsState.MISSING or url_path(url) == "/robots.txt"

    def note(self, origin: str, agent: str, asked_at_ms: int) -> RobotsNote:
        """Return what the file says to a fetcher, for people.

        Parameters
        ----------
        origin
            Scheme, host and port of the site.
        agent
            Name of the fetcher.
        asked_at_ms
            Time of the latest attempt to fetch it.
        """
        rules = [] if self.rules is None else self.rules.own_rules()
        closed = [path for is_allowed, path in rules if not is_allowed]
        closes = "parts" if closed else "nothing"
        if len(closed) == len(rules) and any(path.rstrip("*") in ("", "/") for path in closed):
            closes = "everything"
        if self.rules is None and self.state == RobotsState.UNREACHABLE:
            closes = "everything"
        lines = (f"{'Allow' if is_allowed else 'Disallow'}: {path}" for is_allowed, path in rules)
        note = RobotsNote(
            origin=origin,
            result=self.state.name.lower(),
            closes=closes,
            asked_at_ms=asked_at_ms,
            read_at_ms=self.good_at_ms or None,
            next_ask_ms=self.expires_at_ms,
            crawl_delay_seconds=None if self.rules is None else self.rules.crawl_delay_seconds,
            agent=agent,
            lines=tuple(islice(lines, ROBOTS_LINES_MAX)),
            n_lines=len(rules),
        )
        return RobotsNote.of_dict(note._asdict())

    @classmethod
    def after_answer(
        cls,
        status: int,
        body: bytes,
        *,
        product: str,
        now_ms: int,
        before: "RobotsFile | None" = None,
    ) -> "RobotsFile":
        """Return what is known after an attempt to fetch the file.

        Parameters
        ----------
        status
            Status of the last answer, after redirects; 0 if there was none.
        body
            Body of the answer.
        product
            Name of the fetcher.
        now_ms
            Instant of the answer.
        before
            State of the file before this attempt; None if there was none.
        """
        if 200 <= status < 300:
            rules = RobotsRules.of_body(body, product)
            return cls(
                state=RobotsState.FOUND,
                rules=rules,
                good_at_ms=now_ms,
                expires_at_ms=now_ms + round(ROBOTS_SECONDS * 1000),
            )
        # After too many redirects the file counts as missing; too many requests are an error.
        if 300 <= status < 500 and status != _TOO_MANY_REQUESTS:
            return cls(
                state=RobotsState.MISSING,
                rules=None,
                good_at_ms=now_ms,
                expires_at_ms=now_ms + round(ROBOTS_SECONDS * 1000),
            )
        return cls._after_failure(now_ms, before)

    @classmethod
    def _after_failure(cls, now_ms: int, before: "RobotsFile | None") -> "RobotsFile":
        n_failures = 1 if before is None else before.n_failures + 1
        wait = min(_RETRY_SECONDS * 2.0 ** min(n_failures - 1, 20), ROBOTS_SECONDS)
        expires_at_ms = now_ms + round(wait * 1000)
        is_usable = (
            before is not None
            and before.good_at_ms > 0
            and now_ms - before.good_at_ms < UNREACHABLE_SECONDS_MAX * 1000
        )
        if before is not None and is_usable:
            # An earlier copy may be used for longer than a day while the file is unreachable.
            return cls(
                state=RobotsState.UNREACHABLE if before.rules is not None else before.state,
                rules=before.rules,
                good_at_ms=before.good_at_ms,
                expires_at_ms=expires_at_ms,
                n_failures=n_failures,
            )
        return cls(
            state=RobotsState.UNREACHABLE,
            rules=None,
            good_at_ms=0,
            expires_at_ms=expires_at_ms,
            n_failures=n_failures,
        )


def url_path(url: str) -> str:
    """Return the path of an absolute URL, without its query."""
    rest = url.partition("://")[2]
    slash = rest.find("/")
    return re.split(r"[?#]", rest[slash:], maxsplit=1)[0] if slash >= 0 else "/"
