"""What recrawl remembers of the content of a page, in about 14 bytes per passage."""

import struct
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.content.observation import PASSAGES_MAX, ContentKind

__all__ = [
    "AGES",
    "GONE_MAX",
    "PAGE_MEMORY_BYTES_MAX",
    "RETURN_VERSIONS",
    "SLOTS_MAX",
    "PageMemory",
    "PassageFlag",
    "Slot",
    "TextChoice",
    "gone_key",
]

GONE_MAX: Final = 160
"""Passages that a page had a short time ago: one that returns is not new."""
AGES: Final = 7
"""Bits of the key of a passage that is gone which count the changes since then."""
RETURN_VERSIONS: Final = 4
"""Changes after which a passage that comes back is new."""
SLOTS_MAX: Final = 128
"""Places of a page in which passages are found to be volatile."""
PENDING_MAX: Final = 64
"""Passages that are gone but whose removal is announced only with the next change."""
VERSIONS_MAX: Final = 8
"""Digests of recent versions: a page that returns to one of them has not changed."""

_HEAD = struct.Struct("<BBBBIHBBBBBI16s")
_FORMAT = 2
PAGE_MEMORY_BYTES_MAX: Final = (
    _HEAD.size + PASSAGES_MAX * 14 + GONE_MAX * 4 + SLOTS_MAX * 7 + (VERSIONS_MAX + PENDING_MAX) * 8
)
"""Bytes that the memory of a page takes at most."""


class TextChoice(IntEnum):
    """Which passages of a page are compared."""

    MAIN = 0
    """Those of the main text."""
    ALL = 1
    """All, because the main text is missing or too short."""


class PassageFlag(IntFlag):
    """What is known of a passage of the last version."""

    MAIN = 1
    """It belongs to the main text."""
    YOUNG = 2
    """It appeared at the last poll."""
    VOLATILE = 4
    """It does not count: it appeared in a place whose passages never last."""
    RETURNED = 8
    """It was gone and came back."""
    TOLD = 64
    """It is part of the version that was last reported; if it is volatile, it stood on the page
    when that version was reported, but was not reported itself."""
    ADDED = 128
    """It appeared after the baseline."""
    LASTED_ONCE = 16
    """It is volatile or came back, and was still there at the next poll."""
    LASTED_TWICE = 32
    """The same for two polls; with `LASTED_ONCE`, for three."""


class Slot(NamedTuple):
    """A place of a page in which passages did not last."""

    n_died: int
    """Polls at which a passage was gone that had appeared at the poll before; at most 15."""
    share: int
    """Share of the passages that appeared there and were gone at the next poll, in 255ths."""
    n_words: int
    """Words of the longest such passage; at most 255."""


def gone_key(passage: int) -> int:
    """Return the key of a passage that is gone, with room for the number of changes since then."""
    return passage & 0xFFFFFFFF & ~AGES


