"""Signal the pages that sites announce, and say which of them could not be signalled."""

from typing import Any

from recrawl.messages.results import find_unavailable
from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.problems import unavailable

__all__ = ["check_all_taken", "signal_announced"]


async def signal_announced(hosted: HostedCorpus, urls: list[str], **signal: Any) -> list[str]:
    """Signal pages; return the URLs whose partitions cannot be reached now.

    Parameters
    ----------
    hosted
        Corpus of the pages.
    urls
        URLs of the pages.
    **signal
        Other arguments of `recrawl.Corpus.signal`.
    """
    found = await hosted.change(hosted.corpus.signal, urls, **signal)
    return [urls[row] for row in find_unavailable(found.rows).tolist()]


def check_all_taken(away: list[str], n_urls: int) -> None:
    """Raise a problem if some pages could not be signalled, so that the sender tries again.

    Parameters
    ----------
    away
        URLs that were not signalled.
    n_urls
        Number of URLs of the notice.
    """
    if away:
        raise unavailable(
            f"{len(away):,} of {n_urls:,} pages cannot be reached now; send the notice again"
        )
