"""Records of many pages at once give what the records of single pages give."""

import numpy as np
import pyarrow as pa

from recrawl.store import DIGEST_BYTES
from recrawl.store.fetch_records import (
    DigestMatch,
    digest_contents,
    digest_rows,
    digests_in,
    match_digests,
    put_contents,
    put_digests,
    record_after_fetch,
    validators_in,
    validators_in_columns,
)
from recrawl.store.keys import Writes, bytes_of_rows


def some_digests(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return digests of which many are equal."""
    digest = np.zeros((n, DIGEST_BYTES), np.uint8)
    digest[:, rng.integers(DIGEST_BYTES)] = rng.integers(0, 4, n)
    return digest


def some_records(rng: np.random.Generator, page: np.ndarray) -> list[bytes | None]:
    """Return records after up to six fetches of each page."""
    values: list[bytes | None] = []
    for number in page.tolist():
        value = None
        for _ in range(rng.integers(7)):
            digest = bytes_of_rows(some_digests(rng, 1))[0] if rng.random() < 0.8 else None
            rest = [b"x" * rng.integers(9) if rng.random() < 0.2 else None for _ in range(5)]
            etag, last_modified, sketch, profile, moved_to = rest
            content = (digest, etag, last_modified, sketch, profile, moved_to)
            value = record_after_fetch(number >> 32, value, content)
        values.append(value)
    return values


def test_columns_agree_with_single_records(seed: int) -> None:
    rng = np.random.default_rng(seed)
    page = rng.permutation(200) | rng.integers(0, 256, 200) << 32
    values = some_records(rng, page)
    digest = some_digests(rng, page.size)
    assert validators_in_columns(values) == validators_in(values)
    expected = [
        DigestMatch.NONE_STORED
        if not known
        else DigestMatch.NEWEST
        if known[0] == new
        else DigestMatch.OLDER
        if new in known
        else DigestMatch.OTHER
        for known, new in zip(digests_in(values), bytes_of_rows(digest), strict=True)
    ]
    assert match_digests(values, digest).tolist() == expected
    one, many = Writes(), Writes()
    put_contents(one, page, values, digest_contents(digest))
    put_digests(many, page, values, digest)
    assert dict(zip(many.keys, many.values, strict=True)) == dict(
        zip(one.keys, one.values, strict=True)
    )


def test_no_records_give_no_columns() -> None:
    writes = Writes()
    nothing = np.zeros((0, DIGEST_BYTES), np.uint8)
    assert validators_in_columns([]) == ([], [])
    assert match_digests([], nothing).size == 0
    put_digests(writes, np.empty(0, np.int64), [], nothing)
    assert writes.keys == []


def test_digests_of_a_slice_are_those_of_its_rows() -> None:
    values = [bytes([i]) * DIGEST_BYTES for i in range(5)]
    column = pa.array(values, pa.binary(DIGEST_BYTES)).slice(2, 2)
    assert bytes_of_rows(digest_rows(column)) == values[2:4]
