"""Recognise answers that are not the page: error pages, block pages, login walls, empty shells."""

from typing import Final, NamedTuple

from recrawl.content.answer_hints import AnswerHint
from recrawl.content.judging.verdicts import WrongAnswer

__all__ = [
    "ACCEPTED_AFTER",
    "DOUBTFUL_HINTS",
    "OTHER_WRONG_WEIGHT",
    "AnswerFacts",
    "find_wrong_answer",
    "hinted_answer",
]

HINTED_WORDS_MAX: Final = 400
"""New words up to which an answer whose title reads like an error page is one."""
HINTED_WORDS_IN_TEXT_MAX: Final = 120
"""The same if only the text reads so."""
FIRST_WORDS_MAX: Final = 150
"""The same for a page that has never been seen, if its title and its text read so."""
FIRST_WORDS_IN_TEXT_MAX: Final = 50
"""The same for a page that has never been seen, if only its text or only its title does."""
KEPT_SHARE_MAX: Final = 0.5
"""Share of the page's words that a wrong answer still has, at most: a template stays."""
SHELL_SHARE_MAX: Final = 0.3
"""Share of the page's words that an empty shell has, at most."""
SHELL_WORDS_MIN: Final = 40
"""Words of a page that can lose its content."""
SAME_PAGES_MIN: Final = 2
"""Other pages that got the same text, at least."""
ACCEPTED_AFTER: Final = 3
"""The same answer so many times in a row is the page, unless it reads like an error page."""
ACCEPTED_WITH_HINT_AFTER: Final = 20
"""The same answer so many times in a row is the page in any case."""
FIRST_ACCEPTED_AFTER: Final = 6
"""The same for a page that has never been seen: nothing says that it is anything else."""
DOUBTFUL_HINTS: Final = int(
    AnswerHint.NOT_FOUND
    | AnswerHint.ERROR
    | AnswerHint.BLOCKED
    | AnswerHint.LOGIN
    | AnswerHint.NEEDS_SCRIPT
)
"""What a first answer reads like that may not be the page; many pages ask for consent."""
OTHER_WRONG_WEIGHT: Final = 0.3
"""Weight of a wrong answer with another text: no page is a wrong answer for ever."""


class AnswerFacts(NamedTuple):
    """Sizes of an answer and of the page's last version, in words of passages."""

    n_words: int
    n_own: int
    """Words of the answer that count."""
    n_wrong: float
    """How often such a wrong answer came just before."""
    n_words_before: int = 0
    """0 if the page has no memory."""
    n_own_before: int = 0
    """Words of the last version that count."""
    n_own_kept: int = 0
    """Words that count and that both have."""
    n_added: int = 0
    """Words of passages that only the answer has."""
    is_cut: bool = False
    """Whether the end of the page is missing."""
    n_pages_same: int = 0
    """Pages of the host that got the same text a short time ago."""
    n_main: int = 0
    """Words of the main text of the answer; 0 if it has none."""

    @property
    def is_mostly_gone(self) -> bool:
        """Whether at least half of the page's own words are missing."""
        return self.n_own_kept <= KEPT_SHARE_MAX * self.n_own_before


_HINTED: Final = (
    (AnswerHint.BLOCKED, WrongAnswer.BLOCKED),
    (AnswerHint.NOT_FOUND, WrongAnswer.SOFT_404),
    (AnswerHint.ERROR, WrongAnswer.SOFT_404),
    (AnswerHint.CONSENT, WrongAnswer.CONSENT),
    (AnswerHint.LOGIN, WrongAnswer.LOGIN),
    (AnswerHint.NEEDS_SCRIPT, WrongAnswer.EMPTY_SHELL),
)

_RARE_HINTS: Final = AnswerHint.NOT_FOUND | AnswerHint.ERROR | AnswerHint.BLOCKED
"""Hints that ordinary pages do not give: many ask their readers to log in, or for consent."""


def find_wrong_answer(hints: int, facts: AnswerFacts) -> WrongAnswer:
    """Return why an answer is not the page, or `WrongAnswer.NONE`.

    Parameters
    ----------
    hints
        Bits of `AnswerHint`.
    facts
        Sizes of the answer and of the page.
    """
    accepted_after = ACCEPTED_WITH_HINT_AFTER if facts.n_words_before else FIRST_ACCEPTED_AFTER
    if hints and facts.n_wrong < accepted_after and _is_replaced(hints, facts):
        return hinted_answer(hints)
    if facts.n_wrong >= ACCEPTED_AFTER:
        return WrongAnswer.NONE
    if facts.is_cut:
        return WrongAnswer.TRUNCATED
    if not facts.n_words_before:
        if not facts.n_words:
            return WrongAnswer.EMPTY_SHELL
        is_same = facts.n_pages_same >= SAME_PAGES_MIN
        return WrongAnswer.SAME_FOR_MANY if is_same else WrongAnswer.NONE
    is_emptied = (
        facts.n_own_before >= SHELL_WORDS_MIN
        and facts.n_own_kept < SHELL_SHARE_MAX * facts.n_own_before
    )
    if not is_emptied:
        return WrongAnswer.NONE
    if facts.n_pages_same >= SAME_PAGES_MIN:
        return WrongAnswer.SAME_FOR_MANY
    if facts.n_added + facts.n_own_kept < SHELL_SHARE_MAX * facts.n_own_before:
        return WrongAnswer.EMPTY_SHELL
    return WrongAnswer.NONE


def hinted_answer(hints: int) -> WrongAnswer:
    """Return what an answer reads like, `WrongAnswer.NONE` if it reads like a page.

    Parameters
    ----------
    hints
        Bits of `AnswerHint`.
    """
    return next((kind for hint, kind in _HINTED if hints & hint), WrongAnswer.NONE)


def _is_replaced(hints: int, facts: AnswerFacts) -> bool:
    in_title = hints & AnswerHint.IN_TITLE
    if not facts.n_words_before:
        is_both = in_title and hints & AnswerHint.IN_TEXT
        n_own = facts.n_own
        if facts.n_main and (in_title or hints & _RARE_HINTS):
            # Of a host of which little is known, menus and teasers count as well.
            n_own = min(n_own, facts.n_main)
        return n_own <= (FIRST_WORDS_MAX if is_both else FIRST_WORDS_IN_TEXT_MAX)
    return (
        facts.n_added <= (HINTED_WORDS_MAX if in_title else HINTED_WORDS_IN_TEXT_MAX)
        and facts.is_mostly_gone
    )
