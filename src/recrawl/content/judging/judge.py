"""Judge whether text that counts differs between an answer and the page's last version.

Passages are compared as sets, so a passage that moves is not a change.  A passage that is new or
gone counts if it belongs to the text that is compared for this page (main or all), is not part of
the host's template and does not stand in a volatile place.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from zlib import crc32

import numpy as np
import xxhash
from numpy.typing import NDArray

from recrawl.content.extract.words import passage_hash
from recrawl.content.judging.host_memory import (
    FLAPPING_SHARE,
    SAMPLE_PAGES,
    TEMPLATE_PAGES_MIN,
    HostMemory,
    pack_update,
)
from recrawl.content.judging.page_memory import (
    GONE_MAX,
    PENDING_MAX,
    VERSIONS_MAX,
    PageMemory,
    PassageFlag,
    TextChoice,
)
from recrawl.content.judging.places import Gap, Places, find_gaps, flapping_key, shape_key
from recrawl.content.judging.verdicts import ContentVerdict, Judgement, WrongAnswer
from recrawl.content.judging.wrong_answers import (
    OTHER_WRONG_WEIGHT,
    AnswerFacts,
    find_wrong_answer,
)
from recrawl.content.merging import merge_passages
from recrawl.content.observation import ContentKind, Observation
from recrawl.content.settings import DEFAULT_CONTENT_SETTINGS, ContentSettings

__all__ = ["judge"]

LEVELS_KEPT: Final = 2
"""Levels by which an answer is finer than the page's memory when the page begins anew: one huge
answer must not make its page coarse for ever."""
COPIED_SHARE_MIN: Final = 0.9
"""Share of a page's main text in the template of its host from which the page is a copy of others:
then this text counts all the same."""
MAIN_WORDS_MIN: Final = 40
"""Words of a main text that can stand for the page."""
MAIN_SHARE_MIN: Final = 0.4
"""Share of all words from which the main text stands for the page."""
MAIN_SHARE_KEPT: Final = 0.25
"""Share below which a page that was compared by its main text is compared by all text."""
LONG_WORDS: Final = 20
"""Words of a passage outside the main text that counts all the same if no other page has it."""
LABEL_WORDS_MAX: Final = 2
"""Words of a label, which many pages have and which is content all the same: "sold out"."""

_TITLE_PARTS: Final = re.compile(r"\s+[-–—|·•»›:]\s+|\s*[|»›]\s*")
_MASK32 = 0xFFFFFFFF
_NO_HASHES: Final = np.empty(0, dtype=np.uint64)
# Plain integers: operations on members of an enumeration are slow.
_MAIN, _YOUNG, _VOLATILE = map(int, (PassageFlag.MAIN, PassageFlag.YOUNG, PassageFlag.VOLATILE))
_RETURNED, _TOLD, _ADDED = map(int, (PassageFlag.RETURNED, PassageFlag.TOLD, PassageFlag.ADDED))
_ONCE, _TWICE = map(int, (PassageFlag.LASTED_ONCE, PassageFlag.LASTED_TWICE))
_REPORTED = (
    ContentVerdict.FIRST,
    ContentVerdict.BASELINE,
    ContentVerdict.CHANGED,
    ContentVerdict.REVERTED,
)


@dataclass(slots=True)
class _Version:
    """The passages of an observation, each once, in the order of the text."""

    rows: NDArray[np.int64]
    passages: list[int]
    words: list[int]
    is_main: list[bool]
    shapes: list[int]

    @classmethod
    def of(cls, observation: Observation) -> "_Version":
        rows = np.sort(np.unique(observation.passages, return_index=True)[1])
        return cls(
            rows,
            observation.passages[rows].tolist(),
            np.minimum(observation.n_words[rows], 255).tolist(),
            (observation.is_main | _repeats_title(observation))[rows].tolist(),
            (observation.shapes[rows] & 0xFFFF).tolist(),
        )

    def text_key(self) -> int:
        """Return a digest (32 bits) of the text as a whole."""
        return xxhash.xxh3_64_intdigest(np.array(self.passages, dtype="<u8").tobytes()) & _MASK32

    def shape_key(self) -> int:
        """Return a digest (32 bits) of the text with its numbers masked, as a clock has them."""
        return xxhash.xxh3_64_intdigest(np.array(self.shapes, dtype="<u2").tobytes()) & _MASK32


def _repeats_title(observation: Observation) -> NDArray[np.bool_]:
    """Return whether each passage is the title or a part of it: such a heading is main text."""
    parts = {observation.title, *_TITLE_PARTS.split(observation.title)}
    # A passage has at most as many words as characters, so most need not be compared.
    n_words_max = max(map(len, parts))
    rows = np.flatnonzero(~observation.is_main & (observation.n_words <= n_words_max)).tolist()
    is_title = np.zeros(observation.passages.size, dtype=bool)
    if rows:
        known = {passage_hash(part) for part in parts if part}
        is_title[[row for row in rows if int(observation.passages[row]) in known]] = True
    return is_title


@lru_cache(maxsize=64)
def _settings_key(settings: ContentSettings) -> int:
    """Return a number that differs when settings that affect passages differ."""
    return crc32(repr((settings.select, settings.ignore, settings.ignore_patterns)).encode())


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
    return _Judge(observation, page, host, settings).judgement()


class _Judge:
    """One answer beside the memories of its page and its host."""

    def __init__(
        self,
        observation: Observation,
        page: PageMemory | None,
        host: HostMemory,
        settings: ContentSettings,
    ) -> None:
        self.observation = observation
        self.page = page
        self.host = host
        self.version = _Version.of(observation)
        self.settings_key = _settings_key(settings)
        if settings.ignore_templates and self._is_copy():
            settings = replace(settings, ignore_templates=False)
        self.settings = settings
        self.in_sample = page is not None and page.in_sample

    def _is_copy(self) -> bool:
        """Return whether the main text of the page is the text of other pages of the host."""
        if self.host.n_pages < TEMPLATE_PAGES_MIN:
            return False
        page, version = self.page, self.version
        rows = zip(version.passages, version.words, version.is_main, strict=True)
        if page is not None and page.versions:
            is_main = ((page.flags & _MAIN) != 0).tolist()
            rows = zip(page.passages.tolist(), page.words.tolist(), is_main, strict=True)
        main = [(passage, words) for passage, words, is_main in rows if is_main]
        n_main = sum(words for _, words in main)
        if n_main < MAIN_WORDS_MIN:
            return False
        n_shared = n_main
        for passage, words in main:
            if not self.host.is_template(passage):
                n_shared -= words
                if n_shared < COPIED_SHARE_MIN * n_main:
                    return False
        return True

    def judgement(self) -> Judgement:
        page = self.page
        if page is None or not page.versions:
            return self._start(ContentVerdict.FIRST)
        is_unread = self.observation.kind == ContentKind.BYTES and bool(self.observation.problems)
        if is_unread and page.passages.tolist() != self.version.passages:
            # Bytes cannot be compared with passages, and say nothing about the text.
            return self.wrong(WrongAnswer.UNREADABLE)
        is_comparable = (
            page.extractor == self.observation.extractor & 0xFF
            and page.settings_key == self.settings_key
            and page.level == self.observation.level
        )
        if not is_comparable:
            return self._start(ContentVerdict.BASELINE)
        return _Comparison(self, page).judgement()

    # ------------------------------------------------------------------ without an earlier version

    def _start(self, verdict: ContentVerdict) -> Judgement:
        """Judge an answer that cannot be compared with an earlier one."""
        version, page = self.version, self.page
        n_words = int(self.observation.n_words.sum())
        if verdict == ContentVerdict.FIRST and self.settings.ignore_wrong_answers:
            text = _choose_text(version, None)
            n_own = sum(
                words
                for p, main, words in zip(
                    version.passages, version.is_main, version.words, strict=True
                )
                if self.counts(p, main, words, text)
            )
            facts = AnswerFacts(n_words, 0, 0, 0, 0, 0, n_own, False, 0, self.n_wrong_like_this())
            kind = find_wrong_answer(self.observation.hints, facts)
            if kind:
                return self.wrong(kind)
        text = _choose_text(version, None)
        flags = [
            _YOUNG
            | (_MAIN if main else 0)
            | (_TOLD if self.counts(passage, main, words, text) else 0)
            for passage, main, words in zip(
                version.passages, version.is_main, version.words, strict=True
            )
        ]
        counted = [p for p, flag in zip(version.passages, flags, strict=True) if flag & _TOLD]
        digest = _digest(counted)
        joins = (page is None or not page.versions) and self.host.n_pages < SAMPLE_PAGES
        in_sample = joins or (page is not None and page.in_sample)
        update = b""
        if joins or verdict == ContentVerdict.FIRST:
            update = pack_update(
                is_new_page=joins,
                added=[p & _MASK32 for p in version.passages] if joins else (),
                texts=[version.text_key()],
            )
        memory = self.memory(
            text=text,
            flags=flags,
            digest=digest,
            versions=(int.from_bytes(digest[:8], "little"),),
            in_sample=in_sample,
        )
        return self.result(
            verdict=verdict,
            counted=set(counted),
            added=counted,
            divergence=1.0,
            memory=memory,
            host_update=update,
        )

    # ------------------------------------------------------------------ shared

    def counts(self, passage: int, is_main: bool, n_words: int, text: TextChoice) -> bool:
        """Return whether a passage belongs to the text of the page."""
        if not is_main:
            n_others = self.host.n_others(passage, is_counted=self.in_sample)
            if text == TextChoice.MAIN:
                is_known = self.host.n_pages >= TEMPLATE_PAGES_MIN
                return n_words >= LONG_WORDS and is_known and not n_others
            if self.settings.ignore_templates and n_others >= max(2, 0.15 * self.host.n_pages):
                return False
        return not self.is_template(passage)

    def is_template(self, passage: int) -> bool:
        """Return whether a passage belongs to the host rather than to the page."""
        return self.settings.ignore_templates and self.host.is_template(passage)

    def memory(
        self,
        *,
        text: TextChoice,
        flags: list[int],
        digest: bytes,
        versions: tuple[int, ...],
        in_sample: bool,
    ) -> PageMemory:
        """Return a new memory with the passages of this answer."""
        version = self.version
        return PageMemory(
            extractor=self.observation.extractor & 0xFF,
            settings_key=self.settings_key,
            text=text,
            level=self.observation.level,
            passages=np.array(version.passages, dtype=np.uint64),
            words=np.array(version.words, dtype=np.uint8),
            flags=np.array(flags, dtype=np.uint8),
            shapes=np.array(version.shapes, dtype=np.uint16),
            digest=digest,
            versions=versions,
            in_sample=in_sample,
        )

    def result(
        self,
        *,
        verdict: ContentVerdict,
        counted: set[int],
        memory: PageMemory,
        kept: list[int] | None = None,
        added: list[int] | None = None,
        removed: list[int] | None = None,
        divergence: float = 0.0,
        is_template_change: bool = False,
        host_update: bytes = b"",
        wrong_answer: WrongAnswer = WrongAnswer.NONE,
    ) -> Judgement:
        """Return a judgement with the columns that follow from these passages."""
        version = self.version
        new = set(added or ())
        places = [
            row for row, p in zip(version.rows.tolist(), version.passages, strict=True) if p in new
        ]
        is_unique_counted = np.fromiter(
            (p in counted for p in version.passages), bool, version.rows.size
        )
        if version.rows.size == self.observation.passages.size:
            is_counted = is_unique_counted
        else:
            is_counted = np.isin(
                self.observation.passages,
                self.observation.passages[version.rows[is_unique_counted]],
            )
        return Judgement(
            verdict=verdict,
            wrong_answer=wrong_answer,
            digest=memory.digest,
            kept=_hashes(kept),
            added=self.observation.passages[places] if places else _NO_HASHES,
            removed=_hashes(removed),
            added_places=np.array(places, dtype=np.int64),
            is_counted=is_counted,
            divergence=divergence,
            is_template_change=is_template_change,
            observation=self.observation,
            memory=memory,
            host_update=host_update,
        )

    def n_wrong_like_this(self) -> float:
        """Return how many wrong answers came just before, of which others count for less."""
        if self.page is None:
            return 0.0
        is_alike = self.page.wrong_text == self.version.shape_key()
        return self.page.n_wrong * (1.0 if is_alike else OTHER_WRONG_WEIGHT)

    def wrong(self, kind: WrongAnswer) -> Judgement:
        """Return the judgement of an answer that is not the page."""
        page, key = self.page, self.version.shape_key()
        if page is None:
            page = PageMemory(
                extractor=self.observation.extractor & 0xFF,
                settings_key=self.settings_key,
                text=TextChoice.ALL,
                level=0,
                passages=_NO_HASHES,
                words=np.empty(0, np.uint8),
                flags=np.empty(0, np.uint8),
                shapes=np.empty(0, np.uint16),
            )
        is_known = page.wrong_text == key
        memory = replace(page, n_wrong=min(page.n_wrong + 1, 255), wrong_text=key)
        return self.result(
            verdict=ContentVerdict.WRONG_ANSWER,
            wrong_answer=kind,
            counted=set(),
            memory=memory,
            host_update=b"" if is_known else pack_update(texts=[self.version.text_key()]),
        )


class _Comparison:
    """The passages of an answer beside those of the last version."""

    def __init__(self, answer: _Judge, page: PageMemory) -> None:
        self.answer = answer
        self.page = page
        self.host = answer.host
        self.settings = answer.settings
        self.version = answer.version
        self.text = _choose_text(answer.version, page.text)
        self.old = page.passages.tolist()
        self.old_flags: dict[int, int] = dict(zip(self.old, page.flags.tolist(), strict=True))
        self.old_words: dict[int, int] = dict(zip(self.old, page.words.tolist(), strict=True))
        now = set(self.version.passages)
        self.kept = {passage for passage in self.old if passage in now}
        self.added = [p for p in self.version.passages if p not in self.old_flags]
        self.removed = [p for p in self.old if p not in now]

    def judgement(self) -> Judgement:
        page, answer = self.page, self.answer
        if not self.added and not self.removed and not page.n_wrong and self._is_settled():
            told = [p for p, flag in self.old_flags.items() if flag & _TOLD]
            return answer.result(
                verdict=ContentVerdict.UNCHANGED,
                counted=set(told),
                kept=told,
                memory=page,
            )
        # What differs from the page only in its numbers is the page, whatever it reads like.
        is_alike = self.version.shapes == page.shapes.tolist()
        if self.settings.ignore_wrong_answers and (self.added or self.removed) and not is_alike:
            kind = find_wrong_answer(answer.observation.hints, self._facts())
            if kind:
                return answer.wrong(kind)
        return self._compare()

    def _is_settled(self) -> bool:
        return not (self.page.flags & (_YOUNG | _VOLATILE)).any() and self.text == self.page.text

    def _facts(self) -> AnswerFacts:
        words = self.old_words
        own = {
            p: words[p]
            for p, flag in self.old_flags.items()
            if not flag & _VOLATILE
            and self.answer.counts(p, bool(flag & _MAIN), words[p], self.page.text)
        }
        removed = set(self.removed)
        last = next((i for i, p in enumerate(self.old) if p in removed), len(self.old))
        is_cut = bool(removed) and len(self.added) <= 1 and set(self.old[last:]) == removed
        version = self.version
        word_of = dict(zip(version.passages, version.words, strict=True))
        words_now = [
            n
            for p, main, n in zip(version.passages, version.is_main, version.words, strict=True)
            if self.answer.counts(p, main, n, self.text)
        ]
        return AnswerFacts(
            n_words=sum(self.version.words),
            n_words_before=sum(words.values()),
            n_kept=sum(words[p] for p in self.kept),
            n_own_before=sum(own.values()),
            n_own_kept=sum(n for p, n in own.items() if p in self.kept),
            n_added=sum(word_of[p] for p in self.added if not self.answer.is_template(p)),
            n_own=sum(words_now),
            is_cut=is_cut,
            n_pages_same=self.host.texts.get(self.version.text_key(), 0),
            n_wrong=self.answer.n_wrong_like_this(),
        )

    # ------------------------------------------------------------------ the rules

    def _compare(self) -> Judgement:
        version, page = self.version, self.page
        rows = {p: i for i, p in enumerate(version.passages)}
        places = Places(page.slots, self.host)
        template: set[int] = set()
        volatile: set[int] = set()
        if self.added or self.removed or page.slots:
            self._find_gaps()
            self._learn_places(places)
            template = self._template_changes()
            volatile = self._volatile_passages(places, rows)
        flags = self._new_flags(volatile)
        settled = [
            p for p in self.kept if self.old_flags[p] & _VOLATILE and not flags[rows[p]] & _VOLATILE
        ]
        counted = [
            p
            for p, flag, main, words in zip(
                version.passages, flags, version.is_main, version.words, strict=True
            )
            if not flag & _VOLATILE
            and p not in template
            and self.answer.counts(p, main, words, self.text)
        ]
        now = set(counted)
        is_switch = self.text != page.text
        fresh = [p for p in (*self.added, *settled) if p in now]
        gone = [p for p in self.removed if p not in template and self._counted_before(p, places)]
        if self.text == TextChoice.MAIN and self.added and self.removed:
            facts = self._changed_facts(volatile | template)
            fresh.extend(p for p in facts if p not in now)
            now.update(facts)
            counted = [p for p in version.passages if p in now]
        if is_switch:
            fresh = [
                p
                for p in fresh
                if self.answer.counts(
                    p, version.is_main[rows[p]], version.words[rows[p]], page.text
                )
            ]
        digest = _digest(counted)
        verdict = self._verdict(fresh, gone, flags, rows, int.from_bytes(digest[:8], "little"))
        if is_switch and verdict != ContentVerdict.CHANGED:
            verdict = ContentVerdict.BASELINE
        return self._result(
            verdict, counted, fresh, gone, flags, digest, places, template, volatile
        )

    def _verdict(
        self,
        fresh: list[int],
        gone: list[int],
        flags: list[int],
        rows: dict[int, int],
        version: int,
    ) -> ContentVerdict:
        if not fresh and not gone:
            return ContentVerdict.UNCHANGED
        if not self.settings.ignore_returns:
            return ContentVerdict.CHANGED
        is_new = any(not flags[rows[p]] & _RETURNED for p in fresh)
        is_lost = any(
            not self.old_flags[p] & _RETURNED
            and (self.old_flags[p] & (_YOUNG | _ADDED)) != (_YOUNG | _ADDED)
            for p in gone
        )
        if version in self.page.versions or not (is_new or is_lost):
            return ContentVerdict.REVERTED
        return ContentVerdict.CHANGED

    def _counted_before(self, passage: int, places: Places) -> bool:
        flag = self.old_flags[passage]
        if flag & _VOLATILE:
            return False
        if self.settings.ignore_volatile and self._is_in_place(passage, places):
            return False
        return self.answer.counts(
            passage, bool(flag & _MAIN), self.old_words[passage], self.page.text
        )

    def _is_in_place(self, passage: int, places: Places) -> bool:
        """Return whether a passage that is gone stood in a volatile place."""
        n, gap, shape = self.old_words[passage], self.old_gap[passage], self.old_shape[passage]
        flag = self.old_flags[passage]
        is_number = bool(flag & _YOUNG) or shape in self.new_shapes.get(gap, ())
        if is_number and places.is_volatile(shape_key(shape), n):
            return True
        is_loose = flag & _YOUNG or not flag & _MAIN
        return bool(is_loose) and any(places.is_volatile(key, n) for key in gap)

    def _find_gaps(self) -> None:
        """Find out between which stable passages each passage stands, in both versions."""
        version = self.version
        anchors = {p for p in self.kept if not self.old_flags[p] & (_VOLATILE | _RETURNED)}
        self.old_gap: dict[int, Gap] = dict(
            zip(self.old, find_gaps(self.old, anchors), strict=True)
        )
        self.new_gap: dict[int, Gap] = dict(
            zip(version.passages, find_gaps(version.passages, anchors), strict=True)
        )
        self.old_shape: dict[int, int] = dict(zip(self.old, self.page.shapes.tolist(), strict=True))
        self.new_shape: dict[int, int] = dict(zip(version.passages, version.shapes, strict=True))
        self.new_shapes: dict[Gap, set[int]] = {}
        for p in self.added:
            self.new_shapes.setdefault(self.new_gap[p], set()).add(self.new_shape[p])

    def _learn_places(self, places: Places) -> None:
        n_words = sum(self.old_words.values())
        young = [p for p, flag in self.old_flags.items() if flag & _YOUNG]
        places.learn(
            died=[
                (self.old_shape[p], self.old_gap[p], self.old_words[p])
                for p in young
                if p not in self.kept and 4 * self.old_words[p] <= n_words
            ],
            survived=[(self.old_shape[p], self.old_gap[p]) for p in young if p in self.kept],
            shapes_by_gap=self.new_shapes,
        )

    def _volatile_passages(self, places: Places, rows: dict[int, int]) -> set[int]:
        """Return the new passages that do not count, because nothing lasts where they stand."""
        found: set[int] = set()
        if not self.settings.ignore_volatile:
            return found
        words = self.version.words
        numbers: dict[Gap, set[int]] = {}
        n_replaced: dict[Gap, int] = {}
        for p in self.removed:
            gap = self.old_gap[p]
            if self.old_shape[p] in self.new_shapes.get(gap, ()):
                numbers.setdefault(gap, set()).add(self.old_shape[p])
            elif self.old_flags[p] & (_YOUNG | _VOLATILE):
                n_replaced[gap] = n_replaced.get(gap, 0) + 1
        for p in self.added:
            gap, shape, n = self.new_gap[p], self.new_shape[p], words[rows[p]]
            if shape in numbers.get(gap, ()):
                # Only numbers differ.
                if places.is_volatile(shape_key(shape), n):
                    found.add(p)
                continue
            # In the main text only as many as were replaced: others may be new content.
            is_loose = n_replaced.get(gap, 0) > 0 or not self.version.is_main[rows[p]]
            if is_loose and any(places.is_volatile(key, n) for key in gap):
                n_replaced[gap] = n_replaced.get(gap, 0) - 1
                found.add(p)
        # A page that is volatile as a whole has nothing else to be compared by.
        if 2 * sum(words[rows[p]] for p in found) > sum(words):
            return set()
        return found

    def _changed_facts(self, left_out: set[int]) -> list[int]:
        """Return new passages outside the main text that replace a stable one of this page alone.

        Such are rows of a table of facts, prices and the like.
        """
        if self.host.n_pages < TEMPLATE_PAGES_MIN:
            return []
        stable: dict[Gap, list[int]] = {}
        for p in self.removed:
            if p not in left_out and not self.old_flags[p] & (_YOUNG | _VOLATILE | _RETURNED):
                stable.setdefault(self.old_gap[p], []).append(p)
        found = []
        for p, n in zip(self.version.passages, self.version.words, strict=True):
            gap = self.new_gap[p]
            if p in self.kept or p in left_out or gap not in stable:
                continue
            match = next((old for old in stable[gap] if self._replaces(old, p, n)), None)
            if match is not None:
                stable[gap].remove(match)
                found.append(p)
        return found

    def _replaces(self, old: int, new: int, n_words: int) -> bool:
        """Return whether a passage is another value of an old one that is the page's own."""
        host = self.host
        if self.old_shape[old] == self.new_shape[new]:
            # Only numbers differ; other pages may happen to have the same ones.
            return not (host.is_template(old) or host.is_template(new))
        return (
            self.old_words[old] == n_words
            and not host.n_others(old, is_counted=self.page.in_sample)
            and not host.n_others(new, is_counted=False)
        )

    def _template_changes(self) -> set[int]:
        """Return the passages, new or gone, that belong to the template of the host."""
        host = self.host
        found: set[int] = set()
        if self.settings.ignore_returns:
            found.update(
                p for p in (*self.added, *self.removed) if host.is_flapping(flapping_key(p))
            )
        if not self.settings.ignore_templates or not host.n_pages:
            return found
        found.update(p for p in (*self.added, *self.removed) if host.is_template(p))
        n_many = max(TEMPLATE_PAGES_MIN, FLAPPING_SHARE * host.n_pages)
        found.update(
            p
            for p, n in zip(self.version.passages, self.version.words, strict=True)
            if p not in self.kept
            and n > LABEL_WORDS_MAX
            and host.n_others(p, is_counted=False) >= n_many
        )
        if not found:
            return found
        # What replaces a part of the template is the new template, and the other way round.
        is_template: dict[Gap, list[bool]] = {}
        for passages, gaps in ((self.removed, self.old_gap), (self.added, self.new_gap)):
            sides: dict[Gap, bool] = {}
            for p in passages:
                sides[gaps[p]] = sides.get(gaps[p], True) and p in found
            for gap, is_all in sides.items():
                is_template.setdefault(gap, []).append(is_all)
        exchanged = {gap for gap, sides in is_template.items() if len(sides) == 2 and any(sides)}
        word_of = dict(zip(self.version.passages, self.version.words, strict=True))
        found.update(
            p for p in self.added if self.new_gap[p] in exchanged and word_of[p] > LABEL_WORDS_MAX
        )
        found.update(
            p
            for p in self.removed
            if self.old_gap[p] in exchanged and self.old_words[p] > LABEL_WORDS_MAX
        )
        return found

    # ------------------------------------------------------------------ what is remembered

    def _new_flags(self, volatile: set[int]) -> list[int]:
        gone = set(self.page.gone)
        flags = []
        for passage, main in zip(self.version.passages, self.version.is_main, strict=True):
            flag = self.old_flags.get(passage)
            if flag is None:
                flag = _YOUNG | _ADDED
                if passage in volatile:
                    flag |= _VOLATILE
                if passage & _MASK32 in gone:
                    flag |= _RETURNED
            else:
                flag = _one_poll_older(flag)
            flags.append(flag | _MAIN if main else flag & ~_MAIN)
        return flags

    def _result(
        self,
        verdict: ContentVerdict,
        counted: list[int],
        fresh: list[int],
        gone: list[int],
        flags: list[int],
        digest: bytes,
        places: Places,
        template: set[int],
        volatile: set[int],
    ) -> Judgement:
        page, version, answer = self.page, self.version, self.answer
        is_reported = verdict in _REPORTED
        now = set(counted)
        told = {p for p, flag in self.old_flags.items() if flag & _TOLD}
        lost = [*page.pending, *(p for p in self.removed if p in told)]
        word_of = dict(zip(version.passages, version.words, strict=True))
        added, removed, kept = [], [], [p for p in version.passages if p in told]
        divergence = 0.0
        if is_reported:
            added = [p for p in counted if p not in told]
            removed = lost
            flags = [
                flag | _TOLD if p in now or p in told else flag
                for p, flag in zip(version.passages, flags, strict=True)
            ]
            n_changed = sum(word_of[p] for p in fresh) + sum(self.old_words[p] for p in gone)
            n_kept = sum(word_of[p] for p in counted) - sum(word_of[p] for p in fresh if p in now)
            divergence = n_changed / max(n_changed + n_kept, 1)
        else:
            digest = page.digest
        memory = answer.memory(
            text=self.text,
            flags=flags,
            digest=digest,
            versions=self._versions(digest) if is_reported else page.versions,
            in_sample=page.in_sample,
        )
        removed_now = [p for p in self.removed if not self.old_flags[p] & _VOLATILE]
        on_page = {p & _MASK32 for p in version.passages}
        left = {p & _MASK32: None for p in self.removed}
        recent = [p for p in page.gone if p not in on_page and p not in left]
        memory = replace(
            memory,
            gone=tuple([*recent, *left][-GONE_MAX:]),
            slots=places.slots,
            pending=() if is_reported else tuple(lost[-PENDING_MAX:]),
        )
        update = pack_update(
            added=self._sample_of(p for p in self.added if p not in volatile),
            removed=self._sample_of(removed_now),
            places=dict.fromkeys(
                (*places.reports, *self._returned_now(flags), *map(flapping_key, template))
            ),
            doubts=places.doubts,
            texts=[version.text_key()] if verdict == ContentVerdict.CHANGED else (),
        )
        return answer.result(
            verdict=verdict,
            counted=now,
            kept=kept,
            added=added,
            removed=removed,
            divergence=divergence,
            is_template_change=bool(template),
            memory=memory,
            host_update=update,
        )

    def _versions(self, digest: bytes) -> tuple[int, ...]:
        version = int.from_bytes(digest[:8], "little")
        return (*(v for v in self.page.versions if v != version), version)[-VERSIONS_MAX:]

    def _returned_now(self, flags: list[int]) -> list[int]:
        """Return the keys of the passages that came back for the first time."""
        return [
            flapping_key(p)
            for p, flag in zip(self.version.passages, flags, strict=True)
            if flag & _RETURNED and p not in self.old_flags
        ]

    def _sample_of(self, passages: Iterable[int]) -> list[int]:
        return [p & _MASK32 for p in passages] if self.page.in_sample else []


def _choose_text(version: _Version, before: TextChoice | None) -> TextChoice:
    """Return whether the main text stands for the page; a page keeps its choice in between."""
    n_words = sum(version.words)
    n_main = sum(n for n, main in zip(version.words, version.is_main, strict=True) if main)
    share = MAIN_SHARE_KEPT if before == TextChoice.MAIN else MAIN_SHARE_MIN
    is_enough = n_main >= MAIN_WORDS_MIN and n_main >= share * n_words
    return TextChoice.MAIN if is_enough else TextChoice.ALL


def _one_poll_older(flag: int) -> int:
    """Return the flags of a passage that is still there; one that lasts is no longer volatile."""
    flag &= ~_YOUNG
    if flag & _VOLATILE:
        if flag & _TWICE:
            return flag & ~(_VOLATILE | _ONCE | _TWICE)
        return flag | (_TWICE if flag & _ONCE else _ONCE)
    return flag


def _digest(passages: list[int]) -> bytes:
    hashes = np.sort(np.array(passages, dtype="<u8"))
    return xxhash.xxh3_128_digest(hashes.tobytes())


def _hashes(passages: list[int] | None) -> NDArray[np.uint64]:
    return np.array(passages, dtype=np.uint64) if passages else _NO_HASHES
