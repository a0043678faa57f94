"""Patterns of URLs: what they match, beside a plain matcher, and what is refused."""

import re
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recrawl.urls import URL_BYTES_MAX, Pattern, PatternSet, canonical

SHOP = "https://shop.example/product/1?size=2"


def matches(pattern: str, url: str) -> bool:
    return bool(PatternSet([pattern]).first_match(pa.array([url]))[0] == 0)


def is_like(glob: str, text: str) -> bool:
    """Match by the standard library's regular expressions."""
    expression = ".*".join(re.escape(piece) for piece in glob.split("*"))
    return re.fullmatch(expression, text, re.S) is not None


def plainly_matches(pattern: str, url: str) -> bool:
    if pattern == "*":
        return True
    parts = urlsplit(url)
    rest = url[len(f"{parts.scheme}://{parts.netloc}") :]
    if pattern.startswith("/"):
        return is_like(pattern, rest)
    if re.match(r"(\*|https?)://", pattern):
        scheme, _, pattern = pattern.partition("://")
        if not is_like(scheme, parts.scheme):
            return False
    host, slash, path = pattern.partition("/")
    return is_like(host, parts.netloc) and is_like(slash + path, rest)


@pytest.mark.parametrize(
    ("pattern", "matched", "unmatched"),
    [
        ("*", [SHOP, "http://a/"], []),
        ("/*", [SHOP, "http://a/"], []),
        ("/", ["http://a/"], [SHOP, "http://a/?"]),
        (
            "/product/*",
            [SHOP, "http://a:8080/product/"],
            ["http://a/product", "http://a/b/product/"],
        ),
        ("*/product/*", [SHOP, "http://a/product/"], ["http://a/b/product/"]),
        ("/*/product/*", ["http://a/b/product/", "http://a//product/?"], [SHOP]),
        ("/*.pdf", ["http://a/b.pdf", "http://a/.pdf"], ["http://a/b.pdf?", "http://a/pdf"]),
        ("/search?q=*", ["http://a/search?q="], ["http://a/searchXq=", "http://a/search"]),
        ("shop.example/*", [SHOP, "http://shop.example/"], ["http://www.shop.example/"]),
        ("shop.example/*", [], ["http://shop.example:8080/", "http://shop.example.net/"]),
        ("shop.example:8080/*", ["http://shop.example:8080/"], [SHOP]),
        ("*.shop.example/*", ["http://a.b.shop.example/"], [SHOP, "http://a/b.shop.example/"]),
        ("*shop.example/*", [SHOP, "http://eshop.example/"], ["http://a/shop.example/"]),
        ("shop.*/product/*", [SHOP, "http://shop.a.b/product/"], ["http://shop/product/"]),
        ("https://shop.example/*", [SHOP], ["http://shop.example/"]),
        ("http://shop.example/*", ["http://shop.example/"], [SHOP]),
        ("*://shop.example/*", [SHOP, "http://shop.example/"], ["http://a/"]),
        ("https://*/*", [SHOP], ["http://a/"]),
        ("[::1]/*", ["http://[::1]/a"], [SHOP]),
        ("10.0.*/*", ["http://10.0.0.1/"], ["http://10.1.0.1/"]),
        ("x:80/*", ["https://x:80/"], ["https://x/"]),
        ("x:443/*", ["http://x:443/"], ["https://x/"]),
        ("/a**b*", ["http://a/ab", "http://a/acbc"], ["http://a/ac"]),
        ("/x://y", ["http://a/x://y"], [SHOP]),
        ("/*aab*aab", ["http://a/aaabaab", "http://a/aabaaab"], ["http://a/aab", "http://a/aabab"]),
    ],
)
def test_what_patterns_match(pattern: str, matched: list[str], unmatched: list[str]) -> None:
    for url in (*matched, *unmatched):
        assert canonical([url]).url[0].as_py() == url
        assert matches(pattern, url) == (url in matched), url
        assert plainly_matches(pattern, url) == (url in matched), url


hosts = st.text("ab.", min_size=1, max_size=4)
paths = st.text("ab/?", max_size=8)
urls_of = st.builds("{}://{}/{}".format, st.sampled_from(["http", "https"]), hosts, paths)
globs = st.text("ab/?**", max_size=8)
patterns_of = st.one_of(
    st.builds("/{}".format, globs),
    st.builds("{}/{}".format, st.text("ab.*", min_size=1, max_size=4), globs),
    st.builds(
        "{}://{}/{}".format,
        st.sampled_from(["http", "https", "*"]),
        st.text("ab.*", min_size=1, max_size=4),
        globs,
    ),
    st.just("*"),
)


