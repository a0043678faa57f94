"""No address that is not public is accepted, however it is written."""

import ipaddress
import random

import pytest

from recrawl.fetch import address_refusal, parse_networks


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.170",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:0:7f00:1::",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "2a00:1450:4001::1%eth0",
        "fec0::1",
        "ff02::1",
        "localhost",
        "127.1",
        "0177.0.0.1",
        "2130706433",
        "0x7f000001",
        "127.0.0.1\n",
        "",
    ],
)
def test_these_are_refused(address: str) -> None:
    assert address_refusal(address) is not None


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.215.14", "172.32.0.1", "2a00:1450:4001:80e::200e", "64:ff9b::5db8:d70e"],
)
def test_these_are_public(address: str) -> None:
    assert address_refusal(address) is None


def test_what_python_calls_private_is_refused() -> None:
    rng = random.Random(5)
    n_public = 0
    for _ in range(20_000):
        v4 = ipaddress.IPv4Address(rng.getrandbits(32))
        v6 = ipaddress.IPv6Address(rng.getrandbits(128))
        for address in (v4, v6, ipaddress.IPv6Address(f"::ffff:{v4}")):
            if address_refusal(str(address)) is None:
                n_public += 1
                inner = getattr(address, "ipv4_mapped", None) or address
                assert inner.is_global
                assert not inner.is_multicast
    assert n_public > 10_000


def test_a_user_can_allow_networks() -> None:
    allowed = parse_networks(["127.0.0.0/8", "::1", "10.1.0.0/16"])
    for address in ("127.0.0.5", "::1", "10.1.2.3", "::ffff:10.1.2.3"):
        assert address_refusal(address, allowed) is None
    for address in ("10.2.0.1", "::2", "192.168.0.1"):
        assert address_refusal(address, allowed) is not None
    with pytest.raises(ValueError, match="does not appear"):
        parse_networks(["everything"])
