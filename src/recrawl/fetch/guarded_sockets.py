"""Connections only to addresses that a fetcher may connect to.

aiohttp resolves names with `GuardedResolver`, and opens every socket, also to addresses that stand
in URLs, with `AddressGuard.open_socket`.  The address that is checked there is the one that the
socket is connected to, so a name that changes its address in between gains nothing.
"""

import socket
from collections.abc import Sequence
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from recrawl.fetch.addresses import Network, address_refusal

__all__ = ["AddressGuard", "GuardedResolver", "RefusedAddress"]

_ADDRESSES_MAX: Final = 16


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
