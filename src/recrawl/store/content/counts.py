"""Counts of what bodies showed, one small value of a store."""

import struct
from typing import NamedTuple, Self

__all__ = ["WRONG_ANSWER_KINDS_MAX", "ContentCounts"]

WRONG_ANSWER_KINDS_MAX = 16
_LAYOUT = struct.Struct(f"<QQQ{WRONG_ANSWER_KINDS_MAX}Q")


class ContentCounts(NamedTuple):
    """Numbers of outcomes with a body, a text or an observation, since the first one."""

    n_observed: int = 0
    """Outcomes whose text was judged."""
    n_baselines: int = 0
    """Outcomes that began a new comparison, because another version of the extractor or other
    settings read them: no change was reported."""
    n_template_changes: int = 0
    """Changes of the common parts of a host's pages, which do not count as changes of pages."""
    n_wrong_answers: tuple[int, ...] = (0,) * WRONG_ANSWER_KINDS_MAX
    """Outcomes that were not the page, by kind of wrong answer; 0 is not used."""

    def encode(self) -> bytes:
        """Return the counts as bytes."""
        *numbers, wrong = self
        return _LAYOUT.pack(*numbers, *wrong)

    def plus(self, other: Self | None) -> Self:
        """Return the sums of two counts."""
        if other is None:
            return self
        wrong = zip(self.n_wrong_answers, other.n_wrong_answers, strict=True)
        return type(self)(
            self.n_observed + other.n_observed,
            self.n_baselines + other.n_baselines,
            self.n_template_changes + other.n_template_changes,
            tuple(a + b for a, b in wrong),
        )

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Return the counts in bytes."""
        n_observed, n_baselines, n_template_changes, *wrong = _LAYOUT.unpack(value)
        return cls(n_observed, n_baselines, n_template_changes, tuple(wrong))
