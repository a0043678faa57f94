"""numba compiles a kernel for each combination of argument types; ours should meet only one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recrawl import kernel_mode

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
VERSIONS_MAX = 1.1


def versions_in(cache: str) -> dict[str, list[str]]:
    """Return the signatures that each kernel has been compiled for in a cache folder."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.shard.compiled_versions"],
        env={**os.environ, kernel_mode.MODE_VARIABLE: "compiled", "NUMBA_CACHE_DIR": cache},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    versions: dict[str, list[str]] = json.loads(done.stdout)
    return versions


def mean_of(versions: dict[str, list[str]]) -> float:
    return sum(map(len, versions.values())) / len(versions)


@pytest.mark.slow_without_jit
def test_shard_kernels_are_compiled_about_once_each(tmp_path: Path) -> None:
    # A kernel that is loaded from a cache would not say for what the kernels that it calls were
    # compiled.
    versions = versions_in(str(tmp_path))
    worst = sorted(versions, key=lambda name: -len(versions[name]))[:5]
    assert mean_of(versions) <= VERSIONS_MAX, "\n".join(
        [f"{mean_of(versions):.2f} versions per kernel; most have:"]
        + [f"{len(versions[name])} {name}: {versions[name]}" for name in worst]
    )
    assert len(versions) > 140
