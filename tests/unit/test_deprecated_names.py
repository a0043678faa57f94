"""Public names of recrawl 0.1.0 still work, with a warning that says what to use now."""

import importlib

import pytest

PACKAGES = [
    "recrawl.backtest",
    "recrawl.charts",
    "recrawl.core.belief",
    "recrawl.core.change_rate",
    "recrawl.core.divergence",
    "recrawl.core.price",
    "recrawl.core.signal_quality",
    "recrawl.core.value",
    "recrawl.ledger",
    "recrawl.refreshbench",
    "recrawl.runtime",
    "recrawl.sim",
    "recrawl.store",
]


def moved_names() -> list[tuple[str, str, str]]:
    return [
        (package, old, home)
        for package in PACKAGES
        for old, home in importlib.import_module(package)._MOVED.items()
    ]


@pytest.mark.parametrize(("package", "old", "home"), moved_names())
def test_an_old_name_gives_the_value_of_the_new_one(package: str, old: str, home: str) -> None:
    module, _, name = home.rpartition(".")
    with pytest.warns(DeprecationWarning, match=f"use {home}$"):
        value = getattr(importlib.import_module(package), old)
    assert value is getattr(importlib.import_module(module), name)
    assert name in importlib.import_module(module).__all__


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(module, "nothing")  # noqa: B009 (mypy does not know the name)
