"""recrawl works where no folder for compiled code can be written to, and says so once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import recrawl
from recrawl import kernel_mode

NOTICE = "No folder for compiled code can be written to."
# A path below a file: nobody can create it, not even root.
NOWHERE = f"{os.devnull}/nowhere"
KERNEL = """
import logging
logging.basicConfig()
from recrawl.core.kernel import IS_COMPILED, kernel
from recrawl.core.price.promise import latest_elapsed
from recrawl.kernel_mode import uncached_notice

@kernel
def double(x: float) -> float:
    return 2.0 * x

assert IS_COMPILED
print(double(1.5), uncached_notice() is None, uncached_notice())
"""


@pytest.fixture
def read_only(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process in which no folder for compiled code is writable.

    A file takes the place of each folder that numba would use.
    """
    package = tmp_path / "installed" / "recrawl"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(recrawl.__file__).parent, package, ignore=ignored)
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__pycache__").touch()
    unset = ("NUMBA_DISABLE_JIT", "RECRAWL_KERNELS", "PYTHONPYCACHEPREFIX", "XDG_CACHE_HOME")
    return {name: value for name, value in os.environ.items() if name not in unset} | {
        "HOME": NOWHERE,
        "NUMBA_CACHE_DIR": NOWHERE,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(package.parent),
    }


def run(
    environment: dict[str, str], *arguments: str, cwd: Path
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    return done


def test_kernels_are_compiled_in_memory(read_only: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(KERNEL)
    done = run(read_only, "program.py", cwd=tmp_path)
    assert done.stdout == "3.0 False None\n"


def test_code_that_was_compiled_before_is_used_from_a_folder_that_is_read_only(
    tmp_path: Path,
) -> None:
    """The folder is taken for read-only; a file that is written nevertheless would be an error."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, tempfile\n"
        "if sys.argv[1:]:\n"
        "    def refuse(*arguments, **settings):\n"
        "        raise PermissionError('read-only')\n"
        "    tempfile.TemporaryFile = refuse\n"
        "    import numba.core.caching as caching\n"
        "    caching.IndexDataCacheFile._open_for_write = refuse\n"
        + KERNEL
        + "print(sum(double.stats.cache_hits.values()))\n"
    )
    unset = ("NUMBA_DISABLE_JIT", "RECRAWL_KERNELS")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    first = run(environment, "program.py", cwd=tmp_path)
    assert first.stdout.endswith("\n0\n")
    second = run(environment, "program.py", "read-only", cwd=tmp_path)
    assert second.stdout.endswith("\n1\n")
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "others")
    third = run(environment, "program.py", "read-only", cwd=tmp_path)
    assert third.stdout.endswith("\n0\n")


def test_commands_work_and_a_small_corpus_runs_interpreted(
    read_only: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "urls.txt").write_text("https://a.example/\n")
    for arguments in (("init",), ("add", "urls.txt"), ("lease", "1"), ("stats",), ("doctor",)):
        done = run(read_only, "-m", "recrawl", *arguments, cwd=tmp_path)
        assert NOTICE not in done.stderr
    assert "no folder for compiled code can be written to" in done.stdout


def test_a_command_that_must_compile_says_so_once(
    read_only: dict[str, str], tmp_path: Path
) -> None:
    """NUMBA_DISABLE_JIT only saves the minute of compiling."""
    environment = read_only | {"RECRAWL_KERNELS": "compiled", "NUMBA_DISABLE_JIT": "1"}
    (tmp_path / "urls.txt").write_text("https://a.example/\n")
    done = run(environment, "-m", "recrawl", "init", cwd=tmp_path)
    assert " ".join(done.stderr.split()).count(NOTICE) == 1
    compiling = subprocess.run(
        [sys.executable, "-m", "recrawl", "doctor", "--compile"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert compiling.returncode == 1
    assert "compiled code cannot be kept" in compiling.stderr


def test_a_user_without_a_home_has_a_cache_folder_that_nobody_can_create(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    folder = kernel_mode.user_cache_folder()
    with pytest.raises(OSError, match="Not a directory"):
        folder.mkdir(parents=True)
