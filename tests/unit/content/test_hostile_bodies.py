"""No body crashes the reader, takes long, or makes it forget its promises."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.mutated_bodies import is_sound
from recrawl.content import ContentSettings, observe

ROOT = Path(__file__).parents[3]
MB = 1_000_000


@pytest.mark.slow_without_jit
def test_mutated_bodies_are_read() -> None:
    """In a process of its own: a crash of the parser would end this one."""
    command = [sys.executable, "-m", "benchmarks", "mutated-bodies", "--bodies", "20000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert result["n_bodies"] == 20_000
    assert result["broken"] == []
    assert result["megabytes_grown"] < 300


# Bodies that take a parser quadratic time or much memory.
HARD = {
    "flat paragraphs": b"<p>x" * 250_000,
    "nested elements": b"<div>" * 30_000,
    "nested tables": b"<table><tr><td>" * 10_000,
    "formatting that is opened again": b"".join(b"<b a=%d><p>" % i for i in range(5_000)),
    "formatting across cells": b"".join(
        b"<b a=%d><table><td></b></table>" % i for i in range(5000)
    ),
    "items in items": b"<li><dd>" * 20_000,
    "end tags inside text": b"<div><textarea></div></textarea>" * 10_000,
    "a title that is no title": b"<select><title></select>" + b"<div>" * 20_000,
    "an image with a title": b"<svg><title>" + b"<g>" * 50_000,
    "attributes": b"<div " + b" ".join(b"a%d=1" % i for i in range(50_000)) + b">x",
    "attributes after a bracket": b"<div a='>' " + b" ".join(b"a%d" % i for i in range(50_000)),
    "long paragraphs": (b"<p>" + b"lorem ipsum " * 30) * 4_900,
    "deep and inline": b"<div>" * 140 + b"<span>x</span>" * 14_000,
    "angle brackets": b"<" * MB,
    "entities": b"<p>" + b"&amp;" * (MB // 5),
    "stray end tags": b"<div>" * 140 + b"</x>" * 200_000,
    "lines": b"a\n" * MB,
    "50 MB of text": b"words and more " * (50 * MB // 15),
    "digits before a word": b"1" * MB + " 天前 назад".encode(),
    "relative times": b"3 hours ago, " * (MB // 13),
    "zero bytes": bytes(16 * MB),
    "wrong UTF-8": b"<html>" + b"\xffabc " * (3 * MB),
    "UTF-16": "<p>hello</p>".encode("utf-16") * 200_000,
    "deep JSON": b"[" * MB,
    "a long number": b"[" + b"1" * (MB - 10) + b"]",
    "many keys": b"{" + b",".join(b'"%d":{}' % i for i in range(80_000)) + b"}",
    "deep XML": b"<?xml version='1.0'?>" + b"<a>" * 100_000,
    "entities of entities": b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'bbbb'>"
    + b"".join(b"<!ENTITY b%d '&b%d;&b%d;'>" % (i + 1, i, i) for i in range(40))
    + b"]><a>&b40;</a>",
}


ORDINARY = b"<title>Tea</title><main>" + b"".join(
    b"<p>Paragraph %d of an ordinary page says <a href=/%d>something</a> about tea." % (i, i)
    for i in range(5_000)
)


def seconds_of(body: bytes) -> float:
    """Return the processor time of reading a body, compiled before: the less of two."""
    observe(body)
    times = []
    for _ in range(2):
        start = time.thread_time()
        observe(body)
        times.append(time.thread_time() - start)
    return min(times)


@pytest.fixture(scope="module")
def usual_seconds() -> float:
    return seconds_of(ORDINARY)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("name", HARD)
def test_hard_bodies_take_little_longer_than_ordinary_ones(name: str, usual_seconds: float) -> None:
    body = HARD[name]
    assert is_sound(observe(body), len(body))
    # An ordinary page of this size takes about 10 ms, so this is a second.
    assert seconds_of(body) < 100 * usual_seconds


def test_a_page_beyond_the_limits_has_the_same_passages() -> None:
    """Only the main text is not known there: a page near a limit does not seem to change."""
    few, many = (
        observe(b"".join(b"<p>paragraph %d</p>" % i for i in range(300)) + b"<b>" * n)
        for n in (10, 400)
    )
    assert few.problems == ()
    assert many.problems == ("too_deep",)
    assert many.passages.tolist() == few.passages.tolist()


@pytest.mark.parametrize("page", [b"<body class=ad><p>x", b"<html class=ad><p>x<p class=ad>y"])
def test_a_page_that_is_ignored_as_a_whole_is_empty(page: bytes) -> None:
    """A tree without a body would crash the parser."""
    observation = observe(page, "text/html", settings=ContentSettings(ignore=(".ad",)))
    assert observation.passages.size == 0


def test_nested_elements_are_selected_and_ignored_once() -> None:
    page = b"<div class=a>one<div class=a>two</div></div><p>three" + b"<span>x" * 100
    ignored = observe(page, settings=ContentSettings(ignore=(".a", "span")), with_texts=True)
    assert ignored.texts == ("three",)
    chosen = observe(page, settings=ContentSettings(select=(".a", "div")), with_texts=True)
    assert chosen.texts == ("one", "two")


def test_a_repeated_key_and_a_repeated_attribute_take_little_memory() -> None:
    keys = b'{"' + b"k" * 300_000 + b'":[' + b"1," * 2_000 + b"1]}"
    assert observe(keys, "application/json").shingles.size < 10_000
    defaults = b'<!DOCTYPE a [<!ATTLIST b c CDATA "' + b"d " * 100_000 + b'">]><a>'
    assert (
        observe(b"<?xml version='1.0'?>" + defaults + b"<b/>" * 1500 + b"</a>").n_words.sum() < 10
    )


@pytest.mark.parametrize("body", ["text", None, bytearray(b"x"), 5])
def test_a_body_of_a_wrong_type_is_a_problem(body: object) -> None:
    assert observe(body).problems == ("not_parsed",)  # type: ignore[arg-type]


def test_a_checksum_that_stands_alone_counts() -> None:
    first, second = (observe(b"%s  file.tar.gz" % (digit * 64)) for digit in (b"a1", b"b2"))
    assert first.passages.tolist() != second.passages.tolist()
    traces = [observe(b"Your trace id: %s" % (digit * 32)) for digit in (b"a1", b"b2")]
    assert traces[0].passages.tolist() == traces[1].passages.tolist()
