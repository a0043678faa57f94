"""The estimated change rates of a corpus's pages in columns, for simulations."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.corpus.inspect.decoded_words import log2_of_codes
from recrawl.corpus.inspect.page_sample import sample_of
from recrawl.shard import Shard

__all__ = ["BelievedPages", "believed_pages"]


class BelievedPages(NamedTuple):
    """A Gamma belief about the rate of unsignalled changes of each page, of all or a sample."""

    shape: FloatArray
    seconds: FloatArray
    importance: FloatArray
    group: CountArray


def believed_pages(shards: Sequence[Shard], *, n_pages_max: int) -> BelievedPages:
    """Return the beliefs about all pages, or about a sample of about ``n_pages_max``."""
    parts = []
    n_groups = 0
    for shard in shards:
        tables = shard.tables
        slot = sample_of(tables, max(n_pages_max // len(shards), 1)).slot
        pages = tables.pages
        belief = decode_beliefs(BeliefCodes(pages.belief_shape[slot], pages.belief_seconds[slot]))
        code = pages.importance[slot]
        parts.append(
            BelievedPages(
                np.asarray(belief.shape, np.float64),
                np.asarray(belief.seconds, np.float64),
                np.where(code > 0, np.exp2(log2_of_codes(code)), 0.0),
                n_groups + pages.group[slot].astype(np.int64),
            )
        )
        # Each partition has its own numbers of groups.
        n_groups += int(tables.groups.n_pages.size)
    return BelievedPages(*(np.concatenate(column) for column in zip(*parts, strict=True)))
