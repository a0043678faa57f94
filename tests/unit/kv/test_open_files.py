"""A process with many databases may have as many open files as they need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recrawl.kv import FILES_PER_DATABASE, KeyValues

# The limits belong to the whole process, so each case has one of its own.
_PROGRAM = """
import logging, resource, sys
from recrawl.kv import allow_databases
logging.basicConfig(format="%(message)s")
soft, hard, n = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(allow_databases(n), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def limits_after(soft: int, hard: int, n: int) -> tuple[list[int], str]:
    command = [sys.executable, "-c", _PROGRAM, str(soft), str(hard), str(n)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return [*map(int, ended.stdout.split())], ended.stderr


def test_few_databases_leave_the_limit_as_it_is() -> None:
    assert limits_after(1_024, 4_096, 4) == ([1_024, 1_024, 4_096], "")


def test_many_databases_raise_the_limit_to_what_they_need() -> None:
    found, said = limits_after(1_024, 16_384, 256)
    assert found[0] == found[1] >= 256 * FILES_PER_DATABASE
    assert found[1] < found[2] == 16_384
    assert said == ""


def test_a_limit_is_never_lowered() -> None:
    assert limits_after(4_000, 4_096, 8)[0] == [4_000, 4_000, 4_096]


def test_a_warning_says_that_the_system_permits_too_few() -> None:
    found, said = limits_after(512, 1_024, 256)
    assert found == [1_024, 1_024, 1_024]
    assert "256 partitions need more than 1536 open files" in said
    assert "permits 1024" in said


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="lists open files in /proc")
def test_a_new_database_opens_as_many_files_as_is_said(tmp_path: Path) -> None:
    with KeyValues.open(tmp_path / "a"):
        n_before = len(os.listdir("/proc/self/fd"))
        with KeyValues.open(tmp_path / "b"):
            assert len(os.listdir("/proc/self/fd")) - n_before == FILES_PER_DATABASE
