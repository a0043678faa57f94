"""Descriptions of all settings, for the reference page, the command line and recrawl.toml.

They come from `recrawl.node.config.sections`: the docstring of a section, the type and default of
each field, and the text beneath it.
"""

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, NamedTuple

from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.config.values import (
    Duration,
    Money,
    Rate,
    TimeWindows,
    duration_text,
    hints_of,
    type_text,
)

__all__ = ["KeyText", "SectionText", "default_of", "field_texts", "sections", "toml_text"]


class KeyText(NamedTuple):
    """The description of one setting."""

    name: str
    text: str
    allowed: str
    """Description of the values it accepts."""
    default: str | None
    """Default in TOML notation; None if there is none."""
    is_required: bool


class SectionText(NamedTuple):
    """The description of one section."""

    heading: str
    """Heading in TOML: ``[budget]``, ``[[pattern]]``, ``[hosts."example.com"]``."""
    key: str
    """Key without brackets and names: ``budget``, ``pattern``, ``hosts``."""
    kind: type
    text: str
    keys: tuple[KeyText, ...]


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the syntax trees of a module's classes, by name."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def field_texts(section: type) -> dict[str, str]:
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
    """Return the value of a field in TOML notation."""
    if isinstance(value, TimeWindows):
        value = value.texts()
    if isinstance(value, tuple):
        # TOML has the same escapes as JSON.
        return json.dumps(list(value), ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(toml_text(one, str) for one in value)}]"
    if isinstance(value, Rate | Money | str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if hint == Duration or hint == Duration | None:
        return f'"{duration_text(value)}"' if value < float("inf") else "inf"
    if "rate" in type_text(hint):
        return f'"{value * 86_400:g}/d"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def default_of(field: Field[Any], hint: Any) -> str | None:
    """Return a field's default in TOML notation; None if it has none."""
    if field.default is MISSING or field.default is None:
        return None
    return toml_text(field.default, hint)


def sections() -> Iterator[SectionText]:
    """Yield the description of each section, in the order of the configuration."""
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
        texts, hints = field_texts(kind), hints_of(kind)
        keys = tuple(
            KeyText(
                own.name,
                texts.get(own.name, ""),
                type_text(hints[own.name]),
                default_of(own, hints[own.name]),
                own.default is MISSING and own.default_factory is MISSING,
            )
            for own in fields(kind)
        )
        about = " ".join((inspect.getdoc(kind) or "").split())
        yield SectionText(heading, key, kind, about, keys)
