"""A body becomes passages, whatever is in it."""

import doctest
import io
import pickle
from typing import Any

import numpy as np
import pytest

from recrawl import text_rules
from recrawl.content import (
    PASSAGES_MAX,
    ContentKind,
    ContentSettings,
    Observation,
    merge_passages,
    observe,
    observe_text,
    observing,
    passage_hash,
)
from recrawl.content.extract import pdf, words

PAGE = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title> Green
 tea </title><link rel="canonical" href="https://example.com/tea">
<meta name="robots" content="noindex, follow"></head>
<body><nav><ul><li><a href="/">Home</a><li><a href="/shop">Shop</a></ul></nav>
<main><article><h1>Green tea</h1>
<p>Green tea is made from the leaves of the tea plant, and has been for a very long time.</p>
<p>The price is <b>5 euros</b>.</p></article></main>
<footer>Page created at 12:03:55</footer><script>var clock = 1;</script></body></html>"""


def hashes(observation: Observation) -> list[int]:
    return [int(value) for value in observation.passages]


def test_the_doctests_pass() -> None:
    assert doctest.testmod(observing).failed == 0
    assert doctest.testmod(words).failed == 0
    assert doctest.testmod(text_rules).failed == 0


def test_an_html_page_has_passages_and_facts() -> None:
    page = observe(PAGE, "text/html", with_texts=True, with_links=True)
    assert page.kind is ContentKind.HTML
    assert page.title == "Green tea"
    assert page.language == "en"
    assert page.canonical_url == "https://example.com/tea"
    assert page.robots == "noindex, follow"
    assert page.links == ("/", "/shop")
    assert page.n_links == 2
    assert page.texts is not None
    assert page.texts[2] == "Green tea"
    assert "The price is 5 euros." in page.texts
    assert not any("clock" in text for text in page.texts)
    assert [passage_hash(text) for text in page.texts] == hashes(page)
    assert page.n_words.tolist() == [1, 1, 2, 19, 5, 6]
    assert page.problems == ()


def test_main_text_is_told_from_menus() -> None:
    page = observe(PAGE, with_texts=True)
    assert page.texts is not None
    main = [text for text, is_main in zip(page.texts, page.is_main, strict=True) if is_main]
    assert "The price is 5 euros." in main
    assert "Home" not in main


def test_markup_and_typography_are_not_changes() -> None:
    other = PAGE.replace(b"<b>5 euros</b>", b"<i class=x>5&nbsp;Euros</i>").replace(
        b"<h1>", b"<h2>"
    )
    assert hashes(observe(other)) == hashes(observe(PAGE))
    assert observe(other).body_digest != observe(PAGE).body_digest


def test_a_changed_word_changes_one_passage() -> None:
    before, after = observe(PAGE), observe(PAGE.replace(b"5 euros", b"6 euros"))
    assert len(set(hashes(before)) - set(hashes(after))) == 1
    assert before.sketch != after.sketch


def test_a_clock_keeps_its_shape() -> None:
    before, after = observe(PAGE), observe(PAGE.replace(b"12:03:55", b"14:22:01"))
    assert hashes(before) != hashes(after)
    assert before.shapes.tolist() == after.shapes.tolist()


def test_an_observation_can_be_pickled() -> None:
    page = observe(PAGE)
    copy = pickle.loads(pickle.dumps(page))
    assert hashes(copy) == hashes(page)
    assert copy.sketch == page.sketch


@pytest.mark.parametrize("n", [513, 2000, pytest.param(20_000, marks=pytest.mark.slow_without_jit)])
def test_many_passages_are_merged_and_a_change_touches_few(n: int) -> None:
    lines = [f"passage number {i} of the text" for i in range(n)]
    before = observe_text("\n".join(lines))
    lines[n // 2] = "something else"
    after = observe_text("\n".join(lines))
    assert PASSAGES_MAX // 8 < before.passages.size <= PASSAGES_MAX
    assert before.is_coarse
    assert before.level == after.level
    assert before.n_words.sum() == 6 * n
    assert 1 <= len(set(hashes(before)) ^ set(hashes(after))) <= 5


def test_merging_in_steps_is_merging_at_once() -> None:
    observation = observe_text("\n".join(f"passage {i}" for i in range(500)), with_texts=True)
    once = merge_passages(observation, 3)
    steps = merge_passages(merge_passages(observation, 1), 3)
    assert hashes(once) == hashes(steps)
    assert once.texts == steps.texts
    assert once.shapes.tolist() == steps.shapes.tolist()
    assert once.shingle_offsets.tolist() == steps.shingle_offsets.tolist()
    assert once.sketch == observation.sketch


@pytest.mark.slow_without_jit
def test_one_passage_repeated_stays_within_the_limit() -> None:
    for i in range(40):
        assert observe_text(f"x{i}\n" * 3000).passages.size <= PASSAGES_MAX


def test_patterns_and_selectors_exclude_passages() -> None:
    settings = ContentSettings(ignore=("footer",), ignore_patterns=(r"^Shop$",))
    page = observe(PAGE, settings=settings, with_texts=True)
    assert page.texts is not None
    assert "Shop" not in page.texts
    assert not any("created" in text for text in page.texts)
    assert page.ignored_texts == (
        ("Page created at 12:03:55", "selector footer"),
        ("Shop", "pattern ^Shop$"),
    )
    assert page.shingle_offsets[-1] == page.shingles.size


def test_a_pattern_cannot_take_for_ever() -> None:
    # Python's own regular expressions would try 2⁴⁰ ways to divide the letters.
    settings = ContentSettings(ignore_patterns=(r"(a+)+$", "never"))
    page = observe_text("a" * 40 + "b\nbaa\nGreen", settings=settings, with_texts=True)
    assert page.texts == ("a" * 40 + "b", "Green")
    assert page.ignored_texts == (("baa", "pattern (a+)+$"),)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"ignore_patterns": ("(",)}, "regular expressions"),
        ({"ignore_patterns": (r"(?=a)b",)}, "lookahead"),
        ({"ignore_patterns": (r"(a)\1",)}, "backreferences"),
        ({"ignore": ("p[",)}, "ignore must be CSS selectors"),
        ({"select": ("main", ">>")}, "select must be CSS selectors, .* got '>>'"),
    ],
)
def test_rules_that_cannot_be_used_are_refused(rules: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ContentSettings(**rules)


def make_pdf(*lines: str) -> bytes:
    """Return a PDF file with one page of text."""
    drawing = " ".join(f"1 0 0 1 20 {700 - 20 * i} Tm ({line}) Tj" for i, line in enumerate(lines))
    stream = f"BT /F1 12 Tf {drawing} ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 5 0 R"
        b"/Resources<</Font<</F1 4 0 R>>>>>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
    ]
    body, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        places.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, one)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    table = b"xref\n0 6\n0000000000 65535 f \n" + rows + b"trailer<</Size 6/Root 1 0 R>>\n"
    return body + table + b"startxref\n%d\n%%%%EOF" % len(body)


def test_reading_a_pdf_ends_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    body = make_pdf("Green tea", "Five euros")
    page = observe(body, with_texts=True)
    assert page.kind is ContentKind.PDF
    assert page.texts == ("Green tea", "Five euros")
    for step in ("read", "drawn"):
        seconds = 0.0 if step == "read" else 1e9
        monkeypatch.setattr(pdf, "SECONDS_MAX", seconds)
        if step == "drawn":
            # Only the instructions that draw the text take too long.
            monkeypatch.setattr(pdf._TimedBytes, "read", io.BytesIO.read)
            monkeypatch.setattr(pdf._Deadline, "check", end_at_instructions)
        page = observe(body)
        assert page.kind is ContentKind.BYTES
        assert page.problems == ("timed_out",)


def end_at_instructions(_: Any, *instruction: Any) -> None:
    if instruction:
        raise pdf.PdfTimeoutError


def test_only_selected_elements_count() -> None:
    page = observe(PAGE, settings=ContentSettings(select=("article p", "article")), with_texts=True)
    assert page.texts is not None
    assert page.texts[0] == "Green tea"
    assert len(page.texts) == 3
    assert page.title == "Green tea"
    missing = observe(PAGE, settings=ContentSettings(select=(".missing",)))
    assert missing.problems == ("nothing_selected",)
    assert hashes(missing) == hashes(observe(PAGE))


def test_a_sketch_of_some_passages_has_only_their_shingles() -> None:
    page = observe(PAGE)
    assert page.sketch_of(np.zeros(page.passages.size, dtype=bool))[8:] == b""
    some = page.sketch_of(page.is_main)
    assert set(np.frombuffer(some[8:], "<u4")) < set(np.frombuffer(page.sketch[8:], "<u4"))


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"<", b"\xff\xfe", b"%PDF-", b"{", b"<?xml ", b"\xed\xa0\x80"]
)
@pytest.mark.parametrize("content_type", [None, "text/html", "text/plain", "application/json"])
def test_odd_bodies_are_read(body: bytes, content_type: str | None) -> None:
    assert observe(body, content_type).n_bytes == len(body)
