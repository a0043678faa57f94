"""Canonical URLs: golden vectors, what the kernel lets pass, and strings of every kind."""

import tomllib
from pathlib import Path

import ada_url
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.urls import CANON_VERSION, URL_BYTES_MAX, URL_INPUT_BYTES_MAX, UrlProblem, canonical
from recrawl.urls._arrow_text import string_array, text_of
from recrawl.urls._canonical_check import are_canonical
from recrawl.urls.canonical import _parse_url

GOLDEN = tomllib.loads((Path(__file__).parent / "golden.toml").read_text(encoding="utf-8"))
CASES = [
    (given_as, key)
    for section in GOLDEN.values()
    if isinstance(section, dict)
    for given_as, key in section.items()
]
ORDINARY = [
    "https://example.com/",
    "http://www.shop.example.co.uk/product/1234-red-shoe.html",
    "https://a-b.example.com/a/b/c.php?id=1&ref=x_y&u=https://b.example/?c",
    "https://example.com/.well-known/robots.txt",
    "https://example.com/%E4%BE%8B/%20?q=%27a%27+b",
    "https://en.example.org/wiki/C++_(language)#History",
    "https://xn--bcher-kva.example/@user/status;v=1",
    "http://example.com:8080/a//b/?",
]

# Everything that some rule of the standard is about, and a few things none is about.
NASTY = (
    *"abXN0179.-_~!$&'()*+,;=:@/\\?#[]<>\"`{}|^% \t\n\r\x00\x1f\x7f",
    *("..", "/./", "/../", "%2e", "%2E", "%2", "%41", "%00", "%C3%BC", "xn--", "XN--", "0x", "//"),
    *("é", "e\u0301", "ß", "א", "\u200d", "\u00ad", "。", "．", "１", "\u00a0", "\ufeff", "😀"),
    *("http://", "https://", "https:", "example.com", ":80", ":443", ":8080", "[::1]", "127.1"),
)
nasty_text = st.lists(st.sampled_from(NASTY), max_size=12).map("".join)
nasty_urls = st.tuples(
    st.sampled_from(["http://", "https://", "https://example.com", "https://a.b/", "HTTPS:/", ""]),
    nasty_text,
).map("".join)


@st.composite
def mutated_urls(draw: st.DrawFn) -> str:
    """Return an ordinary URL with a few pieces put in, taken out, or put in place of others."""
    url = draw(st.sampled_from(ORDINARY))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(url)))
        n_removed = draw(st.integers(0, 2))
        url = url[:place] + draw(st.sampled_from(("", *NASTY))) + url[place + n_removed :]
    return url


any_url = nasty_urls | mutated_urls()


def is_plain(url: str) -> bool:
    return bool(are_canonical(text_of(string_array([url])), URL_BYTES_MAX)[0])


def key_of(string: str | None) -> str | None:
    return canonical([string]).url[0].as_py()


def problem_of(string: str | None) -> UrlProblem:
    return UrlProblem(canonical([string]).problem[0])


def test_keys_match_the_golden_vectors_of_their_version() -> None:
    found = canonical([given_as for given_as, _ in CASES])
    problems = [UrlProblem(problem).name for problem in found.problem]
    keys = [key or problem for key, problem in zip(found.url.to_pylist(), problems, strict=True)]
    changed = {
        given_as: (was, now) for (given_as, was), now in zip(CASES, keys, strict=True) if was != now
    }
    assert GOLDEN["version"] == CANON_VERSION
    assert not changed, "keys have changed: so must CANON_VERSION, and golden.toml with it"


def test_there_are_enough_golden_vectors() -> None:
    assert len(CASES) >= 200
    assert len({given_as for given_as, _ in CASES}) == len(CASES)


@pytest.mark.parametrize("url", ORDINARY[:5] + ORDINARY[6:7])
def test_ordinary_urls_are_not_parsed(url: str) -> None:
    assert is_plain(url)


@given(any_url)
def test_a_url_found_canonical_is_unchanged_by_the_parser(url: str) -> None:
    if is_plain(url):
        assert _parse_url(url) == (url, UrlProblem.NONE)
        assert ada_url.URL(url).href == url


@given(any_url)
def test_a_key_is_its_own_key(url: str) -> None:
    key = key_of(url)
    if key is not None:
        assert key.isascii()
        assert key_of(key) == key
        assert ada_url.URL(key).href == key


@given(any_url, any_url)
def test_a_fragment_makes_no_difference(url: str, fragment: str) -> None:
    if "#" in url or key_of(url) is None:
        return
    # White space at the very end is no part of a URL; before a fragment it is.
    url = url.rstrip("".join(map(chr, range(0x21))))
    assert key_of(f"{url}#{fragment}") == key_of(url)


@given(st.lists(st.none() | st.text(st.characters(codec=None)) | any_url, max_size=8))
def test_no_string_raises_and_rows_do_not_touch_each_other(strings: list[str | None]) -> None:
    found = canonical(strings)
    assert found.url.type == pa.string()
    assert found.problem.dtype == np.uint8
    assert found.url.to_pylist() == [key_of(string) for string in strings]
    assert found.problem.tolist() == [problem_of(string) for string in strings]
    assert (found.url.is_null().to_numpy(zero_copy_only=False) == (found.problem != 0)).all()


