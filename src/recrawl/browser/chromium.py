"""The processes of Chromium: start them, give each page a context of its own, end them."""

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aiohttp.abc import AbstractResolver
from playwright.async_api import Browser, BrowserContext, Playwright, async_playwright

from recrawl.browser.guarding_proxy import GuardingProxy
from recrawl.browser.settings import BrowserSettings
from recrawl.fetch.guarded_sockets import AddressGuard

__all__ = ["BrowserEnded", "Chromium"]

_START_SECONDS_MAX: Final = 60.0
_CLOSE_SECONDS_MAX: Final = 10.0
_CLOSE_ENDED_SECONDS_MAX: Final = 1.0
_WATCH_SECONDS: Final = 0.5
_MARK: Final = "--recrawl-browser="
_ARGUMENTS: Final = (
    # Names are resolved by the proxy alone, also those of links to prefetch.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    # By default Chromium goes past a proxy to this machine and its links.
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--no-pings",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-extensions",
    "--disable-file-system",
    "--disable-speech-api",
    "--disable-notifications",
    "--mute-audio",
    "--disable-gpu",
)


class BrowserEnded(Exception):  # noqa: N818 - names a condition
    """The browser ended while it rendered a page."""


class _Instance:
    """One driver, one browser, and the pages that it renders."""

    def __init__(self, playwright: Playwright, browser: Browser, mark: str) -> None:
        self.playwright = playwright
        self.browser = browser
        self.mark = mark
        self.n_pages = 0
        self.n_open = 0
        self.is_retired = False
        self.has_ended = False
        self.reason = "the browser ended"
        self.watch: asyncio.Task[None] | None = None

    @property
    def close_seconds_max(self) -> float:
        """Seconds to wait for an orderly end; a driver that has ended itself does not answer."""
        return _CLOSE_ENDED_SECONDS_MAX if self.has_ended else _CLOSE_SECONDS_MAX


