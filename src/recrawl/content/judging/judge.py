"""Judge whether text that counts differs between an answer and the page's last version.

A passage that is new or gone counts if it belongs to the text that is compared for this page (main
or all), is not part of the host's template and does not stand in a volatile place.  A passage that
moves is not a change.
"""

from typing import Final

from recrawl.content.judging.answer import JudgedAnswer
from recrawl.content.judging.comparison import VersionComparison
from recrawl.content.judging.host_memory import SAMPLE_PAGES, HostMemory, pack_update
from recrawl.content.judging.page_memory import PageMemory, PassageFlag
from recrawl.content.judging.verdicts import ContentVerdict, Judgement, WrongAnswer
from recrawl.content.judging.version import choose_text, version_digest
from recrawl.content.judging.wrong_answers import (
    ACCEPTED_AFTER,
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

_MASK32 = 0xFFFFFFFF


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
    return VersionComparison(answer, page).judgement()


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
    rows = list(zip(version.passages, version.is_main, version.words, strict=True))
    counted = [(p, n) for p, main, n in rows if answer.counts(p, main, text)]
    if verdict == ContentVerdict.FIRST and answer.settings.ignore_wrong_answers:
        facts = AnswerFacts(
            n_words=int(observation.n_words.sum()),
            n_own=sum(n for _, n in counted),
            n_wrong=answer.n_wrong_like_this(),
        )
        kind = find_wrong_answer(observation.hints, facts)
        if kind:
            return answer.wrong(kind)
    digest = version_digest([p for p, _ in counted])
    told = [p for p, _ in counted if p not in version.copies]
    now = set(told)
    flags = [
        int(PassageFlag.YOUNG)
        | (int(PassageFlag.MAIN) if main else 0)
        | (int(PassageFlag.TOLD) if p in now else 0)
        for p, main, _ in rows
    ]
    joins = (page is None or not page.versions) and answer.host.n_pages < SAMPLE_PAGES
    update = b""
    if joins:
        update = pack_update(is_new_page=True, added=[p & _MASK32 for p in version.passages])
    memory = answer.memory(
        text=text,
        flags=flags,
        digest=digest,
        versions=(int.from_bytes(digest[:8], "little"),),
        in_sample=joins or (page is not None and page.in_sample),
    )
    return answer.result(
        verdict=verdict,
        counted={p for p, _ in counted},
        added=told,
        divergence=1.0,
        memory=memory,
        host_update=update,
    )
