"""Read the text of PDF files with pypdf, the extra ``recrawl[pdf]``."""

import io
import logging
import time
from typing import Any, Final, NamedTuple

__all__ = ["CONTENT_BYTES_MAX", "PDF_BYTES_MAX", "PdfText", "PdfTimeoutError", "read_pdf"]

PDF_BYTES_MAX: Final = 4_000_000
"""Size of a PDF file up to which its text is read."""
CONTENT_BYTES_MAX: Final = 250_000
"""Size of the drawing instructions, unpacked, up to which the text of pages is read."""
PAGES_MAX: Final = 100
"""Pages of a PDF file whose text is read."""
SECONDS_MAX: Final = 0.8
"""Seconds of the processor after which reading a PDF file ends without a result."""


class PdfTimeoutError(Exception):
    """Reading a PDF file took too long."""


class _Deadline:
    """Raises `PdfTimeoutError` when the thread has used its seconds of the processor."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.thread_time() + seconds

    def check(self, *_: Any) -> None:
        """Raise `PdfTimeoutError` if the time is over; pypdf calls this for each instruction."""
        if time.thread_time() > self._ends_at:
            raise PdfTimeoutError


class _TimedBytes(io.BytesIO):
    """A file in memory that can be read until a deadline: pypdf reads it in small pieces."""

    def __init__(self, body: bytes, deadline: _Deadline) -> None:
        super().__init__(body)
        self._deadline = deadline

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes, or raise `PdfTimeoutError`."""
        self._deadline.check()
        return super().read(size)


class PdfText(NamedTuple):
    """Text of a PDF file, one passage per line, and whether some pages were left out."""

    text: str
    title: str
    is_partial: bool


def read_pdf(body: bytes) -> PdfText | None:
    """Return the text of a PDF file; None if pypdf is not installed.

    Raises `PdfTimeoutError` after `SECONDS_MAX`: a small file can describe more work than the
    limits of its size allow for.

    Parameters
    ----------
    body
        PDF file.
    """
    try:
        from pypdf import PdfReader  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    deadline = _Deadline(SECONDS_MAX)
    reader = PdfReader(_TimedBytes(body, deadline))
    texts: list[str] = []
    n_bytes = 0
    is_partial = False
    for n_pages, page in enumerate(reader.pages):
        contents = page.get_contents()
        n_bytes += len(contents.get_data()) if contents is not None else 0
        if n_bytes > CONTENT_BYTES_MAX or n_pages >= PAGES_MAX:
            is_partial = True
            break
        deadline.check()
        texts.append(page.extract_text(visitor_operand_before=deadline.check) or "")
    title = reader.metadata.title if reader.metadata is not None else None
    return PdfText("\n".join(texts), " ".join((title or "").split())[:1000], is_partial)
