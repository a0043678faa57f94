"""The public names are the intended ones, and every module and name is documented."""

import importlib
import inspect
import pkgutil
import re
from types import ModuleType

import pytest

import recrawl
import recrawl.core
import recrawl.papers


def module_names() -> list[str]:
    walked = pkgutil.walk_packages(recrawl.__path__, "recrawl.")
    return ["recrawl", *sorted(info.name for info in walked)]


def packages_of(package: ModuleType) -> list[str]:
    return sorted(
        info.name
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        if info.ispkg
    )


MATHS = [*packages_of(recrawl.core), "recrawl.core.requests", *packages_of(recrawl.papers)]


def test_the_top_level_names_are_these() -> None:
    names = ["AsyncClient", "AsyncCorpus", "Client", "Corpus", "CorpusConfig", "Order", "Outcome"]
    assert recrawl.__all__ == [*names, "__version__", "open"]
    for name in recrawl.__all__:
        assert getattr(recrawl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        recrawl.opne  # noqa: B018


def test_the_packages_of_the_maths_are_these() -> None:
    names = "belief divergence price signal_quality value"
    assert packages_of(recrawl.core) == [f"recrawl.core.{name}" for name in names.split()]
    names = "belief change_rate divergence price signal_quality value"
    assert packages_of(recrawl.papers) == [f"recrawl.papers.{name}" for name in names.split()]


@pytest.mark.parametrize("name", MATHS)
def test_public_names_exist_and_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__all__
    for public in module.__all__:
        obj = getattr(module, public)
        if callable(obj):
            assert inspect.getdoc(obj), f"{name}.{public} has no docstring"


@pytest.mark.parametrize("name", module_names())
def test_a_module_has_a_docstring(name: str) -> None:
    """The first paragraph of the docstring is a sentence: the documentation shows it."""
    doc = importlib.import_module(name).__doc__
    assert doc is not None
    assert re.match(r"\S.*[.:?]$", doc.partition("\n\n")[0], re.S)


@pytest.mark.parametrize("name", module_names())
def test_a_module_has_no_print_and_no_todo(name: str) -> None:
    source = inspect.getsource(importlib.import_module(name))
    assert not re.search(r"^\s*print\(|\b(TODO|FIXME|XXX)\b", source, re.M)
