"""What a corpus believes of its pages' change rates, in columns, for whoever wants to simulate."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.core.belief.codes import BeliefCodes, decoded
from recrawl.corpus.inspect.decoded_words import log2_of_codes
from recrawl.corpus.inspect.page_sample import sample_of
from recrawl.shard import Shard

__all__ = ["BelievedPages", "believed_pages"]


class BelievedPages(NamedTuple):
    """Some pages of a corpus, or all: a Gamma belief of each one's unsignalled change rate."""

    shape: FloatArray
    seconds: FloatArray
    importance: FloatArray
    group: CountArray


def believed_pages(shards: Sequence[Shard], *, n_pages_max: int) -> BelievedPages:
    """Return what is believed of at most about so many pages, chosen by chance from all."""
    parts = []
    n_groups = 0
    for shard in shards:
        tables = shard.tables
        slot = sample_of(tables, max(n_pages_max // len(shards), 1)).slot
        pages = tables.pages
        belief = decoded(BeliefCodes(pages.belief_shape[slot], pages.belief_seconds[slot]))
        code = pages.importance[slot]
        parts.append(
            BelievedPages(
                np.asarray(belief.shape, np.float64),
                np.asarray(belief.seconds, np.float64),
                np.where(code > 0, np.exp2(log2_of_codes(code)), 0.0),
                n_groups + pages.group[slot].astype(np.int64),
            )
        )
        # Partitions number their groups each for itself.
        n_groups += int(tables.groups.n_pages.size)
    return BelievedPages(*(np.concatenate(column) for column in zip(*parts, strict=True)))
