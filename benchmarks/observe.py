"""Measure how fast bodies are read, beside bare resiliparse on the same pages in the same run.

Bare resiliparse decodes a page, parses it and extracts the main text.  `observe` also finds all
passages, hashes and marks them, and makes a sketch.  The pages are generated: menus, paragraphs,
lists, scripts and style sheets in shares as on the web.  With ``RECRAWL_HTML``, a folder with the
repositories of Open Terms Archive, pages of these sizes from there are measured as well.
"""

import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from benchmarks.timing import cpu_seconds
from recrawl.content import observe

SIZES = (35_000, 380_000)
_WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "his",
    "but",
    "at",
    "are",
    "this",
    "have",
    "from",
    "or",
    "had",
    "an",
    "they",
    "which",
    "one",
    "you",
    "were",
    "all",
    "her",
    "she",
    "there",
    "would",
    "their",
    "we",
    "him",
    "been",
    "has",
    "when",
    "who",
    "will",
    "no",
    "more",
    "if",
    "out",
    "so",
    "up",
    "said",
    "what",
    "its",
    "about",
    "than",
    "into",
    "them",
    "can",
    "only",
    "other",
    "time",
    "new",
    "some",
    "could",
    "these",
    "two",
    "may",
    "first",
    "then",
    "do",
    "any",
    "like",
    "my",
    "now",
    "over",
    "such",
    "our",
    "man",
    "me",
    "even",
    "most",
    "made",
    "after",
    "also",
    "well",
]


class PageSpeed(TypedDict):
    """Speed on some pages: CPU time on one core."""

    pages: str
    n_pages: int
    kilobytes_per_page: float
    bare_pages_per_second: float
    observe_pages_per_second: float
    share_of_bare: float


def make_page(n_bytes: int, seed: int) -> bytes:
    """Return a page of about a size: half scripts and style sheets, a fifth text, the rest markup.

    Parameters
    ----------
    n_bytes
        Size of the page.
    seed
        Random seed.
    """
    rng = random.Random(seed)

    def words(n: int) -> str:
        return " ".join(rng.choices(_WORDS, k=n))

    script = "".join(f"var v{i}=function(a,b){{return a<b&&b>{i}?a:[b]}};" for i in range(400))
    n_script = n_bytes // 2
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>",
        words(6),
        "</title><link rel=canonical href=https://example.com/page>",
        "<style>",
        (".c{margin:0 auto;padding:1px 2px}" * (1 + n_script // 130))[: n_script // 4],
        "</style><script>",
        (script * (1 + n_script // len(script)))[: n_script * 3 // 4],
        "</script></head><body><header><nav class='site-nav menu'><ul>",
    ]
    parts += [
        f"<li class='menu-item item-{i}'><a class='menu-link' href='/section/{i}'>{words(2)}</a>"
        for i in range(max(10, n_bytes // 4000))
    ]
    parts.append("</ul></nav></header><main><article class='post content'>")
    size = sum(map(len, parts))
    while size < n_bytes - 600:
        piece = rng.choice(
            [
                f"<p class='paragraph text-base leading-7'>{words(45)} <a href='/a/{size}'>"
                f"{words(3)}</a> {words(10)}.</p>\n",
                f"<div class='card grid gap-4 p-2'><div class='card-inner'><h2 id='h{size}'>"
                f"{words(5)}</h2><span class='badge badge-small'>{rng.randrange(100)} &euro;"
                f"</span></div><img src='/images/{size}.jpg' alt='{words(3)}'></div>\n",
                f"<ul class='list-disc'><li>{words(8)}</li><li>{words(9)}</li><li>{words(7)}</li>"
                "</ul>\n",
            ]
        )
        parts.append(piece)
        size += len(piece)
    parts.append(f"</article></main><footer class='site-footer'><p>{words(30)}</p></footer></body>")
    return "".join(parts).encode()


def read_bare(body: bytes) -> str:
    """Return the main text of a page with resiliparse alone."""
    text: str = extract_plain_text(
        HTMLTree.parse(body.decode("utf-8", "replace")), main_content=True
    )
    return text


def measure(n_pages: int = 10) -> list[PageSpeed]:
    """Return the speeds on generated and, if there are any, on real pages."""
    rows = []
    for size in SIZES:
        pages = [make_page(size, seed) for seed in range(n_pages)]
        rows.append(_measure_pages(f"generated, {size // 1000} kB", pages))
    folder = os.environ.get("RECRAWL_HTML")
    if folder:
        bodies = list(_real_pages(Path(folder)))
        for size in SIZES:
            pages = [body for body in bodies if 0.6 * size < len(body) < 1.4 * size]
            rows.append(_measure_pages(f"real, about {size // 1000} kB", pages[: 4 * n_pages]))
    return rows


def _measure_pages(name: str, pages: Sequence[bytes]) -> PageSpeed:
    bare = own = 0.0
    for page in pages:
        bare += cpu_seconds(lambda page=page: read_bare(page))  # type: ignore[misc]
        own += cpu_seconds(lambda page=page: observe(page, "text/html").sketch)  # type: ignore[misc]
    return {
        "pages": name,
        "n_pages": len(pages),
        "kilobytes_per_page": round(sum(map(len, pages)) / max(len(pages), 1) / 1000, 1),
        "bare_pages_per_second": round(len(pages) / bare) if bare else 0,
        "observe_pages_per_second": round(len(pages) / own) if own else 0,
        "share_of_bare": round(bare / own, 3) if own else 0.0,
    }


def _real_pages(folder: Path) -> Iterator[bytes]:
    """Yield the newest HTML files of all repositories of snapshots in a folder."""
    for repository in sorted(folder.glob("*snapshots*")):
        git = ["git", "-C", str(repository)]
        if not (repository / "HEAD").exists() and (repository / "repo").exists():
            git = ["git", "-C", str(repository / "repo")]
        listed = subprocess.run(
            [*git, "ls-tree", "-r", "HEAD"], capture_output=True, text=True, check=True
        )
        for line in listed.stdout.splitlines():
            if line.endswith((".html", '.html"')):
                blob = line.split()[2]
                yield subprocess.run(
                    [*git, "cat-file", "blob", blob], capture_output=True, check=True
                ).stdout
