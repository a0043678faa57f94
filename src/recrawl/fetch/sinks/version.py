"""The answer to a fetch as the spool takes it, and a version of a page as sinks receive it."""

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from recrawl.content import Observation, observe, render_markdown
from recrawl.shard import Transition
from recrawl.store import PassageChanges

__all__ = ["FetchedPage", "Header", "PageVersion"]

Header: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    """The answer to a fetch, as `Spool.append` takes it.

    Parameters
    ----------
    url
        URL of the page, as the order names it.
    fetched_at_ms
        Instant of the fetch, in milliseconds since 1970.
    status
        Status of the answer.
    key
        Key of the page, in a corpus grouped by key.
    content_type
        Header that says what the body is.
    body
        Body without content encoding; empty for an answer without one.
    headers
        Other headers of the answer, as received, for archives.
    final_url
        URL that answered, after redirects; None if it is ``url``.
    """

    url: str
    fetched_at_ms: int
    status: int = 200
    key: str | None = None
    content_type: str | None = None
    body: bytes = b""
    headers: tuple[Header, ...] = ()
    final_url: str | None = None


@dataclass(frozen=True, kw_only=True)
class PageVersion:
    """One version of a page: what a sink receives.

    Parameters
    ----------
    number
        Number of the version in its spool; it grows by one with each version.
    spool_id
        Name of the spool, 16 hexadecimal digits.
    url
        URL of the page.
    transition
        Meaning of the version for the page: new, changed, gone …; ``NONE`` for a fetch that found
        nothing new, which only sinks with ``wants_unchanged`` receive.
    fetched_at_ms
        Instant of the fetch, in milliseconds since 1970.
    status
        Status of the answer; 0 if the spool has no answer for the change.
    key
        Key of the page, in a corpus grouped by key.
    content_type
        Header that says what the body is.
    body
        Body without content encoding; None if there is none, as for a page that is gone.
    headers
        Other headers of the answer.
    final_url
        URL that answered, after redirects.
    doc_id, metadata
        Your own data of the page.
    passages
        Hashes of the passages that this version keeps, adds and lacks; None if not known.
    """

    number: int
    spool_id: str
    url: str
    transition: Transition
    fetched_at_ms: int
    status: int = 0
    key: str | None = None
    content_type: str | None = None
    body: bytes | None = None
    headers: tuple[Header, ...] = ()
    final_url: str | None = None
    doc_id: str | None = None
    metadata: dict[str, Any] | None = None
    passages: PassageChanges | None = None

    @property
    def id(self) -> str:
        """Name of this version, the same each time it is sent."""
        return f"{self.spool_id}-{self.number}"

    @property
    def is_removal(self) -> bool:
        """Whether the page no longer exists at its URL, or is no longer tracked."""
        return self.transition in (Transition.GONE, Transition.MOVED, Transition.RETIRED)

    @cached_property
    def digest(self) -> str | None:
        """SHA-256 of the body in hexadecimal digits; None without a body."""
        return None if self.body is None else hashlib.sha256(self.body).hexdigest()

    @cached_property
    def observation(self) -> Observation | None:
        """Passages and facts that `recrawl.content.observe` finds in the body."""
        if self.body is None:
            return None
        return observe(self.body, self.content_type, self.url, with_texts=True)

    @cached_property
    def text(self) -> str | None:
        """Text of the body, one passage per line, without menus and the like if they are known."""
        found = self.observation
        if found is None or found.texts is None:
            return None
        pairs = zip(found.texts, found.is_main.tolist(), strict=True)
        has_main = bool(found.is_main.any())
        return "\n".join(text for text, is_main in pairs if text and (is_main or not has_main))

    @cached_property
    def markdown(self) -> str | None:
        """Body as Markdown, with headings and links; None without a body that has text."""
        if self.body is None:
            return None
        url = self.final_url or self.url
        return render_markdown(self.body, self.content_type, url, observation=self.observation)

    @cached_property
    def title(self) -> str:
        """Title of the page, empty if it has none."""
        return "" if self.observation is None else self.observation.title

    @cached_property
    def added_passages(self) -> tuple[tuple[int, str | None], ...]:
        """Hashes of the passages that are new in this version, each with its text if known."""
        if self.passages is None:
            return ()
        texts: dict[int, str] = {}
        if self.observation is not None and self.observation.texts is not None:
            hashes = self.observation.passages.tolist()
            texts = dict(zip(hashes, self.observation.texts, strict=True))
        stored = self.passages.added_text or (None,) * len(self.passages.added)
        return tuple(
            (one, text if text is not None else texts.get(one) or None)
            for one, text in zip(self.passages.added, stored, strict=True)
        )

    @property
    def removed_passages(self) -> tuple[int, ...]:
        """Hashes of the passages that only the version before had."""
        return () if self.passages is None else self.passages.removed

    def as_json(self, content: tuple[str, ...] = ("markdown",)) -> dict[str, Any]:
        """Return the version as an object of JSON.

        Parameters
        ----------
        content
            Forms of the content to include: ``"markdown"``, ``"text"`` and ``"body"`` (as
            ``body_base64``).
        """
        row: dict[str, Any] = {
            "id": self.id,
            "number": self.number,
            "url": self.url,
            "transition": self.transition.name.lower(),
            "fetched_at_ms": self.fetched_at_ms,
            "status": self.status,
            "content_type": self.content_type,
            "digest": self.digest,
        }
        others = {"key": self.key, "doc_id": self.doc_id, "metadata": self.metadata}
        others["final_url"] = self.final_url
        row |= {name: value for name, value in others.items() if value is not None}
        if self.passages is not None:
            row["added_passages"] = [
                {"hash": f"{one:016x}", "text": text} for one, text in self.added_passages
            ]
            row["removed_passages"] = [f"{one:016x}" for one in self.removed_passages]
        if self.body is not None:
            row["title"] = self.title
            if "markdown" in content:
                row["markdown"] = self.markdown
            if "text" in content:
                row["text"] = self.text
            if "body" in content:
                row["body_base64"] = base64.b64encode(self.body).decode()
        return row
