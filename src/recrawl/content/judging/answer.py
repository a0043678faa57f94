"""One answer beside the memories of its page and its host."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from recrawl.content.judging.host_memory import TEMPLATE_PAGES_MIN, HostMemory, pack_update
from recrawl.content.judging.page_memory import PageMemory, PassageFlag, TextChoice
from recrawl.content.judging.verdicts import ContentVerdict, Judgement, WrongAnswer
from recrawl.content.judging.version import MAIN_WORDS_MIN, Version
from recrawl.content.judging.wrong_answers import OTHER_WRONG_WEIGHT
from recrawl.content.observation import Observation
from recrawl.content.settings import ContentSettings

__all__ = ["JudgedAnswer"]

COPIED_SHARE_MIN: Final = 0.9
"""Share of a page's main text in the template of its host from which the page is a copy of others:
then this text counts all the same."""
KEY_WORDS_MIN: Final = 6
"""Words of a passage by which a text is recognised on other pages."""
KEYS_MAX: Final = 2
"""Passages by which a text is recognised."""

_MASK32 = 0xFFFFFFFF
_NO_HASHES: Final = np.empty(0, dtype=np.uint64)
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
        self.words_of = dict(zip(self.version.passages, self.version.words, strict=True))
        self.settings_key = _settings_key(settings)
        old = [] if page is None else page.passages.tolist()
        self.template = host.template_of({*self.version.passages, *old})
        """Passages, of this answer and of the last version, that most pages of the host have."""
        if settings.ignore_templates and self._is_copy():
            settings = replace(settings, ignore_templates=False)
        self.settings = settings
        self.in_sample = page is not None and page.in_sample
        self.knows_host = settings.ignore_templates and host.n_pages >= TEMPLATE_PAGES_MIN

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
            if passage not in self.template:
                n_shared -= words
                if n_shared < COPIED_SHARE_MIN * n_main:
                    return False
        return True

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
            paths=np.array(version.paths, dtype=np.uint16),
            kind=self.observation.kind,
            is_parsed="not_parsed" not in self.observation.problems,
            is_closed=self.observation.is_closed,
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


def _hashes(passages: list[int] | None) -> NDArray[np.uint64]:
    return np.array(passages, dtype=np.uint64) if passages else _NO_HASHES
