"""Errors that a person sees as a page."""

from collections.abc import Iterator
from contextlib import contextmanager

from recrawl.service.problems import RETRY_AWAY_SECONDS, Problem

__all__ = ["PageError", "not_done_error", "say_not_done"]


class PageError(Exception):
    """An error that is answered by a page.

    Parameters
    ----------
    status
        HTTP status of the answer; with 503 the answer says when to try again.
    title
        Description of the error, in a few words.
    detail
        Advice for the person.
    """

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(f"{title}: {detail}")
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = {"Retry-After": str(RETRY_AWAY_SECONDS)} if status == 503 else {}


def not_done_error(action: str, what: str) -> PageError:
    """Return the error of an action that is not done, because its partition is away.

    Parameters
    ----------
    action
        Action that a person has asked for, such as ``"stop tracking the page"``.
    what
        Subject of the action: ``"page"`` or ``"host"``.
    """
    return PageError(
        503,
        "This is not done",
        f"recrawl could not {action}, because the partition of the {what} cannot be reached now. "
        f"Look at the {what} again in a few seconds, and repeat this if nothing has changed.",
    )


@contextmanager
def say_not_done(action: str, what: str) -> Iterator[None]:
    """Say what is not done, if a call to the corpus finds that it cannot be reached.

    Parameters
    ----------
    action, what
        See `not_done_error`.
    """
    try:
        yield
    except Problem as problem:
        if problem.name != "unavailable":
            raise
        raise not_done_error(action, what) from problem
