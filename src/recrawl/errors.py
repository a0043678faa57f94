"""Every error of ours that a caller may want to catch, as one tree.

    Exception
    └── RecrawlError

Wrong arguments are `ValueError` or `TypeError`, as everywhere in Python; a broken invariant is an
`AssertionError` and a bug.  Input from the web is data: bad bytes raise nothing.
"""

__all__ = ["RecrawlError"]


class RecrawlError(Exception):
    """Root of the errors that recrawl raises on purpose."""
