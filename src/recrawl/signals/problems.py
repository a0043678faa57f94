"""Problems of files from the web: counted by code, never raised."""

from dataclasses import dataclass, field
from typing import Final

__all__ = ["PROBLEM_TEXTS", "ProblemCounts"]

PROBLEM_TEXTS: Final = {
    "bad_date": "a date could not be read and is ignored",
    "bad_url": "a URL is empty, too long or not http, and its entry is ignored",
    "broken_gzip": "the compressed file is damaged; the rest is ignored",
    "broken_xml": "the XML is broken; what came before is used",
    "entities": "the file declares entities, which could expand without limit; the rest is ignored",
    "inflates_too_much": "the file grows too much when unpacked; the rest is ignored",
    "not_a_feed": "the file is neither RSS nor Atom",
    "not_a_sitemap": "the file is not a sitemap",
    "several_members": "the compressed file has several parts; only the first is used",
    "too_deep": "elements are nested too deep; the rest is ignored",
    "too_large": "the file is larger than allowed; the rest is ignored",
    "too_long": "a tag is longer than allowed; the rest is ignored",
    "too_many": "the file has more entries than allowed; the rest is ignored",
}
"""Codes of problems, and what they mean."""


@dataclass(slots=True)
class ProblemCounts:
    """Number of times that each problem occurred in one file."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, n: int = 1) -> None:
        """Count a problem, by its code in `PROBLEM_TEXTS`."""
        assert code in PROBLEM_TEXTS, code
        self.counts[code] = self.counts.get(code, 0) + n

    @property
    def texts(self) -> list[str]:
        """Each problem in words, with its count if it occurred more than once."""
        return [
            PROBLEM_TEXTS[code] + (f" ({n:,} times)" if n > 1 else "")
            for code, n in self.counts.items()
        ]
