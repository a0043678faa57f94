"""Seeds and Hypothesis profiles: CI is repeatable, a nightly run explores with new seeds."""

import hashlib
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.kafka_broker"]


def _numba_cache_of_these_sources() -> str:
    """Return a cache folder that no other version of the sources shares.

    numba notices when the file of a cached kernel changes, but not when a kernel that it calls
    does: edited sources would otherwise be tested with stale pieces of the old ones.
    """
    spec = find_spec("recrawl")
    assert spec is not None
    assert spec.submodule_search_locations
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for folder in (spec.submodule_search_locations[0], root / "lab", root / "benchmarks"):
        for source in sorted(Path(folder).rglob("*.py")):
            digest.update(source.read_bytes())
    return str(Path(tempfile.gettempdir()) / f"recrawl-numba-{digest.hexdigest()[:16]}")


if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = _numba_cache_of_these_sources()
JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2_000, deadline=None)
settings.register_profile(
    "interpreted",
    derandomize=True,
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "interpreted" if JIT_DISABLED else "ci"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that asks for ``seed`` once per seed in RECRAWL_TEST_SEEDS ("0-99")."""
    if "seed" in metafunc.fixturenames:
        first, _, last = os.environ.get("RECRAWL_TEST_SEEDS", "0").partition("-")
        metafunc.parametrize("seed", range(int(first), int(last or first) + 1))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a broker; skip what takes minutes where kernels are interpreted."""
    for item in items:
        if {"kafka_bootstrap", "kafka_topic"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)
        if JIT_DISABLED and item.get_closest_marker("slow_without_jit"):
            item.add_marker(pytest.mark.skip(reason="slow without compiled kernels"))


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Return a generator seeded with the test's seed."""
    return np.random.default_rng(seed)
