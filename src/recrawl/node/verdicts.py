"""What an answer says of a page, judged once by the node and logged with the outcome.

- 2xx: changed or not, as said, or by comparing digests with the page's recent ones.
- 304: unchanged.
- 301, 308: moved.
- 404, 410: gone.
- Forbidden by the site's rules: disallowed.
- Anything else (no answer, other 3xx and 4xx, 5xx): a transient error, nothing was seen.
"""

import hashlib
from email.utils import parsedate_to_datetime

import numpy as np
from numpy.typing import NDArray

from recrawl.shard import Verdict
from recrawl.store import DIGEST_BYTES

__all__ = ["digest_of", "http_date_ms", "is_success", "verdicts"]


def digest_of(digest: bytes) -> bytes:
    """Return a digest in the length in which digests are kept."""
    if len(digest) == DIGEST_BYTES:
        return digest
    return hashlib.blake2b(digest, digest_size=DIGEST_BYTES).digest()


def is_success(status: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which answers brought content."""
    return (status >= 200) & (status < 300)


def verdicts(
    status: NDArray[np.int64], disallowed: NDArray[np.bool_], content: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return what answers say of their pages.

    Parameters
    ----------
    status
        Of HTTP, 0 for no answer.
    disallowed
        Not asked, because the site's rules forbid it.
    content
        The verdict by content, for answers that brought any.
    """
    verdict = np.full(status.size, Verdict.TRANSIENT_ERROR, np.uint8)
    verdict[is_success(status)] = content[is_success(status)]
    verdict[status == 304] = Verdict.UNCHANGED
    verdict[(status == 301) | (status == 308)] = Verdict.MOVED
    verdict[(status == 404) | (status == 410)] = Verdict.GONE
    verdict[disallowed] = Verdict.DISALLOWED
    return verdict


def http_date_ms(text: bytes | None) -> int:
    """Return the instant of an HTTP date, 0 where it is none."""
    if not text:
        return 0
    try:
        return max(int(parsedate_to_datetime(text.decode("ascii")).timestamp() * 1000), 0)
    except (ValueError, OverflowError, OSError):
        return 0
