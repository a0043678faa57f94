"""Learn the address of a client from a proxy, if the proxy is one that the operator trusts.

Anybody can send a header ``X-Forwarded-For``.  It counts only if the connection comes from a
trusted proxy, and of its addresses only those that trusted proxies have appended: they are read
from the right, up to the first one that is not trusted.  That one is the client.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["TrustedProxies", "is_forwarded", "read_networks"]

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_FOR, _PROTO = b"x-forwarded-for", b"x-forwarded-proto"
# A proxy sends at least one of these, unless somebody has configured it to send none.
_FORWARDED = frozenset(
    (
        *(_FOR, _PROTO, b"x-forwarded-host", b"x-forwarded-port", b"x-forwarded-server"),
        *(b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"true-client-ip"),
        b"cf-connecting-ip",
    )
)
_HOPS_MAX = 32
_SCHEMES = ("http", "https")


def read_networks(texts: Iterable[str]) -> tuple[_Network, ...]:
    """Return networks from texts such as ``10.1.0.0/16`` or ``192.0.2.7``; raise if one is wrong.

    Examples
    --------
    >>> read_networks(["192.0.2.7", "2001:db8::/32"])
    (IPv4Network('192.0.2.7/32'), IPv6Network('2001:db8::/32'))
    """
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text.strip()))
        except ValueError as error:
            raise ValueError(
                f"{text!r} is not a network: {error}.  Write 10.1.0.0/16, or an address"
            ) from None
    return tuple(found)


def is_forwarded(scope: Scope) -> bool:
    """Return whether a request says that it came through a proxy."""
    return any(name in _FORWARDED for name, _ in scope["headers"])


class TrustedProxies:
    """Replaces the address of a trusted proxy by the one of its client.

    Parameters
    ----------
    app
        Application behind this layer.
    networks
        Networks of the proxies.
    """

    def __init__(self, app: ASGIApp, networks: Sequence[_Network]) -> None:
        self._app = app
        self._networks = networks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with the address and the scheme of its client."""
        if scope["type"] == "http":
            peer = _address(scope["client"][0]) if scope.get("client") else None
            if peer is not None and self._is_trusted(peer):
                scope["client"] = (str(self._client(scope, peer)), 0)
                scope["scheme"] = _scheme(scope)
        await self._app(scope, receive, send)

    def _is_trusted(self, address: _Address) -> bool:
        return any(address in network for network in self._networks)

    def _client(self, scope: Scope, peer: _Address) -> _Address:
        """Return the last address that a trusted proxy vouches for."""
        client = peer
        for text in reversed(_values(scope, _FOR)[-_HOPS_MAX:]):
            found = _address(text)
            if found is None:
                break  # what is left of it may be invented
            client = found
            if not self._is_trusted(found):
                break
        return client


def _values(scope: Scope, wanted: bytes) -> list[str]:
    """Return the parts of a header that may occur several times, in order."""
    whole = b",".join(value for name, value in scope["headers"] if name == wanted)
    return [one.strip() for one in whole.decode("latin-1").split(",")] if whole else []


def _scheme(scope: Scope) -> str:
    """Return the scheme that the nearest proxy was asked with."""
    given = [one.lower() for one in _values(scope, _PROTO)[-1:]]
    return given[0] if given and given[0] in _SCHEMES else str(scope["scheme"])


def _address(text: str) -> _Address | None:
    """Return an address, with or without a port; None if it is not one."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped
