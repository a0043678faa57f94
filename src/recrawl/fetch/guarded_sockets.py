"""Connections only to addresses that a fetcher may connect to.

aiohttp resolves names with `GuardedResolver`, and opens every socket, also to addresses that stand
in URLs, with `AddressGuard.open_socket`.  The address that is checked there is the one that the
socket is connected to, so a name that changes its address in between gains nothing.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from recrawl.fetch.addresses import Network, address_refusal

__all__ = ["AddressGuard", "GuardedResolver", "RefusedAddress", "SystemResolver"]

_ADDRESSES_MAX: Final = 16
_LOOKUPS_MAX: Final = 64


class RefusedAddress(OSError):  # noqa: N818 - names a condition, as in the docs
    """A connection to this address is not allowed."""


class AddressGuard:
    """Opens sockets to allowed addresses alone.

    Parameters
    ----------
    allowed
        Networks that may be connected to although they are not public.
    """

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = tuple(allowed)
        self._proxy: frozenset[tuple[str, int]] = frozenset()
        self.n_refused = 0
        """Number of addresses that were refused."""
        self.n_opened = 0
        """Number of sockets that were opened."""

    def allow_proxy(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Allow connections to a proxy, which may have any address.

        Parameters
        ----------
        addresses
            Addresses and ports of the proxy.
        """
        self._proxy = frozenset(addresses)

    @property
    def has_proxy(self) -> bool:
        """Whether a proxy has been allowed."""
        return bool(self._proxy)

    def refusal(self, address: str, port: int) -> str | None:
        """Return why an address is refused; None if it is allowed."""
        if (address, port) in self._proxy:
            return None
        return address_refusal(address, self._allowed)

    def open_socket(self, addr_info: tuple[Any, ...]) -> socket.socket:
        """Return a socket for an address; aiohttp then connects it to that address.

        Parameters
        ----------
        addr_info
            Family, type, protocol, name and address, as `socket.getaddrinfo` returns them.

        Raises
        ------
        RefusedAddress
            If connections to the address are not allowed.
        """
        family, kind, protocol, _, (address, port, *zone) = addr_info
        # The flow label and the zone of an IPv6 address select a network interface.
        refusal = f"{address} has a zone" if any(zone) else self.refusal(address, port)
        if refusal is not None:
            self.n_refused += 1
            raise RefusedAddress(refusal)
        self.n_opened += 1
        return socket.socket(family, kind, protocol)


class GuardedResolver(AbstractResolver):
    """Resolves names to the allowed ones of their addresses.

    Parameters
    ----------
    inner
        Resolver that looks names up.
    guard
        Guard that knows which addresses are allowed.
    """

    def __init__(self, inner: AbstractResolver, guard: AddressGuard) -> None:
        self.inner = inner
        """Resolver whose answers are checked."""
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the allowed addresses of a host.

        Raises
        ------
        RefusedAddress
            If it has addresses and none is allowed.
        OSError
            If the name cannot be resolved.
        """
        found = await self.inner.resolve(host, port, family)
        refusals = [self._guard.refusal(one["host"], port) for one in found[:_ADDRESSES_MAX]]
        kept = [one for one, refusal in zip(found, refusals, strict=False) if refusal is None]
        if not found:
            raise OSError(f"{host} has no address")
        if not kept:
            self._guard.n_refused += 1
            raise RefusedAddress(f"{host} has no public address: {refusals[0]}")
        return kept

    async def close(self) -> None:
        """Close the inner resolver."""
        await self.inner.close()


class SystemResolver(AbstractResolver):
    """Looks names up as the system does, in threads of its own.

    A name server that does not answer blocks a thread for many seconds.  In the common threads of
    the event loop, a few such names would stop everything else that uses them.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS_MAX, thread_name_prefix="recrawl-dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host.

        Raises
        ------
        OSError
            If the name cannot be resolved.
        """
        loop = asyncio.get_running_loop()
        infos = await loop.run_in_executor(self._threads, _look_up, host, port, family)
        return [
            ResolveResult(
                hostname=host,
                # A zone (scope) is kept, so that the guard sees and refuses it.
                host=f"{where[0]}%{where[3]}" if len(where) > 3 and where[3] else str(where[0]),
                port=int(where[1]),
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, where in infos
        ]

    async def close(self) -> None:
        """Let the threads end when their look-ups do."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[Any]:
    return socket.getaddrinfo(
        host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
