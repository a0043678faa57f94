"""Use a smaller due table with interpreted kernels: building the real one takes minutes."""

from collections.abc import Iterator

import pytest

from tests.conftest import JIT_DISABLED
from tests.reference.shards import with_small_table


@pytest.fixture(autouse=True, scope="session")
def small_table_without_jit() -> Iterator[None]:
    if not JIT_DISABLED:
        yield
        return
    with with_small_table():
        yield