@pytest.mark.parametrize(
    ("string", "problem"),
    [
        (None, UrlProblem.NOT_TEXT),
        ("https://example.com/\ud800", UrlProblem.NOT_TEXT),
        ("a.html", UrlProblem.NOT_A_URL),
        ("ftp://example.com/", UrlProblem.SCHEME),
        ("https://me:secret@example.com/", UrlProblem.CREDENTIALS),
        ("https://me@xn--a/", UrlProblem.CREDENTIALS),
        ("https://example.com/" + "a" * URL_BYTES_MAX, UrlProblem.TOO_LONG),
        ("https://example.com/" + "é" * 400, UrlProblem.TOO_LONG),
        ("https://xn--" + "a" * URL_BYTES_MAX, UrlProblem.TOO_LONG),
        ("x" * 1_000_000, UrlProblem.TOO_LONG),
        ("https://example.com/#" + "a" * URL_INPUT_BYTES_MAX, UrlProblem.TOO_LONG),
    ],
)
def test_a_string_without_a_key_says_why(string: str | None, problem: UrlProblem) -> None:
    assert problem_of(string) == problem
    assert key_of(string) is None


@pytest.mark.parametrize("host", ["example.com", "EXAMPLE.com", "xn--a"])
def test_the_limit_is_of_the_bytes_of_the_key(host: str) -> None:
    start = f"https://{host}/"
    longest = start + "a" * (URL_BYTES_MAX - len(start))
    assert len(key_of(longest) or "") == URL_BYTES_MAX
    assert len(key_of(f"{longest}#{longest}") or "") == URL_BYTES_MAX
    assert problem_of(longest + "a") == UrlProblem.TOO_LONG


@pytest.mark.parametrize(
    "string",
    [
        "https://" + "".join(map(chr, range(0x4E00, 0x4E00 + 20_000))),
        "https://" + "a." * 30_000,
        "https://" + "xn--a." * 10_000,
        "https://" + "@" * 60_000,
        "https:" + "/" * 60_000,
        "https://a/" + "../" * 20_000,
        "https://a/" + "/%2e%2E" * 9_000,
        "https://a/" + "b/" * 10_000 + "../" * 10_000,
        "\t" * 65_000,
        "https://a:" + "0" * 60_000 + "80/",
        "https://[" + "1:" * 30_000,
        "https://" + "1." * 30_000,
    ],
    ids=lambda string: string[:20],
)
def test_adversarial_strings_are_parsed_in_time(string: str) -> None:
    assert len(string.encode()) <= URL_INPUT_BYTES_MAX
    for _ in range(10):
        canonical([string])


def test_an_array_of_canonical_urls_is_returned_without_a_copy() -> None:
    urls = pa.array(["https://example.com/", "https://example.com/a?b"])
    assert canonical(urls).url is urls
    assert canonical(pa.chunked_array([urls])).url.buffers()[2].address == urls.buffers()[2].address


@pytest.mark.parametrize(
    "urls",
    [
        pa.chunked_array([["HTTP://a/"], [], ["https://b/", None]], pa.string()),
        pa.array(["x", "HTTP://a/", "https://b/", None, "y"], pa.string())[1:4],
        pa.array(["HTTP://a/", "https://b/", None], pa.large_string()),
        pa.array(["HTTP://a/", "https://b/", None], pa.string_view()),
        pa.array(["HTTP://a/", "https://b/", None]).dictionary_encode(),
        ("HTTP://a/", "https://b/", None),
        np.array(["HTTP://a/", "https://b/", None], object),
    ],
    ids=["chunks", "slice", "large", "view", "dictionary", "tuple", "objects"],
)
def test_strings_may_come_in_any_form(urls: pa.Array) -> None:
    found = canonical(urls)
    assert isinstance(found.url, pa.StringArray)
    assert found.url.to_pylist() == ["http://a/", "https://b/", None]
    assert found.problem.tolist() == [0, 0, UrlProblem.NOT_TEXT]


@pytest.mark.parametrize(
    "urls",
    [
        [],
        pa.array([], pa.string()),
        pa.array(["a"])[:0],
        pa.array([], pa.null()),
        pa.chunked_array([], pa.string()),
    ],
    ids=["list", "array", "slice", "null", "chunks"],
)
def test_an_empty_array_is_valid(urls: pa.Array) -> None:
    found = canonical(urls)
    assert found.url.type == pa.string()
    assert len(found.url) == found.problem.size == 0


def test_nulls_over_leftover_bytes_stay_null() -> None:
    text = pa.array(["https://a/", "HTTP://b/"])
    _, offsets, data = text.buffers()
    urls = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), offsets, data])
    found = canonical(urls)
    assert found.url.to_pylist() == [None, "http://b/"]
    assert found.problem.tolist() == [UrlProblem.NOT_TEXT, UrlProblem.NONE]


@pytest.mark.parametrize(
    "urls", ["https://a/", [1, 2], pa.array([1, 2])], ids=["string", "numbers", "array"]
)
def test_input_that_is_not_strings_raises(urls: pa.Array) -> None:
    with pytest.raises(TypeError):
        canonical(urls)
