"""The linear pass finds the text that a reader sees, and what the parser needs."""

import pytest

from recrawl.content.extract.markup import read_markup


def text_of(page: bytes) -> str:
    return read_markup(page, n_text_max=10_000).text.decode()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (b"<p>one</p><p>two <b>bold</b>er", "one\ntwo bolder"),
        (b"a<br>b<hr>c", "a\nb\nc"),
        (b"<table><tr><td>1<td>2<tr><td>3", "1 2\n3"),
        (b"x &amp; y &lt; &eacute; &#8364; &#x20ac; &unknown; &", "x & y < é € € &unknown; &"),
        (b"a<script>if (a<b) {}</script>b<style>p {}</style>c", "a\nb\nc"),
        (b"a<!-- <p>no</p> -->b<!-->c", "abc"),
        (b"<title>no</title>yes<textarea>no</textarea>", "yes"),
        (b"x<svg><title>no</title><path/></svg>y", "xy"),
        (b"<pre>a\n b</pre>c\nd", "a\nb\nc d"),
        (b"1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        (b"<a title='a > b'>link</a>", "link"),
    ],
)
def test_the_text_of_a_page(page: bytes, text: str) -> None:
    assert text_of(page).strip() == text


def test_the_parser_gets_no_scripts_and_images() -> None:
    found = read_markup(
        b"<title>T</title><script>a</script><p>x<svg><path/><script>b</script></svg>",
        n_text_max=1000,
    )
    assert found.parsed == b"<title>T</title><script></script><p>x<svg></svg>"
    assert found.title == b"T"


def test_text_beyond_the_limit_is_left_to_others() -> None:
    page = b"<p>" + b"word " * 1000
    found = read_markup(page, n_text_max=100)
    assert 80 <= len(found.text) <= 120
    assert 80 <= found.end <= 130


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("css-1q2w3e", "css-9x8y7z", True),
        ("css-abcdef", "css-fedcba", True),
        ("card_fadebead lead", "card_beefcafe lead", True),
        ("lead", "side", False),
        ("lead-story", "lead-image", False),
        ("faded", "added", False),  # words
        ("bad", "feed", False),
    ],
)
def test_classes_that_a_build_has_made_are_not_part_of_a_path(
    one: str, other: str, is_same: bool
) -> None:
    paths = [
        read_markup(f"<div class='{name}'><p>Tea</p></div>".encode(), n_text_max=1_000).paths[0]
        for name in (one, other)
    ]
    assert (paths[0] == paths[1]) == is_same
