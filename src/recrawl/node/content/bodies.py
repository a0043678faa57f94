"""Bodies, texts and observations that outcomes contain, and the reading of bodies."""

import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.node.config.content_section import ContentConfig

if TYPE_CHECKING:
    from recrawl.content import ContentSettings, Observation, ObserverPool, PageBody

__all__ = ["Body", "BodyReader", "body_digests", "check_observation", "is_given", "n_bytes_logged"]

# Estimates of what the log keeps of a body: hashes of passages in three lists and in the memory
# of the page, and the update of its host.
_BYTES_PER_PASSAGE = 48
_BYTES_BESIDE = 2_048
_PASSAGES_MAX = 512
_LEVEL_MAX = 255
_NOTHING = np.array(None, np.object_)


class Body(NamedTuple):
    """The content of one answer, as the user gave it."""

    body: bytes | None
    content_type: str | None
    text: str | None
    """Text that the user extracted; used instead of the body."""
    url: str | None

    @property
    def n_bytes(self) -> int:
        """Size of the content in bytes, or in characters of its text."""
        return len(self.body or b"") if self.text is None else len(self.text)

    def page_body(self) -> "PageBody":
        """Return the body for an `ObserverPool`."""
        from recrawl.content import PageBody  # noqa: PLC0415

        return PageBody(self.body or b"", self.content_type, self.url)


def check_observation(observation: "Observation") -> None:
    """Raise `TypeError` or `ValueError` for an observation that cannot be judged or stored."""
    from recrawl.content import PASSAGES_MAX, Observation  # noqa: PLC0415

    if not isinstance(observation, Observation):
        raise TypeError(
            "observation must be the result of recrawl.content.observe, got "
            f"{type(observation).__name__}"
        )
    n = observation.passages.size
    columns = [observation.is_main, observation.n_words, observation.shapes]
    if observation.paths.size:
        columns.append(observation.paths)
    if n > PASSAGES_MAX:
        raise ValueError(f"observation must have at most {PASSAGES_MAX} passages, got {n}")
    if any(column.shape != (n,) for column in (observation.passages, *columns)):
        raise ValueError(f"all columns of an observation must have {n} rows, as passages")
    offsets = observation.shingle_offsets
    if offsets.shape != (n + 1,) or int(offsets[-1]) != observation.shingles.size:
        raise ValueError(f"shingle_offsets of an observation must have {n + 1} rows, up to the end")
    if not 0 <= observation.level <= _LEVEL_MAX or not 0 <= observation.extractor <= _LEVEL_MAX:
        raise ValueError("level and extractor of an observation must be 0 to 255")


def is_given(contents: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Return which contents are not None; without a loop in Python, for most have none."""
    return np.asarray(np.not_equal(contents, _NOTHING), np.bool_)


class BodyReader:
    """Reads the bodies of outcomes, in the thread that reports them or in other processes.

    Parameters
    ----------
    config
        Section "content" of the configuration.
    """

    def __init__(self, config: ContentConfig) -> None:
        self._config = config
        self._settings: ContentSettings | None = None
        self._pool: ObserverPool | None = None
        self._lock = threading.Lock()

    @property
    def settings(self) -> "ContentSettings":
        """Settings of `recrawl.content`."""
        if self._settings is None:
            self._settings = self._config.content_settings()
        return self._settings

    def read(self, contents: NDArray[np.object_]) -> NDArray[np.object_]:
        """Return observations in place of bodies; observations stay as they are."""
        rows = [i for i in np.flatnonzero(is_given(contents)) if isinstance(contents[i], Body)]
        if not rows:
            return contents
        read, with_texts = contents.copy(), self._config.keep_text
        if self._config.processes:
            elsewhere = [i for i in rows if contents[i].text is None]
            pages = [contents[i].page_body() for i in elsewhere]
            found = self._start_pool().observe_all(pages, with_texts=with_texts)
            for i, observation in zip(elsewhere, found, strict=True):
                read[i] = observation
            rows = [i for i in rows if contents[i].text is not None]
        for i in rows:
            read[i] = _observe(contents[i], self.settings, with_texts=with_texts)
        return read

    def _start_pool(self) -> "ObserverPool":
        from recrawl.content import ObserverPool  # noqa: PLC0415

        with self._lock:
            if self._pool is None:
                self._pool = ObserverPool(self._config.processes, self.settings)
            return self._pool

    def close(self) -> None:
        """End the processes that read bodies."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()
                self._pool = None


def _observe(body: Body, settings: "ContentSettings", *, with_texts: bool) -> "Observation":
    from recrawl.content import observe, observe_text  # noqa: PLC0415

    if body.text is not None:
        return observe_text(body.text, settings=settings, with_texts=with_texts)
    return observe(
        body.body or b"", body.content_type, body.url, settings=settings, with_texts=with_texts
    )


def body_digests(contents: NDArray[np.object_]) -> list[bytes | None]:
    """Return the digests of contents as they are, for a corpus that does not look into them."""
    digests: list[bytes | None] = []
    for one in contents:
        if one is None:
            digests.append(None)
        elif isinstance(one, Body):
            is_text = one.text is not None
            digests.append((one.text or "").encode("utf-8", "replace") if is_text else one.body)
        else:
            digests.append(one.body_digest)
    return digests


def n_bytes_logged(contents: NDArray[np.object_], *, with_texts: bool) -> NDArray[np.int64]:
    """Return an estimate, rather too large, of what the log keeps of each content, in bytes."""
    sizes = np.zeros(contents.size, np.int64)
    for i in np.flatnonzero(is_given(contents)).tolist():
        one = contents[i]
        n_passages, n_text = _PASSAGES_MAX, 0
        if isinstance(one, Body):
            n_passages = min(n_passages, one.n_bytes)
            n_text = one.n_bytes
        else:
            n_passages = one.passages.size
            n_text = sum(len(text) for text in one.texts or ())
        sizes[i] = _BYTES_PER_PASSAGE * n_passages + _BYTES_BESIDE + (4 * n_text * with_texts)
    return sizes
