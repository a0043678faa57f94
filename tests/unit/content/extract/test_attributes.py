"""Attributes that are left out never decide which text is the main text."""

import random

import pytest
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from recrawl.content.extract.attributes import ATTRIBUTE_NAMES, RULE_WORDS
from recrawl.content.extract.markup import read_markup

TAGS = "div div div p span a section article ul li td table header footer nav main h2 img b"
ORDINARY_VALUES = (
    "article entry post story content body text page right head foot card grid col-4 p-2 x a1 "
    "btn--primary block__element -left trailing- lg:flex w-1/2 page-header site-nav post-meta ad "
    "ad_1f googleads user-info wp-modal-window Wa Ä &amp; show:none display:none color:red "
    "visibility:hidden true false next author"
)
VALUES = [*(word.strip() for word in RULE_WORDS), *ORDINARY_VALUES.split()]
NAMES = [
    *ATTRIBUTE_NAMES,
    "href",
    "title",
    "data-x",
    "onclick",
    "aria-label",
    "class",
    "id",
    "class",
    "id",
]


def reduce_page(page: str) -> str:
    """Return what the parser gets of a page."""
    return read_markup(page.encode(), n_text_max=100_000, is_reduced=True).parsed.decode()


def main_text(page: str) -> str:
    """Return the main text of a page as resiliparse finds it."""
    text: str = extract_plain_text(
        HTMLTree.parse(page), main_content=True, links=False, list_bullets=False
    )
    return text


def random_attribute(rng: random.Random) -> str:
    """Return an attribute as pages have them, or nearly so."""
    name = rng.choice(NAMES)
    if rng.random() < 0.1:
        name = name.upper()
    value = rng.choice((" ", " ", "-", "_", "")).join(rng.choices(VALUES, k=rng.randrange(4)))
    match rng.randrange(12):
        case 0:
            return f" {name}"
        case 1:
            return f" {name}='{value}'"
        case 2 if value and " " not in value:
            return f" {name}={value}"
        case 3:
            return f'{name} = "{value}"'
        case 4:
            return f" /{name}= '{value}'"
    return f' {name}="{value}"'


def random_page(rng: random.Random) -> str:
    """Return a page of nested elements with random attributes."""
    parts = ["<!doctype html><html class=nav><body>"]
    opened: list[str] = []
    for k in range(rng.randrange(5, 60)):
        if opened and rng.random() < 0.4:
            parts.append(f"</{opened.pop()}>")
        tag = rng.choice(TAGS.split())
        attributes = "".join(random_attribute(rng) for _ in range(rng.randrange(4)))
        end = rng.choice(("", "", "", " ", "/", " /"))
        parts.append(f"<{tag}{attributes}{end}>word{k} and more words{k}<!-- a <b> comment -->")
        if tag != "img":
            opened.append(tag)
    return "".join(parts)


@pytest.mark.parametrize("number", range(8))
def test_the_main_text_stays_the_same(number: int) -> None:
    rng = random.Random(number)
    for _ in range(40):
        page = random_page(rng)
        assert main_text(reduce_page(page)) == main_text(page), page


@pytest.mark.parametrize(
    ("tag", "reduced"),
    [
        ('<p class="text-sm mt-4" data-x="1" href=a>', "<p>"),
        ('<div class="card grid" title="&quot;>">', "<div class=x>"),
        ('<div id="card">', "<div id=y>"),
        ('<div class="a b" id="c">', "<div class=x id=y>"),
        ('<div class="a--b" id="c">', "<div class=x>"),
        ('<div id="-c">', '<div id="-c">'),
        ('<div class="card" role="navigation">', '<div role="navigation" class="card">'),
        ('<p class="site-nav" style="color:red">', '<p class="site-nav">'),
        ('<p class="a" style="display:none">', '<p style="display:none" class="a">'),
        ('<img src="x.jpg" alt="A cat"/>', '<img alt="A cat" />'),
        ('<meta name="robots" content="noindex">', '<meta name="robots" content="noindex">'),
        ('<b class="a">', '<b class="a">'),
        ('<p title = "a">', '<p title = "a">'),
        ('<p title="ä">', '<p title="ä">'),
        ("<p class=a class=b>", "<p class=a class=b>"),
        ("<p title='no end>", "<p title='no end>"),
        ("<!-- a comment -->", "<!---->"),
        ("<textarea><p class=a></textarea>", "<textarea></textarea>"),
        ("<xmp><p class=a></xmp>", "<xmp><p class=a></xmp>"),
    ],
)
def test_what_the_parser_gets(tag: str, reduced: str) -> None:
    assert reduce_page(tag) == reduced
