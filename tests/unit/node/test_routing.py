"""URLs are split into canonical batches by partition, none too long for a log record."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.node import routing
from recrawl.node.routing import (
    as_amounts,
    as_array,
    as_numbers,
    batch_ranges,
    canonical_host,
    null_where_same,
    partition_of_key,
    partitions_of,
    split_by_partition,
    utf8_strings,
)

LONGEST = routing._BYTES_PER_BATCH


@given(st.lists(st.integers(0, LONGEST), max_size=60))
def test_batch_ranges_cover_all_rows_in_order_within_the_limit(sizes: list[int]) -> None:
    found = list(batch_ranges(np.array(sizes, np.int64)))
    assert [row for first, end in found for row in range(first, end)] == list(range(len(sizes)))
    for first, end in found:
        assert end - first == 1 or sum(sizes[first:end]) <= LONGEST


def test_batch_ranges_limit_the_number_of_rows() -> None:
    found = list(batch_ranges(np.ones(40_000, np.int64)))
    assert [end - first for first, end in found] == [16_384, 16_384, 7_232]


def test_batches_keep_row_numbers_and_all_urls_of_a_host_share_a_partition() -> None:
    urls = [f"https://h{i % 17}.example/{i}" for i in range(300)]
    urls[5] = "no url"
    seen = np.zeros(300, np.int64)
    partition_of_host: dict[str, int] = {}
    for batch in split_by_partition(urls, 4, "host"):
        seen[batch.rows] += 1
        for row, url in zip(batch.rows, batch.name.to_pylist(), strict=True):
            assert url == urls[row]
            host = url.split("/")[2]
            assert partition_of_host.setdefault(host, batch.partition) == batch.partition
            assert partition_of_key(host, 4) == batch.partition
    assert seen.tolist() == [1] * 5 + [0] + [1] * 294
    assert len(set(partition_of_host.values())) > 1


def test_hosts_of_one_domain_share_a_partition_if_groups_are_domains() -> None:
    urls = pa.array([f"https://w{i}.shop.example/" for i in range(20)])
    assert len(set(partitions_of(urls, 8, "domain"))) == 1


def test_numbers_are_single_or_one_per_row() -> None:
    assert as_numbers(2, 3).tolist() == [2, 2, 2]
    assert np.isnan(as_numbers(None, 2)).all()
    assert as_numbers([1, 2], 2).tolist() == [1, 2]
    with pytest.raises(ValueError, match="one number or 3"):
        as_numbers([1, 2], 3)
    with pytest.raises(ValueError, match="cost must be 0 to"):
        as_amounts("cost", [1, -2], 2)


def test_fetch_urls_are_null_where_they_equal_the_url() -> None:
    url = pa.array(["https://a/", "https://b/"])
    assert null_where_same(url, url).null_count == 2
    given = pa.array(["https://A/", "https://b/"])
    assert null_where_same(given, url).to_pylist() == ["https://A/", None]


def test_invalid_utf8_becomes_null() -> None:
    assert as_array(["a", "\ud800", None]).to_pylist() == ["a", None, None]
    assert utf8_strings(pa.array([b"a", b"\xff", None])).to_pylist() == ["a", None, None]


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("Example.COM", "example.com"),
        ("example.com:8080", "example.com:8080"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("[::1]", "[::1]"),
    ],
)
def test_hosts_get_their_canonical_form(host: str, known: str) -> None:
    assert canonical_host(host, "host") == known


@pytest.mark.parametrize("host", ["", "a b", "example.com/path", "https://example.com", "a@b"])
def test_invalid_hosts_are_refused(host: str) -> None:
    with pytest.raises(ValueError, match="host must be a host name such as"):
        canonical_host(host, "host")
