"""Configuration of all tests: random seeds, Hypothesis profiles, markers, kernel cache."""

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.numba_cache import cache_folder, modules_under

pytest_plugins = ["tests.kafka_broker"]


def _numba_cache_of_these_sources() -> str:
    """Return a cache folder that no other version of the kernels shares."""
    spec = find_spec("recrawl")
    assert spec is not None
    assert spec.submodule_search_locations
    root = Path(__file__).parents[1]
    packages = (
        spec.submodule_search_locations[0],
        root / "lab",
        root / "benchmarks",
        root / "tests",
    )
    modules = modules_under(Path(package) for package in packages)
    return str(cache_folder(Path(tempfile.gettempdir()), modules))


if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = _numba_cache_of_these_sources()
# Folders whose tests sample, simulate or run whole programs.
SLOW_FOLDERS = [
    Path(__file__).parent / name
    for name in ("statistical", "simulation", "power_loss", "unit/benchmarks")
]
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
    """Mark tests that need a broker; skip very slow tests if kernels are interpreted."""
    for item in items:
        if {"kafka_bootstrap", "kafka_topic"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)
        if any(folder in item.path.parents for folder in SLOW_FOLDERS):
            item.add_marker(pytest.mark.slow)
        if JIT_DISABLED and item.get_closest_marker("slow_without_jit"):
            item.add_marker(pytest.mark.skip(reason="slow without compiled kernels"))


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Return a generator seeded with the test's seed."""
    return np.random.default_rng(seed)
