"""The orders that a crawl holds, in a file, so that the next one can give them back.

A process that is killed cannot give its orders back, and their pages and hosts would wait until the
leases end.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from recrawl.atomic_files import replace_file

__all__ = ["HeldOrders"]


class HeldOrders:
    """Handles of orders in a file.

    The file is written, but not synced to the disk: after a power cut the leases simply end.

    Parameters
    ----------
    path
        File to write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[int]:
        """Return the handles that the last crawl held; none if the file cannot be read."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            return [int(handle) for handle in json.loads(self._path.read_bytes())["handles"]]
        return []

    def write(self, handles: Iterable[int]) -> None:
        """Replace the handles.

        Parameters
        ----------
        handles
            Handles of all orders that are held now.
        """
        with replace_file(self._path) as file:
            file.write(json.dumps({"handles": sorted(handles)}).encode())
