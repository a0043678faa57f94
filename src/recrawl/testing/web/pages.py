"""The pages of a host: their bodies, validators and 304s, and the truth about their versions."""

import calendar
import gzip
import time
from email.utils import formatdate
from hashlib import blake2b

from recrawl.sim.pages import START_AT, AnswerFault, make_site
from recrawl.sim.pages.draws import Draws
from recrawl.testing.web.replies import Reply
from recrawl.testing.web.traits import HostTraits, ValidatorKind

__all__ = ["HostPages", "http_date"]

_DAY_MS = 86_400_000
# The bytes of a misencoded answer say how it was meant, even if its label does not.
_SHOWING_THE_PAGE = (None, AnswerFault.MISENCODED)
# Every tenth page is one that a robots.txt with rules disallows.
_PRIVATE_EVERY = 10


def http_date(at_ms: int) -> str:
    """Return an instant as HTTP headers write it."""
    return formatdate(at_ms // 1_000, usegmt=True)


def parse_http_date(text: str) -> int | None:
    """Return the instant of an HTTP header in milliseconds, or ``None`` if it is not a date."""
    try:
        parts = time.strptime(text, "%a, %d %b %Y %H:%M:%S GMT")
    except ValueError:
        return None
    return 1_000 * calendar.timegm(parts)


class HostPages:
    """The pages of a host of the local web.

    Parameters
    ----------
    traits
        Traits of the host.
    origin
        Scheme, host and port of its URLs.
    started_at_ms
        Instant at which the histories of its pages begin.
    page_speed
        Factor by which its pages change faster than those of `recrawl.sim.pages`.
    """

    def __init__(
        self, traits: HostTraits, origin: str, started_at_ms: int, page_speed: float = 1.0
    ) -> None:
        self.traits = traits
        self.origin = origin
        self._started_at_ms = started_at_ms
        self._page_speed = page_speed
        self._site = make_site(
            traits.page_kind,
            traits.seed,
            traits.n_pages,
            rate_spread=traits.rate_spread,
            shocks_per_day=traits.shocks_per_day,
            shock_share=traits.shock_share,
        )

    def path(self, page: int) -> str:
        """Return the path of a page: every tenth is below ``/private/``."""
        is_private = page % _PRIVATE_EVERY == _PRIVATE_EVERY - 1
        return f"/private/{page}" if is_private else f"/{page}"

    def url(self, page: int) -> str:
        """Return the URL of a page."""
        return self.origin + self.path(page)

    def page_at(self, path: str) -> int:
        """Return the page with a path, or -1 if there is none."""
        number = path.removeprefix("/private/") if path.startswith("/private/") else path[1:]
        if not number.isascii() or not number.isdigit() or len(number) > 9:
            return -1
        page = int(number)
        return page if page < self.traits.n_pages and self.path(page) == path else -1

    # ------------------------------------------------------------------ truth

    def history_at(self, at_ms: int) -> float:
        """Return the instant in the histories of the pages, in seconds, at an instant here."""
        return START_AT + self._page_speed * (at_ms - self._started_at_ms) / 1_000

    def _instant_of(self, history_at: float) -> int:
        """Return the first millisecond at which an instant of the histories has passed."""
        since_ms = 1_000 * (history_at - START_AT) / self._page_speed
        return self._started_at_ms - int(-since_ms // 1)

    def versions(self, page: int, until_ms: int) -> list[tuple[int, int]]:
        """Return the versions of a page until an instant, each with the instant it begins at."""
        found = self._site.versions(page, self.history_at(until_ms))
        return [(self._instant_of(at), version) for at, version in found]

    def current(self, page: int, at_ms: int) -> tuple[int, int]:
        """Return the instant at which the current version of a page began, and its number.

        The first version began before the web did.
        """
        changed_at, version = self._site.current(page, self.history_at(at_ms))
        if changed_at > START_AT:
            return self._instant_of(changed_at), version
        age_days = Draws(self.traits.name, "age", page).integer(1, 400)
        return self._started_at_ms - age_days * _DAY_MS, version

    def changes_per_day(self, page: int) -> float:
        """Return the mean number of changes of a page per day."""
        return self._page_speed * self._site.edits_per_day(page)

    # ------------------------------------------------------------------ answers

    def answer(self, page: int, at_ms: int, headers: dict[str, str]) -> Reply:
        """Return the answer for a page.

        Parameters
        ----------
        page
            Number of the page.
        at_ms
            Instant of the request.
        headers
            Headers of the request, with names in lower case.
        """
        etag, modified_ms = self._validators(page, at_ms)
        validators = [("Date", http_date(at_ms))]
        if etag:
            validators.append(("ETag", etag))
        if modified_ms is not None:
            validators.append(("Last-Modified", http_date(modified_ms)))
        if self._is_not_modified(etag, modified_ms, headers):
            return Reply(status=304, headers=tuple(validators), page=page)
        answer = self._site.answer(page, self.history_at(at_ms))
        if answer.fault is not None and not answer.fault.is_damage:
            validators = validators[:1]  # what is not the page does not have its validators
        return self._reply(
            page,
            answer.body,
            (("Content-Type", answer.content_type), *validators),
            headers,
            answer.version if answer.fault in _SHOWING_THE_PAGE else -1,
            "" if answer.fault is None else str(answer.fault),
        )

    def wrong_answer(
        self, fault: AnswerFault, page: int, at_ms: int, headers: dict[str, str]
    ) -> Reply:
        """Return a page with status 200 that is not the page that was asked for."""
        answer = self._site.wrong_answer(fault, page, self.history_at(at_ms))
        types = (("Content-Type", answer.content_type), ("Date", http_date(at_ms)))
        return self._reply(page, answer.body, types, headers, -1, str(fault))

    def _reply(
        self,
        page: int,
        body: bytes,
        answer_headers: tuple[tuple[str, str], ...],
        headers: dict[str, str],
        version: int,
        content_fault: str,
    ) -> Reply:
        body = body.replace(f"https://{self._site.host}/".encode(), f"{self.origin}/".encode())
        if self.traits.is_compressed and "gzip" in headers.get("accept-encoding", ""):
            body = gzip.compress(body, 1, mtime=0)
            answer_headers = (*answer_headers, ("Content-Encoding", "gzip"), ("Vary", "*"))
        return Reply(
            headers=answer_headers,
            body=body,
            page=page,
            version=version,
            content_fault=content_fault,
        )

    def _validators(self, page: int, at_ms: int) -> tuple[str, int | None]:
        kind = self.traits.validators
        if kind is ValidatorKind.NONE:
            return "", None
        if kind is ValidatorKind.DATE_OF_ANSWER:
            return "", at_ms
        if kind is ValidatorKind.EVERY_ANSWER:
            return f'"{Draws(self.traits.name, page, at_ms).token(16)}"', None
        seen_at_ms = at_ms
        if kind is ValidatorKind.WRONG_304:
            seen_at_ms = max(at_ms - at_ms % _DAY_MS, self._started_at_ms)
        # An old copy has the validators of the old version, as its server believes in it.
        version = self._site.version(page, self.history_at(seen_at_ms))
        changed_at_ms, current = self.current(page, seen_at_ms)
        tag = blake2b(f"{self.traits.name} {page} {version}".encode(), digest_size=8).hexdigest()
        if kind is ValidatorKind.DATE_ONLY:
            return "", changed_at_ms if version == current else None
        if kind is ValidatorKind.WEAK:
            return f'W/"{tag}"', None
        if kind is ValidatorKind.TWO_SERVERS:
            server = Draws(self.traits.name, "server", page, at_ms).integer(1, 2)
            return f'"{tag}-{server}"', None
        return f'"{tag}"', changed_at_ms if version == current else None

    def _is_not_modified(self, etag: str, modified_ms: int | None, headers: dict[str, str]) -> bool:
        if self.traits.validators is ValidatorKind.IGNORED:
            return False
        wanted = headers.get("if-none-match")
        if wanted is not None:
            tags = {tag.strip().removeprefix("W/") for tag in wanted.split(",")}
            return bool(etag) and ("*" in tags or etag.removeprefix("W/") in tags)
        since_ms = parse_http_date(headers.get("if-modified-since", ""))
        if since_ms is None or modified_ms is None:
            return False
        return modified_ms // 1_000 * 1_000 <= since_ms
