"""Every error of ours that a caller may want to catch, as one tree.

    Exception
    └── RecrawlError
        ├── EventError        bytes that are no events of this version
        └── SnapshotError     a snapshot that is broken, or of a version not known

Wrong arguments are `ValueError` or `TypeError`, as everywhere in Python; a broken invariant is an
`AssertionError` and a bug.  Input from the web is data: bad bytes raise nothing.
"""

__all__ = ["EventError", "RecrawlError", "SnapshotError"]


class RecrawlError(Exception):
    """Root of the errors that recrawl raises on purpose."""


class EventError(RecrawlError):
    """Bytes that are no events, or events of a schema that this version does not know."""


class SnapshotError(RecrawlError):
    """A snapshot that is broken, or of a version that is not known."""
