"""The reference page names every format, limit and column."""

import importlib
import pkgutil
from pathlib import Path

import pytest

from recrawl import readers
from recrawl.readers import FORMATS
from recrawl.readers.formats.crawl_log import CRAWL_LOG_NAMES
from recrawl.readers.formats.lists import URL_NAMES

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "readers.md").read_text(encoding="utf-8")


def limits() -> list[str]:
    modules = pkgutil.walk_packages(readers.__path__, "recrawl.readers.")
    exported = [
        importlib.import_module(module.name).__all__ for module in modules if not module.ispkg
    ]
    names = {name for names in exported for name in names if name.endswith("_MAX")}
    # Of batches and heads, which no user meets; of instants, which are told in words.
    return sorted(names - {"BATCH_ROWS_MAX", "HEAD_BYTES_MAX", "INSTANT_MS_MAX"})


@pytest.mark.parametrize("limit", limits())
def test_a_limit_is_on_the_page(limit: str) -> None:
    assert f"`{limit}`" in PAGE


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_format_is_on_the_page_with_its_kind(name: str) -> None:
    assert f"| `{name}` | {FORMATS[name].kind} |" in PAGE


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            name
            for names in (CRAWL_LOG_NAMES, URL_NAMES)
            for known in names.values()
            for name in known
        }
    ),
)
def test_a_name_of_a_column_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE
