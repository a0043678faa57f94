"""Which network addresses a fetcher may connect to: only public ones, unless the user allows more.

A page may name any host, and its name may lead to any address: to this machine, to the network that
it is in, or to the service of a cloud that hands out credentials.  So an address is checked where a
socket is opened to it, after every redirect and every look-up of a name.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final, TypeAlias

__all__ = ["Network", "address_refusal", "parse_networks"]

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# The special-purpose registries of IANA.  Python's own list differs between versions, and counts
# multicast and addresses that contain another one as global.
_NOT_PUBLIC_V4: Final = tuple(
    (ipaddress.IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a carrier's network"),
        ("127.0.0.0/8", "this machine"),
        ("169.254.0.0/16", "the local link"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "a protocol"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "a protocol"),
        ("192.52.193.0/24", "a protocol"),
        ("192.88.99.0/24", "a tunnel"),
        ("192.168.0.0/16", "a private network"),
        ("192.175.48.0/24", "a protocol"),
        ("198.18.0.0/15", "benchmarks"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved use"),
    )
)
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = tuple(
    (ipaddress.IPv6Network(network), what)
    for network, what in (
        ("2001::/23", "a protocol or a tunnel"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "a tunnel"),
        ("2620:4f:8000::/48", "a protocol"),
        ("3fff::/20", "documentation"),
    )
)
# Behind these prefixes, a translator connects to the IPv4 address in the last 32 bits.
_TRANSLATED: Final = (ipaddress.IPv6Network("64:ff9b::/96"),)


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks that a user allows.

    Parameters
    ----------
    texts
        Networks or addresses, such as ``10.1.0.0/16`` or ``::1``.

    Raises
    ------
    ValueError
        If a text is not a network.
    """
    return tuple(ipaddress.ip_network(text.strip(), strict=False) for text in texts)


def address_refusal(address: str, allowed: Iterable[Network] = ()) -> str | None:
    """Return why a fetcher must not connect to an address; None if it may.

    Parameters
    ----------
    address
        Numeric address, as a socket takes it; an IPv6 zone (``%eth0``) is never public.
    allowed
        Networks that the user allows although they are not public.

    Examples
    --------
    >>> address_refusal("93.184.215.14") is None
    True
    >>> address_refusal("::ffff:127.0.0.1")
    '127.0.0.1 is reserved for this machine'
    >>> address_refusal("127.0.0.1", parse_networks(["127.0.0.0/8"])) is None
    True
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return f"{address[:80]!r} is not a numeric address"
    inner = _inner_address(parsed)
    if any(one in network for network in allowed for one in (parsed, inner)):
        return None
    if isinstance(inner, ipaddress.IPv4Address):
        for network, what in _NOT_PUBLIC_V4:
            if inner in network:
                return f"{inner} is reserved for {what}"
        return None
    if inner.scope_id is not None or inner not in _GLOBAL_V6:
        return f"{inner} is not a public address"
    for block, what in _NOT_PUBLIC_V6:
        if inner in block:
            return f"{inner} is reserved for {what}"
    return None


def _inner_address(address: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if any(address in network for network in _TRANSLATED):
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
