"""A store in a temporary folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from recrawl.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened
