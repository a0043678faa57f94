"""Compare the passages of an answer with those of the page's last version."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from recrawl.content.judging.answer import JudgedAnswer
from recrawl.content.judging.host_memory import (
    FLAPPING_SHARE,
    VOLATILE_PAGES_MIN,
    pack_update,
)
from recrawl.content.judging.layout import SHARED_PAGES_MIN, SMALL_HOST_PAGES, PassageLayout
from recrawl.content.judging.page_memory import (
    AGES,
    GONE_MAX,
    PENDING_MAX,
    RETURN_VERSIONS,
    VERSIONS_MAX,
    PageMemory,
    PassageFlag,
    gone_key,
)
from recrawl.content.judging.places import (
    Gap,
    Places,
    Seen,
    flapping_key,
    list_key,
    numbers_key,
    path_key,
    shape_key,
)
from recrawl.content.judging.verdicts import ContentVerdict, Judgement
from recrawl.content.judging.version import choose_text, version_digest
from recrawl.content.judging.wrong_answers import AnswerFacts, find_wrong_answer
from recrawl.content.observation import ContentKind, ShapeFlag

__all__ = ["VersionComparison"]

LONG_WORDS: Final = 12
"""Words of a passage of the main text that counts even when the page has a new design."""
LONG_OTHER_WORDS: Final = 20
"""The same for other passages."""
END_PASSAGES: Final = 3
"""Lasting passages at the end of a page that are all missing if it was cut."""
CUT_SHARE_MIN: Final = 0.2
"""Share of a text that is missing at its end when it was cut."""
CLOCK_WORDS_MAX: Final = 16
"""Words of a passage with a clock or a counter, before anything is known of its place."""
NUMBERED_WORDS_MIN: Final = 5
"""Words of a passage that counts although its numbers do not, such as a row with a counter."""
MONEY_DIED_MIN: Final = 4
"""Polls at which a price did not last before it is taken for noise: prices matter."""
LABEL_WORDS_MAX: Final = 2
"""Words of a label, which many pages have and which is content all the same: "sold out"."""

_MASK32 = 0xFFFFFFFF
# Plain integers: operations on members of an enumeration are slow.
_MAIN, _YOUNG, _VOLATILE = map(int, (PassageFlag.MAIN, PassageFlag.YOUNG, PassageFlag.VOLATILE))
_RETURNED, _TOLD, _ADDED = map(int, (PassageFlag.RETURNED, PassageFlag.TOLD, PassageFlag.ADDED))
_NEWCOMER = _YOUNG | _ADDED
_ONCE, _TWICE = map(int, (PassageFlag.LASTED_ONCE, PassageFlag.LASTED_TWICE))
_NUMBERS, _MONEY, _TIME = map(int, (ShapeFlag.NUMBERS, ShapeFlag.MONEY, ShapeFlag.TIME))


class VersionComparison:
    """The passages of an answer beside those of the last version.

    Parameters
    ----------
    answer
        Answer beside the memories.
    page
        Memory of the page.
    """

    def __init__(self, answer: JudgedAnswer, page: PageMemory) -> None:
        self.answer = answer
        self.page = page
        self.host = answer.host
        self.settings = answer.settings
        self.version = answer.version
        self.words_of = answer.words_of
        self.text = choose_text(answer.version, page.text)
        self.at = PassageLayout(answer, page)
        self.same: set[int] = set()
        """New passages that differ from old ones only in numbers that do not count."""
        self.is_first = bool(((page.flags & _NEWCOMER) == _YOUNG).all())
        self.is_small_host = answer.host.n_pages < SMALL_HOST_PAGES
        # Nothing is known yet of clocks and teasers, of this page and of others.
        self.is_early = self.is_first and answer.host.n_compared < VOLATILE_PAGES_MIN

    def judgement(self) -> Judgement:
        """Return what the answer says about the content of its page."""
        page, answer = self.page, self.answer
        if not self.at.added and not self.at.removed and not page.n_wrong and self._is_settled():
            told = [p for p, flag in self.at.old_flags.items() if flag & _TOLD]
            return answer.result(
                verdict=ContentVerdict.UNCHANGED,
                counted=set(told),
                kept=told,
                memory=page,
            )
        # What differs from the page only in its numbers is the page, whatever it reads like.
        is_alike = self.version.shapes == page.shapes.tolist()
        if (
            self.settings.ignore_wrong_answers
            and (self.at.added or self.at.removed)
            and not is_alike
        ):
            facts = self._facts()
            # Hints take long to find, and matter only where the content is gone.
            hints = answer.observation.hints if facts.is_mostly_gone else 0
            kind = find_wrong_answer(hints, facts)
            if kind:
                return answer.wrong(kind)
        return self._compare()

    def _is_cut(self) -> bool:
        """Return whether the end of the page is missing."""
        at, observation = self.at, self.answer.observation
        if observation.kind == ContentKind.HTML:
            lasting = [p for p in at.old if not at.old_flags[p] & (_YOUNG | _VOLATILE)]
            is_end_kept = any(p in at.kept for p in lasting[-END_PASSAGES:])
            return self.page.is_closed and not observation.is_closed and not is_end_kept
        n_missing = sum(at.old_words[p] for p in at.removed)
        is_large = n_missing >= CUT_SHARE_MIN * sum(at.old_words.values())
        is_end = len(at.removed) > 1 and at.old[-len(at.removed) :] == at.removed
        # What is left of the passage in which it was cut has fewer words.
        n_left = sum(self.words_of[p] for p in at.added)
        return is_end and is_large and n_left < at.old_words[at.removed[0]]

    def _is_settled(self) -> bool:
        return not (self.page.flags & (_YOUNG | _VOLATILE)).any() and self.text == self.page.text

    def _facts(self) -> AnswerFacts:
        words = self.at.old_words
        own = {
            p: words[p]
            for p, flag in self.at.old_flags.items()
            if not flag & _VOLATILE and self.answer.counts(p, bool(flag & _MAIN), self.page.text)
        }
        version = self.version
        words_now = [
            n
            for p, main, n in zip(version.passages, version.is_main, version.words, strict=True)
            if self.answer.counts(p, main, self.text)
        ]
        return AnswerFacts(
            n_words=sum(version.words),
            n_words_before=sum(words.values()),
            n_own_before=sum(own.values()),
            n_own_kept=sum(n for p, n in own.items() if p in self.at.kept),
            n_added=sum(self.words_of[p] for p in self.at.added if not self.answer.is_template(p)),
            n_own=sum(words_now),
            is_cut=self._is_cut(),
            n_pages_same=max(
                (
                    self.host.texts.get(key, 0)
                    for key in self.answer.text_keys(
                        p for p in self.at.added if gone_key(p) not in self.at.gone
                    )
                ),
                default=0,
            ),
            n_wrong=self.answer.n_wrong_like_this(),
        )

    # ------------------------------------------------------------------ the rules

    def _compare(self) -> Judgement:
        version, page = self.version, self.page
        rows = {p: i for i, p in enumerate(version.passages)}
        places = Places(page.slots, self.host, is_first=self.is_first)
        self.at.find_places()
        self.is_new_design = self.settings.ignore_templates and self.at.is_new_design()
        self.restless_paths = self._restless_paths()
        self.lasting_paths = self._lasting_paths()
        self._learn_places(places)
        template = self._template_changes()
        volatile = self._volatile_passages(places, rows)
        flags = self._new_flags(volatile)
        settled = []
        for p in self.at.kept:
            row = rows[p]
            if self.at.old_flags[p] & _VOLATILE and not flags[row] & _VOLATILE:
                if self._is_still_volatile(places, row):
                    flags[row] |= _VOLATILE
                elif self.at.is_shared(p):
                    template.add(p)
                else:
                    settled.append(p)
        counted = [
            p
            for p, flag, main in zip(version.passages, flags, version.is_main, strict=True)
            if not flag & _VOLATILE and p not in template and self.answer.counts(p, main, self.text)
        ]
        now = set(counted)
        is_switch = self.text != page.text and not self.answer.knows_host
        fresh = [p for p in (*self.at.added, *settled) if p in now and p not in self.same]
        gone = [p for p in self.at.removed if p not in template and self._counted_before(p, places)]
        if self.is_new_design:
            fresh = [p for p in fresh if _is_long(version.words[rows[p]], version.is_main[rows[p]])]
            gone = [
                p
                for p in gone
                if _is_long(self.at.old_words[p], bool(self.at.old_flags[p] & _MAIN))
            ]
        if is_switch:
            fresh = [p for p in fresh if self.answer.counts(p, version.is_main[rows[p]], page.text)]
        digest = version_digest(counted)
        verdict = self._verdict(fresh, gone, flags, rows, int.from_bytes(digest[:8], "little"))
        if is_switch and verdict != ContentVerdict.CHANGED:
            verdict = ContentVerdict.BASELINE
        return self._result(verdict, counted, fresh, gone, flags, digest, places, template)

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
        new = [p for p in fresh if not flags[rows[p]] & _RETURNED]
        if len(new) < len(fresh):
            # A counter beside what came back has other numbers than before.
            new = [p for p in new if not self._is_short_number(p)]
        is_new = bool(new)
        is_lost = any(
            not self.at.old_flags[p] & _RETURNED and self.at.old_flags[p] & _NEWCOMER != _NEWCOMER
            for p in gone
        )
        if version in self.page.versions or not (is_new or is_lost):
            return ContentVerdict.REVERTED
        return ContentVerdict.CHANGED

    def _is_short_number(self, passage: int) -> bool:
        shape = self.at.new_shape[passage]
        is_number = shape & _NUMBERS and not shape & _MONEY
        return bool(is_number) and self.words_of[passage] < NUMBERED_WORDS_MIN

    def _counted_before(self, passage: int, places: Places) -> bool:
        flag = self.at.old_flags[passage]
        if flag & _VOLATILE:
            return False
        if self.settings.ignore_volatile and self._is_in_place(passage, places):
            return False
        if not self.answer.counts(passage, bool(flag & _MAIN), self.page.text):
            return False
        return bool(flag & _MAIN) or self.at.old_path[passage] not in self.at.host_paths

    def _is_in_place(self, passage: int, places: Places) -> bool:
        """Return whether a passage that is gone stood in a volatile place."""
        at = self.at
        flag, n = at.old_flags[passage], at.old_words[passage]
        path, shape = at.old_path[passage], at.old_shape[passage]
        if passage in at.renumbered:
            is_uncertain = bool(shape & _TIME) or self._is_doubtful(passage)
            return is_uncertain or self._is_counter(places, path, shape, n)
        if n <= CLOCK_WORDS_MAX // 2 and places.is_volatile(shape_key(path, shape), n):
            return True
        is_newcomer = flag & _NEWCOMER == _NEWCOMER and path in self.restless_paths
        if not flag & _MAIN and (self.is_early or is_newcomer):
            return True
        is_loose = flag & _YOUNG or not flag & _MAIN
        return bool(is_loose) and self._is_loose_place(places, path, at.old_gap[passage], n)

    def _is_still_volatile(self, places: Places, row: int) -> bool:
        """Return whether nothing else lasts where a passage stands that has lasted."""
        version = self.version
        path, shape, n = version.paths[row], version.shapes[row], version.words[row]
        if shape & _NUMBERS and self._is_counter(places, path, shape, n):
            return True
        return self._is_loose_place(places, path, self.at.new_gap[version.passages[row]], n)

    def _is_doubtful(self, passage: int) -> bool:
        """Return whether other numbers may be those of a clock of which nothing is known yet.

        Parameters
        ----------
        passage
            Passage that is gone.
        """
        at = self.at
        is_newcomer = at.old_flags[passage] & _NEWCOMER == _NEWCOMER
        is_unknown = is_newcomer and at.old_path[passage] not in self.lasting_paths
        is_short = at.old_words[passage] <= CLOCK_WORDS_MAX
        return (self.is_early or is_unknown) and is_short and not at.old_shape[passage] & _MONEY

    def _is_counter(self, places: Places, path: int, shape: int, n_words: int) -> bool:
        keys = [shape_key(path, shape)]
        if shape & _MONEY:
            return places.is_volatile(keys[0], n_words, n_died_min=MONEY_DIED_MIN)
        if path:
            keys.append(list_key(path))
        if path and path not in self.lasting_paths:
            keys.append(numbers_key(path))
        return any(places.is_volatile(key, n_words) for key in keys)

    def _is_loose_place(self, places: Places, path: int, gap: Gap, n_words: int) -> bool:
        if not path:
            return any(places.is_volatile(key, n_words) for key in gap)
        # An edit of a passage among many that last is an edit, however often it happens.
        return path not in self.lasting_paths and places.is_volatile(path_key(path), n_words)

    def _lasting_paths(self) -> set[int]:
        """Return elements of which most passages are still there, and are not volatile."""
        at = self.at
        n_old = Counter(at.old_path.values())
        n_lasting = Counter(
            at.old_path[p] for p in at.kept if not at.old_flags[p] & (_YOUNG | _VOLATILE)
        )
        return {path for path, n in n_lasting.items() if 2 * n > n_old[path]}

    def _restless_paths(self) -> set[int]:
        """Return elements outside the main text in which nothing has lasted yet.

        They may be teasers of which little is known yet.
        """
        at = self.at
        left = {
            at.old_path[p]
            for p in at.removed
            if at.old_flags[p] & (_NEWCOMER | _MAIN) == _NEWCOMER and p not in at.renumbered
        }
        lasting = {at.old_path[p] for p in at.kept if not at.old_flags[p] & _VOLATILE}
        returned = {at.new_path[p] for p in at.added if gone_key(p) in at.gone}
        return (left & {at.new_path[p] for p in at.added}) - lasting - returned

    def _learn_places(self, places: Places) -> None:
        at = self.at
        n_words = sum(at.old_words.values())
        arrivals = {at.new_path[p] or at.new_gap[p] for p in at.added if gone_key(p) not in at.gone}
        seen = []
        for p, flag in at.old_flags.items():
            path, shape, n = at.old_path[p], at.old_shape[p], at.old_words[p]
            has_died = p not in at.kept
            if has_died and 4 * n > n_words:
                continue
            if path and shape & _NUMBERS and (not has_died or p in at.renumbered):
                seen.append(Seen((list_key(path),), has_died, n))
            is_back = has_died and gone_key(at.renumbered.get(p, 0)) in at.gone
            has_words_died = has_died and p not in at.renumbered
            if not flag & (_YOUNG | _VOLATILE):
                continue
            if shape & _NUMBERS and not has_words_died and not is_back:
                keys = (numbers_key(path),) if path else ()
                if not places.is_volatile(list_key(path), n):
                    keys = (*keys, shape_key(path, shape))
                seen.append(Seen(keys, has_died, n))
            # Back to the number before: two servers may differ.  Nothing new where words are gone:
            # an older copy, or an entry that was taken back.
            is_taken_back = has_words_died and (path or at.old_gap[p]) not in arrivals
            if not is_back and not is_taken_back:
                seen.append(Seen((path_key(path),) if path else at.old_gap[p], has_words_died, n))
        places.learn(seen)

    def _volatile_passages(self, places: Places, rows: dict[int, int]) -> set[int]:
        """Return the new passages that do not count, because nothing lasts where they stand."""
        found: set[int] = set()
        if not self.settings.ignore_volatile:
            return found
        words = self.version.words
        n_replaced: dict[int | Gap, int] = {}
        for p in self.at.removed:
            if p not in self.at.renumbered and self.at.old_flags[p] & (_YOUNG | _VOLATILE):
                place = self.at.old_path[p] or self.at.old_gap[p]
                n_replaced[place] = n_replaced.get(place, 0) + 1
        for p in self.at.added:
            path, gap, n = self.at.new_path[p], self.at.new_gap[p], words[rows[p]]
            if p in self.at.renumbered:
                old = self.at.renumbered[p]
                paths = {path, self.at.old_path[old]}
                if self.at.old_shape[old] & _TIME:
                    self.same.add(p)  # "3 days ago" became a date
                elif self._is_doubtful(old) or any(
                    self._is_counter(places, one, self.at.new_shape[p], n) for one in paths
                ):
                    (self.same if n >= NUMBERED_WORDS_MIN else found).add(p)
                continue
            if places.is_volatile(shape_key(path, self.at.new_shape[p]), n):
                found.add(p)
                continue
            is_main = self.version.is_main[rows[p]]
            is_unknown = self.is_early or path in self.restless_paths
            is_unknown |= self.is_small_host and path not in self.at.old_paths
            is_doubtful = (is_unknown and not is_main) or self.at.is_announcement(p)
            if is_doubtful and not self.is_new_design:
                found.add(p)
                continue
            # In the main text only as many as were replaced: others may be new content.
            place = path or gap
            is_loose = n_replaced.get(place, 0) > 0 or not is_main
            if is_loose and self._is_loose_place(places, path, gap, n):
                n_replaced[place] = n_replaced.get(place, 0) - 1
                found.add(p)
        # A page that is volatile as a whole has nothing else to be compared by.
        if 2 * sum(words[rows[p]] for p in found) > sum(words):
            return set()
        return found

    def _template_changes(self) -> set[int]:
        """Return the passages, new or gone, that belong to the template of the host."""
        host = self.host
        found: set[int] = set()
        if self.settings.ignore_returns:
            found.update(
                p for p in (*self.at.added, *self.at.removed) if host.is_flapping(flapping_key(p))
            )
        if not self.answer.knows_host:
            return found
        found.update(p for p in (*self.at.added, *self.at.removed) if p in self.answer.template)
        n_many = max(SHARED_PAGES_MIN, FLAPPING_SHARE * host.n_pages)
        for p, n, main in zip(
            self.version.passages, self.version.words, self.version.is_main, strict=True
        ):
            if p in self.at.kept:
                continue
            if not main and self.at.new_path[p] in self.at.host_paths:
                found.add(p)
            path = self.at.new_path[p]
            is_long = n > LABEL_WORDS_MAX and (not path or path not in self.at.old_paths)
            if is_long and host.n_others(p, is_counted=False) >= n_many:
                found.add(p)
        # What replaces a part of the template is the new template.
        replaced = [p for p in self.at.removed if p in self.answer.template]
        template_gaps = {self.at.old_gap[p] for p in replaced} - {
            self.at.old_gap[p] for p in self.at.removed if p not in found
        }
        template_paths = self.at.host_paths & {self.at.old_path[p] for p in replaced}
        found.update(
            p
            for p in self.at.added
            if self.at.new_gap[p] in template_gaps
            and self.words_of[p] > LABEL_WORDS_MAX
            and (not self.at.new_path[p] or self.at.new_path[p] in template_paths)
        )
        if self.is_first:
            # Two variants of the same: one is known from other pages.
            known = [p for p in self.at.added if p in found]
            where: set[int | Gap] = {self.at.new_path[p] for p in known} | {
                self.at.new_gap[p] for p in known
            }
            found.update(
                p
                for p in self.at.removed
                if self.at.old_path[p] in where or self.at.old_gap[p] in where
            )
        return found

    # ------------------------------------------------------------------ what is remembered

    def _new_flags(self, volatile: set[int]) -> list[int]:
        flags = []
        for passage, main in zip(self.version.passages, self.version.is_main, strict=True):
            flag = self.at.old_flags.get(passage)
            if passage in self.same:
                # Its number is young, its words are not.
                flag = self.at.old_flags[self.at.renumbered[passage]] & ~(_TOLD | _ADDED) | _YOUNG
            elif flag is None:
                flag = _NEWCOMER
                if passage in volatile:
                    flag |= _VOLATILE
                if gone_key(passage) in self.at.gone:
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
    ) -> Judgement:
        page, version, answer = self.page, self.version, self.answer
        is_reported = verdict != ContentVerdict.UNCHANGED
        now = set(counted)
        # What is gone is announced with the next change; if it is back by then, nothing happened.
        told = {p for p, flag in self.at.old_flags.items() if flag & _TOLD}
        told.update(page.pending)
        on_page = set(version.passages)
        lost = [*page.pending, *(p for p in self.at.removed if p in told)]
        lost = [p for p in dict.fromkeys(lost) if p not in on_page]
        flags = [
            flag | _TOLD if p in told else flag
            for p, flag in zip(version.passages, flags, strict=True)
        ]
        word_of = self.words_of
        added, removed, kept = [], [], [p for p in version.passages if p in told]
        divergence = 0.0
        if is_reported:
            added = [p for p in counted if p not in told and p not in version.copies]
            removed = lost
            flags = [
                flag | _TOLD if p in now and p not in version.copies else flag
                for p, flag in zip(version.passages, flags, strict=True)
            ]
            n_changed = sum(word_of[p] for p in fresh) + sum(self.at.old_words[p] for p in gone)
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
        recent = page.gone
        if verdict == ContentVerdict.CHANGED:
            recent = tuple(key + 1 for key in recent if key & AGES < RETURN_VERSIONS)
        again = {gone_key(p) for p in (*version.passages, *self.at.removed)}
        recent = tuple(key for key in recent if key & ~AGES not in again)
        memory = replace(
            memory,
            gone=(*recent, *dict.fromkeys(map(gone_key, self.at.removed)))[-GONE_MAX:],
            slots=places.slots,
            pending=() if is_reported else tuple(lost[-PENDING_MAX:]),
        )
        update = pack_update(
            is_first_comparison=self.is_first,
            added=self._sample_of(self.at.added),
            removed=self._sample_of(self.at.removed),
            places=dict.fromkeys(
                (*places.reports, *self._returned_now(flags), *map(flapping_key, template))
            ),
            doubts=places.doubts,
            texts=answer.text_keys(self.at.added) if verdict == ContentVerdict.CHANGED else (),
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
            if flag & _RETURNED and p not in self.at.old_flags
        ]

    def _sample_of(self, passages: Iterable[int]) -> list[int]:
        return [p & _MASK32 for p in passages] if self.page.in_sample else []


def _is_long(n_words: int, is_main: bool) -> bool:
    return n_words >= (LONG_WORDS if is_main else LONG_OTHER_WORDS)


def _one_poll_older(flag: int) -> int:
    """Return the flags of a passage that is still there; one that lasts is no longer volatile."""
    flag &= ~_YOUNG
    if flag & _VOLATILE:
        if flag & _TWICE:
            return flag & ~(_VOLATILE | _ONCE | _TWICE)
        return flag | (_TWICE if flag & _ONCE else _ONCE)
    if flag & _RETURNED:
        n_polls = (flag & (_ONCE | _TWICE)) + _ONCE
        if n_polls > (_ONCE | _TWICE):
            return flag & ~(_RETURNED | _ONCE | _TWICE)
        return flag & ~(_ONCE | _TWICE) | n_polls
    return flag
