"""ARCHITECTURE.md lists the files that each call really passes through."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_paths_in_the_architecture_page_are_up_to_date() -> None:
    """The script needs a process of its own, because it interprets kernels."""
    environment = {key: value for key, value in os.environ.items() if key != "RECRAWL_KERNELS"}
    done = subprocess.run(
        [sys.executable, "-m", "scripts.call_paths", "--check"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
