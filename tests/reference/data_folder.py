"""The folder of real histories that some tests read; they are too large for the repository."""

import importlib
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lab.recorded import data_folder


def _skip_test(reason: str) -> NoReturn:
    """Skip the test, except in CI, where it fails."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def data_file(name: str) -> Path:
    """Return the path of a file in the data folder; skip the test if it is missing."""
    path = data_folder() / name
    if not path.is_file():
        _skip_test(f"{name} is not in {path.parent}; set RECRAWL_DATA to the folder that has it")
    return path


def reader(module: str) -> Any:
    """Return an optional module that reads such files."""
    try:
        return importlib.import_module(module)
    except ImportError:
        _skip_test(f"{module} is not installed")
