"""A corpus some of whose pages cannot be reached for a while, as in a cluster."""

from typing import Any

import numpy as np
import pytest

from recrawl.corpus import Corpus, RowStatus, Signalled

__all__ = ["AwayPages"]


class AwayPages:
    """Pages that a corpus does not reach; take them out of ``urls`` to bring them back.

    Parameters
    ----------
    corpus
        Corpus of the pages.
    monkeypatch
        Patch of its method `signal`, until the test ends.
    """

    def __init__(self, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
        self.urls: set[str] = set()
        self.n_calls = 0
        self._signal = corpus.signal
        monkeypatch.setattr(corpus, "signal", self._signal_others)

    def _signal_others(
        self, urls: list[str], *, claimed_at_ms: list[int] | None = None, **options: Any
    ) -> Signalled:
        self.n_calls += 1
        rows = np.full(len(urls), RowStatus.UNAVAILABLE, np.uint8)
        here = [row for row, url in enumerate(urls) if url not in self.urls]
        if claimed_at_ms is not None:
            options["claimed_at_ms"] = [claimed_at_ms[row] for row in here]
        found = self._signal([urls[row] for row in here], **options)
        rows[here] = found.rows
        return Signalled(int(found), n_unknown=found.n_unknown, rows=rows)
