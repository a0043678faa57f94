"""The tree of errors is the one drawn at the top of its module."""

import inspect

from recrawl import errors


def test_the_tree_is_drawn_as_it_is() -> None:
    drawing = inspect.getdoc(errors) or ""
    for name in errors.__all__:
        assert f"── {name}" in drawing


def test_every_error_has_one_root() -> None:
    assert all(issubclass(getattr(errors, name), errors.RecrawlError) for name in errors.__all__)
