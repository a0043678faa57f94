"""Measure a corpus that is given the text of its pages: bytes per page, outcomes per second.

First, many pages with observations that are made, not read: each page has some 40 passages, a
sixth of them shared by all pages of its host, and a sketch.  They are reported several times; each
time but the first, one page in twenty has another passage.  A corpus with digests alone is measured
beside it.

Then simulated bodies (`recrawl.sim.pages`), with the share of time that each step takes.  Seconds
are those of the processor: they leave out the wait for the disk.
"""

import cProfile
import math
import pstats
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import recrawl
from benchmarks.scale import bytes_by_part
from recrawl.content import ContentKind, Observation
from recrawl.content.observation import SHAPE_FLAGS
from recrawl.corpus import Corpus, CorpusConfig, Outcome
from recrawl.sim.pages import KINDS, START_AT, make_site
from recrawl.store import Store
from recrawl.store.keys import CHANGE, HOST_MEMORY, PAGE_MEMORY, RECORD

__all__ = ["measure"]

_PAGES_PER_CALL = 2_000
_PAGES_PER_HOST = 50
_PASSAGES_MEDIAN = 40
_TEMPLATE_PASSAGES = 10
_WORDS_PER_PASSAGE = 12
_CHANGED_SHARE = 0.05
_ROUNDS = 4
_CALLS_PER_MESSAGE = 25
_PATHS = np.uint32(12)
_PAGES_SCANNED_MAX = 1_000_000
_KINDS = {
    "memory of texts": PAGE_MEMORY,
    "digests and sketch": RECORD,
    "changes": CHANGE,
    "memory of hosts": HOST_MEMORY,
}
_MIX = 0x9E3779B1
_ODD_NUMBERS = np.arange(1, 2 * 512 * _WORDS_PER_PASSAGE, 2, dtype=np.uint64)
_DAY_MS = 86_400_000
_STEPS = {
    "reading bodies": "bodies.py:read",
    "judging": "judging.py:judge_texts",
    "log and store": "node.py:submit",
}


def _has_changed(page: NDArray[np.int64], version: int) -> NDArray[np.bool_]:
    """Return which pages have changed by a round; each round some pages change once."""
    turn = page % round(1 / _CHANGED_SHARE)
    return (turn > 0) & (turn <= version)


def _urls(first: int, n: int) -> list[str]:
    """Return URLs of about 60 bytes; neighbours are pages of the same host."""
    return [
        f"https://www.site{page // _PAGES_PER_HOST}.example/articles/{page * _MIX % 2**40:x}/{page}"
        for page in range(first, first + n)
    ]


def _observations(first: int, n: int, version: int) -> Iterator[Observation]:
    """Return the observations of made pages; a later version has one other passage."""
    rng = np.random.default_rng(first)
    page = np.arange(first, first + n)
    is_new = _has_changed(page, version).tolist()
    sizes = np.clip(rng.lognormal(np.log(_PASSAGES_MEDIAN), 0.7, n), 5, 480).astype(np.int64)
    own = rng.integers(1, 2**63, int(sizes.sum()), dtype=np.uint64)
    host = page // _PAGES_PER_HOST
    shared = {
        number: np.random.default_rng(number + 2**32).integers(
            1, 2**63, _TEMPLATE_PASSAGES, dtype=np.uint64
        )
        for number in np.unique(host).tolist()
    }
    ends = np.cumsum(sizes).tolist()
    for i, (begin, end) in enumerate(pairwise([0, *ends])):
        every = np.concatenate([shared[int(host[i])], own[begin:end]])
        if is_new[i]:
            every[-1] ^= np.uint64(1)
        offsets = np.arange(every.size + 1, dtype=np.int64) * _WORDS_PER_PASSAGE
        shingles = np.repeat(every, _WORDS_PER_PASSAGE) * _ODD_NUMBERS[: offsets[-1]]
        yield Observation(
            kind=ContentKind.HTML,
            passages=every,
            is_main=np.arange(every.size) >= _TEMPLATE_PASSAGES,
            n_words=np.full(every.size, _WORDS_PER_PASSAGE, np.uint16),
            shapes=(every >> np.uint64(32)).astype(np.uint32) & ~np.uint32(SHAPE_FLAGS),
            paths=np.arange(every.size, dtype=np.uint32) % _PATHS,
            shingles=(shingles >> np.uint64(32)).astype(np.uint32),
            shingle_offsets=offsets,
            body_digest=every[:2].tobytes(),
            n_bytes=20_000,
            title=f"page {first + i}",
        )


