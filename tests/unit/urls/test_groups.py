"""Hosts, registrable domains, and batches by either."""

import socket
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.urls import (
    canonical,
    group_index,
    group_keys,
    groups,
    host_index,
    hosts,
    registrable_domains,
)

names = st.text("ab.-1", min_size=1, max_size=4)
urls_of = st.builds(
    "{}://{}{}/{}".format,
    st.sampled_from(["http", "https"]),
    names,
    st.sampled_from(["", ":80", ":8080"]),
    st.text("a/?:@.", max_size=6),
)
batches = st.lists(st.none() | urls_of, max_size=30).map(lambda urls: canonical(urls).url)


def domain_of(url: str) -> str | None:
    found: str | None = registrable_domains(pa.array([url]))[0].as_py()
    return found


@given(batches)
def test_hosts_are_those_of_the_standard_library(urls: pa.StringArray) -> None:
    expected = [None if url is None else urlsplit(url).netloc for url in urls.to_pylist()]
    assert hosts(urls).to_pylist() == expected
    hosts(urls).validate(full=True)
    assert hosts(urls[1:]).to_pylist() == expected[1:]


@given(batches)
def test_rows_are_numbered_by_host_in_order_of_appearance(urls: pa.StringArray) -> None:
    distinct, index = host_index(urls)
    distinct.validate(full=True)
    expected = [host for host in hosts(urls).to_pylist() if host is not None]
    assert distinct.to_pylist() == list(dict.fromkeys(expected))
    assert index.dtype == np.int32
    assert [distinct[i].as_py() if i >= 0 else None for i in index] == hosts(urls).to_pylist()


@pytest.mark.slow_without_jit
def test_many_hosts_in_any_order_get_different_numbers() -> None:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 20_000, 100_000)
    urls = pa.array([f"https://shop{number}.example/{i}" for i, number in enumerate(numbers)])
    distinct, index = host_index(urls)
    assert len(distinct) == np.unique(numbers).size
    assert distinct.take(pa.array(index)).equals(hosts(urls))


def test_hosts_with_equal_hashes_get_different_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that share a hash are still two; the kernel is run as Python to make them share it."""
    plain: Any = groups._number_spans
    plain = getattr(plain, "py_func", plain)
    monkeypatch.setitem(plain.__globals__, "sip_hash", lambda *_: np.uint64(7))
    monkeypatch.setattr(groups, "_number_spans", plain)
    urls = pa.array([f"https://{name}/" for name in ("a", "b", "ab", "a", "c", "b", "ab")])
    distinct, index = host_index(urls)
    assert distinct.to_pylist() == ["a", "b", "ab", "c"]
    assert index.tolist() == [0, 1, 2, 0, 3, 1, 2]


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://example.com/", "example.com"),
        ("https://www.shop.example.com/", "example.com"),
        ("https://www.example.co.uk:8080/", "example.co.uk"),
        ("https://www.example.com./", "example.com"),
        ("https://user.github.io/", "user.github.io"),
        ("https://a.user.github.io/", "user.github.io"),
        ("https://co.uk/", "co.uk"),
        ("https://com/", "com"),
        ("http://localhost:8080/", "localhost"),
        ("http://printer.local/", "printer.local"),
        ("https://www.xn--bcher-kva.de/", "xn--bcher-kva.de"),
        ("https://www.xn--85x722f.com.cn/", "xn--85x722f.com.cn"),
        ("https://a.b.xn--55qx5d.cn/", "b.xn--55qx5d.cn"),
        ("https://xn--a.example/", "xn--a.example"),
        ("https://www.city.kawasaki.jp/", "city.kawasaki.jp"),
        ("https://a.b.kawasaki.jp/", "a.b.kawasaki.jp"),
        ("http://192.0.2.1/", "192.0.2.1"),
        ("http://192.0.2.1:8080/", "192.0.2.1"),
        ("http://[2001:db8::1]/", "[2001:db8::1]"),
        ("http://[2001:db8::1]:8080/", "[2001:db8::1]"),
        ("http://a..b/", "a..b"),
        ("http://./", "."),
        ("http://_x.example.com/", "example.com"),
    ],
)
def test_the_registrable_domain(url: str, domain: str) -> None:
    assert canonical([url]).url[0].as_py() == url
    assert domain_of(url) == domain


@given(batches)
def test_every_url_has_a_domain_that_its_host_ends_with(urls: pa.StringArray) -> None:
    domains = registrable_domains(urls).to_pylist()
    for url, domain in zip(urls.to_pylist(), domains, strict=True):
        if url is None:
            assert domain is None
        else:
            assert domain
            name = urlsplit(url).netloc.partition(":")[0]
            assert name.rstrip(".").endswith(domain) or name == domain


@given(batches)
def test_rows_are_numbered_by_group_in_order_of_appearance(urls: pa.StringArray) -> None:
    for by in ("host", "domain"):
        keys = group_keys(urls, by).to_pylist()
        distinct, index = group_index(urls, by)
        assert index.dtype == np.int32
        assert distinct.to_pylist() == list(dict.fromkeys(key for key in keys if key is not None))
        assert [distinct[i].as_py() if i >= 0 else None for i in index] == keys


def test_groups_by_host_are_hosts_and_by_domain_domains() -> None:
    urls = pa.array(["https://a.example.com/", None, "https://b.example.com/"])
    assert group_keys(urls, "host").to_pylist() == ["a.example.com", None, "b.example.com"]
    assert group_keys(urls, "domain").to_pylist() == ["example.com", None, "example.com"]
    assert group_index(urls, "domain")[1].tolist() == [0, -1, 0]


def test_the_network_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    groups._suffixes.cache_clear()
    groups.registrable_domain.cache_clear()
    assert domain_of("https://www.example.com/") == "example.com"


def test_strings_that_are_not_canonical_urls_have_no_host() -> None:
    urls = pa.array(["", "http:", "https://", "ftp://a/", "HTTP://a/", "http:///", "https://ab"])
    assert hosts(urls).to_pylist() == [None, None, None, None, None, None, "ab"]


def test_an_empty_array_is_valid() -> None:
    empty = pa.array([], pa.string())
    assert hosts(empty).to_pylist() == registrable_domains(empty).to_pylist() == []
    for urls in (empty, pa.array([None, None], pa.string())):
        distinct, index = group_index(urls, "domain")
        assert len(distinct) == 0
        assert index.tolist() == [-1] * len(urls)


def test_an_unknown_grouping_raises() -> None:
    with pytest.raises(ValueError, match="by must be 'host', 'domain' or 'key', got 'ip'"):
        group_index(pa.array(["https://a/"]), "ip")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="by must be"):
        group_keys(pa.array(["https://a/"]), "ip")  # type: ignore[arg-type]
