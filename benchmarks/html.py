"""Judge real HTML with truth: missed text changes, false changes, what each rule adds.

The pages are terms and policies from the public repositories of Open Terms Archive, by Open Terms
Archive contributors (ODC-BY 1.0).  RECRAWL_HTML names the folder with the repositories,
RECRAWL_HTML_CACHE one for observations, which take most of the time.  Histories are judged in runs
of successive answers of all pages of a service: random runs, and runs that end after a text change.
"""

import collections
import importlib
import os
import pickle
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import numpy as np

from benchmarks.content import SETTINGS
from benchmarks.html_histories import (
    BYTES_MAX,
    MARKUP,
    NONE,
    RETURN,
    TEXT,
    Answer,
    Blobs,
    PageHistory,
    html_folder,
    read_histories,
)
from recrawl.content import (
    EXTRACTOR_VERSION,
    ContentSettings,
    ContentVerdict,
    HostMemory,
    Judgement,
    Observation,
    PageMemory,
    judge,
    observe,
)

__all__ = ["choose_runs", "measure", "score_runs"]

# Share of all words from which the main text stands for the page: 0 is always, 2 never.
_MAIN_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 2.0)
_ANSWERS_BEFORE, _ANSWERS_AFTER = 40, 4
_ANSWERS_RANDOM = 100
_SERVICES_RANDOM = 12
_CHANGES_PER_PAGE = 3

Span: TypeAlias = tuple[str, int, int]
"""Service, and the first and the last instant in milliseconds."""
Run: TypeAlias = list[tuple[str, str, Answer, Observation]]
"""Path, URL, answer and observation of each poll of a service, in the order of time."""


class Tally(NamedTuple):
    """Verdicts by truth, of all pages and by page, and words to embed."""

    verdicts: dict[str, collections.Counter[str]]
    by_page: dict[str, dict[str, collections.Counter[str]]]
    words: collections.Counter[str]


def choose_runs(histories: Sequence[PageHistory], n_changes: int, seed: int = 0) -> list[Span]:
    """Return spans of time to judge: random ones of some services, and those before changes.

    Parameters
    ----------
    histories
        Histories of a collection.
    n_changes
        Number of text changes that the spans should contain.
    seed
        Random seed.
    """
    draw = random.Random(seed)
    by_service: dict[str, list[PageHistory]] = collections.defaultdict(list)
    for history in histories:
        by_service[_service(history.path)].append(history)
    spans: dict[str, list[tuple[int, int]]] = collections.defaultdict(list)
    services = sorted(by_service)
    for service in draw.sample(services, min(len(services), _SERVICES_RANDOM)):
        pages = by_service[service]
        longest = max(pages, key=lambda page: len(page.answers)).answers
        start = draw.randrange(max(len(longest) - _ANSWERS_RANDOM, 1))
        end = min(start + _ANSWERS_RANDOM, len(longest)) - 1
        spans[service].append((longest[start].at_ms, longest[end].at_ms))
    changes = []
    for history in histories:
        places = [i for i, answer in enumerate(history.answers) if answer.truth == TEXT]
        draw.shuffle(places)
        changes += [(history, i) for i in places[:_CHANGES_PER_PAGE]]
    draw.shuffle(changes)
    for history, i in changes[:n_changes]:
        answers = history.answers
        first, last = max(i - _ANSWERS_BEFORE, 0), min(i + _ANSWERS_AFTER, len(answers) - 1)
        spans[_service(history.path)].append((answers[first].at_ms, answers[last].at_ms))
    return [
        (service, start, end) for service, found in spans.items() for start, end in _merge(found)
    ]


