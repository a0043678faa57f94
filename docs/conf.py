"""Sphinx configuration: Markdown pages, and the reference generated from docstrings."""

import os
from importlib import metadata

from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

# Compiled kernels hide their signatures from autodoc.
os.environ["NUMBA_DISABLE_JIT"] = "1"

from recrawl.core import arrays as _arrays

_ALIASES = {
    stringify_annotation(getattr(_arrays, name), "smart"): name
    for name in ("ArrayLike", "FloatArray", "CountArray", "FlagArray")
}

project = "recrawl"
author = "The recrawl developers"
project_copyright = author
release = metadata.version("recrawl")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True}
autodoc_member_order = "groupwise"
napoleon_google_docstring = False
napoleon_use_rtype = False
# Single backticks in docstrings link to objects; other names stay plain text.
default_role = "py:obj"
# Links to functions, methods and modules must resolve; types may belong to other libraries.
nitpicky = True
nitpick_ignore_regex = [("py:(obj|class|data|exc)", ".*")]

html_theme = "furo"
html_title = f"recrawl {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]


def list_references(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Make each line of a ``References`` section an item of a list."""
    if "References" not in lines:
        return
    start = lines.index("References") + 2
    for number in range(start, len(lines)):
        line = lines[number]
        if number + 1 < len(lines) and set(lines[number + 1]) == {"-"}:
            break
        if line.strip() and not line.startswith((" ", "*", "-", "..")):
            open_before = "\n".join(lines[start:number])
            if open_before.count("(") > open_before.count(")"):
                lines[number] = "  " + line
            else:
                lines[number] = "* " + line


def shorten_types(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Show array types by their short names instead of their definitions."""
    return _short(signature), _short(returns)


def _short(text: str | None) -> str | None:
    for spelled, name in _ALIASES.items():
        text = text.replace(spelled, name) if text else text
    return text


def skip_tuple_fields(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out fields of named tuples that have no description of their own."""
    return True if (obj.__doc__ or "").startswith("Alias for field number") else None


def setup(app: Sphinx) -> None:
    # Napoleon runs at priority 500 and needs the list to be there already.
    app.connect("autodoc-process-docstring", list_references, priority=400)
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("autodoc-skip-member", skip_tuple_fields)
