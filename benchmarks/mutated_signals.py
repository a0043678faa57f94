"""Parse mutated sitemaps, feeds, robots.txt files, headers and packed bodies.

None may raise, take long, grow memory or break a promise of its parser.  Documents of all kinds are
cut, doubled, spliced and filled with what is known to be hard: entities, deep nesting, odd
namespaces, huge numbers, broken UTF-8, zero bytes.  Each input is derived from the seed and its
number, so a failure can be repeated.
"""

import gzip
import math
import random
import resource
import time
import zlib
from collections import Counter
from collections.abc import Callable
from typing import TypedDict

import brotli

from benchmarks.mutations import N_MUTATIONS, insert_many, mutate
from recrawl.fetch.robots import RobotsFile, RobotsRules
from recrawl.fetch.unpacking import BodyUnpacker
from recrawl.signals import (
    HintLimits,
    HintReader,
    parse_date,
    parse_retry_after,
    read_caching_headers,
    read_link_header,
)
from recrawl.signals.headers import RETRY_AFTER_SECONDS_MAX

SECONDS_MAX = 1.0

_NOW_MS = 1_794_821_400_000
_ENTRIES_MAX = 1_000
_UNPACKED_BYTES_MAX = 1 << 21
_URLSET = (
    b'<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/'
    b'0.9" xmlns:news="http://www.google.com/schemas/sitemap-news/0.9">'
    b"<url><loc>https://example.com/a?b=1&amp;c=2</loc><lastmod>2026-11-16T08:00:00+01:00</lastmod>"
    b"<changefreq>daily</changefreq><priority>0.8</priority></url><url><loc> http://example.com/"
    b"</loc><lastmod>2026-11</lastmod><news:news><news:publication_date>2026-11-16"
    b"</news:publication_date></news:news></url></urlset>"
)
_DOCUMENTS: tuple[bytes, ...] = (
    _URLSET,
    b'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap>'
    b"<loc>https://example.com/1.xml.gz</loc><lastmod>2026</lastmod></sitemap></sitemapindex>",
    b'<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>News</title>'
    b'<ttl>60</ttl><atom:link rel="hub" href="https://hub.example/"/><item><link>https://a.example/'
    b"1</link><pubDate>Mon, 16 Nov 2026 09:30:00 GMT</pubDate></item></channel></rss>",
    b'<feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="https://a.example/feed"/>'
    b'<entry><link href="https://a.example/1"/><updated>2026-11-16T09:30:00Z</updated></entry>'
    b"</feed>",
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><item rdf:about='
    b'"https://a.example/"><dc:date xmlns:dc="x">2026-11-16</dc:date></item></rdf:RDF>',
    b"https://a.example/\nhttps://a.example/b\r\n# comment\nnot a URL\n",
    gzip.compress(_URLSET),
    "\ufeff<urlset><url><loc>https://bücher.example/ä</loc></url></urlset>".encode("utf-16"),
)
_ROBOTS: tuple[bytes, ...] = (
    b"User-agent: *\nDisallow: /a*b$\nAllow: /%C3%A4\nCrawl-delay: 1.5\nRequest-rate: 1/2s\n"
    b"Sitemap: https://example.com/sitemap.xml\n",
    b"\xef\xbb\xbfuser-agent:recrawl\r\nuser-agent: other\r\ndisallow:\r\nallow: /\r\n",
    b"<!doctype html><title>Not found</title>",
)
_HEADERS: tuple[bytes, ...] = (
    b"max-age=600, s-maxage=60, stale-while-revalidate=30",
    b"Mon, 16 Nov 2026 09:32:00 GMT",
    b'</feed>; rel="alternate hub"; hreflang=de, <https://example.com/>; rel=canonical; title*=x',
    b'W/"a-b"',
    b"120",
    b"2026-11-16T08:00:00.123456+14:00",
    b'no-cache, private="a, b", max-age="1"',
)
_PACKED: tuple[bytes, ...] = (
    gzip.compress(b"word " * 2_000),
    gzip.compress(bytes(100_000)),
    zlib.compress(b"word " * 2_000),
    zlib.compress(b"word " * 50)[2:-4],
    brotli.compress(b"word " * 2_000),
)
_PIECES: tuple[bytes, ...] = (
    b"<url>", b"</url>", b"<loc>", b"</loc>", b"<item>", b"<![CDATA[", b"]]>", b"<!--", b"-->",
    b"<!DOCTYPE a [<!ENTITY x 'y'>", b"&x;", b"&#0;", b"&#xD800;", b"&#1114112;", b"&amp;",
    b"<?xml version='1.0' encoding='utf-7'?>", b"xmlns:a='b'", b"<a:b>", b"<", b">", b'"', b"'",
    b"\0", b"\xff", b"\xed\xa0\x80", b"\xff\xfe", b"\x1f\x8b", b"\n", b"\r", b"\t", b" ", b":",
    b",", b";", b"=", b"*", b"$", b"%", b"%ff", b"User-agent: *\n", b"Disallow: /", b"1e999",
    b"-1", b"9" * 30, b"NaN", b"inf", b"0000-00-00", b"99999-12-31T25:61:61Z", b"+99:99", b"GMT",
    b"http://", b"https://\xc3\xa4.example/", b"file:///etc/passwd", b"javascript:1", b"x" * 300,
)  # fmt: skip


class SignalMutations(TypedDict):
    """What the run found."""

    n_inputs: int
    n_of_kind: dict[str, int]
    n_seconds: float
    slowest_seconds: float
    slowest_input: int
    megabytes_grown: float
    broken: list[str]


def make_input(seed: int, number: int) -> tuple[str, bytes]:
    """Return the kind of an input, and its mutated bytes.

    Parameters
    ----------
    seed
        Random seed of the run.
    number
        Number of the input in the run.
    """
    rng = random.Random(f"{seed}/{number}")
    kind, samples = rng.choice(_KINDS)
    body = bytearray(rng.choice(samples))
    for _ in range(rng.choice((1, 1, 2, 4, 8, 16))):
        _mutate(body, samples, rng)
    insert_many(body, _PIECES, rng)
    return kind, bytes(body)


def _mutate(body: bytearray, samples: tuple[bytes, ...], rng: random.Random) -> None:
    at = rng.randrange(len(body) + 1)
    to = min(len(body), at + int(rng.expovariate(0.05)))
    mutate(body, rng.randrange(N_MUTATIONS), at, to, samples, _PIECES, rng)


def _is_document_sound(body: bytes) -> bool:
    pieces = [body] if len(body) % 2 else [body[i : i + 97] for i in range(0, len(body), 97)]
    reader = HintReader(pieces, HintLimits(n_bytes_max=1 << 20, n_entries_max=_ENTRIES_MAX))
    n_hints, is_sound = 0, True
    for hints in reader:
        n_hints += len(hints.url)
        is_sound &= len(hints.url) == hints.earliest_ms.size == hints.latest_ms.size
        is_sound &= bool((hints.earliest_ms <= hints.latest_ms).all())
        is_sound &= all(url.lower().startswith(("http://", "https://")) for url in hints.url)
    ttl = reader.ttl_seconds
    is_sound &= ttl is None or 0 < ttl < math.inf
    is_sound &= all(isinstance(url, str) for url in (*reader.hub_urls, reader.self_url or ""))
    return is_sound and n_hints == reader.n_hints <= _ENTRIES_MAX


def _is_robots_sound(body: bytes) -> bool:
    rules = RobotsRules.of_body(body, "recrawl")
    delay = rules.crawl_delay_seconds
    file = RobotsFile.after_answer(200, body, product="recrawl", now_ms=_NOW_MS, before=None)
    return (
        rules.allows("https://example.com/%ff/\u00e4?a=b") in (True, False)
        and file.allows("https://example.com/robots.txt")
        and (delay is None or 0 < delay < math.inf)
        and file.expires_at_ms > _NOW_MS
    )


def _is_header_sound(body: bytes) -> bool:
    text = body.decode("latin-1")
    found = read_caching_headers(
        dict.fromkeys(("cache-control", "expires", "age", "date", "etag", "last-modified"), text),
        now_ms=_NOW_MS,
    )
    retry = parse_retry_after(text, now_ms=_NOW_MS)
    date = parse_date(text)
    return (
        (found.fresh_seconds is None or 0 <= found.fresh_seconds < math.inf)
        and (retry is None or 0 <= retry <= RETRY_AFTER_SECONDS_MAX)
        and (date is None or date.precision_ms >= 0)
        and all(isinstance(link.url, str) for link in read_link_header([text, text]))
    )


def _is_unpacking_sound(body: bytes) -> bool:
    for coding in ("gzip", "deflate", "br", "zstd", body[:4].decode("latin-1")):
        reader = BodyUnpacker(coding, bytes_max=_UNPACKED_BYTES_MAX, ratio_max=200)
        for start in range(0, len(body), 1 << 12):
            reader.feed(body[start : start + (1 << 12)])
        reader.finish()
        if len(reader.body) > _UNPACKED_BYTES_MAX:
            return False
    return True


_CHECKS: dict[str, Callable[[bytes], bool]] = {
    "document": _is_document_sound,
    "robots": _is_robots_sound,
    "header": _is_header_sound,
    "packed": _is_unpacking_sound,
}
# Documents have the most ways to be wrong.
_KINDS: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("document", _DOCUMENTS),
    ("document", _DOCUMENTS),
    ("robots", _ROBOTS),
    ("header", _HEADERS),
    ("packed", _PACKED),
)


def measure(
    n_inputs: int, *, seed: int = 0, first: int = 0, seconds_max: float = SECONDS_MAX
) -> SignalMutations:
    """Parse mutated inputs one after the other.

    Parameters
    ----------
    n_inputs
        Number of inputs.
    seed
        Random seed.
    first
        Number of the first input.
    seconds_max
        Longest processor time that an input may take.
    """
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.thread_time()
    slowest, slowest_input, broken = 0.0, -1, []
    n_of_kind: Counter[str] = Counter()
    for number in range(first, first + n_inputs):
        kind, body = make_input(seed, number)
        n_of_kind[kind] += 1
        begun = time.thread_time()
        try:
            reason = "" if _CHECKS[kind](body) else "unsound"
        except Exception as error:
            reason = repr(error)[:200]
        taken = time.thread_time() - begun
        if taken > slowest:
            slowest, slowest_input = taken, number
        if taken > seconds_max:
            reason = reason or f"{taken:.1f} s"
        if reason:
            broken.append(f"{kind} {number}: {reason}")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    return {
        "n_inputs": n_inputs,
        "n_of_kind": dict(n_of_kind),
        "n_seconds": round(time.thread_time() - start, 1),
        "slowest_seconds": round(slowest, 4),
        "slowest_input": slowest_input,
        "megabytes_grown": round(grown / 1024, 1),
        "broken": broken,
    }
