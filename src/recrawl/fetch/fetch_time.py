"""The time source of a fetcher, which tests replace by stepped time."""

import asyncio
import time
from typing import Protocol

__all__ = ["FetchTime", "SystemTime"]


class FetchTime(Protocol):
    """A clock, and a way to wait."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; other tasks run meanwhile."""
        ...


class SystemTime:
    """The clock of the machine."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Wait in the running event loop."""
        await asyncio.sleep(seconds)
