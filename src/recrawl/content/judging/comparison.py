"""Compare the passages of an answer with those of the page's last version."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

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
from recrawl.content.judging.wrong_answers import (
    DOUBTFUL_HINTS,
    AnswerFacts,
    find_wrong_answer,
)
from recrawl.content.observation import ContentKind, ShapeFlag

__all__ = ["VersionComparison"]

LONG_WORDS: Final = 12
"""Words of a passage of the main text that counts even when the page has a new design."""
LONG_OTHER_WORDS: Final = 20
"""The same for other passages."""
SIGNS_PER_WORD: Final = 2
"""Signs of a word in scripts without spaces, where each sign is counted as a word."""
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
EDITED_WORDS_MIN: Final = 8
"""Words of a passage whose successor in the same elements is taken for an edit of it."""
EDITED_LENGTH_SHARE: Final = 0.3
"""Share of its words by which the lengths of the two differ, at most."""
BARE_TEMPLATE_MIN: Final = 5
"""Parts of the template that a page has whose first answer had none."""
ROTATED_WORDS_MIN: Final = 8
"""Words of a sentence that one of other pages may replace without a change of the page."""
LABEL_WORDS_MAX: Final = 2
"""Words of a label, which many pages have and which is content all the same: "sold out"."""

_MASK32 = 0xFFFFFFFF
# Plain integers: operations on members of an enumeration are slow.
_MAIN, _YOUNG, _VOLATILE = map(int, (PassageFlag.MAIN, PassageFlag.YOUNG, PassageFlag.VOLATILE))
_RETURNED, _TOLD, _ADDED = map(int, (PassageFlag.RETURNED, PassageFlag.TOLD, PassageFlag.ADDED))
_NEWCOMER = _YOUNG | _ADDED
_ONCE, _TWICE = map(int, (PassageFlag.LASTED_ONCE, PassageFlag.LASTED_TWICE))
_GONE_BITS = gone_key(-1)
_STATES = _VOLATILE | _RETURNED | _ONCE | _TWICE
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
        self.doubted: set[int] = set()
        """The same where it is not known yet whether the numbers count: they do if they last."""
        self.is_first = bool(((page.flags & _NEWCOMER) == _YOUNG).all())
        self.is_small_host = answer.host.n_pages < SMALL_HOST_PAGES
        # Nothing is known yet of clocks and teasers, of this page and of others.
        self.is_early = self.is_first and answer.host.n_compared < VOLATILE_PAGES_MIN

    def judgement(self) -> Judgement | None:
        """Return what the answer says about the content of its page.

        None if what was taken for the page before was not the page: there is nothing to compare.
        """
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
            if self._was_wrong(facts):
                return None
        return self._compare()

    def _was_wrong(self, facts: AnswerFacts) -> bool:
        """Return whether the first version was not the page, as can be seen only now."""
        page, observation = self.page, self.answer.observation
        if len(page.versions) > 1 or observation.kind != ContentKind.HTML:
            return False
        if self.is_first and observation.is_closed and not page.is_closed:
            return True  # its end was missing
        if not facts.is_mostly_gone:
            return False
        if page.is_doubtful:
            return not observation.hints & DOUBTFUL_HINTS
        return self.is_first and self._was_bare()

    def _was_bare(self) -> bool:
        """Return whether nothing is left of the last version, and it had no part of the template.

        Nor had it the menus of the other pages: the page of a site that was down, or a block page.
        """
        at, template = self.at, self.answer.template
        if at.kept or not self.answer.knows_host or not template.isdisjoint(at.old):
            return False
        return sum(map(template.__contains__, at.added)) >= BARE_TEMPLATE_MIN

    def _is_cut(self) -> bool:
        """Return whether the end of the page is missing."""
        at, observation = self.at, self.answer.observation
        if observation.kind == ContentKind.HTML:
            if not self.page.is_closed or observation.is_closed:
                return False
            lasting = [p for p in at.old if not at.old_flags[p] & (_YOUNG | _VOLATILE)]
            return not any(p in at.kept for p in lasting[-END_PASSAGES:])
        n_missing = sum(at.old_words[p] for p in at.removed)
        is_large = n_missing >= CUT_SHARE_MIN * sum(at.old_words.values())
        is_end = len(at.removed) > 1 and at.old[-len(at.removed) :] == at.removed
        # What is left of the passage in which it was cut has fewer words.
        n_left = sum(self.words_of[p] for p in at.added)
        return is_end and is_large and n_left < at.old_words[at.removed[0]]

    def _is_settled(self) -> bool:
        return not (self.page.flags & (_YOUNG | _VOLATILE)).any() and self.text == self.page.text

    def _facts(self) -> AnswerFacts:
        at, page, version = self.at, self.page, self.version
        is_own = self.answer.counted_before(self.page.text) & ((page.flags & _VOLATILE) == 0)
        still_there = at.kept | self._edited_passages()
        is_kept = is_own & np.fromiter(map(still_there.__contains__, at.old), bool, len(at.old))
        return AnswerFacts(
            n_words=sum(version.words),
            n_words_before=sum(at.old_words.values()),
            n_own_before=int(page.words[is_own].sum()),
            n_own_kept=int(page.words[is_kept].sum()),
            n_added=sum(self.words_of[p] for p in self.at.added if not self.answer.is_template(p)),
            n_own=int(version.n_words[self.answer.counted_rows(self.text)].sum()),
            is_cut=self._is_cut(),
            n_pages_same=max(
                (
                    max(self.host.texts.get(key, 0), self.host.n_others(key, is_counted=False))
                    for key in self.answer.text_keys(
                        p for p in self.at.added if gone_key(p) not in self.at.gone
                    )
                ),
                default=0,
            ),
            n_wrong=self.answer.n_wrong_like_this(),
        )

    def _edited_passages(self) -> set[int]:
        """Return passages that are gone and have a successor of like length in their elements."""
        at = self.at
        lengths: dict[int, list[int]] = {}
        for p in at.added:
            path, n = at.new_path[p], self.words_of[p]
            if path and n >= EDITED_WORDS_MIN:
                lengths.setdefault(path, []).append(n)
        found = set()
        for p in at.removed:
            n = at.old_words[p]
            others = lengths.get(at.old_path[p])
            if not others or n < EDITED_WORDS_MIN:
                continue
            difference, like = min((abs(other - n), other) for other in others)
            if difference <= EDITED_LENGTH_SHARE * n:
                others.remove(like)
                found.add(p)
        return found

    # ------------------------------------------------------------------ the rules

    def _compare(self) -> Judgement:
        version, page = self.version, self.page
        rows = {p: i for i, p in enumerate(version.passages)}
        places = Places(page.slots, self.host, is_first=self.is_first)
        self.at.find_places()
        if self.at.new_names:
            names = self.at.new_names
            places.rename(
                (path, names[path], shape)
                for path, shape in zip(page.paths.tolist(), page.shapes.tolist(), strict=True)
                if names.get(path, path) != path
            )
        at = self.at
        places.rename_numbers(
            (at.old_path[old], at.new_path[p], at.new_shape[p], self.words_of[p])
            for p, old in at.renumbered.items()
            if p in at.new_path and at.old_path[old] != at.new_path[p]
        )
        self.own_states = self._own_states()
        self.answer.template -= self.own_states
        self.is_new_design = self.settings.ignore_templates and self.at.is_new_design()
        self.restless_paths = self._restless_paths()
        self.lasting_paths = self._lasting_paths()
        self.rotated = self._rotated_passages()
        self._learn_places(places)
        template = self._template_changes(rows)
        volatile = self._volatile_passages(places, rows)
        flags = self._new_flags(volatile, rows)
        settled = []
        was_volatile = (p for p in self.at.kept if self.at.old_flags[p] & _VOLATILE)
        for p in was_volatile if (page.flags & _VOLATILE).any() else ():
            row = rows[p]
            if not flags[row] & _VOLATILE:
                if self._is_still_volatile(places, row):
                    flags[row] |= _VOLATILE
                    continue
                flags[row] &= ~_TOLD
                if self.at.is_shared(p):
                    template.add(p)
                elif not self.at.old_flags[p] & _TOLD:
                    settled.append(p)
        for p in self.at.kept if (page.flags & _STATES == _TWICE).any() else ():
            # Its number was in doubt at the last poll, and has lasted.
            if self.at.old_flags[p] & _STATES == _TWICE:
                flags[rows[p]] &= ~_TWICE
                is_reported = self.at.old_flags[p] & _TOLD
                if not is_reported and not self._is_still_volatile(places, rows[p]):
                    settled.append(p)
        is_text = self.answer.counted_rows(self.text).tolist()
        counted = [
            p
            for p, flag, is_own in zip(version.passages, flags, is_text, strict=True)
            if is_own and not flag & _VOLATILE and p not in template
        ]
        now = set(counted)
        is_switch = self.text != page.text and not self.answer.knows_host
        fresh = [p for p in (*self.at.added, *settled) if p in now and p not in self.same]
        gone = [p for p in self.at.removed if p not in template and self._counted_before(p, places)]
        if self.is_new_design:
            fresh = [p for p in fresh if self._is_own_in_new_design(p, rows)]
            gone = [p for p in gone if self._is_own_in_new_design(p, rows)]
        if is_switch:
            fresh = [p for p in fresh if self.answer.counts(p, version.is_main[rows[p]], page.text)]
        digest = version_digest(counted)
        verdict = self._verdict(fresh, gone, flags, rows, int.from_bytes(digest[:8], "little"))
        if is_switch and verdict != ContentVerdict.CHANGED:
            verdict = ContentVerdict.BASELINE
        return self._result(verdict, counted, fresh, gone, flags, digest, places, template, rows)

    def _is_own_in_new_design(self, passage: int, rows: dict[int, int]) -> bool:
        """Return whether a passage, new or gone, counts although much of the page is new."""
        at = self.at
        if passage in at.old_flags:
            is_main = bool(at.old_flags[passage] & _MAIN)
            path, shape, n = at.old_path[passage], at.old_shape[passage], at.old_words[passage]
        else:
            is_main = self.version.is_main[rows[passage]]
            path, shape, n = at.new_path[passage], at.new_shape[passage], self.words_of[passage]
        if path in self.lasting_paths and path in at.renamed_paths:
            return True
        is_price = shape & _MONEY and n < NUMBERED_WORDS_MIN
        n_long = LONG_WORDS if is_main else LONG_OTHER_WORDS
        if self.answer.is_without_spaces and not is_main:
            n_long *= SIGNS_PER_WORD
        return bool(is_price and is_main) or n >= n_long

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
        # Of several values one was there before: nothing else goes back with it.
        is_partial = not gone and any(self.at.gone.get(gone_key(p), 0) for p in fresh)
        is_new = bool(new) or is_partial
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
        if passage in self.rotated:
            return True
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
        # In doubt at the last poll, and other numbers again.
        is_unknown |= at.old_flags[passage] & (_STATES | _YOUNG) == _TWICE | _YOUNG
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
        flags = at.old_flags
        lasting = [p for p in at.kept if not flags[p] & (_YOUNG | _VOLATILE)]
        n_lasting = Counter(map(at.old_path.__getitem__, lasting))
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
        left &= {at.new_path[p] for p in at.added}
        if not left:
            return left
        lasting = {at.old_path[p] for p in at.kept if not at.old_flags[p] & _VOLATILE}
        returned = {at.new_path[p] for p in at.added if gone_key(p) in at.gone}
        return left - lasting - returned

    def _rotated_passages(self) -> set[int]:
        """Return sentences of other pages that replace others of them in the same elements.

        They are drawn from a few that the host shows on all its pages.  Later the place tells, but
        at the first comparison nothing is known of it.
        """
        if not self.is_first or self.is_new_design or not self.answer.knows_host:
            return set()
        at, host, is_counted = self.at, self.host, self.page.in_sample
        old = {
            p: at.old_path[p]
            for p in at.removed
            if at.old_words[p] >= ROTATED_WORDS_MIN
            and host.n_others(p, is_counted=is_counted) >= SHARED_PAGES_MIN
        }
        new = {
            p: at.new_path[p]
            for p in at.added
            if self.words_of[p] >= ROTATED_WORDS_MIN
            and host.n_others(p, is_counted=False) >= SHARED_PAGES_MIN
        }
        both = set(old.values()) & set(new.values()) - {0}
        return {p for p, path in (*old.items(), *new.items()) if path in both}

    def _learn_places(self, places: Places) -> None:
        at = self.at
        n_words = sum(at.old_words.values())
        arrivals = {at.new_path[p] or at.new_gap[p] for p in at.added if gone_key(p) not in at.gone}
        seen = []
        # Nothing is learned from others.
        is_watched = (self.page.flags & (_YOUNG | _VOLATILE)) | (self.page.shapes & _NUMBERS)
        for row in is_watched.nonzero()[0].tolist():
            p = at.old[row]
            flag, path, shape, n = at.old_flags[p], at.old_path[p], at.old_shape[p], at.old_words[p]
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
            # an older copy, or an entry that was taken back, unless nothing lasts there on other
            # pages either: an advertisement that is not replaced by another.
            is_taken_back = has_words_died and (path or at.old_gap[p]) not in arrivals
            is_taken_back &= not path or path_key(path) not in self.host.places
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
                elif any(self._is_counter(places, one, self.at.new_shape[p], n) for one in paths):
                    (self.same if n >= NUMBERED_WORDS_MIN else found).add(p)
                elif self._is_doubtful(old):
                    (self.same if n >= NUMBERED_WORDS_MIN else found).add(p)
                    self.doubted.add(p)
                continue
            if p in self.rotated or places.is_volatile(shape_key(path, self.at.new_shape[p]), n):
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
        if found:
            # The title says what the page is about, however often it is edited.
            found -= self.answer.titles - self.at.renumbered.keys()
        # A page that is volatile as a whole has nothing else to be compared by.
        if 2 * sum(words[rows[p]] for p in found) > sum(words):
            return set()
        return found

    def _template_changes(self, rows: dict[int, int]) -> set[int]:
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
        for p in self.at.added:
            n, path = self.words_of[p], self.at.new_path[p]
            if not self.version.is_main[rows[p]] and path in self.at.host_paths:
                found.add(p)
            is_long = n > LABEL_WORDS_MAX and (not path or path not in self.at.old_paths)
            if is_long and host.n_others(p, is_counted=False) >= n_many:
                found.add(p)
        found -= self.own_states
        # What replaces a part of the template is the new template.
        replaced = [p for p in self.at.removed if p in self.answer.template and p in found]
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

    def _own_states(self) -> set[int]:
        """Return values that many pages have, but each page at its own time.

        "state: paused" instead of "state: active" is a change of the page if other pages have the
        one and others the other; a change of the template replaces the same on all pages.
        """
        if self.answer.observation.kind != ContentKind.JSON:
            return set()
        at, host, is_counted = self.at, self.host, self.page.in_sample
        old = {at.old_path[p]: p for p in at.removed if host.n_others(p, is_counted=is_counted)}
        new = {at.new_path[p]: p for p in at.added if host.n_others(p, is_counted=False)}
        both = (old.keys() & new.keys()) - {0}
        return {old[path] for path in both} | {new[path] for path in both}

    # ------------------------------------------------------------------ what is remembered

    def _new_flags(self, volatile: set[int], rows: dict[int, int]) -> list[int]:
        at = self.at
        flags = [_OLDER[at.old_flags.get(passage, 0)] for passage in self.version.passages]
        for passage in at.added:
            if passage in self.same:
                # Its number is young, its words are not.
                flag = at.old_flags[at.renumbered[passage]] & ~(_TOLD | _ADDED) | _YOUNG
                if passage in self.doubted:
                    flag = flag & ~(_VOLATILE | _RETURNED | _ONCE) | _TWICE
            else:
                flag = _NEWCOMER
                if passage in volatile:
                    flag |= _VOLATILE
                if passage in self.doubted:
                    flag |= _TWICE  # one more poll decides
                if gone_key(passage) in at.gone:
                    flag |= _RETURNED
            flags[rows[passage]] = flag
        is_main = self.version.is_main
        return [
            flag | _MAIN if main else flag & ~_MAIN
            for flag, main in zip(flags, is_main, strict=True)
        ]

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
        rows: dict[int, int],
    ) -> Judgement:
        page, version, answer = self.page, self.version, self.answer
        is_reported = verdict != ContentVerdict.UNCHANGED
        now = set(counted)
        word_of = self.words_of
        # What is gone is announced with the next change; if it is back by then, nothing happened.
        told = set(page.passages[(page.flags & (_TOLD | _VOLATILE)) == _TOLD].tolist())
        told.update(page.pending)
        lasting = {
            p for p, flag in zip(version.passages, flags, strict=True) if not flag & _VOLATILE
        }
        lost = [*page.pending, *(p for p in self.at.removed if p in told)]
        lost = [p for p in dict.fromkeys(lost) if p not in lasting]
        flags = [
            flag | _TOLD if p in told and p in lasting else flag
            for p, flag in zip(version.passages, flags, strict=True)
        ]
        added, removed = [], []
        kept = [p for p in version.passages if p in told and p in lasting]
        divergence = 0.0
        if is_reported:
            added = [p for p in counted if p not in told and p not in version.copies]
            removed = lost
            # A volatile passage is in the reported version as well: if it lasts, this is no change.
            flags = [
                flag | _TOLD if flag & _VOLATILE or (p in now and p not in version.copies) else flag
                for p, flag in zip(version.passages, flags, strict=True)
            ]
            n_changed = sum(word_of[p] for p in fresh) + sum(self.at.old_words[p] for p in gone)
            n_kept = sum(word_of[p] for p in counted) - sum(word_of[p] for p in fresh if p in now)
            divergence = n_changed / max(n_changed + n_kept, 1)
        else:
            digest = page.digest
        recent = page.gone
        if verdict == ContentVerdict.CHANGED:
            recent = tuple(key + 1 for key in recent if key & AGES < RETURN_VERSIONS)
        if recent:
            again = set((version.hashes & np.uint64(_GONE_BITS)).tolist())
            again.update(map(gone_key, self.at.removed))
            recent = tuple(key for key in recent if key & ~AGES not in again)
        memory = answer.memory(
            text=self.text,
            flags=flags,
            digest=digest,
            versions=self._versions(digest) if is_reported else page.versions,
            in_sample=page.in_sample,
            gone=(*recent, *dict.fromkeys(map(gone_key, self.at.removed)))[-GONE_MAX:],
            slots=places.slots,
            pending=() if is_reported else tuple(lost[-PENDING_MAX:]),
            is_doubtful=page.is_doubtful and not is_reported,
        )
        update = pack_update(
            is_first_comparison=self.is_first,
            added=self._sample_of(self.at.added),
            removed=self._sample_of(self.at.removed),
            places=dict.fromkeys(
                (*places.reports, *self._returned_now(flags, rows), *map(flapping_key, template))
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

    def _returned_now(self, flags: list[int], rows: dict[int, int]) -> list[int]:
        """Return the keys of the passages that came back for the first time."""
        return [flapping_key(p) for p in self.at.added if flags[rows[p]] & _RETURNED]

    def _sample_of(self, passages: Iterable[int]) -> list[int]:
        return [p & _MASK32 for p in passages] if self.page.in_sample else []


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


_OLDER: Final = tuple(map(_one_poll_older, range(256)))
