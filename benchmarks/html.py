"""Judge real HTML with truth: missed text changes, false changes, what each rule adds.

The pages are terms and policies from the public repositories of Open Terms Archive, by Open Terms
Archive contributors (ODC-BY 1.0).  RECRAWL_HTML names the folder with the repositories,
RECRAWL_HTML_CACHE one for observations, which take most of the time.  Histories are judged in runs
of successive answers of all pages of a service: random runs, and runs that end after a text change.
One run is in memory at a time.  They are judged in random order, so the runs before a limit of time
stand for all of them.
"""

import collections
import importlib
import os
import pickle
import random
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import numpy as np

from benchmarks.content import SETTINGS
from benchmarks.html_histories import (
    BYTES_MAX,
    ELSEWHERE,
    MARKUP,
    MOVED,
    NONE,
    RETURN,
    TEXT,
    Answer,
    Blobs,
    PageHistory,
    find_changed_words,
    find_head,
    html_folder,
    page_words,
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

__all__ = ["as_markdown", "choose_runs", "measure", "score_run"]

# Share of all words from which the main text stands for the page: 0 is always, 2 never.
_MAIN_SHARES = (0.0, 0.2, 0.4, 0.6, 2.0)
_ANSWERS_BEFORE, _ANSWERS_AFTER = 40, 4
_ANSWERS_RANDOM = 100
_SERVICES_RANDOM = 12
_CHANGES_PER_PAGE = 3

_IN_PAGE = "in page"

Span: TypeAlias = tuple[str, int, int]
"""Service, and the first and the last instant in milliseconds."""
Run: TypeAlias = list[tuple[str, str, Answer, Observation]]
"""Path, URL, answer and observation of each poll of a service, in the order of time."""


def _counters() -> dict[str, collections.Counter[str]]:
    return collections.defaultdict(collections.Counter)


@dataclass(slots=True)
class Tally:
    """Verdicts by truth, of all pages and by page, and words to embed."""

    verdicts: dict[str, collections.Counter[str]] = field(default_factory=_counters)
    by_page: dict[str, dict[str, collections.Counter[str]]] = field(default_factory=dict)
    words: collections.Counter[str] = field(default_factory=collections.Counter)


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
    n_of_page = max(_CHANGES_PER_PAGE, 2 * n_changes // max(len(histories), 1))
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
        changes += [(history, i) for i in places[:n_of_page]]
    draw.shuffle(changes)
    for history, i in changes[:n_changes]:
        answers = history.answers
        first, last = max(i - _ANSWERS_BEFORE, 0), min(i + _ANSWERS_AFTER, len(answers) - 1)
        spans[_service(history.path)].append((answers[first].at_ms, answers[last].at_ms))
    chosen = [
        (service, start, end) for service, found in spans.items() for start, end in _merge(found)
    ]
    draw.shuffle(chosen)
    return chosen


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
) -> Generator[Run, None, None]:
    """Yield the observed answers of each span, from the cache where they are there."""
    with closing(Blobs(folder / f"{collection}-snapshots")) as blobs:
        for service, start, end in spans:
            name = f"{collection}-{service}-{start}-{end}-{EXTRACTOR_VERSION}"
            of_service = [h for h in histories if _service(h.path) == service]
            yield _load_or_make(name, partial(_observe_run, blobs, of_service, start, end))


def _load_or_make(name: str, make: Callable[[], Any]) -> Any:
    """Return what the cache has under a name; if it has nothing, make it and store it there."""
    cache = os.environ.get("RECRAWL_HTML_CACHE")
    if not cache:
        return make()
    file = Path(cache, f"{name.replace('/', '_')}.pickle")
    if not file.exists():
        made = make()
        file.with_suffix(".part").write_bytes(pickle.dumps(made))
        file.with_suffix(".part").replace(file)
        return made
    return pickle.loads(file.read_bytes())


def _observe_run(blobs: Blobs, histories: Sequence[PageHistory], start: int, end: int) -> Run:
    run = [poll for history in histories for poll in _observe_page(blobs, history, start, end)]
    return sorted(run, key=lambda poll: poll[2].at_ms)


def _observe_page(
    blobs: Blobs, history: PageHistory, start: int, end: int
) -> Iterator[tuple[str, str, Answer, Observation]]:
    """Yield the observed answers of a page; equal observations are one in memory."""
    same: dict[tuple[object, ...], Observation] = {}
    before: bytes | None = None
    for answer in history.answers:
        if not start <= answer.at_ms <= end:
            continue
        body = blobs.read(answer.commit, history.path)
        if body is None or len(body) > BYTES_MAX:
            continue
        found = observe(body, "text/html")
        # Shingles are not judged, and take most of the bytes.
        found = replace(
            found,
            shingles=np.empty(0, dtype=np.uint32),
            shingle_offsets=np.zeros(found.passages.size + 1, dtype=np.int64),
        )
        found = same.setdefault(_observation_key(found), found)
        if answer.truth == TEXT and before is not None:
            checked = answer._replace(doubt=find_doubt(answer, before, body))
        else:
            checked = answer
        before = body
        yield history.path, history.url, checked, found


def _observation_key(found: Observation) -> tuple[object, ...]:
    """Return what a judgement depends on."""
    return tuple(
        value.tobytes() if isinstance(value, np.ndarray) else value
        for name in found.__slots__
        for value in (getattr(found, name),)
        if name not in {"body_digest", "n_bytes", "n_links", "canonical_url", "links"}
    )


def find_doubt(answer: Answer, before: bytes, body: bytes) -> str:
    """Return why a change of the archive's text is none of the page's, or ''.

    Parameters
    ----------
    answer
        Answer with a change of the archive's text.
    before, body
        Bodies of the last answer and of this one.
    """
    if not answer.changed_words:
        return MOVED
    of_page = find_changed_words(page_words(before), page_words(body))
    return "" if of_page & answer.changed_words else ELSEWHERE


def score_run(run: Run, settings: ContentSettings, tally: Tally) -> None:
    """Judge a run, which begins without memories, and add the verdicts to a tally.

    Parameters
    ----------
    run
        Observed answers.
    settings
        Settings to judge with.
    tally
        Verdicts so far.
    """
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
        tally.verdicts[answer.truth][verdict] += 1
        if answer.truth == TEXT:
            tally.verdicts[answer.doubt or _IN_PAGE][verdict] += 1
        tally.by_page.setdefault(path, _counters())[answer.truth][verdict] += 1
        if answer.truth == TEXT and found.verdict == ContentVerdict.CHANGED:
            tally.words += _words_to_embed(found)


def _words_to_embed(found: Judgement) -> collections.Counter[str]:
    n_words = found.observation.n_words
    return collections.Counter(
        added=int(n_words[found.added_places].sum()), whole=int(n_words[found.is_counted].sum())
    )


def summarise(tally: Tally) -> dict[str, Any]:
    """Return the shares of missed, false and markup-only changes.

    Text changes in the page leave out those that only the archive's text shows.

    Parameters
    ----------
    tally
        Verdicts by truth.
    """
    text, none = tally.verdicts[TEXT], tally.verdicts[NONE]
    markup, returns = tally.verdicts[MARKUP], tally.verdicts[RETURN]
    in_page = tally.verdicts[_IN_PAGE]
    return {
        "answers": sum(
            counts.total()
            for truth, counts in tally.verdicts.items()
            if truth not in {_IN_PAGE, MOVED, ELSEWHERE}
        ),
        "text_changes": text.total(),
        "missed": round(1 - text["CHANGED"] / max(text.total(), 1), 4),
        "text_changes_in_page": in_page.total(),
        "missed_in_page": round(1 - in_page["CHANGED"] / max(in_page.total(), 1), 4),
        "moved": dict(tally.verdicts[MOVED]),
        "elsewhere": dict(tally.verdicts[ELSEWHERE]),
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


@contextmanager
def _main_share(share: float) -> Iterator[None]:
    """Judge with another share from which the main text stands for the page."""
    module: Any = importlib.import_module("recrawl.content.judging.version")
    before = module.MAIN_SHARE_MIN, module.MAIN_SHARE_KEPT, module.MAIN_WORDS_MIN
    module.MAIN_SHARE_MIN, module.MAIN_SHARE_KEPT = share, share * 0.6
    module.MAIN_WORDS_MIN = 0 if share == 0 else before[2]
    try:
        yield
    finally:
        module.MAIN_SHARE_MIN, module.MAIN_SHARE_KEPT, module.MAIN_WORDS_MIN = before


def measure(
    collections_: Sequence[str],
    n_changes: int = 100,
    *,
    whole: bool = False,
    minutes: float = 30.0,
) -> Any:
    """Judge collections with all rules, without each of them, and along the trade-off.

    Parameters
    ----------
    collections_
        Names of the collections.
    n_changes
        Number of text changes of each collection that the runs should contain.
    whole
        Whether to judge whole histories instead of runs.
    minutes
        Time after which no other run of a collection is begun.
    """
    folder = html_folder()
    if folder is None:
        return "Set RECRAWL_HTML to a folder with NAME-snapshots and NAME-versions."
    return {
        collection: _measure_collection(folder, collection, n_changes, whole, 60 * minutes)
        for collection in collections_
    }


def _measure_collection(
    folder: Path, collection: str, n_changes: int, whole: bool, seconds: float
) -> dict[str, Any]:
    begin = time.monotonic()
    _print_progress(f"{collection}: reading its log")
    commits = [find_head(folder / f"{collection}-{kind}") for kind in ("snapshots", "versions")]
    histories = _load_or_make(
        f"{collection}-histories-{'-'.join(commits)}",
        lambda: list(read_histories(folder, collection)),
    )
    spans = choose_runs(histories, n_changes)
    if whole:
        spans = [(service, 0, 1 << 62) for service in sorted({_service(h.path) for h in histories})]
    tallies = {name: Tally() for name in SETTINGS}
    by_share = {share: Tally() for share in _MAIN_SHARES}
    n_runs = n_answers = 0
    with closing(read_runs(folder, collection, spans, histories)) as runs:
        for run in runs:
            for name, settings in SETTINGS.items():
                score_run(run, settings, tallies[name])
            for share, tally in by_share.items():
                with _main_share(share):
                    score_run(run, SETTINGS["all rules"], tally)
            n_runs += 1
            n_answers += len(run)
            elapsed = time.monotonic() - begin
            _print_progress(
                f"{collection}: {n_runs} of {len(spans)} runs, {n_answers:,} answers, "
                f"{elapsed:.0f} s"
            )
            if elapsed >= seconds:
                break
    return {"runs": n_runs, "runs_chosen": len(spans), **_report(tallies, by_share)}


def _report(tallies: Mapping[str, Tally], by_share: Mapping[float, Tally]) -> dict[str, Any]:
    best = tallies["all rules"]
    return {
        "pages": len(best.by_page),
        "rules": {name: summarise(tally) for name, tally in tallies.items()},
        "worst_missed": _worst_pages(best, TEXT, "CHANGED", is_wanted=True),
        "worst_false": _worst_pages(best, NONE, "CHANGED", is_wanted=False),
        "share_to_embed": round(best.words["added"] / max(best.words["whole"], 1), 4),
        "by_main_share": {
            str(share): {key: summarise(tally)[key] for key in ("missed", "false")}
            for share, tally in by_share.items()
        },
    }


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def as_markdown(results: Mapping[str, Any]) -> str:
    """Return the results as the tables of the documentation.

    Parameters
    ----------
    results
        Results of `measure`.
    """
    lines = [
        "| collection | answers | text changes | missed | missed of those in the page | "
        "false changes | markup only, not counted | words to embed again |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        best = found["rules"]["all rules"]
        lines.append(
            f"| {name} | {best['answers']:,} | {best['text_changes']} | {best['missed']:.1%} | "
            f"{best['missed_in_page']:.1%} of {best['text_changes_in_page']} | "
            f"{best['false']:.1%} | {best['markup_not_counted']:.1%} of {best['markup_only']} | "
            f"{found['share_to_embed']:.0%} |"
        )
    for name, found in results.items():
        lines += ["", f"{name}: {found['runs']} of {found['runs_chosen']} runs.", ""]
        lines += [f"- Missed on {page}." for page in found["worst_missed"]]
        lines += [f"- False on {page}." for page in found["worst_false"]]
        rows = found["rules"] | {
            f"main text from {share} of all words": shares
            for share, shares in found["by_main_share"].items()
        }
        lines += ["", f"| {name} | missed | false |", "|---|---|---|"]
        lines += [
            f"| {rule} | {shares['missed']:.1%} | {shares['false']:.1%} |"
            for rule, shares in rows.items()
        ]
    return "\n".join(lines).replace("%", " %")
