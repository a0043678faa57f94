"""The errors that recrawl raises on purpose, as one tree.

::

    Exception
    └── RecrawlError
        ├── BackupError       a backup cannot be made, is damaged, or cannot be restored
        ├── ChangesLost       a consumer of the change feed cannot continue where it stopped
        ├── ConfigError       a configuration is invalid (also a `ValueError`)
        │   └── WebFileError  the description of a simulated web is invalid
        ├── CorpusError       a folder is not a corpus, or a newer version wrote it
        │   ├── ClockError    the system clock is far ahead of the log, or was never set
        │   ├── IdentityError a log, store or snapshot belongs to another corpus
        │   └── RecoveryError the files on disk are not enough to recover the state
        │       └── LogDamagedError    the log has lost records
        ├── EventError        bytes are not events that this version can read
        │   └── UnknownEvent  a newer version wrote a record of the log
        ├── ForkedError       a corpus was used in a child of the process that opened it
        ├── LedgerError       a log cannot be written or read
        │   └── PositionLost  the log does not hold a position
        ├── NotInCluster      a call cannot be made through a worker of a cluster
        ├── OwnershipLost     another node has claimed the partition
        ├── PageElsewhere     another process has the page of a host that is split
        ├── PartitionAway     the partition of a page is not open in this process
        │   └── PartitionClosed   its pages have moved to other partitions
        ├── ReadError         an input file cannot be read at all
        │   └── UnknownFormat the format of an input file is not known
        ├── RequestKeyReused  another request had the same idempotency key
        ├── ServiceError      a service answers what a client does not understand
        │   ├── AccessDenied  a service needs an API key, or the key does not allow the call
        │   └── ServiceUnavailable    a service cannot be reached, or is too busy
        ├── SinkError         a sink cannot write now; the versions stay in the spool
        ├── SnapshotError     a snapshot is corrupt, or its format is not known
        │   └── SnapshotFormatError    its format is not known; nothing is corrupt
        ├── SpoolFull         the spool has no room for more bodies
        ├── StorageError      the disk is full, or a folder is corrupt or closed
        │   ├── FormatError   its format is not known; nothing is corrupt
        │   └── LockedError   it is already open
        │       └── FolderInUse   another process uses it, which the message names
        ├── TimeLost          a time is before the first record of the log
        ├── WebhookRefused    a request is not signed by the expected sender
        └── WrongOwner        a worker got a request about a partition that it does not own

Wrong arguments raise `ValueError` or `TypeError`, as everywhere in Python; a broken invariant is a
bug and raises `AssertionError`.  Malformed data from the web raises nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recrawl.messages.forwarding import Owner

__all__ = [
    "AccessDenied",
    "BackupError",
    "ChangesLost",
    "ClockError",
    "ConfigError",
    "CorpusError",
    "EventError",
    "FolderInUse",
    "ForkedError",
    "FormatError",
    "IdentityError",
    "LedgerError",
    "LockedError",
    "LogDamagedError",
    "NotInCluster",
    "OwnershipLost",
    "PageElsewhere",
    "PartitionAway",
    "PartitionClosed",
    "PositionLost",
    "ReadError",
    "RecoveryError",
    "RecrawlError",
    "RequestKeyReused",
    "ServiceError",
    "ServiceUnavailable",
    "SinkError",
    "SnapshotError",
    "SnapshotFormatError",
    "SpoolFull",
    "StorageError",
    "TimeLost",
    "UnknownEvent",
    "UnknownFormat",
    "WebFileError",
    "WebhookRefused",
    "WrongOwner",
]


class RecrawlError(Exception):
    """Base class of the errors that recrawl raises on purpose."""


class BackupError(RecrawlError):
    """A backup cannot be made, is damaged, or cannot be restored."""


class ChangesLost(RecrawlError):  # noqa: N818 - names a condition, as in the docs
    """The change feed no longer continues from the place that a consumer has committed."""


class ConfigError(RecrawlError, ValueError):
    """A configuration has an unknown key or an invalid value."""


class WebFileError(ConfigError):
    """The description of a simulated web is invalid."""


class CorpusError(RecrawlError):
    """A folder is not a corpus, or a newer version wrote it."""


class ClockError(CorpusError):
    """The system clock is so far from the time of the corpus that it is probably wrong."""


class IdentityError(CorpusError):
    """A log, store or snapshot belongs to another corpus, or to another partition."""


class RecoveryError(CorpusError):
    """The state cannot be recovered: no snapshot is usable, and the log is not complete."""


class LogDamagedError(RecoveryError):
    """The log is missing, or has lost records that a snapshot or the store has applied."""


class EventError(RecrawlError):
    """Bytes are not events, or are events of a schema that this version does not know."""


class UnknownEvent(EventError):  # noqa: N818 - names a condition, as in the docs
    """A record of a log has a schema that this version does not know: a newer one wrote it."""


class ForkedError(RecrawlError):
    """A corpus was used in a child (fork) of the process that opened it."""


class LedgerError(RecrawlError):
    """A log cannot be written or read; after a failed append, open it again."""


class PositionLost(LedgerError):  # noqa: N818 - names a condition, as in the docs
    """The log does not hold a position: it was truncated, or the position is beyond the end."""


class NotInCluster(RecrawlError):  # noqa: N818 - names a condition, as in the docs
    """A call cannot be made through a worker of a cluster: the message says what to do instead."""


class OwnershipLost(RecrawlError):  # noqa: N818 - names a condition, as in the docs
    """Another node has claimed the partition; later decisions of this node are void."""


class PartitionAway(RecrawlError):  # noqa: N818 - names a condition, as in the docs
    """The partition of a page or host is not open in this process.

    Parameters
    ----------
    partition
        Number of the partition.
    """

    def __init__(self, partition: int) -> None:
        super().__init__(
            f"partition {partition} is not open in this process; try again where it is open"
        )
        self.partition = int(partition)


class PageElsewhere(RecrawlError):  # noqa: N818 - names a condition, as in the docs
    """The page is in another part of its host, which is split, than those of this process."""


class PartitionClosed(PartitionAway):
    """The log of the partition has ended: its pages have moved, or are moving, to others.

    What was sent is not in the log, or is void there; send it again.

    Parameters
    ----------
    partition
        Number of the partition.
    """

    def __init__(self, partition: int) -> None:
        RecrawlError.__init__(
            self,
            f"partition {partition} is closed: the number of partitions is being changed; try "
            "again in a moment",
        )
        self.partition = int(partition)


class ReadError(RecrawlError):
    """An input file cannot be read at all: it is missing, corrupt, or access is denied."""


class UnknownFormat(ReadError):  # noqa: N818 - names a condition, as in the docs
    """The format of an input file is not known; the message lists the formats tried."""


class RequestKeyReused(RecrawlError, ValueError):  # noqa: N818 - names a condition
    """Another request had the same idempotency key within the last day."""


class ServiceError(RecrawlError):
    """A service gives an answer that a client does not understand, or has an error itself."""


class AccessDenied(ServiceError):  # noqa: N818 - names a condition, as in the docs
    """A service needs an API key, or the key does not allow the call."""


class ServiceUnavailable(ServiceError):  # noqa: N818 - names a condition, as in the docs
    """A service cannot be reached, or is too busy, and repeating the request did not help."""


class SinkError(RecrawlError):
    """A sink cannot write now; the versions stay in the spool and are sent again.

    Parameters
    ----------
    message
        Reason, with the answer of the other side if there is one.
    retry_after_seconds
        Delay that the other side asks for; None if it does not.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class SnapshotError(RecrawlError):
    """A snapshot is corrupt, or this version does not know its format."""