def _no_slots() -> dict[int, Slot]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageMemory:
    """What recrawl remembers of the content of a page.

    Parameters
    ----------
    extractor
        Version of the extractor that made the passages.
    settings_key
        Number that differs when settings that affect passages differ.
    text
        Whether the main text or all text is compared.
    level
        How coarse the passages are.
    passages, words, flags, shapes, paths
        Hash, number of words (at most 255), `PassageFlag`, shape and path (16 bits each) of each
        passage of the last version, in the order of the text, each passage once.
    gone
        Keys of passages that the page had a short time ago (`gone_key`), the latest last; added to
        each is the number of changes since then.
    slots
        Places in which passages do not last, by key.
    pending
        Reported passages that are gone, whose removal is announced with the next change.
    versions
        Digests (64 bits) of recent versions, the latest last.
    digest
        Digest of the current version.
    n_wrong
        Wrong answers in a row.
    wrong_text
        Digest (32 bits) of the text of the last wrong answer.
    in_sample
        Whether the host's memory counts the passages of this page.
    kind
        How the body of the last version was read.
    is_parsed
        Whether it could be parsed as what it claims to be.
    is_closed
        Whether its end tag was there.
    is_doubtful
        Whether the first answer read like one that is not the page, and was accepted.
    """

    extractor: int
    settings_key: int
    text: TextChoice
    level: int
    passages: NDArray[np.uint64]
    words: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    shapes: NDArray[np.uint16]
    paths: NDArray[np.uint16]
    gone: tuple[int, ...] = ()
    slots: dict[int, Slot] = field(default_factory=_no_slots)
    pending: tuple[int, ...] = ()
    versions: tuple[int, ...] = ()
    digest: bytes = bytes(16)
    n_wrong: int = 0
    wrong_text: int = 0
    in_sample: bool = False
    kind: ContentKind = ContentKind.HTML
    is_parsed: bool = True
    is_closed: bool = False
    is_doubtful: bool = False

    @property
    def is_in_doubt(self) -> bool:
        """Whether the page has a number of which the next answer decides whether it counts."""
        doubt = int(PassageFlag.YOUNG | PassageFlag.LASTED_TWICE)
        return bool(((self.flags & doubt) == doubt).any())

    def to_bytes(self) -> bytes:
        """Return the memory as bytes, at most `PAGE_MEMORY_BYTES_MAX`."""
        facts = int(self.text) | self.in_sample << 1 | int(self.kind) << 2
        facts |= (not self.is_parsed) << 5 | self.is_closed << 6 | self.is_doubtful << 7
        head = _HEAD.pack(
            _FORMAT,
            self.extractor & 0xFF,
            facts,
            self.level,
            self.settings_key,
            self.passages.size,
            len(self.gone),
            len(self.slots),
            len(self.pending),
            len(self.versions),
            min(self.n_wrong, 0xFF),
            self.wrong_text,
            self.digest,
        )
        parts = [
            head,
            self.passages.astype("<u8", copy=False).tobytes(),
            self.shapes.astype("<u2", copy=False).tobytes(),
            self.paths.astype("<u2", copy=False).tobytes(),
            self.words.tobytes(),
            self.flags.tobytes(),
        ]
        if self.gone:
            parts.append(np.array(self.gone, dtype="<u4").tobytes())
        if self.slots:
            parts.append(np.fromiter(self.slots, "<u4", len(self.slots)).tobytes())
            parts.append(bytes(chain.from_iterable(self.slots.values())))
        if self.pending or self.versions:
            digests = self.pending + self.versions
            parts.append(struct.pack(f"<{len(digests)}Q", *digests))
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> "PageMemory | None":
        """Return the memory that `to_bytes` wrote, or None if the bytes are damaged.

        Parameters
        ----------
        data
            Bytes of the memory.
        """
        if len(data) < _HEAD.size or data[0] != _FORMAT:
            return None
        (
            _,
            extractor,
            facts,
            level,
            settings_key,
            n,
            n_gone,
            n_slots,
            n_pending,
            n_versions,
            *rest,
        ) = _HEAD.unpack_from(data)
        # Where each column ends.
        passages = _HEAD.size + 8 * n
        shapes = passages + 2 * n
        paths = shapes + 2 * n
        words = paths + n
        flags = words + n
        gone = flags + 4 * n_gone
        keys = gone + 4 * n_slots
        states = keys + 3 * n_slots
        size = states + 8 * (n_pending + n_versions)
        if len(data) != size or n > PASSAGES_MAX or not facts >> 2 & 7:
            return None
        slots: dict[int, Slot] = {}
        if n_slots:
            state = iter(data[keys:states])
            slots = dict(
                zip(
                    np.frombuffer(data, "<u4", n_slots, gone).tolist(),
                    map(Slot, state, state, state),
                    strict=True,
                )
            )
        digests = struct.unpack_from(f"<{n_pending + n_versions}Q", data, states)
        n_wrong, wrong_text, digest = rest
        return cls(
            extractor=extractor,
            settings_key=settings_key,
            text=TextChoice(facts & 1),
            level=level,
            passages=np.frombuffer(data, "<u8", n, _HEAD.size),
            shapes=np.frombuffer(data, "<u2", n, passages),
            paths=np.frombuffer(data, "<u2", n, shapes),
            words=np.frombuffer(data, np.uint8, n, paths),
            flags=np.frombuffer(data, np.uint8, n, words),
            gone=struct.unpack_from(f"<{n_gone}I", data, flags),
            slots=slots,
            pending=digests[:n_pending],
            versions=digests[n_pending:],
            digest=digest,
            n_wrong=n_wrong,
            wrong_text=wrong_text,
            in_sample=bool(facts & 2),
            kind=ContentKind(facts >> 2 & 7),
            is_parsed=not facts & 32,
            is_closed=bool(facts & 64),
            is_doubtful=bool(facts & 128),
        )
