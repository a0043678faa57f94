"""Read mutated bodies, and look for one that crashes the reader, takes long or breaks a promise.

Bodies of all kinds are cut, doubled, spliced and filled with what is known to be hard: deep
nesting, many attributes, lone surrogates, zero bytes, broken UTF-16, entities, every label of a
character set.  Each body is derived from the seed and its number, so a crash can be repeated.
"""

import encodings.aliases
import random
import resource
import time
from collections.abc import Sequence
from typing import TypedDict

from benchmarks.mutations import N_MUTATIONS, insert_many, mutate
from recrawl.content import PASSAGES_MAX, Observation, observe

SECONDS_MAX = 1.0

_SEEDS: tuple[bytes, ...] = (
    b"<!doctype html><html lang=en><head><meta charset=utf-8><title>Tea</title></head><body><nav>"
    b"<ul><li><a href=/>Home</a></ul></nav><main><h1>Tea</h1><p>Green &amp; black tea, 5 &euro;."
    b"<table><tr><td>1<td>2</table><script>if(a<b){}</script></main></body></html>",
    "<p>Wörter und Zeichen: 東京, €, “quotes”, \u200b\u00ad</p>".encode(),
    "<html><p>Olá, é só isto</p></html>".encode("cp1252"),
    "\ufeff<p>sixteen bits</p>".encode("utf-16-le"),
    "<p>日本語のページ</p>".encode("iso2022_jp"),
    b'{"title": "Tea", "price": 5.0, "tags": ["green", null, true], "more": {"a": {"b": []}}}',
    b'<?xml version="1.0"?><rss><channel><title>News</title><item><title>One</title>'
    b"<description><![CDATA[<p>Text</p>]]></description></item></channel></rss>",
    b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "y">]><a b="c">&x;</a>',
    b"Plain text\nwith lines\r\nand more.\n",
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]"
    b"/Count 1>>endobj 3 0 obj<</Type/Page/Parent 2 0 R>>endobj trailer<</Root 1 0 R>>",
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
)
_PIECES: tuple[bytes, ...] = (
    b"<div>", b"</div>", b"<b a=1>", b"<table><td>", b"<svg><title>", b"<select>", b"<textarea>",
    b"<script>", b"</script>", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<p>", b"<li><dd>",
    b"<a href='", b'"', b"'", b">", b"<", b"&", b"&#", b"&#xD800;", b"&#1114112;", b"&notit;",
    b"\0", b"\xed\xa0\x80", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\xef\xbb\xbf", b"\xc3",
    b"\xf4\x90\x80\x80", b"\x1b$B", b"\x1b(B", b"[", b"]", b"{", b"}", b'"a":', b"1e999999",
    b"<template>", b"<frameset>", b"<math><mi>", b"<form>", b"<button>", b"<h1>", b"<br>", b"\n",
    b" ", b"-", b"123e4567-e89b-12d3-a456-426614174000", b"x" * 300, b"a=1 " * 200,
)  # fmt: skip
# A way of changing a body beside those of `mutate`; the last of those keeps its number.
_NEW_LABEL = 6
_LABELS = sorted({*encodings.aliases.aliases, *encodings.aliases.aliases.values(), "x", "utf-7"})
_TYPES = (
    "text/html", "text/plain", "application/json", "application/xml", "application/rss+xml",
    "application/pdf", "application/octet-stream", "image/png", "", "\0", "text/html; charset",
)  # fmt: skip


class MutationResult(TypedDict):
    """What the run found."""

    n_bodies: int
    n_seconds: float
    slowest_seconds: float
    slowest_body: int
    megabytes_grown: float
    broken: list[int]


def make_body(seed: int, number: int) -> tuple[bytes, str | None]:
    """Return a mutated body and its content type.

    Parameters
    ----------
    seed
        Random seed of the run.
    number
        Number of the body in the run.
    """
    rng = random.Random(f"{seed}/{number}")
    body = bytearray(rng.choice(_SEEDS))
    for _ in range(rng.choice((1, 1, 2, 4, 8, 16))):
        _mutate(body, rng)
    insert_many(body, _PIECES, rng)
    content_type: str | None = rng.choice((None, rng.choice(_TYPES)))
    if content_type is not None and rng.random() < 0.5:
        content_type += f"; charset={rng.choice(_LABELS)}"
    return bytes(body), content_type


def _mutate(body: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(body) + 1)
    to = min(len(body), at + int(rng.expovariate(0.05)))
    way = rng.randrange(N_MUTATIONS + 1)
    if way == _NEW_LABEL:
        body[:0] = b"<meta charset=" + rng.choice(_LABELS).encode() + b">"
    else:
        mutate(body, way, at, to, _SEEDS, _PIECES, rng)


def is_sound(observation: Observation, n_bytes: int) -> bool:
    """Return whether an observation keeps its promises.

    Parameters
    ----------
    observation
        Observation of a body.
    n_bytes
        Size of the body.
    """
    n = observation.passages.size
    columns: Sequence[int] = (
        observation.is_main.size,
        observation.n_words.size,
        observation.shapes.size,
        observation.shingle_offsets.size - 1,
    )
    return (
        n <= PASSAGES_MAX
        and all(size == n for size in columns)
        and int(observation.shingle_offsets[-1]) == observation.shingles.size
        and observation.n_bytes == n_bytes
        and len(observation.sketch) <= 4096
        and observation.hints >= 0
    )


def measure(n_bodies: int, *, seed: int = 0, first: int = 0) -> MutationResult:
    """Read mutated bodies one after the other.

    Parameters
    ----------
    n_bodies
        Number of bodies.
    seed
        Random seed.
    first
        Number of the first body.
    """
    observe(_SEEDS[0])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.thread_time()
    slowest, slowest_body, broken = 0.0, -1, []
    for number in range(first, first + n_bodies):
        body, content_type = make_body(seed, number)
        begun = time.thread_time()
        observation = observe(body, content_type)
        taken = time.thread_time() - begun
        if taken > slowest:
            slowest, slowest_body = taken, number
        if taken > SECONDS_MAX or not is_sound(observation, len(body)):
            broken.append(number)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    return {
        "n_bodies": n_bodies,
        "n_seconds": round(time.thread_time() - start, 1),
        "slowest_seconds": round(slowest, 4),
        "slowest_body": slowest_body,
        "megabytes_grown": round(grown / 1024, 1),
        "broken": broken,
    }