def _merge(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _service(path: str) -> str:
    return path.partition("/")[0]


def read_runs(
    folder: Path, collection: str, spans: Sequence[Span], histories: Sequence[PageHistory]
) -> Iterator[Run]:
    """Yield the observed answers of each span, from the cache where they are there."""
    cache = os.environ.get("RECRAWL_HTML_CACHE")
    blobs = Blobs(folder / f"{collection}-snapshots")
    for service, start, end in spans:
        name = f"{collection}-{service}-{start}-{end}-{EXTRACTOR_VERSION}.pickle".replace("/", "_")
        file = Path(cache, name) if cache else None
        if file is not None and file.exists():
            yield pickle.loads(file.read_bytes())
            continue
        run = [
            (history.path, history.url, answer, observation)
            for history in histories
            if _service(history.path) == service
            for answer in history.answers
            if start <= answer.at_ms <= end
            for observation in _observe(blobs, history.path, answer)
        ]
        run.sort(key=lambda poll: poll[2].at_ms)
        if file is not None:
            file.with_suffix(".part").write_bytes(pickle.dumps(run))
            file.with_suffix(".part").replace(file)
        yield run
    blobs.close()


def _observe(blobs: Blobs, path: str, answer: Answer) -> Iterator[Observation]:
    body = blobs.read(answer.commit, path)
    if body is not None and len(body) <= BYTES_MAX:
        observation = observe(body, "text/html")
        # Shingles are not judged, and take most of the bytes.
        yield replace(
            observation,
            shingles=np.empty(0, dtype=np.uint32),
            shingle_offsets=np.zeros(observation.passages.size + 1, dtype=np.int64),
        )


def score_runs(runs: Iterable[Run], settings: ContentSettings) -> Tally:
    """Return the verdicts on all runs, each beginning without memories.

    Parameters
    ----------
    runs
        Observed answers.
    settings
        Settings to judge with.
    """
    verdicts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    by_page: dict[str, dict[str, collections.Counter[str]]] = {}
    words: collections.Counter[str] = collections.Counter()
    for run in runs:
        pages: dict[str, PageMemory] = {}
        hosts: dict[str, HostMemory] = {}
        for path, url, answer, observation in run:
            host = urlsplit(url).netloc or _service(path)
            is_first = path not in pages
            found = judge(observation, pages.get(path), hosts.get(host) or HostMemory(), settings)
            pages[path] = found.memory
            if found.host_update:
                hosts[host] = (hosts.get(host) or HostMemory()).with_update(found.host_update)
            if is_first:
                continue
            verdict = found.verdict.name
            verdicts[answer.truth][verdict] += 1
            of_page = by_page.setdefault(path, collections.defaultdict(collections.Counter))
            of_page[answer.truth][verdict] += 1
            if answer.truth == TEXT and found.verdict == ContentVerdict.CHANGED:
                words += _words_to_embed(found)
    return Tally(verdicts, by_page, words)


def _words_to_embed(found: Judgement) -> collections.Counter[str]:
    n_words = found.observation.n_words
    return collections.Counter(
        added=int(n_words[found.added_places].sum()), whole=int(n_words[found.is_counted].sum())
    )


def summarise(tally: Tally) -> dict[str, Any]:
    """Return the shares of missed, false and markup-only changes.

    Parameters
    ----------
    tally
        Verdicts by truth.
    """
    text, none = tally.verdicts[TEXT], tally.verdicts[NONE]
    markup, returns = tally.verdicts[MARKUP], tally.verdicts[RETURN]
    return {
        "answers": sum(counts.total() for counts in tally.verdicts.values()),
        "text_changes": text.total(),
        "missed": round(1 - text["CHANGED"] / max(text.total(), 1), 4),
        "unchanged": none.total(),
        "false": round(none["CHANGED"] / max(none.total(), 1), 4),
        "markup_only": markup.total(),
        "markup_not_counted": round(1 - markup["CHANGED"] / max(markup.total(), 1), 4),
        "returns": dict(returns),
        "verdicts_of_text_changes": dict(text),
        "verdicts_of_unchanged": dict(none),
    }


def _worst_pages(tally: Tally, truth: str, right: str, *, is_wanted: bool) -> list[str]:
    """Return the pages with most errors, with the numbers of errors and of polls."""
    errors = []
    for path, found in tally.by_page.items():
        counts = found.get(truth, collections.Counter())
        n = counts.total() - counts[right] if is_wanted else counts[right]
        if n:
            errors.append((n, counts.total(), path))
    return [f"{path}: {n} of {total}" for n, total, path in sorted(errors, reverse=True)[:6]]


def _with_main_share(runs: Sequence[Run], share: float) -> Tally:
    """Return the verdicts with another share from which the main text stands for the page."""
    module: Any = importlib.import_module("recrawl.content.judging.judge")
    before = module.MAIN_SHARE_MIN, module.MAIN_SHARE_KEPT, module.MAIN_WORDS_MIN
    module.MAIN_SHARE_MIN, module.MAIN_SHARE_KEPT = share, share * 0.6
    module.MAIN_WORDS_MIN = 0 if share == 0 else before[2]
    try:
        return score_runs(runs, SETTINGS["all rules"])
    finally:
        module.MAIN_SHARE_MIN, module.MAIN_SHARE_KEPT, module.MAIN_WORDS_MIN = before


def measure(collections_: Sequence[str], n_changes: int = 100, *, whole: bool = False) -> Any:
    """Judge collections with all rules, without each of them, and along the trade-off.

    Parameters
    ----------
    collections_
        Names of the collections.
    n_changes
        Number of text changes of each collection that the runs should contain.
    whole
        Whether to judge whole histories instead of runs.
    """
    folder = html_folder()
    if folder is None:
        return "Set RECRAWL_HTML to a folder with NAME-snapshots and NAME-versions."
    results = {}
    for collection in collections_:
        histories = list(read_histories(folder, collection))
        spans = choose_runs(histories, n_changes)
        if whole:
            spans = [(service, 0, 1 << 62) for service in {_service(h.path) for h in histories}]
        runs = list(read_runs(folder, collection, spans, histories))
        tallies = {name: score_runs(runs, settings) for name, settings in SETTINGS.items()}
        best = tallies["all rules"]
        results[collection] = {
            "pages": len({path for run in runs for path, *_ in run}),
            "rules": {name: summarise(tally) for name, tally in tallies.items()},
            "worst_missed": _worst_pages(best, TEXT, "CHANGED", is_wanted=True),
            "worst_false": _worst_pages(best, NONE, "CHANGED", is_wanted=False),
            "share_to_embed": round(best.words["added"] / max(best.words["whole"], 1), 4),
            "by_main_share": {
                str(share): {
                    key: summarise(_with_main_share(runs, share))[key]
                    for key in ("missed", "false")
                }
                for share in _MAIN_SHARES
            },
        }
    return results
