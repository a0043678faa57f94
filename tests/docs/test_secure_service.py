"""The guide "Secure a service" runs as written."""

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.tutorial_shell import Shell, steps, words

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[2] / "docs/how-to/secure-a-service.md").read_text("utf-8")
PORT = "8377"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, PORT)
    shell.environment["RECRAWL_KERNELS"] = "interpreted"
    yield shell
    shell.close()


@pytest.mark.slow_without_jit
def test_the_guide_runs_as_written(shell: Shell) -> None:
    for program in ("curl", "openssl"):
        assert shutil.which(program), f"install {program}; CI does so by itself"
    for step in steps(PAGE):
        if step.command.startswith("recrawl serve"):
            assert "https://0.0.0.0:" in shell.serve(step.command)
            continue
        code, printed, remarks = shell.run(step.command.replace(PORT, shell.port))
        assert code == 0, (step.command, printed, remarks)
        assert "Traceback" not in remarks, remarks
        if step.shown:
            assert words(step.shown) == words(printed), step.command
    for file in shell.folder.glob("*.key"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for process in shell.processes:
        process.terminate()
        assert process.wait(60) == 0
