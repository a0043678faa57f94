"""Judge whether text that counts differs between an answer and the page's last version.

A passage that is new or gone counts if it belongs to the text that is compared for this page (main
or all), is not part of the host's template and does not stand in a volatile place.  A passage that
moves is not a change.
"""

from typing import Final

import numpy as np

from recrawl.content.judging.answer import JudgedAnswer
from recrawl.content.judging.comparison import VersionComparison
from recrawl.content.judging.host_memory import SAMPLE_PAGES, HostMemory, pack_update
from recrawl.content.judging.page_memory import PageMemory, PassageFlag
from recrawl.content.judging.verdicts import ContentVerdict, Judgement, WrongAnswer
from recrawl.content.judging.version import choose_text, version_digest
from recrawl.content.judging.wrong_answers import (
    ACCEPTED_AFTER,
    DOUBTFUL_HINTS,
    AnswerFacts,
    find_wrong_answer,
    hinted_answer,
)
from recrawl.content.merging import merge_passages
from recrawl.content.observation import ContentKind, Observation
from recrawl.content.settings import DEFAULT_CONTENT_SETTINGS, ContentSettings

__all__ = ["judge"]

LEVELS_KEPT: Final = 2
"""Levels by which an answer is finer than the page's memory when the page begins anew: one huge
answer must not make its page coarse for ever."""

_MAIN, _YOUNG = map(int, (PassageFlag.MAIN, PassageFlag.YOUNG))
_TOLD, _VOLATILE = map(int, (PassageFlag.TOLD, PassageFlag.VOLATILE))
_FIRST_FLAGS: Final = np.array(
    [_YOUNG, _YOUNG | _MAIN, _YOUNG | _TOLD, _YOUNG | _MAIN | _TOLD], np.uint8
)
"""Flags of a passage of a first version: outside the main text or in it, not reported or
reported."""


def judge(
    observation: Observation,
    page: PageMemory | None,
    host: HostMemory,
    settings: ContentSettings = DEFAULT_CONTENT_SETTINGS,
) -> Judgement:
    """Return what an answer says about the content of its page.

    Parameters
    ----------
    observation
        Observation of the answer.
    page
        Memory of the page, None before its first answer.
    host
        Memory of the host of the page.
    settings
        Settings of the content; its switches turn single rules off.
    """
    if page is not None and 0 < page.level - observation.level < LEVELS_KEPT:
        observation = merge_passages(observation, page.level)
    answer = JudgedAnswer(observation, page, host, settings)
    if page is None or not page.versions:
        return _start(answer, ContentVerdict.FIRST)
    is_unread = observation.kind == ContentKind.BYTES and bool(observation.problems)
    if is_unread and page.passages.tolist() != answer.version.passages:
        # Bytes cannot be compared with passages, and say nothing about the text.
        return answer.wrong(WrongAnswer.UNREADABLE)
    if settings.ignore_wrong_answers and answer.n_wrong_like_this() < ACCEPTED_AFTER:
        wrong_answer = _other_kind(observation, page)
        if wrong_answer:
            return answer.wrong(wrong_answer)
    is_comparable = (
        page.kind == observation.kind
        and page.extractor == observation.extractor & 0xFF
        and page.settings_key == answer.settings_key
        and page.level == observation.level
    )
    if not is_comparable:
        return _start(answer, ContentVerdict.BASELINE)
    return (
        _repeat(answer, page)
        or VersionComparison(answer, page).judgement()
        or _start(answer, ContentVerdict.CORRECTED)
    )


def _repeat(answer: JudgedAnswer, page: PageMemory) -> Judgement | None:
    """Judge an answer whose passages are those of a page that has settled; None for others."""
    flags = page.flags
    is_same = (
        not page.n_wrong
        and not (flags & (_YOUNG | _VOLATILE)).any()
        and np.array_equal(answer.version.hashes, page.passages)
        and choose_text(answer.version, page.text) == page.text
    )
    if not is_same:
        return None
    is_told = (flags & _TOLD) != 0
    return answer.result(
        verdict=ContentVerdict.UNCHANGED,
        counted=is_told,
        kept=page.passages[is_told],
        memory=page,
    )


def _other_kind(observation: Observation, page: PageMemory) -> WrongAnswer:
    """Return why the kind of the body says that it is not the page."""
    if "not_parsed" in observation.problems and page.is_parsed:
        return WrongAnswer.UNREADABLE
    if observation.kind == page.kind or observation.kind != ContentKind.HTML:
        return WrongAnswer.NONE
    return hinted_answer(observation.hints) or WrongAnswer.OTHER_KIND


def _start(answer: JudgedAnswer, verdict: ContentVerdict) -> Judgement:
    """Judge an answer that cannot be compared with an earlier one."""
    version, page, observation = answer.version, answer.page, answer.observation
    text = choose_text(version, None)
    is_counted = answer.counted_rows(text)
    is_doubtful = False
    if verdict == ContentVerdict.FIRST and answer.settings.ignore_wrong_answers:
        facts = AnswerFacts(
            n_words=int(observation.n_words.sum()),
            n_own=int(version.n_words[is_counted].sum()),
            n_wrong=answer.n_wrong_like_this(),
            n_pages_same=answer.n_pages_same(),
            n_main=int(version.n_words[version.is_in_main].sum()),
        )
        kind = find_wrong_answer(observation.hints, facts)
        if kind:
            return answer.wrong(kind)
        is_doubtful = bool(observation.hints & DOUBTFUL_HINTS)
    digest = version_digest(version.hashes[is_counted])
    is_told = is_counted
    if version.copies:
        is_told = is_counted & [passage not in version.copies for passage in version.passages]
    flags = _FIRST_FLAGS[version.is_in_main.view(np.uint8) + 2 * is_told]
    joins = (page is None or not page.versions) and answer.host.n_pages < SAMPLE_PAGES
    is_corrected = verdict == ContentVerdict.CORRECTED and page is not None
    counts_anew = is_corrected and answer.in_sample
    update = pack_update(
        is_new_page=joins,
        added=version.hashes if joins or counts_anew else (),
        removed=page.passages.astype("<u4").tolist() if page is not None and counts_anew else (),
        texts=() if verdict == ContentVerdict.BASELINE else answer.first_text_keys(),
    )
    memory = answer.memory(
        text=text,
        flags=flags,
        digest=digest,
        versions=(int.from_bytes(digest[:8], "little"),),
        in_sample=joins or (page is not None and page.in_sample),
        is_doubtful=verdict == ContentVerdict.FIRST and is_doubtful,
    )
    kept, removed = [], []
    if page is not None and is_corrected:
        told = page.passages[(page.flags & (_TOLD | _VOLATILE)) == _TOLD].tolist()
        now = set(version.hashes[is_told].tolist())
        kept = [p for p in told if p in now]
        removed = [p for p in (*told, *page.pending) if p not in now]
        if kept:
            is_told = is_told & ~np.isin(version.hashes, np.array(kept, np.uint64))
    return answer.result(
        verdict=verdict,
        counted=is_counted,
        kept=kept,
        added=is_told,
        removed=removed,
        divergence=1.0,
        memory=memory,
        host_update=update,
    )
