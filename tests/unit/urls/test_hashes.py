"""Hashes of URLs: SipHash-1-3, for ever, wherever the bytes lie."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.urls import hash_urls

URL = "https://www.shop.example/category/17/product-123456.html?page=2"
KEY = 0x0F0E0D0C0B0A09080706050403020100
MASK = 2**64 - 1

# On disk, so for ever.
GOLDEN = {
    ("", 0): 0xD1FBA762150C532C,
    ("a", 0): 0x407448D2B89B1813,
    ("https://shop.example/", 0): 0x09D72DA93CF37D58,
    ("https://shop.example/", 1): 0x9F265CEB145ADF04,
}


def hash_of(text: str, key: int = KEY) -> int:
    return int(hash_urls(pa.array([text]), key)[0])


def plain_sip_hash(data: bytes, key: int) -> int:
    """SipHash-1-3 as its paper has it, with Python's integers."""
    k0, k1 = key & MASK, key >> 64
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D]
    v += [k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotate(x: int, b: int) -> int:
        return ((x << b) | (x >> (64 - b))) & MASK

    def rounds(n: int) -> None:
        for _ in range(n):
            for a, b, s, t in ((0, 1, 13, 32), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 32)):
                v[a] = (v[a] + v[b]) & MASK
                v[b] = rotate(v[b], s) ^ v[a]
                v[a] = rotate(v[a], t) if t else v[a]

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 255])
    for i in range(0, len(padded), 8):
        m = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= m
        rounds(1)
        v[0] ^= m
    v[2] ^= 0xFF
    rounds(3)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@pytest.mark.parametrize(("text", "key"), GOLDEN)
def test_hashes_never_change(text: str, key: int) -> None:
    assert hash_of(text, key) == GOLDEN[text, key]


@given(st.lists(st.text(max_size=40), max_size=5), st.integers(0, 2**128 - 1))
def test_hashes_are_those_of_the_paper(texts: list[str], key: int) -> None:
    got = hash_urls(pa.array(texts, pa.string()), key)
    assert got.dtype == np.uint64
    assert got.tolist() == [plain_sip_hash(text.encode(), key) for text in texts]


@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="Python has another hash")
def test_hashes_are_those_of_python_under_the_same_key() -> None:
    texts = [URL[:n] for n in range(1, len(URL))]
    script = f"print(*(hash(text.encode()) for text in {texts!r}))"
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    printed = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=True
    ).stdout
    assert hash_urls(pa.array(texts), 0).tolist() == [int(word) & MASK for word in printed.split()]


@given(st.text(max_size=20), st.integers(0, 7), st.lists(st.text(max_size=9), max_size=3))
def test_it_does_not_matter_where_a_url_lies(text: str, n_before: int, others: list[str]) -> None:
    rows = pa.array(["x" * n_before, *others, text, *others], pa.string())
    row = 1 + len(others)
    assert hash_urls(rows, KEY)[row] == hash_of(text)
    assert hash_urls(rows[row:], KEY)[0] == hash_of(text)
    assert hash_urls(rows[row : row + 1], KEY).tolist() == [hash_of(text)]


def test_an_empty_array_is_valid() -> None:
    assert hash_urls(pa.array([], pa.string()), KEY).size == 0
    assert hash_urls(pa.array(["a"])[1:], KEY).size == 0
    assert hash_urls(pa.array(["", ""]), KEY).tolist() == [hash_of("")] * 2


@pytest.mark.slow_without_jit
def test_a_changed_bit_changes_half_of_the_bits() -> None:
    """Per output bit: 448 × 60 coins; 0.02 is more than six standard deviations."""
    texts = [f"{i:07d}" * 8 for i in range(60)]
    base = hash_urls(pa.array(texts), KEY)
    flips = np.zeros(64)
    n = 0
    for place in range(56):
        for bit in range(7):  # ASCII stays text
            changed = [
                text[:place] + chr(ord(text[place]) ^ (1 << bit)) + text[place + 1 :]
                for text in texts
            ]
            difference = hash_urls(pa.array(changed), KEY) ^ base
            flips += ((difference[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).sum(0)
            n += len(texts)
    assert np.abs(flips / n - 0.5).max() < 0.02


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("shift", [0, 24, 48, 56])
def test_bytes_of_the_hash_are_uniform(shift: int) -> None:
    urls = pa.array([f"https://shop.example/product/{i}" for i in range(100_000)])
    values = (hash_urls(urls, KEY) >> np.uint64(shift)) & np.uint64(255)
    counts = np.bincount(values.astype(np.int64), minlength=256)
    expected = 100_000 / 256
    # Chi-squared with 255 degrees of freedom: mean 255, standard deviation 22.6.
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 6 * 22.6


def test_another_key_gives_other_hashes() -> None:
    assert len({hash_of(URL, 1 << bit) for bit in range(128)}) == 128


@pytest.mark.parametrize("key", [-1, 2**128])
def test_a_key_has_128_bits(key: int) -> None:
    with pytest.raises(ValueError, match="key must be"):
        hash_urls(pa.array(["a"]), key)


def test_hashing_a_null_raises() -> None:
    with pytest.raises(ValueError, match="no nulls, got 1"):
        hash_urls(pa.array(["a", None]), KEY)


def test_hashing_other_types_raises() -> None:
    with pytest.raises(TypeError, match="strings"):
        hash_urls(pa.array([1]), KEY)
