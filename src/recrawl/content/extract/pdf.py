"""Read the text of PDF files with pypdf, the extra ``recrawl[pdf]``."""

import io
import logging
from typing import Final, NamedTuple

__all__ = ["CONTENT_BYTES_MAX", "PDF_BYTES_MAX", "PdfText", "read_pdf"]

PDF_BYTES_MAX: Final = 4_000_000
"""Size of a PDF file up to which its text is read."""
CONTENT_BYTES_MAX: Final = 250_000
"""Size of the drawing instructions, unpacked, up to which the text of pages is read."""
PAGES_MAX: Final = 100
"""Pages of a PDF file whose text is read."""


class PdfText(NamedTuple):
    """Text of a PDF file, one passage per line, and whether some pages were left out."""

    text: str
    title: str
    is_partial: bool


def read_pdf(body: bytes) -> PdfText | None:
    """Return the text of a PDF file; None if pypdf is not installed.

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
    reader = PdfReader(io.BytesIO(body))
    texts: list[str] = []
    n_bytes = 0
    is_partial = False
    for n_pages, page in enumerate(reader.pages):
        contents = page.get_contents()
        n_bytes += len(contents.get_data()) if contents is not None else 0
        if n_bytes > CONTENT_BYTES_MAX or n_pages >= PAGES_MAX:
            is_partial = True
            break
        texts.append(page.extract_text() or "")
    title = reader.metadata.title if reader.metadata is not None else None
    return PdfText("\n".join(texts), " ".join((title or "").split())[:1000], is_partial)
