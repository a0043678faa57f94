"""One answer beside the memories of its page and its host."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from recrawl.content.extract.words import is_word_sign, passage_hash
from recrawl.content.judging.host_memory import TEMPLATE_PAGES_MIN, HostMemory, pack_update
from recrawl.content.judging.page_memory import PageMemory, PassageFlag, Slot, TextChoice
from recrawl.content.judging.verdicts import ContentVerdict, Judgement, WrongAnswer
from recrawl.content.judging.version import MAIN_WORDS_MIN, Version
from recrawl.content.judging.wrong_answers import OTHER_WRONG_WEIGHT
from recrawl.content.observation import ContentKind, Observation
from recrawl.content.settings import ContentSettings

__all__ = ["JudgedAnswer"]

COPIED_SHARE_MIN: Final = 0.9
"""Share of a page's main text in the template of its host from which the page is a copy of others:
then this text counts all the same."""
KEY_WORDS_MIN: Final = 6
"""Words of a passage by which a text is recognised on other pages."""
KEYS_MAX: Final = 2
"""Passages by which a text is recognised."""

SIGNS_SHARE_MIN: Final = 0.3
"""Share of the letters of a title in a script without spaces: the name of the site may be in
another."""
TITLE_PARTS_MAX: Final = 4
"""Parts of a title, such as those of "Tea | Drinks | Shop", that may stand on the page."""

_TITLE_SEPARATOR = re.compile(r"\s[-|–—·•»:]\s")
_MASK32 = 0xFFFFFFFF
_NO_HASHES: Final = np.empty(0, dtype=np.uint64)
_NO_ROWS: Final = np.empty(0, dtype=np.int64)
_MAIN = int(PassageFlag.MAIN)


@lru_cache(maxsize=64)
def _settings_key(settings: ContentSettings) -> int:
    """Return a number that differs when settings that affect passages differ."""
    return crc32(repr((settings.select, settings.ignore, settings.ignore_patterns)).encode())


class JudgedAnswer:
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
        self.version = Version.of(observation)
        self.settings_key = _settings_key(settings)
        self.in_sample = page is not None and page.in_sample
        self._settings = settings

    @cached_property
    def template(self) -> set[int]:
        """Passages, of this answer and of the last version, that most pages of the host have."""
        passages = self.version.passages
        if self.page is not None and self.page.passages.size:
            passages = [*passages, *self.page.passages.tolist()]
        return self.host.template_of(passages)

    @cached_property
    def settings(self) -> ContentSettings:
        """Settings of the content; a page that is a copy of others has no template."""
        if self._settings.ignore_templates and self._is_copy():
            return replace(self._settings, ignore_templates=False)
        return self._settings

    @cached_property
    def knows_host(self) -> bool:
        """Whether enough pages of the host are known to tell its template from its pages."""
        return self.settings.ignore_templates and self.host.n_pages >= TEMPLATE_PAGES_MIN

    @cached_property
    def words_of(self) -> dict[int, int]:
        """Number of words of each passage, at most 255."""
        return dict(zip(self.version.passages, self.version.words, strict=True))

    @cached_property
    def titles(self) -> set[int]:
        """Hashes of the title of the answer, and of its parts: many begin or end with the site."""
        title = self.observation.title
        parts = {title, *_TITLE_SEPARATOR.split(title, maxsplit=TITLE_PARTS_MAX - 1)}
        return {found for part in parts if (found := passage_hash(part)) is not None}

    @cached_property
    def is_without_spaces(self) -> bool:
        """Whether the title is in a script without spaces, in which each sign counts as a word."""
        letters = [sign for sign in self.observation.title if sign.isalpha()]
        n_signs = sum(map(is_word_sign, letters))
        return n_signs > SIGNS_SHARE_MIN * len(letters)

    def _is_copy(self) -> bool:
        """Return whether the main text of the page is the text of other pages of the host."""
        if self.host.n_pages < TEMPLATE_PAGES_MIN:
            return False
        page, version = self.page, self.version
        if page is not None and page.versions:
            words, is_main = page.words, (page.flags & _MAIN) != 0
            passages = page.passages.tolist()
        else:
            words, is_main, passages = version.n_words, version.is_in_main, version.passages
        if not self.template:
            return False
        n_main = int(words[is_main].sum())
        if n_main < MAIN_WORDS_MIN:
            return False
        is_shared = is_main & self._is_in_template(passages)
        return bool(words[is_shared].sum() >= COPIED_SHARE_MIN * n_main)

    def _is_in_template(self, passages: list[int]) -> NDArray[np.bool_]:
        """Return whether most pages of the host have each passage."""
        return np.fromiter(map(self.template.__contains__, passages), bool, len(passages))

    def counted_rows(self, text: TextChoice) -> NDArray[np.bool_]:
        """Return whether each passage of the answer belongs to the text of the page."""
        return self._counts(self.version.passages, self.version.is_in_main, text)

    def counted_before(self, text: TextChoice) -> NDArray[np.bool_]:
        """Return whether each passage of the last version belongs to the text of the page."""
        if self.page is None:
            return np.zeros(0, bool)
        return self._counts(self.page.passages.tolist(), (self.page.flags & _MAIN) != 0, text)

    def _counts(
        self, passages: list[int], is_main: NDArray[np.bool_], text: TextChoice
    ) -> NDArray[np.bool_]:
        is_main_alone = not self.knows_host and text == TextChoice.MAIN
        is_counted = is_main if is_main_alone else np.ones(len(passages), bool)
        if self.settings.ignore_templates and self.template:
            is_counted = is_counted & ~self._is_in_template(passages)
        return is_counted

    def counts(self, passage: int, is_main: bool, text: TextChoice) -> bool:
        """Return whether a passage belongs to the text of the page."""
        if not is_main and not self.knows_host and text == TextChoice.MAIN:
            return False
        return not self.is_template(passage)

    def is_template(self, passage: int) -> bool:
        """Return whether a passage belongs to the host rather than to the page."""
        return self.settings.ignore_templates and passage in self.template

    def memory(
        self,
        *,
        text: TextChoice,
        flags: list[int] | NDArray[np.uint8],
        digest: bytes,
        versions: tuple[int, ...],
        in_sample: bool,
        gone: tuple[int, ...] = (),
        slots: dict[int, Slot] | None = None,
        pending: tuple[int, ...] = (),
        is_doubtful: bool = False,
    ) -> PageMemory:
        """Return a new memory with the passages of this answer."""
        version = self.version
        return PageMemory(
            extractor=self.observation.extractor & 0xFF,
            settings_key=self.settings_key,
            text=text,
            level=self.observation.level,
            passages=version.hashes,
            words=version.n_words,
            flags=np.asarray(flags, dtype=np.uint8),
            shapes=version.shape_column,
            paths=version.path_column,
            kind=self.observation.kind,
            is_parsed="not_parsed" not in self.observation.problems,
            is_closed=self.observation.is_closed,
            is_doubtful=is_doubtful,
            digest=digest,
            versions=versions,
            in_sample=in_sample,
            gone=gone,
            slots={} if slots is None else slots,
            pending=pending,
        )

    def result(
        self,
        *,
        verdict: ContentVerdict,
        counted: set[int] | NDArray[np.bool_],
        memory: PageMemory,
        kept: list[int] | NDArray[np.uint64] | None = None,
        added: list[int] | NDArray[np.bool_] | None = None,
        removed: list[int] | None = None,
        divergence: float = 0.0,
        is_template_change: bool = False,
        host_update: bytes = b"",
        wrong_answer: WrongAnswer = WrongAnswer.NONE,
    ) -> Judgement:
        """Return a judgement with the columns that follow from these passages.

        Parameters
        ----------
        verdict
            Whether the content changed.
        counted, added
            Passages, or whether each row of the version is one of them.
        memory
            New memory of the page.
        kept, removed
            Passages.
        divergence, is_template_change, host_update, wrong_answer
            Fields of `Judgement`.
        """
        version = self.version
        if isinstance(counted, set):
            counted = np.fromiter((p in counted for p in version.passages), bool, version.rows.size)
        if isinstance(added, np.ndarray):
            places = version.rows[added]
        elif added:
            new = set(added)
            places = version.rows[[p in new for p in version.passages]]
        else:
            places = _NO_ROWS
        if version.rows.size == self.observation.passages.size:
            is_counted = counted
        else:
            # All copies of a passage count if one does.
            hashes = self.observation.passages
            found = set(hashes[version.rows[counted]].tolist())
            is_counted = np.fromiter(map(found.__contains__, hashes.tolist()), bool, hashes.size)
        return Judgement(
            verdict=verdict,
            wrong_answer=wrong_answer,
            digest=memory.digest,
            kept=_hashes(kept),
            added=self.observation.passages[places],
            removed=_hashes(removed),
            added_places=places,
            is_counted=is_counted,
            divergence=divergence,
            is_template_change=is_template_change,
            observation=self.observation,
            memory=memory,
            host_update=host_update,
        )

    def n_wrong_like_this(self) -> float:
        """Return how many wrong answers came just before, of which others count for less."""
        if self.page is None or not self.page.n_wrong:
            return 0.0
        is_alike = self.page.wrong_text == self.version.shape_key()
        return self.page.n_wrong * (1.0 if is_alike else OTHER_WRONG_WEIGHT)

    def n_pages_same(self) -> int:
        """Return how many pages of the host have nearly all of the text, and its title.

        Nothing of such an answer is the page's own: it may be the page of a site that is down.
        """
        version, host = self.version, self.host
        if self.observation.kind != ContentKind.HTML or not host.n_pages or not version.passages:
            return 0
        keys = self.first_text_keys()
        n_latest = min(host.texts.get(key, 0) for key in keys) if keys else 0
        is_text = version.is_in_main
        if not is_text.any():
            is_text = np.ones_like(is_text)
        others = host.n_others_of(version.hashes, is_counted=False)
        n_others = np.array(others)
        # The number of pages that have most of the words.
        order = np.argsort(-n_others[is_text], kind="stable")
        n_words = np.cumsum(version.n_words[is_text][order], dtype=np.int64)
        place = int(np.searchsorted(n_words, COPIED_SHARE_MIN * n_words[-1]))
        of_text = int(n_others[is_text][order[place]])
        of_title = [n for n, p in zip(others, version.passages, strict=True) if p in self.titles]
        return max(n_latest, min([of_text, *of_title]))

    def first_text_keys(self) -> list[int]:
        """Return keys (32 bits) of a first text and its title; none before the template is known.

        They are those of `text_keys`, and the title and its parts if they stand on the page.
        """
        if not self.knows_host or self.observation.kind != ContentKind.HTML:
            return []
        passages = self.version.passages
        keys = self.text_keys(passages)
        titles = [p & _MASK32 for p in passages if p in self.titles and p not in self.template]
        return [*keys, *titles] if keys else []

    def text_keys(self, passages: Iterable[int]) -> list[int]:
        """Return keys (32 bits) of the text: its longest passages, whatever clocks are around.

        Parameters
        ----------
        passages
            Passages to choose from.
        """
        words = self.words_of
        long = [p for p in passages if words[p] >= KEY_WORDS_MIN and p not in self.template]
        return [p & _MASK32 for p in sorted(long, key=words.__getitem__)[-KEYS_MAX:]]

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
                paths=np.empty(0, np.uint16),
                kind=self.observation.kind,
            )
        is_known = page.wrong_text == key
        memory = replace(page, n_wrong=min(page.n_wrong + 1, 255), wrong_text=key)
        return self.result(
            verdict=ContentVerdict.WRONG_ANSWER,
            wrong_answer=kind,
            counted=set(),
            memory=memory,
            host_update=b""
            if is_known
            else pack_update(texts=self.text_keys(self.version.passages)),
        )


def _hashes(passages: list[int] | NDArray[np.uint64] | None) -> NDArray[np.uint64]:
    if isinstance(passages, np.ndarray):
        return passages
    return np.array(passages, dtype=np.uint64) if passages else _NO_HASHES
