"""What a sink is: the interface that every place for versions of pages implements.

`recrawl.testing.SINK_CHECKS` checks it; any other implementation can run these checks.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from recrawl.fetch.sinks.version import PageVersion

__all__ = ["DEFAULT_BATCH", "BatchSettings", "Sink", "check_sink_name"]

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """How many versions a sink gets in one call.

    Parameters
    ----------
    versions_max
        Largest number of versions.
    bytes_max
        Size of their bodies after which no further version is added.
    wait_seconds
        Time for which versions are collected if there are fewer; 0 to send each at once.
    """

    versions_max: int = 100
    bytes_max: int = 16 << 20
    wait_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.versions_max < 1 or self.bytes_max < 1 or not 0 <= self.wait_seconds <= 86_400:
            raise ValueError(
                "versions_max and bytes_max must be at least 1, and wait_seconds from 0 to 86400, "
                f"got {self}"
            )


DEFAULT_BATCH = BatchSettings()


@runtime_checkable
class Sink(Protocol):
    """A place that new versions of pages are written to.

    A sink receives every version at least once: after a crash it receives the versions again whose
    `write` had not returned, and maybe those of one earlier call.  The id of a version is the same
    each time.  One thread at a time calls a sink.
    """

    @property
    def name(self) -> str:
        """Name by which recrawl remembers the place of the sink."""
        ...

    @property
    def wants_unchanged(self) -> bool:
        """Whether the sink also receives fetches that found nothing new."""
        ...

    @property
    def batch(self) -> BatchSettings:
        """How many versions the sink gets in one call."""
        ...

    def write(self, versions: Sequence[PageVersion]) -> None:
        """Write versions, and return when they are durable.

        Parameters
        ----------
        versions
            Versions in the order of their numbers.

        Raises
        ------
        SinkError
            If they cannot be written now; they are sent again later.  What cannot ever be written,
            such as a body beyond a limit of the other side, is left out instead.
        """
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...


def check_sink_name(name: str) -> str:
    """Return a name of a sink, if it may be one.

    Raises
    ------
    ValueError
        If it is not a name of up to 64 lower-case letters, digits, ``.``, ``_`` and ``-``.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            "name of a sink must have 1 to 64 lower-case letters, digits, '.', '_' and '-', got "
            f"{name!r}"
        )
    return name
