"""The compiled shim, once per run."""

from pathlib import Path

import pytest

from tests.power_loss.trace import compile_shim


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("shim"))
