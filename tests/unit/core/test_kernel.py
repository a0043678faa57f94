"""Kernels are compiled once per kind of argument, and survive the cache of an older version."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from typing import NamedTuple
import numpy as np
from recrawl.core.kernel import kernel

Pair = NamedTuple(sys.argv[1], [("a", np.ndarray)])
Pair.__module__ = __name__
globals()[sys.argv[1]] = Pair

@kernel
def total(pair):
    return pair.a.sum()

print(total(Pair(np.arange(4.0))))
"""


@pytest.mark.slow_without_jit
def test_a_cache_that_names_a_class_of_an_older_version_is_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    for name in ("Older", "Newer"):
        done = subprocess.run(
            [sys.executable, str(program), name], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "6.0\n"
    (index,) = (tmp_path / "cache").rglob("*.nbi")
    with index.open("rb") as file:
        pickle.load(file)  # the version of numba
        assert b"Newer" in file.read()


_UNKNOWN_NUMBA = """
import numba
numba.__version__ = "0.99.0"
from typing import NamedTuple
import numpy as np
from recrawl.core.kernel import IS_COMPILED, kernel, table_kernel

class Table(NamedTuple):
    amount: np.ndarray
    step: float

@kernel
def double(number: float) -> float:
    return 2.0 * number

@table_kernel
def raise_all(table: Table, n: int) -> None:
    for i in range(n):
        table.amount[i] += double(table.step)

if __name__ == "__main__":
    table = Table(np.zeros(4), 1.5)
    raise_all(table, 3)
    assert IS_COMPILED and len(raise_all.signatures) == 1
    print(table.amount.tolist())
"""


@pytest.mark.slow_without_jit
def test_kernels_work_with_versions_of_numba_that_are_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What extends numba is left out, because a new version may have changed its internals."""
    script = tmp_path / "later_numba.py"
    script.write_text(_UNKNOWN_NUMBA)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[3.0, 3.0, 3.0, 0.0]\n"