class SnapshotFormatError(SnapshotError):
    """A snapshot has a format that this version does not know; nothing is corrupt."""


class SpoolFull(RecrawlError):  # noqa: N818 - names a condition, as in the docs
    """The spool has no room for more bodies until a sink has written what waits for it."""


class StorageError(RecrawlError):
    """The disk is full, or a folder is missing, corrupt, closed or of an unknown format."""


class FormatError(StorageError):
    """A folder has a format that this version does not know; nothing is corrupt."""


class LockedError(StorageError):
    """A folder is already open, in another process or in this one."""


class FolderInUse(LockedError):  # noqa: N818 - names a condition
    """Another process uses a folder that one process may use at a time; the message names it.

    Parameters
    ----------
    message
        Description for the user.
    address
        URL of the corpus at which that process answers; None if it has not said one.
    """

    def __init__(self, message: str, address: str | None = None) -> None:
        super().__init__(message)
        self.address = address


class TimeLost(RecrawlError):  # noqa: N818 - names a condition, as in the docs
    """A time is before the first record of the log, so its state is no longer known."""


class WebhookRefused(RecrawlError):  # noqa: N818 - names a condition, as in the docs
    """A request is not signed by the expected sender, or was signed at another time."""


class WrongOwner(RecrawlError):  # noqa: N818 - names a condition, as in the docs
    """A worker of a cluster got a request about partitions that it does not own.

    Parameters
    ----------
    message
        Description for the log.
    owners
        The `recrawl.messages.forwarding.Owner` of each such partition, as far as the worker knows;
        None if it knows none.
    """

    def __init__(self, message: str, owners: "Mapping[int, Owner | None]") -> None:
        super().__init__(message)
        self.owners = dict(owners)
