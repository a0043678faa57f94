"""The tests' cache folder of compiled kernels changes only with what kernels depend on."""

import os
from pathlib import Path

import pytest

import recrawl
from tests.numba_cache import (
    FOLDERS_KEPT,
    IN_USE_SECONDS,
    PREFIX,
    Sources,
    cache_folder,
    kernel_modules,
    modules_under,
    prune,
)

FILES = {
    "__init__": "from web.numbers import LIMIT\nfrom web.report import show\n",
    "numbers": "from web.units import HOUR\nLIMIT = 3 * HOUR\n",
    "units": "HOUR = 3600\n",
    "tools": "def kernel(function):\n    return function\n",
    "report": "def show():\n    return 1\n",
    "rows": (
        '"""Rows."""\n'
        "from web import LIMIT, show\n"
        "from web.tools import kernel\n\n\n"
        "@kernel\ndef double(x):\n    return min(2 * x, LIMIT)\n\n\n"
        "def shown():\n    return show()\n"
    ),
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package of one module with a kernel and others, some of which it uses."""
    folder = tmp_path / "web"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def folder_of(package: Path) -> Path:
    return cache_folder(package.parent, modules_under([package]))


def edit(package: Path, name: str, old: str, new: str) -> None:
    path = package / f"{name}.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_kernel_modules_include_the_modules_they_use(package: Path) -> None:
    sources = Sources(modules_under([package]), package.parent / "memo")
    assert kernel_modules(sources) == ["web.numbers", "web.rows", "web.tools", "web.units"]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("rows", "2 * x", "3 * x"),
        ("numbers", "3 *", "4 *"),
        ("units", "3600", "60"),
        ("tools", "return function", "return lambda x: function(x)"),
    ],
)
def test_an_edit_that_kernels_depend_on_gives_another_folder(
    package: Path, name: str, old: str, new: str
) -> None:
    before = folder_of(package)
    edit(package, name, old, new)
    assert folder_of(package) != before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("report", "return 1", "return 2"),
        ("rows", '"""Rows."""', '"""Rows\n\nof tables."""'),
        ("rows", "    return min", "    # at most\n    return min"),
        ("rows", "def double(x):\n", 'def double(x):\n    """Double."""\n'),
        ("units", "3600", '3600  # seconds\n"""Of an hour."""'),
    ],
)
def test_other_edits_keep_the_folder(package: Path, name: str, old: str, new: str) -> None:
    before = folder_of(package)
    edit(package, name, old, new)
    assert folder_of(package) == before


def test_undoing_an_edit_leads_back_to_the_old_folder(package: Path) -> None:
    before = folder_of(package)
    edit(package, "units", "3600", "60")
    folder_of(package)
    edit(package, "units", "60", "3600")
    assert folder_of(package) == before


def test_a_damaged_memo_is_ignored(package: Path) -> None:
    before = folder_of(package)
    (memo,) = package.parent.glob("*.json")
    memo.write_text("{")
    assert folder_of(package) == before


def test_kernel_modules_of_recrawl_include_the_shard_but_not_the_command_line(
    tmp_path: Path,
) -> None:
    sources = Sources(modules_under([Path(recrawl.__file__).parent]), tmp_path / "memo")
    found = kernel_modules(sources)
    assert any(name.startswith("recrawl.shard.picker") for name in found)
    assert any(name.endswith(".rules") for name in found)
    assert not any(name.startswith("recrawl.cli") for name in found)


def test_prune_keeps_recent_folders_and_those_in_use(tmp_path: Path) -> None:
    now = 1_000_000_000.0
    ages = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    for number, age in enumerate(ages):
        folder = tmp_path / f"{PREFIX}{number}"
        (folder / "inner").mkdir(parents=True)
        os.utime(folder, (now, now - age * IN_USE_SECONDS))
    other = tmp_path / "another-folder"
    other.mkdir()
    os.utime(other, (0, 0))
    prune(tmp_path, now)
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {other.name, *(f"{PREFIX}{number}" for number in range(FOLDERS_KEPT))}
    for number in range(FOLDERS_KEPT, FOLDERS_KEPT + 3):  # more than are kept, all in use
        (tmp_path / f"{PREFIX}{number}").mkdir()
    for path in tmp_path.glob(f"{PREFIX}*"):
        os.utime(path, (now, now))
    prune(tmp_path, now)
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == FOLDERS_KEPT + 3