def _outcomes(first: int, n: int, version: int, at_ms: int, *, has_texts: bool) -> list[Outcome]:
    urls = _urls(first, n)
    if has_texts:
        return [
            Outcome(url=url, observation=seen, fetched_at_ms=at_ms)
            for url, seen in zip(urls, _observations(first, n, version), strict=True)
        ]
    is_new = _has_changed(np.arange(first, first + n), version).tolist()
    return [
        Outcome(url=url, digest=f"{first + i}.{is_new[i]}".encode(), fetched_at_ms=at_ms)
        for i, url in enumerate(urls)
    ]


def _measure_pages(
    n_pages: int,
    folder: Path,
    *,
    has_texts: bool,
    n_rounds: int = _ROUNDS,
    minutes_max: float = math.inf,
) -> dict[str, Any]:
    """Report all pages several times; return bytes per page, and outcomes per second."""
    config = CorpusConfig.from_dict({"snapshots": {"every": 1e9, "every_records": 2**40}})
    seconds = [0.0] * n_rounds
    began_at = time.monotonic()
    n_reported, is_over = 0, False
    with recrawl.open(folder, config) as corpus:
        start_ms = corpus.now_ms() - (n_rounds + 1) * _DAY_MS
        log_bytes = np.zeros(n_rounds)
        for version in range(n_rounds):
            at_ms = start_ms + version * _DAY_MS
            for first in range(0, n_pages, _PAGES_PER_CALL):
                n = min(_PAGES_PER_CALL, n_pages - first)
                if version == 0:
                    corpus.add(_urls(first, n))
                outcomes = _outcomes(first, n, version, at_ms, has_texts=has_texts)
                began, before = time.process_time(), _log_bytes(corpus)
                corpus.report(outcomes)
                seconds[version] += time.process_time() - began
                log_bytes[version] += _log_bytes(corpus) - before
                n_reported += n
                minutes = (time.monotonic() - began_at) / 60
                if first // _PAGES_PER_CALL % _CALLS_PER_MESSAGE == 0:
                    message = f"round {version + 1}: {first + n:,} pages, {minutes:.1f} min"
                    print(message, file=sys.stderr, flush=True)
                is_over = minutes > minutes_max
                if is_over:
                    break
            if version == 0:
                # A run that takes too long measures the pages that it has.
                n_pages = n_reported
            if is_over:
                break
        store = corpus.nodes[0].store
        store.compact()
        kinds = _bytes_by_kind(store) if n_pages <= _PAGES_SCANNED_MAX else {}
        n_changed = corpus.stats().n_changed
    parts = bytes_by_part(folder)
    per_fetch = log_bytes / n_pages
    by_kind = {name: size / n_pages for name, size in kinds.items()}
    found = {
        "n_pages": n_pages,
        "store_bytes_per_page": parts["store"] / n_pages,
        "uncompressed_bytes_per_page": by_kind,
        "log_bytes_per_first_fetch": per_fetch[0],
        "first_outcomes_per_cpu_second": n_pages / seconds[0],
        "n_changed": n_changed,
        "peak_gigabytes_of_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    if n_rounds > 1:
        found |= {
            "log_bytes_per_second_fetch": per_fetch[1],
            "log_bytes_per_later_fetch": per_fetch[-1],
            "later_outcomes_per_cpu_second": n_pages / seconds[-1],
        }
    return found


def _bytes_by_kind(store: Store) -> dict[str, int]:
    """Return the size of the keys and values of a store before compression, by what they are."""
    return {
        name: sum(
            len(key) + len(value) for key, value in store._kv.scan(letter, bytes([letter[0] + 1]))
        )
        for name, letter in _KINDS.items()
    }


def _log_bytes(corpus: Corpus) -> int:
    return sum(node.log_bytes for node in corpus.nodes)


def _measure_bodies(n_polls: int, folder: Path, *, is_profiled: bool) -> dict[str, Any]:
    """Report simulated bodies; return outcomes per second, and with a profile the time of steps."""
    sites = [make_site(kind, 1) for kind in KINDS]
    n_rounds = max(n_polls // sum(site.n_pages for site in sites), 2)
    profile = cProfile.Profile()
    seconds, n_bytes, n_reported = 0.0, 0, 0
    with recrawl.open(folder) as corpus:
        start_ms = corpus.now_ms() - 365 * _DAY_MS
        for turn in range(n_rounds):
            at = START_AT + turn * 86_400
            answers = [site.answer(page, at) for site in sites for page in range(site.n_pages)]
            if turn == 0:
                corpus.add([answer.url for answer in answers])
            outcomes = [
                Outcome(
                    url=answer.url,
                    body=answer.body,
                    content_type=answer.content_type,
                    fetched_at_ms=start_ms + turn * _DAY_MS,
                )
                for answer in answers
            ]
            began = time.process_time()
            if is_profiled:
                profile.enable()
            corpus.report(outcomes)
            profile.disable()
            if turn:  # the first round loads and compiles
                seconds += time.process_time() - began
                n_reported += len(outcomes)
                n_bytes += sum(len(answer.body) for answer in answers)
    if is_profiled:
        return _shares_of_steps(profile)
    return {
        "n_outcomes": n_reported,
        "mean_body_bytes": n_bytes / n_reported,
        "outcomes_per_cpu_second": n_reported / seconds,
        "cpu_milliseconds_per_outcome": 1_000 * seconds / n_reported,
    }


def _shares_of_steps(profile: cProfile.Profile) -> dict[str, Any]:
    """Return the share of the time of `Corpus.report` in each step, and the costliest functions."""
    stats: Any = pstats.Stats(profile)
    by_name = {
        f"{Path(file).name}:{name}": (row[2], row[3])
        for (file, _, name), row in stats.stats.items()
    }
    total = by_name["corpus.py:report"][1]
    costliest = sorted(by_name.items(), key=lambda item: -item[1][0])[:12]
    return {
        "share_of_steps": {
            step: by_name.get(name, (0.0, 0.0))[1] / total for step, name in _STEPS.items()
        },
        "share_of_functions": {name: own / total for name, (own, _) in costliest},
    }


def measure(
    n_pages: int,
    n_polls: int,
    *,
    n_rounds: int = _ROUNDS,
    inside: str | None = None,
    minutes_max: float = math.inf,
) -> dict[str, Any]:
    """Return bytes per page and outcomes per second, with texts and with digests.

    Parameters
    ----------
    n_pages
        Number of pages with made observations.
    n_polls
        Approximate number of simulated bodies; 0 to measure pages with texts alone.
    n_rounds
        Number of times that each page is reported.
    inside
        Folder in which corpora are made, and deleted at the end; by default that of the system.
    minutes_max
        Time after which no more pages with texts are reported; the result has those that were.
    """
    folder = Path(tempfile.mkdtemp(dir=inside))
    try:
        found: dict[str, Any] = {
            "n_pages": n_pages,
            "with_texts": _measure_pages(
                n_pages,
                folder / "texts",
                has_texts=True,
                n_rounds=n_rounds,
                minutes_max=minutes_max,
            ),
        }
        if n_polls:
            found |= {
                "with_digests": _measure_pages(
                    n_pages, folder / "digests", has_texts=False, n_rounds=n_rounds
                ),
                "bodies": _measure_bodies(n_polls, folder / "bodies", is_profiled=False),
                "profile": _measure_bodies(n_polls, folder / "profile", is_profiled=True),
            }
        return found
    finally:
        shutil.rmtree(folder)
