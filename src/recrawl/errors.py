"""Every error of ours that a caller may want to catch, as one tree.

::

    Exception
    └── RecrawlError
        ├── ConfigError       a configuration that says what cannot be (also a `ValueError`)
        │   └── WebFileError  a web to be simulated that cannot be
        ├── CorpusError       a folder that is no corpus, or one of a newer version
        │   └── RecoveryError what is on disk is not enough to go on from
        ├── EventError        bytes that are no events of this version
        ├── LedgerError       a log that cannot be written or read
        │   └── PositionLost  a position that the log does not hold
        ├── OwnershipLost     another node has claimed a partition
        ├── ReadError         a file of somebody else's that cannot be read at all
        │   └── UnknownFormat of no format that we know
        ├── SnapshotError     a snapshot that is broken, or of a version not known
        │   └── SnapshotFormatError    of a version not known; nothing is broken
        ├── StorageError      a folder on disk: full, broken, closed, of a version not known
        │   ├── FormatError   of a version not known; nothing is broken
        │   └── LockedError   it is open already
        └── TimeLost          a time before all that the log holds

Wrong arguments are `ValueError` or `TypeError`, as everywhere in Python; a broken invariant is an
`AssertionError` and a bug.  Input from the web is data: bad bytes raise nothing.
"""

__all__ = [
    "ConfigError",
    "CorpusError",
    "EventError",
    "FormatError",
    "LedgerError",
    "LockedError",
    "OwnershipLost",
    "PositionLost",
    "ReadError",
    "RecoveryError",
    "RecrawlError",
    "SnapshotError",
    "SnapshotFormatError",
    "StorageError",
    "TimeLost",
    "UnknownFormat",
    "WebFileError",
]


class RecrawlError(Exception):
    """Root of the errors that recrawl raises on purpose."""


class ConfigError(RecrawlError, ValueError):
    """A configuration with a key that is not known, or a value that cannot be."""


class WebFileError(ConfigError):
    """A description of a web to be simulated that describes none."""


class CorpusError(RecrawlError):
    """A folder that is no corpus, or one that a newer version wrote."""


class RecoveryError(CorpusError):
    """What is on disk is not enough to go on from: no usable snapshot, and not all of the log."""


class EventError(RecrawlError):
    """Bytes that are no events, or events of a schema that this version does not know."""


class LedgerError(RecrawlError):
    """A log that cannot be written or read; after a failed append, open it again."""


class PositionLost(LedgerError):  # noqa: N818 - a state of affairs, as in the docs
    """A position that the log does not hold: forgotten, or beyond an end that was lost."""


class OwnershipLost(RecrawlError):  # noqa: N818 - a state of affairs, as in the docs
    """Another node has claimed a partition; what this one decides is void from there on."""


class ReadError(RecrawlError):
    """A file that cannot be read at all: not there, broken at its start, or not for us to read."""


class UnknownFormat(ReadError):  # noqa: N818 - a state of affairs, as in the docs
    """A file of no format that we know; says what was tried."""


class SnapshotError(RecrawlError):
    """A snapshot that is broken, or of a version that is not known."""


class SnapshotFormatError(SnapshotError):
    """A snapshot of a version that is not known; nothing is broken."""


class StorageError(RecrawlError):
    """A folder on disk that is full, broken, closed, not there, or of a version not known."""


class FormatError(StorageError):
    """A folder of a version that is not known; nothing is broken."""


class LockedError(StorageError):
    """A folder that is open already, in another process or in this one."""


class TimeLost(RecrawlError):  # noqa: N818 - a state of affairs, as in the docs
    """A time before all that the log holds: what was then is not known any more."""
