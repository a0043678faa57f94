"""Refuse changes to a corpus that cannot write: its disk is nearly full, or a write has failed.

A write that fails for lack of space leaves a partition unusable until the corpus is opened again.
So changes are refused a little earlier, while there is space for what is written in the background;
they are taken again as soon as there is more.  Reading goes on all the time.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem

__all__ = ["WriteGuard"]

_LOOK_SECONDS = 1.0
_RETRY = {"Retry-After": "60"}


class WriteGuard:
    """Whether one corpus takes changes.

    Parameters
    ----------
    corpus
        Object with the methods of `recrawl.Corpus`; one without a folder is never refused.
    limits
        Limits of the server.
    """

    def __init__(self, corpus: Any, limits: ServiceLimits) -> None:
        folder = getattr(corpus, "folder", None)
        self._folder = folder if isinstance(folder, Path) else None
        self._n_bytes_min = limits.disk_free_bytes_min
        self._n_bytes_free: int | None = None
        self._looked_at = -_LOOK_SECONDS
        self._has_failed = False

    @property
    def n_bytes_free(self) -> int | None:
        """Free space on the disk of the corpus, at most a second old; None if it is not known."""
        now = time.monotonic()
        if self._folder is not None and now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            try:
                self._n_bytes_free = shutil.disk_usage(self._folder).free
            except OSError:
                self._n_bytes_free = None  # the next write will say what is wrong
        return self._n_bytes_free

    @property
    def is_nearly_full(self) -> bool:
        """Whether changes are refused because there is too little space."""
        free = self.n_bytes_free
        return free is not None and free < self._n_bytes_min

    @property
    def is_read_only(self) -> bool:
        """Whether changes are refused, or the last one failed because it could not be written."""
        return self._has_failed or self.is_nearly_full

    def check(self) -> None:
        """Raise if the corpus must not be changed now."""
        if self.is_nearly_full:
            raise Problem(
                "storage",
                f"the disk has {(self._n_bytes_free or 0) / 1e6:,.0f} MB left, and changes need "
                f"{self._n_bytes_min / 1e6:,.0f} MB; reading still works.  Free some space",
                headers=_RETRY,
            )

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Check that the corpus may be changed, and remember whether the change failed."""
        self.check()
        try:
            yield
        except Problem as problem:
            if problem.name == "storage":
                self._has_failed = True
            raise
        self._has_failed = False
