"""Interpreted kernels do what compiled ones do, to the last bit, and need no compiler."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recrawl import kernel_mode

ROOT = Path(__file__).parents[2]


def said_by(*arguments: str, kernels: str | None, **variables: str) -> str:
    """Return what a new process prints."""
    environment = {**os.environ, **variables}
    environment.pop(kernel_mode.VARIABLE, None)
    if kernels is not None:
        environment[kernel_mode.VARIABLE] = kernels
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
    """Begin as a process does in which nothing has been chosen."""
    monkeypatch.setattr(kernel_mode, "_chosen", None)
    monkeypatch.setattr(kernel_mode, "_is_settled", False)
    monkeypatch.delenv(kernel_mode.VARIABLE, raising=False)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("picker", ["scan", "sweep"])
def test_the_same_happenings_lead_to_the_same_bits_and_orders(picker: str) -> None:
    compiled, interpreted = (
        said_by("-m", "tests.unit.both_modes", picker, kernels=mode).splitlines()
        for mode in ("compiled", "interpreted")
    )
    assert len(compiled) > 100
    assert interpreted == compiled


def test_interpreted_kernels_load_no_compiler() -> None:
    program = (
        "import json, sys, recrawl.corpus, recrawl.core.kernel as k; "
        "print(json.dumps([k.IS_COMPILED, 'numba' in sys.modules, 'llvmlite' in sys.modules]))"
    )
    said = said_by("-c", program, kernels="interpreted")
    assert json.loads(said) == [False, False, False]


def test_opening_loads_none_of_the_slow_libraries() -> None:
    slow = ["scipy.special", "scipy.optimize", "scipy.interpolate", "scipy.stats"]
    program = f"import json, sys, recrawl.corpus; print([m for m in {slow} if m in sys.modules])"
    assert said_by("-c", program, kernels="interpreted").strip() == "[]"


@pytest.mark.usefixtures("unsettled")
def test_kernels_are_compiled_unless_told_otherwise() -> None:
    assert kernel_mode.kernel_mode() == "compiled"


@pytest.mark.usefixtures("unsettled")
def test_a_program_chooses_and_the_user_goes_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_mode.use_kernels("interpreted") == "interpreted"
    monkeypatch.setenv(kernel_mode.VARIABLE, "compiled")
    assert kernel_mode.use_kernels("interpreted") == "compiled"
    assert kernel_mode.kernel_mode() == "compiled"


@pytest.mark.usefixtures("unsettled")
def test_what_kernels_were_made_with_cannot_be_changed() -> None:
    assert kernel_mode.use_kernels("interpreted") == "interpreted"
    assert kernel_mode.kernel_mode() == "interpreted"
    assert kernel_mode.use_kernels("interpreted") == "interpreted"
    with pytest.raises(RuntimeError, match="interpreted already"):
        kernel_mode.use_kernels("compiled")


@pytest.mark.usefixtures("unsettled")
def test_other_words_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="mode must be one of compiled, interpreted, got 'fast'"):
        kernel_mode.use_kernels("fast")  # type: ignore[arg-type]
    monkeypatch.setenv(kernel_mode.VARIABLE, "quick")
    with pytest.raises(ValueError, match=r"RECRAWL_KERNELS must be one of .*, got 'quick'"):
        kernel_mode.kernel_mode()
