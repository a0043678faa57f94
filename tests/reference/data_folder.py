"""Where the real histories are that some tests read; they are too large for the repository."""

import importlib
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lab.recorded import data_folder


def _without(what: str) -> NoReturn:
    """Skip the test, except in CI, where it fails."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def data_file(name: str) -> Path:
    """Return the file, in the folder where the lab looks too."""
    path = data_folder() / name
    if not path.is_file():
        _without(f"{name} is not in {path.parent}; set RECRAWL_DATA to the folder that has it")
    return path


def reader(module: str) -> Any:
    """Return a module that reads such files, and that recrawl itself does without."""
    try:
        return importlib.import_module(module)
    except ImportError:
        _without(f"{module} is not installed")
