"""Choose the folder of compiled kernels, so that edits of other code keep it valid.

numba notices when the file of a cached kernel changes, but not when a kernel or a constant that it
uses from another file does.  The folder is therefore named after a digest of every file that
defines kernels and of all files that these import from, without comments and docstrings.  Where
only those change, the folder stays, and numba compiles the kernels of the edited file again.
"""

import ast
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Sources", "cache_folder", "kernel_modules", "modules_under", "prune"]

PREFIX = "recrawl-numba-"
FOLDERS_KEPT = 5
# A folder that a test run may still be using is kept in any case.
IN_USE_SECONDS = 3 * 3600.0
_DECORATORS = {"kernel", "table_kernel", "njit", "jit", "vectorize", "guvectorize"}
_LIKE_A_KERNEL = re.compile(rf"(?:{'|'.join(sorted(_DECORATORS))})\b".encode())
# Parsing takes a second, so its results are stored in this file.
_MEMO = "recrawl-sources.json"
_MEMO_MAX = 5_000


class Source(NamedTuple):
    """Digest and imports of one source file."""

    digest: str
    has_kernels: bool
    imports: list[list[str]]
    """Module and imported name of each import; the name is empty for a whole module."""


def cache_folder(parent: Path, modules: Mapping[str, Path]) -> Path:
    """Return the folder in ``parent`` for the compiled kernels of these modules.

    Older folders are deleted.

    Parameters
    ----------
    parent
        Folder for temporary files.
    modules
        Path of each module, by its dotted name.
    """
    sources = Sources(modules, parent / _MEMO)
    digest = hashlib.sha256()
    for name in kernel_modules(sources):
        digest.update(f"{name} {sources[name].digest}\n".encode())
    sources.remember()
    folder = parent / f"{PREFIX}{digest.hexdigest()[:16]}"
    folder.mkdir(exist_ok=True)
    os.utime(folder)
    prune(parent, time.time())
    return folder


def modules_under(packages: Iterable[Path]) -> dict[str, Path]:
    """Return the path of each module of top-level packages, by its dotted name."""
    modules = {}
    for package in packages:
        for path in package.rglob("*.py"):
            parts = path.relative_to(package.parent).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


class Sources:
    """The source files of modules, each parsed at its first access.

    Parameters
    ----------
    modules
        Path of each module, by its dotted name.
    memo
        File with the results of earlier runs.
    """

    def __init__(self, modules: Mapping[str, Path], memo: Path) -> None:
        self._texts = {name: path.read_bytes() for name, path in modules.items()}
        self._memo = memo
        self._read: dict[str, Source] = {}
        self._new: dict[str, Source] = {}
        try:
            self._known: dict[str, Source] = json.loads(memo.read_bytes())
        except (OSError, ValueError):
            self._known = {}

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def __getitem__(self, name: str) -> Source:
        if name not in self._read:
            text = self._texts[name]
            key = hashlib.sha256(text).hexdigest()
            if key not in self._known:
                self._known[key] = self._new[key] = parse_source(text)
            self._read[name] = Source(*self._known[key])
        return self._read[name]

    def with_kernels(self) -> list[str]:
        """Return the modules that define kernels."""
        likely = (name for name, text in self._texts.items() if _LIKE_A_KERNEL.search(text))
        return [name for name in likely if self[name].has_kernels]

    def origin(self, module: str, name: str) -> str | None:
        """Return the module that defines what ``from module import name`` imports, if known."""
        if f"{module}.{name}" in self:
            return f"{module}.{name}"
        if module not in self:
            return None
        for first, second in self[module].imports:
            if name and second == name:  # re-exported from there
                return self.origin(first, name)
        return module

    def remember(self) -> None:
        """Write new results to the memo."""
        if self._new:
            kept = self._known if len(self._known) <= _MEMO_MAX else self._new
            partial = self._memo.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(kept))
            partial.replace(self._memo)


def kernel_modules(sources: Sources) -> list[str]:
    """Return the modules that define kernels, and all that they import from, sorted."""
    found: set[str] = set()
    waiting = sources.with_kernels()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            origins = (sources.origin(*pair) for pair in sources[name].imports)
            waiting += [origin for origin in origins if origin is not None]
    return sorted(found)


def prune(parent: Path, now: float) -> None:
    """Delete all but the folders used last, and those used within `IN_USE_SECONDS`."""
    used = {}
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            used[folder] = folder.stat().st_mtime
        except FileNotFoundError:  # another test run was faster
            continue
    for folder in sorted(used, key=lambda folder: -used[folder])[FOLDERS_KEPT:]:
        if now - used[folder] > IN_USE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def parse_source(text: bytes) -> Source:
    """Return the digest of a source file without docstrings, and its imports."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [statement for statement in body if not _is_docstring(statement)]
    has_kernels = any(_makes_kernel(node) for node in nodes)
    used = _names_used_by_kernels(tree) if has_kernels else None
    return Source(
        hashlib.sha256(ast.dump(tree).encode()).hexdigest(),
        has_kernels,
        [pair for node in nodes for pair in _imports_of(node, used)],
    )


def _names_used_by_kernels(tree: ast.Module) -> set[str]:
    """Return the names that kernels and module-level statements use, directly or not."""
    plain = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not any(_makes_kernel(inner) for inner in ast.walk(node))
    }
    used: set[str] = set()
    waiting: list[ast.stmt] = [node for node in tree.body if node not in plain.values()]
    while waiting:
        inner = list(ast.walk(waiting.pop()))
        names = {node.id for node in inner if isinstance(node, ast.Name)}
        waiting += [plain[name] for name in names - used if name in plain]
        # Strings count too, because `__all__` may list re-exported names.
        used |= names | {str(node.value) for node in inner if isinstance(node, ast.Constant)}
    return used


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _makes_kernel(node: ast.AST) -> bool:
    used: list[ast.expr] = []
    if isinstance(node, ast.FunctionDef):
        used = node.decorator_list
    elif isinstance(node, ast.Call):
        used = [node.func]
    return any(getattr(name, "id", getattr(name, "attr", "")) in _DECORATORS for name in used)


def _imports_of(node: ast.AST, used: set[str] | None) -> Iterator[list[str]]:
    """Yield what a statement imports, as far as it is used; everything if ``used`` is None."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            if used is not None and bound not in used:
                continue
            if isinstance(node, ast.Import):
                yield [alias.name, ""]
            elif node.module:
                yield [node.module, alias.name]
