"""What every ledger promises, so that a node need not know which one it writes to.

A *log* has partitions; the *ledger* of a partition holds its records in order, each at a position.
Positions are integers that grow by one per record and are never used twice.  A ledger knows
nothing of what its records mean.

What is promised is checked by `recrawl.testing.LEDGER_CHECKS`, which any further ledger can run.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = [
    "N_PARTITIONS_MAX",
    "READ_BYTES_MAX",
    "RECORD_BYTES_MAX",
    "SCHEMA_MAX",
    "Ledger",
    "Log",
    "Record",
    "Span",
    "check_partition",
    "check_records",
]

SCHEMA_MAX = 0xFFFF
"""The highest schema number: it takes two bytes."""
RECORD_BYTES_MAX = 7 << 20
"""The longest record: what a broker set up for messages of 8 MiB takes, with room for headers."""
READ_BYTES_MAX = 16 << 20
"""How much one `Ledger.read` returns where the caller says nothing."""
N_PARTITIONS_MAX = 0xFFFF
"""The most partitions of a log."""


class Record(NamedTuple):
    """Opaque bytes and the number of the schema that they follow."""

    schema: int
    data: bytes


class Span(NamedTuple):
    """Where the records of one append stand."""

    first: int
    """Position of the first one."""
    end: int
    """Position after the last one."""
    is_whole: bool
    """Whether they stand at first, first + 1, ... with nobody else's records between them."""
    scattered: tuple[int, ...] = ()
    """The position of each, where they do not."""

    @property
    def positions(self) -> Sequence[int]:
        """The position of each record."""
        return range(self.first, self.end) if self.is_whole else self.scattered


@runtime_checkable
class Ledger(Protocol):
    """The log of one partition.

    Its methods may be called from several threads; appends happen one after the other.
    """

    @property
    def first(self) -> int:
        """Position of the earliest record that is kept; `end` where there is none."""
        ...

    @property
    def end(self) -> int:
        """Position after the last record, of whichever writer; asks the broker where there is one.

        Never falls, not even when every record has been forgotten.
        """
        ...

    def append(self, records: Sequence[Record]) -> Span:
        """Write records after the last one, in their order, and return where they stand.

        All of them are durable when it returns.  Appending nothing writes nothing.

        Raises
        ------
        LedgerError
            Nothing may be assumed then: all, some or none of the records may be in the log, or
            turn up in it later.  The ledger refuses further appends until the log is opened
            again.
        ValueError
            A record is longer than `RECORD_BYTES_MAX` or its schema out of range; nothing has
            been written and the ledger is as before.
        """
        ...

    def read(self, position: int, *, n_bytes_max: int = READ_BYTES_MAX) -> list[tuple[int, Record]]:
        """Return records with their positions, from a position up to the end, in order.

        The end is the one at the time of asking.  Fewer are returned only where they would be
        longer than ``n_bytes_max`` together; at least one is, if there is one.  At the end there
        is none.

        Raises
        ------
        PositionLost
            The position is below `first`, or beyond `end`: the log is not the one that the
            position is from, or has lost its end.
        LedgerError
            The log cannot be read.
        """
        ...

    def sync(self) -> None:
        """Return when everything appended is as durable as it can be.

        Nothing to do where `append` waits for that already.

        Raises
        ------
        LedgerError
            It cannot be made durable.
        """
        ...

    def truncate(self, position: int) -> None:
        """Forget the records below a position, which is then `first`; nothing if it is lower.

        Raises
        ------
        ValueError
            The position is beyond `end`.
        """
        ...


@runtime_checkable
class Log(Protocol):
    """The ledgers of all partitions, opened together."""

    @property
    def n_partitions(self) -> int:
        """How many partitions the log has."""
        ...

    def partition(self, i: int) -> Ledger:
        """Return the ledger of partition ``i``, the same one at every call."""
        ...

    def close(self) -> None:
        """Let go of files, connections and threads; its ledgers cannot be used any more."""
        ...


def check_records(records: Sequence[Record]) -> None:
    """Refuse records that no ledger takes."""
    for schema, data in records:
        if not 0 <= schema <= SCHEMA_MAX:
            raise ValueError(f"schema must be 0 to {SCHEMA_MAX}, got {schema}")
        if len(data) > RECORD_BYTES_MAX:
            raise ValueError(
                f"a record must have at most {RECORD_BYTES_MAX} bytes, got {len(data)}"
            )


def check_partition(i: int, n_partitions: int) -> None:
    """Refuse a partition that the log does not have."""
    if not 0 <= i < n_partitions:
        raise ValueError(f"partition must be 0 to {n_partitions - 1}, got {i}")
