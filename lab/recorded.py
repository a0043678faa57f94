"""Where recorded histories of real pages lie; they are not part of this repository."""

import os
from pathlib import Path

__all__ = ["data_folder", "has_data"]


def data_folder() -> Path:
    """Return ``$RECRAWL_DATA``, or the folder ``shared/data`` beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("RECRAWL_DATA", beside))


def has_data(*names: str) -> bool:
    """Return whether all of these files are there."""
    return all((data_folder() / name).is_file() for name in names)
