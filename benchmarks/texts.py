"""Measure a corpus that is given the text of its pages: bytes per page, outcomes per second.

First, many pages with observations that are made, not read: each page has some 40 passages, a
sixth of them shared by all pages of its host, and a sketch.  They are reported four times; each
time but the first, one page in twenty has another passage.  A corpus with digests alone is measured
beside it.

Then simulated bodies (`recrawl.sim.pages`), with the share of time that each step takes.  Seconds
are those of the processor: they leave out the wait for the disk.
"""

import cProfile
import pstats
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import recrawl
from benchmarks.scale import bytes_by_part, synthetic_urls
from recrawl.content import ContentKind, Observation
from recrawl.corpus import Corpus, CorpusConfig, Outcome
from recrawl.sim.pages import KINDS, START_AT, make_site

__all__ = ["measure"]

_PAGES_PER_CALL = 2_000
_PAGES_PER_HOST = 50
_PASSAGES_MEDIAN = 40
_TEMPLATE_PASSAGES = 10
_WORDS_PER_PASSAGE = 12
_CHANGED_SHARE = 0.05
_ROUNDS = 4
_DAY_MS = 86_400_000
_STEPS = {
    "reading bodies": "bodies.py:read",
    "judging": "judging.py:judge_texts",
    "log and store": "node.py:submit",
}


def _has_changed(page: int, version: int) -> bool:
    """Return whether a page has changed by a round; each round some pages change once."""
    return 0 < page % round(1 / _CHANGED_SHARE) <= version


def _observation(page: int, version: int) -> Observation:
    """Return the observation of a made page; a later version has one other passage."""
    rng = np.random.default_rng(page)
    n = int(np.clip(rng.lognormal(np.log(_PASSAGES_MEDIAN), 0.7), 5, 480))
    passages = rng.integers(1, 2**63, n, dtype=np.uint64)
    if _has_changed(page, version):
        passages[-1] ^= np.uint64(1)
    template = np.random.default_rng(page // _PAGES_PER_HOST + 2**32)
    shared = template.integers(1, 2**63, _TEMPLATE_PASSAGES, dtype=np.uint64)
    every = np.concatenate([shared, passages])
    n_words = np.full(every.size, _WORDS_PER_PASSAGE, np.uint16)
    offsets = np.arange(every.size + 1, dtype=np.int64) * _WORDS_PER_PASSAGE
    shingles = np.repeat(every, _WORDS_PER_PASSAGE) * np.arange(1, offsets[-1] + 1, dtype=np.uint64)
    return Observation(
        kind=ContentKind.HTML,
        passages=every,
        is_main=np.arange(every.size) >= _TEMPLATE_PASSAGES,
        n_words=n_words,
        shapes=(every >> np.uint64(32)).astype(np.uint32),
        shingles=(shingles >> np.uint64(32)).astype(np.uint32),
        shingle_offsets=offsets,
        body_digest=every[:2].tobytes(),
        n_bytes=20_000,
        title=f"page {page}",
    )


def _outcomes(
    urls: list[str], first: int, version: int, at_ms: int, has_texts: bool
) -> Iterator[Outcome]:
    for i, url in enumerate(urls):
        page = first + i
        if has_texts:
            seen = _observation(page, version)
            yield Outcome(url=url, observation=seen, fetched_at_ms=at_ms)
        else:
            digest = f"{page}.{_has_changed(page, version)}".encode()
            yield Outcome(url=url, digest=digest, fetched_at_ms=at_ms)


def _measure_pages(n_pages: int, folder: Path, *, has_texts: bool) -> dict[str, Any]:
    """Report all pages several times; return bytes per page, and outcomes per second."""
    n_hosts = max(n_pages // _PAGES_PER_HOST, 1)
    config = CorpusConfig.from_dict({"snapshots": {"every": 1e9, "every_records": 2**40}})
    seconds = [0.0] * _ROUNDS
    with recrawl.open(folder, config) as corpus:
        start_ms = corpus.now_ms() - (_ROUNDS + 1) * _DAY_MS
        for first in range(0, n_pages, _PAGES_PER_CALL):
            corpus.add(synthetic_urls(first, min(_PAGES_PER_CALL, n_pages - first), n_hosts))
        log_bytes = [_log_bytes(corpus)]
        for version in range(_ROUNDS):
            at_ms = start_ms + version * _DAY_MS
            for first in range(0, n_pages, _PAGES_PER_CALL):
                n = min(_PAGES_PER_CALL, n_pages - first)
                urls = synthetic_urls(first, n, n_hosts).to_pylist()
                outcomes = list(_outcomes(urls, first, version, at_ms, has_texts))
                began = time.process_time()
                corpus.report(outcomes)
                seconds[version] += time.process_time() - began
            log_bytes.append(_log_bytes(corpus))
        store = corpus.nodes[0].store
        store.compact()
        n_changed = corpus.stats().n_changed
    parts = bytes_by_part(folder)
    return {
        "store_bytes_per_page": parts["store"] / n_pages,
        "log_bytes_per_first_fetch": (log_bytes[1] - log_bytes[0]) / n_pages,
        "log_bytes_per_second_fetch": (log_bytes[2] - log_bytes[1]) / n_pages,
        "log_bytes_per_later_fetch": (log_bytes[-1] - log_bytes[-2]) / n_pages,
        "first_outcomes_per_cpu_second": n_pages / seconds[0],
        "later_outcomes_per_cpu_second": n_pages / seconds[-1],
        "n_changed": n_changed,
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


def measure(n_pages: int, n_polls: int) -> dict[str, Any]:
    """Return bytes per page and outcomes per second, with texts and with digests.

    Parameters
    ----------
    n_pages
        Number of pages with made observations.
    n_polls
        Approximate number of simulated bodies.
    """
    folder = Path(tempfile.mkdtemp())
    try:
        return {
            "n_pages": n_pages,
            "with_texts": _measure_pages(n_pages, folder / "texts", has_texts=True),
            "with_digests": _measure_pages(n_pages, folder / "digests", has_texts=False),
            "bodies": _measure_bodies(n_polls, folder / "bodies", is_profiled=False),
            "profile": _measure_bodies(n_polls, folder / "profile", is_profiled=True),
        }
    finally:
        shutil.rmtree(folder)
