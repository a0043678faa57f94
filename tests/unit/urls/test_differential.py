"""Canonical URLs beside a second implementation of the URL Standard."""

import random
from urllib.parse import unquote_to_bytes

import ada_url
import pytest

from recrawl.urls import UrlProblem, canonical

PIECES = (
    *("xn--", "XN--", "xn--k09h", "xn--8i7caa", "a", "B", ".", "..", "-", "_", "~", "!", "*", "+"),
    *("%", "%2e", "%2E", "%41", "%00", "%C3%BC", "ü", "ß", "é", "\u0301", "\u200d", "א", "0", "1"),
    *("0x", "127.1", "[::1]", "[", "]", ":", "80", "443", ":8080", "@", "/", "//", "\\", "?", "#"),
    *("^", "'", '"', "<", "`", "{", "|", "}", " ", "\t", "\n", "\x00", "\x7f", "\u00a0", "。"),
    *("．", "１", "Ⓐ", "😀", "\ufffd", "com", "example", "=", "&", ";", ",", "$", "(", ")"),
)
STARTS = (
    *("http://", "https://", "HTTPS://", "http:/", "https:", "http:\\\\", "https:///", " http://"),
    *("ftp://", "http://a", "https://example.com/", "https://example.com/?", "https://xn--a.com/"),
)

REFUSED = "refused"
CREDENTIALS = "credentials"

# Where the host is not ASCII, one of the two may refuse what the other takes.
KNOWN = [
    # ada-url 4.0.0 does not hold labels of digits or signs beside right-to-left ones against a
    # host, as the Bidi rule (RFC 5893, §2) does.
    ("https://80.א/", REFUSED, "https://80.xn--4db/"),
    ("https://א.-/", REFUSED, "https://xn--4db.-/"),
    # It lets pass ``xn--`` labels that decode to unassigned code points, beside others.
    ("https://xn--k09hcom。com/", REFUSED, "https://xn--k09hcom.com/"),
    # And not one that decodes to a label with a second ``xn--``.
    ("http://é．xn--xn--8i7caa)xn--k09h", "http://xn--9ca.xn--xn--8i7caa)xn--k09h/", REFUSED),
]


def ours(strings: list[str]) -> list[str]:
    found = canonical(strings)
    words = {UrlProblem.CREDENTIALS: CREDENTIALS}
    return [
        key or words.get(UrlProblem(problem), REFUSED)
        for key, problem in zip(found.url.to_pylist(), found.problem, strict=True)
    ]


def theirs(string: str) -> str:
    try:
        url = ada_url.URL(string)
    except ValueError:
        return REFUSED
    if url.protocol not in ("http:", "https:"):
        return REFUSED
    if url.username or url.password:
        return CREDENTIALS
    return url.href.partition("#")[0]


def strings(seed: int, n: int) -> list[str]:
    rng = random.Random(seed)
    return [
        rng.choice(STARTS) + "".join(rng.choices(PIECES, k=rng.randint(0, 8))) for _ in range(n)
    ]


@pytest.mark.slow_without_jit
def test_both_implementations_give_the_same_keys(seed: int) -> None:
    given = strings(seed, 50_000)
    wrong = [
        (string, our, their)
        for string, our in zip(given, ours(given), strict=True)
        if our != (their := theirs(string))
        and not (REFUSED in (our, their) and not unquote_to_bytes(string).isascii())
    ]
    assert wrong == []


@pytest.mark.parametrize(("string", "our", "their"), KNOWN)
def test_the_known_differences_are_these(string: str, our: str, their: str) -> None:
    assert ours([string]) == [our]
    assert theirs(string) in (their, our)  # a later version may have come round
