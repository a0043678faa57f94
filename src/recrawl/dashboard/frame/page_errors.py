"""Errors that a person sees as a page."""

__all__ = ["PageError"]


class PageError(Exception):
    """An error that is answered by a page.

    Parameters
    ----------
    status
        HTTP status of the answer.
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
