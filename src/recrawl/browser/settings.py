"""Limits of a browser that renders pages, each with a default."""

import math
import os
import shutil
from dataclasses import dataclass, fields
from typing import Final

from recrawl.errors import ConfigError

__all__ = ["BrowserSettings"]

# Names under which distributions install Chromium; Playwright's own download is never used.
_EXECUTABLES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSettings:
    """What rendering one page may take.

    Parameters
    ----------
    executable
        Path of Chromium; the one on the search path if None.
    pages_at_once_max
        Number of pages that are rendered at a time; others wait.
    seconds_max
        Longest time for one page, in seconds, waits for the delays of hosts included.  What the
        page shows by then is its content.
    quiet_seconds
        Seconds without a request after which a page counts as complete.
    requests_max
        Number of requests that the scripts of one page may send.
    documents_max
        Number of documents that the scripts of one page may navigate to.
    connections_max
        Number of connections of one page over its whole life.
    received_bytes_max
        Bytes that one page may receive, headers and TLS included.
    sent_bytes_max
        Bytes that one page may send.
    script_memory_mb_max
        Memory for the objects of the scripts of one page, in megabytes.
    memory_mb_max
        Memory of all processes of the browser, in megabytes; beyond it, the browser is ended and
        started again for the next page.  Measured on Linux alone.
    pages_per_browser_max
        Number of pages after which the browser is started again.
    script_cache_bytes_max
        Bytes of scripts that are remembered for other pages.
    has_sandbox
        Whether the processes that run scripts are confined by the system.  By default they are,
        unless the program runs as root, where Chromium cannot do it.
    """

    executable: str | None = None
    pages_at_once_max: int = 4
    seconds_max: float = 60.0
    quiet_seconds: float = 0.5
    requests_max: int = 60
    documents_max: int = 3
    connections_max: int = 200
    received_bytes_max: int = 16 << 20
    sent_bytes_max: int = 1 << 20
    script_memory_mb_max: int = 256
    memory_mb_max: int = 2_048
    pages_per_browser_max: int = 500
    script_cache_bytes_max: int = 64 << 20
    has_sandbox: bool | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type in (int, float) and not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{one.name} must be positive, got {value}")

    def find_executable(self) -> str:
        """Return the path of Chromium.

        Raises
        ------
        ConfigError
            If it is not installed.
        """
        if self.executable is not None:
            if os.access(self.executable, os.X_OK):
                return self.executable
            raise ConfigError(f"{self.executable} is not a program")
        for name in _EXECUTABLES:
            if (found := shutil.which(name)) is not None:
                return found
        raise ConfigError(
            "Chromium is not installed. Install it with your system's packages, for example "
            "`apt-get install chromium`, or name its path (BrowserSettings.executable)."
        )

    @property
    def uses_sandbox(self) -> bool:
        """Whether the processes that run scripts are confined by the system."""
        if self.has_sandbox is not None:
            return self.has_sandbox
        return not (hasattr(os, "geteuid") and os.geteuid() == 0)
