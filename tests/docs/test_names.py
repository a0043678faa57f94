"""Names and descriptions follow the project's rules for plain language."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import recrawl

ROOT = Path(__file__).parents[2]
# The installed package: tests also run where there are no sources beside them.
SOURCES = Path(recrawl.__file__).parent
MODULES_MAX = 12

# Folders of peers: one file per command, per format, per measurement, per claim.
PEERS = {
    "recrawl/cli/commands",
    "recrawl/readers/formats",
    "benchmarks",
    "tests/unit/cli/commands",
    "tests/unit/corpus",
    "tests/reference",
    "tests/docs",
}

# Public names that several modules define on purpose.
SHARED_NAMES = {
    "command": "every module of recrawl.cli.commands defines one command",
}

# Functions whose whole name is a participle, or looks like one, and why they keep it.
PARTICIPLES_KEPT: dict[str, str] = {
    "open": "the verb, as the built-in function",
    "read": "the verb, as the method of a file",
    "put": "the verb, as the method of a key-value store",
    "split": "the verb, as the method of a string",
    "set": "the verb, as in `Corpus.set`",
    "paced": "public name of 0.1.0: Corpus.paced",
    "seed": "a noun",
    "feed": "a noun",
    "speed": "a noun",
    "spending": "a noun",
    "spending_at": "a noun: the spending at a price",
    "from_stored": "a constructor, like `dict.fromkeys`: from stored fields",
    "with_held": "a word with its flag `held`, which `is_held` reads",
    "with_bounded": "a word with its flag `bounded`",
}
PARTICIPLE = re.compile(
    r"\w+ed|\w+ing|begun|bound|built|chosen|cut|drawn|driven|found|given|held|heard|hidden|kept|"
    r"known|left|lost|made|meant|put|read|said|seen|sent|set|shown|spent|split|spread|taken|told|"
    r"written"
)
LITTLE_WORDS = {"at", "by", "for", "from", "in", "of", "on", "to", "up", "out", "off", "with"}

# A description is a noun phrase ("Folder of the corpus"): it never starts with one of these.
BAD_START = re.compile(
    r"(of|to|that|which|what|who|whose|there|as|by|with|without|in|on|at|from|into|until|since|"
    r"those|these|this|it|its|they|them|one|none|such|so|told|given|made|read|taken|found|"
    r"known|kept|said|seen|shown|wanted|asked|looked|decides|not)\b",
    re.IGNORECASE,
)


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of every module of the package, by dotted name."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES.parent).with_suffix("").parts
        found[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function with the name of its module, except properties."""
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = {ast.unparse(decorator) for decorator in node.decorator_list}
                if not names & {"property", "cached_property"}:
                    yield module, node


def test_no_public_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = {}
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    twice = {n: found for n, found in places.items() if len(found) > 1 and n not in SHARED_NAMES}
    assert not twice


def is_bare_participle(name: str) -> bool:
    words = name.strip("_").split("_")
    is_participle = [PARTICIPLE.fullmatch(word) is not None for word in words]
    return any(is_participle) and all(
        participle or word in LITTLE_WORDS
        for participle, word in zip(is_participle, words, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_recovered", True),
        ("explained_at", True),
        ("recover_node", False),
        ("shown_rows", False),
    ],
)
def test_bare_participles_are_recognised(name: str, expected: bool) -> None:
    assert is_bare_participle(name) is expected


def test_no_function_is_named_by_a_bare_participle() -> None:
    found = sorted(
        f"{module}.{node.name}"
        for module, node in functions()
        if is_bare_participle(node.name) and node.name.strip("_") not in PARTICIPLES_KEPT
    )
    assert not found


def parameter_descriptions(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a numpydoc docstring, and the first line of each description."""
    lines = docstring.splitlines()
    for i, line in enumerate(lines):
        if line.strip() == "Parameters" and i + 1 < len(lines) and "---" in lines[i + 1]:
            indent = len(line) - len(line.lstrip())
            name = ""
            for row in lines[i + 2 :]:
                depth = len(row) - len(row.lstrip())
                if not row.strip():
                    continue
                if depth == indent and set(row.strip()) == {"-"}:
                    return
                if depth == indent:
                    name = row.strip()
                elif name and depth > indent:
                    yield name, row.strip()
                    name = ""


def test_parameter_descriptions_are_read() -> None:
    doc = "Do.\n\nParameters\n----------\na, b\n    Folder of it.\n    More.\nc\n    Of it.\n"
    assert list(parameter_descriptions(doc)) == [("a, b", "Folder of it."), ("c", "Of it.")]


def test_parameter_descriptions_start_with_a_noun_phrase() -> None:
    found = []
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            for name, text in parameter_descriptions(ast.get_docstring(node) or ""):
                if BAD_START.match(text):
                    found.append(f"{module}.{node.name}({name}): {text}")
    assert not found


def test_folders_hold_at_most_a_dozen_modules() -> None:
    count: Counter[str] = Counter()
    folders = [ROOT / name for name in ("lab", "benchmarks", "scripts", "tests")]
    for root in (SOURCES, *folders):
        for path in root.rglob("*.py"):
            if path.stem not in ("__init__", "__main__", "conftest"):
                count[path.parent.relative_to(root.parent).as_posix()] += 1
    too_many = {folder: n for folder, n in count.items() if n > MODULES_MAX and folder not in PEERS}
    assert not too_many
