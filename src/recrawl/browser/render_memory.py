"""Which hosts have pages that need a browser: learned from how often rendering brought text."""

import json
from collections import OrderedDict
from dataclasses import astuple, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from recrawl.atomic_files import replace_file
from recrawl.content import ContentKind, Observation
from recrawl.content.answer_hints import AnswerHint

__all__ = ["RENDER_HOSTS_MAX", "PageGrade", "RenderMemory", "grade_page", "is_gain"]

RENDER_HOSTS_MAX: Final = 20_000
"""Number of hosts that are remembered; the one that was used longest ago goes first."""
THIN_WORDS_MAX: Final = 40
"""Words of the main text below which a page with scripts may be a shell."""
SHELL_WORDS_MAX: Final = 150
"""Words below which a page that asks for JavaScript is a shell."""
GAIN_WORDS_MIN: Final = 20
"""Words that rendering must add."""

_DOUBLINGS_MAX: Final = 10
_SAVE_EVERY: Final = 256
_SCRIPT: Final = b"<script"
_FIELDS: Final = 4


class PageGrade(IntEnum):
    """How much the plain answer of a page has of its text."""

    FULL = 0
    """Enough, or nothing that a browser could add."""
    THIN = 1
    """Few words, and scripts that may bring more."""
    SHELL = 2
    """No words, or a sentence that asks for JavaScript."""


def grade_page(observation: Observation, body: bytes) -> PageGrade:
    """Return whether the plain answer of a page may need a browser.

    Parameters
    ----------
    observation
        Observation of the body, by `recrawl.content.observe`.
    body
        Body of the answer.

    Examples
    --------
    >>> from recrawl.content import observe
    >>> body = b'<div id="root"></div><script src="/app.js"></script>'
    >>> grade_page(observe(body, "text/html"), body).name
    'SHELL'
    """
    if observation.kind != ContentKind.HTML or not has_script(body):
        return PageGrade.FULL
    hints = observation.hints
    if hints & AnswerHint.BLOCKED:
        # A page that keeps crawlers out is not to be opened by other means.
        return PageGrade.FULL
    n_words = int(observation.n_words.sum())
    if not n_words or (hints & AnswerHint.NEEDS_SCRIPT and n_words < SHELL_WORDS_MAX):
        return PageGrade.SHELL
    return PageGrade.THIN if main_words(observation) < THIN_WORDS_MAX else PageGrade.FULL


def has_script(body: bytes) -> bool:
    """Return whether a page has any script, without which a browser brings nothing."""
    return _SCRIPT in body.lower()


def is_gain(before: Observation, after: Observation) -> bool:
    """Return whether rendering a page brought text.

    Parameters
    ----------
    before
        Observation of the plain answer.
    after
        Observation of the rendered page.
    """
    least = max(2 * main_words(before), main_words(before) + GAIN_WORDS_MIN)
    return main_words(after) >= least


def main_words(observation: Observation) -> int:
    """Return the number of words in the main text."""
    return int(observation.n_words[observation.is_main].sum())


@dataclass(slots=True)
class _Record:
    """What rendering the pages of one host and grade has brought."""

    n_rendered: int = 0
    n_gains: int = 0
    n_misses_in_row: int = 0
    n_skipped: int = 0


class RenderMemory:
    """Decides which pages are rendered, and remembers per host how often that brought text.

    The first page of a host that looks like a shell is rendered.  As long as rendering brings text,
    every such page is.  After each time that it does not, twice as many pages are left out before
    the next attempt.

    Parameters
    ----------
    path
        File in which the memory is kept; None keeps it in the process alone.

    Examples
    --------
    >>> memory = RenderMemory()
    >>> memory.wants("example.com", PageGrade.SHELL)
    True
    >>> memory.learn("example.com", PageGrade.SHELL, is_gain=False)
    >>> [memory.wants("example.com", PageGrade.SHELL) for _ in range(4)]
    [False, True, False, True]
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._records: OrderedDict[tuple[str, PageGrade], _Record] = OrderedDict()
        self._n_changes = 0
        if path is not None and path.exists():
            self._restore(path.read_bytes())

    def __len__(self) -> int:
        return len(self._records)

    def wants(self, host: str, grade: PageGrade) -> bool:
        """Return whether to render a page.

        Parameters
        ----------
        host
            Host of the page.
        grade
            How much the plain answer has.
        """
        if grade == PageGrade.FULL:
            return False
        record = self._take(host, grade)
        if record.n_skipped + 1 < 2 ** min(record.n_misses_in_row, _DOUBLINGS_MAX):
            record.n_skipped += 1
            return False
        record.n_skipped = 0
        return True

    def learn(self, host: str, grade: PageGrade, *, is_gain: bool) -> None:
        """Note what rendering a page brought.

        Parameters
        ----------
        host
            Host of the page.
        grade
            How much the plain answer had.
        is_gain
            Whether the rendered page has more text.
        """
        record = self._take(host, grade)
        record.n_rendered += 1
        record.n_gains += is_gain
        record.n_misses_in_row = 0 if is_gain else record.n_misses_in_row + 1
        self._n_changes += 1
        if self._n_changes >= _SAVE_EVERY:
            self.save()

    def gain_share(self, host: str, grade: PageGrade) -> float | None:
        """Return the share of rendered pages that gained text; None if none was rendered.

        Parameters
        ----------
        host
            Host of the pages.
        grade
            How much their plain answers had.
        """
        record = self._records.get((host, grade))
        if record is None or not record.n_rendered:
            return None
        return record.n_gains / record.n_rendered

    def save(self) -> None:
        """Write the memory to its file.  Losing it costs a few pages that are rendered in vain."""
        self._n_changes = 0
        if self._path is None:
            return
        with replace_file(self._path) as file:
            for (host, grade), record in self._records.items():
                line = [host, int(grade), *astuple(record)]
                file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def _take(self, host: str, grade: PageGrade) -> _Record:
        key = (host, grade)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = _Record()
            while len(self._records) > RENDER_HOSTS_MAX:
                self._records.popitem(last=False)
        self._records.move_to_end(key)
        return record

    def _restore(self, lines: bytes) -> None:
        """Read the file; lines that cannot be read are skipped."""
        for line in lines.splitlines():
            try:
                host, grade, *numbers = json.loads(line)
                kind = PageGrade(grade)
            except (ValueError, TypeError):
                continue
            are_counts = all(type(number) is int and number >= 0 for number in numbers)
            if isinstance(host, str) and len(numbers) == _FIELDS and are_counts:
                self._records[host, kind] = _Record(*numbers)
        while len(self._records) > RENDER_HOSTS_MAX:
            self._records.popitem(last=False)
