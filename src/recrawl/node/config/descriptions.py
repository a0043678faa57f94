"""What is said of each setting, for whoever shows settings: reference page, command line, TOML.

All of it is said once, in `recrawl.node.config.sections`: the docstring of a section, the type
and default of a field, and the text beneath it.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, NamedTuple

from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.config.values import Duration, Rate, described, hints_of, period

__all__ = ["KeyText", "SectionText", "default_of", "sections", "texts_of", "toml_text"]


class KeyText(NamedTuple):
    """What is said of one setting."""

    name: str
    text: str
    allowed: str
    """What it may be, in words."""
    default: str | None
    """As TOML has it; None where there is none."""
    is_required: bool


class SectionText(NamedTuple):
    """What is said of one section."""

    heading: str
    """As TOML has it: ``[budget]``, ``[[pattern]]``, ``[hosts."example.com"]``."""
    key: str
    """Without brackets and names: ``budget``, ``pattern``, ``hosts``."""
    kind: type
    text: str
    keys: tuple[KeyText, ...]


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module as they are written."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def texts_of(section: type) -> dict[str, str]:
    """Return the text beneath each field of a section."""
    tree = _classes(section.__module__)[section.__name__]
    texts = {}
    for node, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            value = following.value if isinstance(following, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                texts[node.target.id] = " ".join(value.value.split())
    return texts


def toml_text(value: Any, hint: Any) -> str:
    """Return a value of a field as TOML has it."""
    if isinstance(value, Rate):
        return f'"{value}"'
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if hint == Duration or hint == Duration | None:
        return f'"{period(value)}"' if value < float("inf") else "inf"
    if "rate" in described(hint):
        return f'"{value * 86_400:g}/d"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def default_of(field: Field[Any], hint: Any) -> str | None:
    """Return a field's default as TOML has it; None where there is none."""
    if field.default is MISSING or field.default is None:
        return None
    return toml_text(field.default, hint)


def sections() -> Iterator[SectionText]:
    """Yield what is said of each section, in the order of the configuration."""
    for field in fields(CorpusConfig):
        kind: type = field.metadata.get("of", type(getattr(CorpusConfig(), field.name)))
        key = field.metadata.get("key", field.name)
        match field.metadata.get("each"):
            case "row":
                heading = f"[[{key}]]"
            case "name":
                heading = f'[{key}."example.com"]'
            case _:
                heading = f"[{key}]"
        texts, hints = texts_of(kind), hints_of(kind)
        keys = tuple(
            KeyText(
                own.name,
                texts.get(own.name, ""),
                described(hints[own.name]),
                default_of(own, hints[own.name]),
                own.default is MISSING and own.default_factory is MISSING,
            )
            for own in fields(kind)
        )
        about = " ".join((inspect.getdoc(kind) or "").split())
        yield SectionText(heading, key, kind, about, keys)
