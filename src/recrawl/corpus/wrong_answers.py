"""Names of the kinds of wrong answers, and sentences about them.

The kinds are those of `recrawl.content.WrongAnswer`, which is not imported here: commands that only
read a corpus need no HTML parser.
"""

from collections.abc import Mapping, Sequence

__all__ = ["WRONG_ANSWER_NAMES", "wrong_answer_counts", "wrong_answer_name", "wrong_answer_words"]

WRONG_ANSWER_NAMES = (
    "none",
    "soft_404",
    "blocked",
    "consent",
    "login",
    "empty_shell",
    "same_for_many",
    "truncated",
    "unreadable",
    "other_kind",
)
"""Names of the kinds, by number."""

_WORDS = {
    "soft_404": ("an error page with a status of success", "error pages with a status of success"),
    "blocked": ("a block page", "block pages"),
    "consent": ("a page that asks for consent", "pages that ask for consent"),
    "login": ("a login page", "login pages"),
    "empty_shell": ("a page without its content", "pages without their content"),
    "same_for_many": ("a text that many pages have", "texts that many pages have"),
    "truncated": ("a part of the page", "parts of pages"),
    "unreadable": ("a body that cannot be read", "bodies that cannot be read"),
    "other_kind": ("a body of another kind", "bodies of another kind"),
}
_OTHER = ("another page", "other pages")


def wrong_answer_name(kind: int) -> str | None:
    """Return the name of a kind of wrong answer; None for 0."""
    if kind == 0:
        return None
    return WRONG_ANSWER_NAMES[kind] if kind < len(WRONG_ANSWER_NAMES) else f"kind_{kind}"


def wrong_answer_words(name: str, n: int = 1) -> str:
    """Return what an answer was instead of the page, in words.

    Examples
    --------
    >>> wrong_answer_words("blocked"), wrong_answer_words("login", 2)
    ('a block page', '2 login pages')
    """
    one, several = _WORDS.get(name, _OTHER)
    return one if n == 1 else f"{n:,} {several}"


def wrong_answer_counts(counts: Sequence[Sequence[int]]) -> Mapping[str, int]:
    """Return the sums of counts by kind, by name, the most frequent first; without zeros."""
    totals = {
        wrong_answer_name(kind) or "none": sum(column)
        for kind, column in enumerate(zip(*counts, strict=True))
    }
    found = sorted(totals.items(), key=lambda item: -item[1])
    return {name: n for name, n in found if n}