def is_good(pattern: str) -> bool:
    try:
        Pattern(pattern)
    except ValueError:
        return False
    return True


@given(
    st.lists(urls_of, min_size=1, max_size=8),
    st.lists(patterns_of.filter(is_good), min_size=1, max_size=5),
)
def test_the_first_pattern_that_matches_is_found(texts: list[str], patterns: list[str]) -> None:
    urls = canonical(texts).url.drop_null()
    assume(len(urls))
    expected = [
        next((k for k, pattern in enumerate(patterns) if plainly_matches(pattern, url)), -1)
        for url in urls.to_pylist()
    ]
    found = PatternSet(patterns).first_match(urls)
    assert found.dtype == np.int16
    assert found.tolist() == expected
    assert PatternSet(patterns).first_match(urls[1:]).tolist() == expected[1:]


@given(st.text("ab", max_size=30), st.text("ab*", max_size=12))
def test_pieces_that_repeat_themselves_are_found(path: str, glob: str) -> None:
    assert matches(f"/{glob}", f"http://a/{path}") == is_like(glob, path)


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        ("shop.example", "'shop.example/*'"),
        ("https://shop.example", "'https://shop.example/*'"),
        ("*.pdf", "'/*.pdf'"),
        ("*.shop.example", "'*.shop.example/*'"),
        ("shop.example?a=*", "'shop.example/?a=*'"),
        ("?a=*", "'/*?a=*'"),
        ("https:///a", "'https://*/a'"),
        ("https://", "'https://*/*'"),
        ("Shop.example/*", "'shop.example/*'"),
        ("https://SHOP.example/A*", "'https://shop.example/A*'"),
        ("bücher.example/*", "'xn--bcher-kva.example/*'"),
        ("/größe/*", "'/gr%C3%B6%C3%9Fe/*'"),
        ("/a b*", "'/a%20b*'"),
        ("/a^b*", "'/a%5Eb*'"),
        ("/?a='*'", "'/?a=%27*%27'"),
        ("/a/../b*", "'/b*'"),
        ("/a\\*", "'/a/*'"),
        ("http://x:80/*", "'http://x/*'"),
        ("[0:0::1]/*", "'[::1]/*'"),
        ("/a#b", "'/a'"),
        ("ftp://shop.example/*", "http, https or"),
        ("u@shop.example/*", "credentials"),
        ("x:99999/*", "not a url"),
        ("a b/*", "not a url"),
        ("", "1 to 2048"),
        ("/" + "a" * URL_BYTES_MAX, "1 to 2048"),
    ],
)
def test_a_bad_pattern_says_what_to_write_instead(pattern: str, instead: str) -> None:
    with pytest.raises(ValueError, match=re.escape(instead)):
        Pattern(pattern)
    if instead.startswith("'"):
        Pattern(instead.strip("'"))


@given(st.text(max_size=12) | globs)
def test_any_text_is_a_pattern_or_a_value_error(text: str) -> None:
    is_good(text)


def test_patterns_are_values() -> None:
    assert Pattern("/a") == Pattern("/a")
    assert len({Pattern("/a"), Pattern("/a"), Pattern("/b")}) == 2
    assert PatternSet(["/a", Pattern("/b")]).patterns == (Pattern("/a"), Pattern("/b"))
    with pytest.raises(TypeError, match="must be a string"):
        Pattern(b"/a")  # type: ignore[arg-type]


def test_nulls_and_strings_that_are_not_urls_match_nothing() -> None:
    found = PatternSet(["*"]).first_match(pa.array([None, "", "a.html", "https://a/"]))
    assert found.tolist() == [-1, -1, -1, 0]


def test_without_patterns_or_urls_nothing_matches() -> None:
    assert PatternSet([]).first_match(pa.array([SHOP])).tolist() == [-1]
    assert PatternSet(["*"]).first_match(pa.array([], pa.string())).size == 0


def test_a_set_has_a_limit() -> None:
    with pytest.raises(ValueError, match="at most 32767"):
        PatternSet([Pattern("/a")] * 2**15)


@pytest.mark.slow_without_jit
def test_the_last_of_many_patterns_is_found() -> None:
    patterns = [Pattern(f"/*{number}x*") for number in range(2_000)]
    urls = pa.array([f"https://shop.example/a/{number}x/b" for number in range(0, 2_000, 37)])
    found = PatternSet(patterns).first_match(urls)
    expected = [
        min(k for k in range(2_000) if f"{k}x" in f"{number}x") for number in range(0, 2_000, 37)
    ]
    assert found.tolist() == expected
