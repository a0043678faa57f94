"""Counts and examples of rows that a reader refused, so that no row is lost silently."""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["EXAMPLES_MAX", "Refused", "RefusedRow"]

EXAMPLES_MAX = 10
"""Number of refused rows kept as examples."""

_EXCERPT_CHARACTERS_MAX = 80
_NOTES_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    """A refused row."""

    line: int
    """Line number from 1; in a file without lines, the number of the row."""
    reason: str
    excerpt: str
    """Beginning of the invalid text, printable; may be empty."""

    def __str__(self) -> str:
        shown = f": {self.excerpt}" if self.excerpt else ""
        return f"line {self.line}: {self.reason}{shown}"


class Refused:
    """Counts of rows read and refused; they grow while batches are read."""

    __slots__ = (
        "_cut_short",
        "_examples",
        "_notes",
        "by_reason",
        "n_refused",
        "n_replaced",
        "n_rows",
    )

    def __init__(self) -> None:
        self.n_rows = 0
        """Rows read, including refused ones."""
        self.n_refused = 0
        self.n_replaced = 0
        """Lines with invalid UTF-8; such bytes are read as U+FFFD."""
        self.by_reason: dict[str, int] = {}
        """Number of refused rows for each reason."""
        self._examples: list[RefusedRow] = []
        self._notes: list[str] = []
        self._cut_short: str | None = None

    @property
    def examples(self) -> tuple[RefusedRow, ...]:
        """The first few refused rows."""
        return tuple(self._examples)

    @property
    def notes(self) -> tuple[str, ...]:
        """Further remarks about the file."""
        return tuple(self._notes)

    @property
    def is_cut_short(self) -> bool:
        """Whether reading stopped before the end of the file."""
        return self._cut_short is not None

    @property
    def cut_short_reason(self) -> str | None:
        """Why reading stopped before the end of the file; None if it did not."""
        return self._cut_short

    def refuse(self, line: int, reason: str, got: object = "") -> None:
        """Count a row as refused."""
        self.refuse_many([(line, got)], reason)

    def refuse_many(self, rows: Iterable[tuple[int, object]], reason: str) -> None:
        """Count rows as refused for one reason; each is a line number and the invalid text."""
        n = 0
        for line, got in rows:
            n += 1
            if len(self._examples) < EXAMPLES_MAX:
                self._examples.append(RefusedRow(line=line, reason=reason, excerpt=_excerpt(got)))
        if n:
            self.n_refused += n
            self.by_reason[reason] = self.by_reason.get(reason, 0) + n

    def note(self, text: str) -> None:
        """Add a remark about the file, once."""
        if text not in self._notes and len(self._notes) < _NOTES_MAX:
            self._notes.append(text)

    def cut_short(self, reason: str) -> None:
        """Record why reading stopped; the first reason stays."""
        if self._cut_short is None:
            self._cut_short = reason


def _excerpt(got: object) -> str:
    if isinstance(got, bytes):
        got = got[: 4 * _EXCERPT_CHARACTERS_MAX].decode("utf-8", "replace")
    if got is None or got == "":
        return ""
    try:
        text = got if isinstance(got, str) else repr(got)
    except (ValueError, RecursionError):
        # An integer of very many digits, or a very deep list.
        text = type(got).__name__
    text = text[: _EXCERPT_CHARACTERS_MAX + 1]
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= _EXCERPT_CHARACTERS_MAX else shown[:-1] + "…"
