"""All errors have one base class and appear in the tree in the module's docstring."""

import inspect

from recrawl import errors


def test_the_docstring_shows_every_error() -> None:
    drawing = inspect.getdoc(errors) or ""
    for name in errors.__all__:
        assert f"── {name}" in drawing


def test_every_error_is_a_recrawl_error() -> None:
    assert all(issubclass(getattr(errors, name), errors.RecrawlError) for name in errors.__all__)
