"""Where recorded histories of real pages lie; they are not part of this repository."""

from pathlib import Path

from recrawl import refreshbench

__all__ = ["data_folder", "has_data"]


def data_folder() -> Path:
    """Return ``$RECRAWL_DATA``, or the folder ``shared/data`` beside the checkout."""
    return refreshbench.data_folder() or Path(__file__).resolve().parents[2] / "shared" / "data"


def has_data(*names: str) -> bool:
    """Return whether all of these files are there."""
    return all((data_folder() / name).is_file() for name in names)
