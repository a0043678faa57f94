"""What takes long to make and is always the same: it comes with the package."""

from recrawl.kept.due_table import cache_folder, kept_due_table, packed, unpacked

__all__ = ["cache_folder", "kept_due_table", "packed", "unpacked"]