class Chromium:
    """Runs Chromium, and starts it again when it ends, grows too large or has served its time.

    Parameters
    ----------
    settings
        Limits, and where Chromium is.
    guard
        Guard of every connection.
    resolver
        Look-up of names.
    user_agent
        Value of the header ``User-Agent``.

    Raises
    ------
    ConfigError
        If Chromium is not installed.
    """

    def __init__(
        self,
        settings: BrowserSettings,
        guard: AddressGuard,
        resolver: AbstractResolver,
        *,
        user_agent: str,
    ) -> None:
        self._settings = settings
        self._executable = settings.find_executable()
        self._resolver = resolver
        self._guard = guard
        self._user_agent = user_agent
        self._starting = asyncio.Lock()
        self._current: _Instance | None = None
        self._instances: set[_Instance] = set()
        self._contexts: dict[BrowserContext, _Instance] = {}
        self._dead_end: GuardingProxy | None = None
        self._is_closed = False
        self.n_starts = 0
        """Number of times that the browser was started."""

    @asynccontextmanager
    async def open_context(self, proxy: GuardingProxy) -> AsyncIterator[BrowserContext]:
        """Give out a context without cookies and storage, which reaches the network by a proxy.

        Parameters
        ----------
        proxy
            Proxy of the page.

        Raises
        ------
        BrowserEnded
            If the browser cannot be started, or ends while the context is open.
        """
        instance = await self._take_instance()
        try:
            context = await instance.browser.new_context(
                proxy={"server": proxy.url, "bypass": "<-loopback>"},
                user_agent=self._user_agent,
                accept_downloads=False,
                service_workers="block",
                java_script_enabled=True,
                bypass_csp=False,
                viewport={"width": 1280, "height": 2000},
            )
            self._contexts[context] = instance
            try:
                yield context
            finally:
                del self._contexts[context]
                try:
                    async with asyncio.timeout(instance.close_seconds_max):
                        await context.close()
                except Exception:  # the driver may have ended
                    self._end(instance, "a page could not be closed")
        except Exception as error:
            if instance.has_ended or not instance.browser.is_connected():
                instance.is_retired = instance.has_ended = True
                raise BrowserEnded(instance.reason) from error
            raise
        finally:
            instance.n_open -= 1
            if instance.is_retired and not instance.n_open:
                await self._close_instance(instance)

    def has_ended(self, context: BrowserContext) -> bool:
        """Return whether the browser of an open context has ended.

        Parameters
        ----------
        context
            Context from `open_context`.
        """
        instance = self._contexts[context]
        return instance.has_ended or not instance.browser.is_connected()

    async def close(self) -> None:
        """End all processes; a second call has no effect."""
        self._is_closed = True
        async with self._starting:
            for instance in list(self._instances):
                await self._close_instance(instance)
            if self._dead_end is not None:
                await self._dead_end.close()
                self._dead_end = None

    async def _take_instance(self) -> _Instance:
        async with self._starting:
            if self._is_closed:
                raise BrowserEnded("the browser is closed")
            current = self._current
            if current is not None and not current.browser.is_connected():
                current.is_retired = True
            if current is not None and current.is_retired and not current.n_open:
                await self._close_instance(current)
            if current is None or current.is_retired:
                current = self._current = await self._start()
            current.n_pages += 1
            current.n_open += 1
            if current.n_pages >= self._settings.pages_per_browser_max:
                current.is_retired = True
            return current

    async def _start(self) -> _Instance:
        if self._dead_end is None:
            # What Chromium itself would send, outside all pages, ends here.
            self._dead_end = GuardingProxy(self._settings, self._guard, self._resolver)
            await self._dead_end.open()
        mark = secrets.token_hex(8)
        try:
            async with asyncio.timeout(_START_SECONDS_MAX):
                playwright = await async_playwright().start()
                try:
                    browser = await playwright.chromium.launch(
                        executable_path=self._executable,
                        headless=True,
                        chromium_sandbox=self._settings.uses_sandbox,
                        handle_sigint=False,
                        args=[
                            *_ARGUMENTS,
                            f"--proxy-server={self._dead_end.url}",
                            f"--js-flags=--max-old-space-size={self._settings.script_memory_mb_max}",
                            _MARK + mark,
                        ],
                    )
                except BaseException:
                    await playwright.stop()
                    raise
        except Exception as error:  # a driver that ends raises no error of its own kind
            raise BrowserEnded(f"Chromium did not start: {str(error)[:500]}") from error
        self.n_starts += 1
        instance = _Instance(playwright, browser, mark)
        self._instances.add(instance)
        if sys.platform == "linux":
            instance.watch = asyncio.create_task(self._watch(instance))
        return instance

    async def _watch(self, instance: _Instance) -> None:
        """End the browser when its processes take too much memory."""
        loop = asyncio.get_running_loop()
        while not instance.is_retired or instance.n_open:
            await asyncio.sleep(_WATCH_SECONDS)
            if not instance.n_open:
                continue
            n_bytes = await loop.run_in_executor(None, memory_of_processes, instance.mark)
            if not n_bytes:
                self._end(instance, "the browser ended")
                return
            if n_bytes > self._settings.memory_mb_max << 20:
                self._end(instance, "the browser took more memory than memory_mb_max")
                return

    def _end(self, instance: _Instance, reason: str) -> None:
        """End the processes of a browser at once."""
        if not instance.has_ended:
            instance.reason = reason
        instance.is_retired = instance.has_ended = True
        for pid in processes_of(instance.mark):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    async def _close_instance(self, instance: _Instance) -> None:
        if instance not in self._instances:
            return
        self._instances.discard(instance)
        instance.is_retired = True
        if self._current is instance:
            self._current = None
        if instance.watch is not None:
            instance.watch.cancel()
            await asyncio.gather(instance.watch, return_exceptions=True)
        try:
            async with asyncio.timeout(instance.close_seconds_max):
                await instance.browser.close()
        except Exception:  # the driver may have ended
            self._end(instance, "the browser could not be closed")
        with contextlib.suppress(Exception):
            async with asyncio.timeout(instance.close_seconds_max):
                await instance.playwright.stop()


def processes_of(mark: str) -> list[int]:
    """Return the processes of one browser, the first one and its descendants; Linux only.

    Parameters
    ----------
    mark
        Text that stands in the arguments of the first process alone.
    """
    wanted = (_MARK + mark).encode()
    children: dict[int, list[int]] = {}
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name of a program stands in brackets, and may have spaces.
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
            if wanted in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    seen = set(found)
    for pid in found:
        new = [child for child in children.get(pid, ()) if child not in seen]
        seen.update(new)
        found.extend(new)
    return found


def memory_of_processes(mark: str) -> int:
    """Return the bytes of memory that the processes of one browser have for themselves.

    Parameters
    ----------
    mark
        Text that stands in the arguments of the first process alone.
    """
    n_bytes = 0
    for pid in processes_of(mark):
        with contextlib.suppress(OSError, ValueError, IndexError):
            resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
            n_bytes += (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
    return n_bytes
