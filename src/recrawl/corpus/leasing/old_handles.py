"""Handles that were handed out before the number of partitions changed.

A fetcher reports an order with the handle that it got, also after the division into partitions has
changed meanwhile.  A corpus keeps the new handle of each until the next change.
"""

from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from recrawl.atomic_files import replace_file
from recrawl.errors import StorageError

__all__ = ["OLD_HANDLES_FILE", "OldHandles"]

OLD_HANDLES_FILE: Final = "old-handles.npy"

I64 = NDArray[np.int64]


class OldHandles:
    """Handles of earlier layouts and the present ones of the same orders.

    Parameters
    ----------
    old, new
        Handles, in any order.
    """

    def __init__(self, old: I64, new: I64) -> None:
        order = np.argsort(old, kind="stable")
        self.old, self.new = old[order], new[order]

    @classmethod
    def none(cls) -> Self:
        """Return what a corpus has that was never divided anew."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return self.old.size

    def translate(self, handle: I64) -> I64:
        """Return the present handles; what is not an old handle stays as it is."""
        if self.old.size == 0 or handle.size == 0:
            return handle
        place = np.minimum(np.searchsorted(self.old, handle), self.old.size - 1)
        return np.where(self.old[place] == handle, self.new[place], handle)

    def translate_one(self, handle: int) -> int:
        """Return the present handle of one order, as `translate` does for many."""
        if self.old.size == 0:
            return handle
        return int(self.translate(np.array([handle], np.int64))[0])

    def then(self, old: I64, new: I64) -> "OldHandles":
        """Return the handles after another change, given by the handles before and after it."""
        step = OldHandles(old, new)
        moved = step.translate(self.new)
        is_known = np.isin(self.new, step.old)
        return OldHandles(
            np.concatenate([step.old, self.old[is_known]]),
            np.concatenate([step.new, moved[is_known]]),
        )

    def save(self, folder: Path) -> None:
        """Write the handles into the folder of a corpus, durably."""
        with replace_file(folder / OLD_HANDLES_FILE, is_durable=True) as file:
            np.save(file, np.stack([self.old, self.new]), allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the handles in the folder of a corpus."""
        path = folder / OLD_HANDLES_FILE
        try:
            old, new = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            return cls.none()
        except (OSError, ValueError) as error:
            raise StorageError(
                f"{path} cannot be read: {error}. Remove it; orders from before the number of "
                "partitions changed are then not known any more"
            ) from error
        return cls(old, new)
