"""Interpreted kernels compute the same bits as compiled ones, and load no compiler."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recrawl import kernel_mode

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def output_of(*arguments: str, kernels: str | None, **variables: str) -> str:
    """Return the output of Python in a new process."""
    environment = {**os.environ, **variables}
    environment.pop(kernel_mode.MODE_VARIABLE, None)
    if kernels is not None:
        environment[kernel_mode.MODE_VARIABLE] = kernels
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the module to the state of a new process, in which no mode has been chosen."""
    monkeypatch.setattr(kernel_mode, "_chosen", None)
    monkeypatch.setattr(kernel_mode, "_is_final", False)
    monkeypatch.delenv(kernel_mode.MODE_VARIABLE, raising=False)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("picker", ["scan", "sweep"])
def test_both_modes_produce_the_same_state_and_orders(picker: str) -> None:
    compiled, interpreted = (
        output_of("-m", "tests.unit.both_modes", picker, kernels=mode).splitlines()
        for mode in ("compiled", "interpreted")
    )
    assert len(compiled) > 100
    assert interpreted == compiled


def test_interpreted_kernels_load_no_compiler() -> None:
    program = (
        "import json, sys; from recrawl.corpus import Corpus; import recrawl.core.kernel as k; "
        "print(json.dumps([k.IS_COMPILED, 'numba' in sys.modules, 'llvmlite' in sys.modules]))"
    )
    output = output_of("-c", program, kernels="interpreted")
    assert json.loads(output) == [False, False, False]


def test_opening_loads_none_of_the_slow_libraries() -> None:
    slow = ["scipy.special", "scipy.optimize", "scipy.interpolate", "scipy.stats"]
    program = (
        "import sys; from recrawl.corpus import Corpus; "
        f"print([m for m in {slow} if m in sys.modules])"
    )
    assert output_of("-c", program, kernels="interpreted").strip() == "[]"


@pytest.mark.usefixtures("unsettled")
def test_kernels_are_compiled_by_default() -> None:
    assert kernel_mode.kernel_mode() == "compiled"


@pytest.mark.usefixtures("unsettled")
def test_the_environment_overrides_the_programs_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_mode.use_kernels("interpreted") == "interpreted"
    monkeypatch.setenv(kernel_mode.MODE_VARIABLE, "compiled")
    assert kernel_mode.use_kernels("interpreted") == "compiled"
    assert kernel_mode.kernel_mode() == "compiled"


@pytest.mark.usefixtures("unsettled")
def test_the_mode_cannot_change_after_kernels_were_created() -> None:
    assert kernel_mode.use_kernels("interpreted") == "interpreted"
    assert kernel_mode.kernel_mode() == "interpreted"
    assert kernel_mode.use_kernels("interpreted") == "interpreted"
    with pytest.raises(RuntimeError, match="interpreted already"):
        kernel_mode.use_kernels("compiled")


@pytest.mark.usefixtures("unsettled")
def test_unknown_modes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="mode must be one of compiled, interpreted, got 'fast'"):
        kernel_mode.use_kernels("fast")  # type: ignore[arg-type]
    monkeypatch.setenv(kernel_mode.MODE_VARIABLE, "quick")
    with pytest.raises(ValueError, match=r"RECRAWL_KERNELS must be one of .*, got 'quick'"):
        kernel_mode.kernel_mode()
