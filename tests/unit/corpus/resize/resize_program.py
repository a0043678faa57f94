"""Change the number of partitions of a corpus; kill this process before a step that is new.

With ``--at STEP`` instead of the known steps, it is killed before that step alone.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from recrawl.corpus import present_config, resize_corpus


def main() -> None:
    folder, partitions, *known = sys.argv[1:]

    def is_last(step: str) -> bool:
        return step == known[1] if known[:1] == ["--at"] else step not in known

    def kill(step: str) -> None:
        if is_last(step):
            sys.stdout.write(f"killed before {step}\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    resize_corpus(folder, int(partitions), on_step=kill)
    sys.stdout.write(f"done with {present_config(Path(folder)).corpus.partitions}\n")


def run_until_killed(folder: Path, partitions: int, steps: list[str]) -> bool:
    """Run this program; return whether it has finished, or add the step that it was killed at."""
    killed_at = _run(folder, partitions, *steps)
    if killed_at is None:
        return True
    steps.append(killed_at)
    return False


def run_until(folder: Path, partitions: int, step: str) -> None:
    """Run this program, which is killed before a step."""
    assert _run(folder, partitions, "--at", step) == step


def _run(folder: Path, partitions: int, *arguments: str) -> str | None:
    """Run this program; return the step that it was killed at, None if it has finished."""
    module = "tests.unit.corpus.resize.resize_program"
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder), str(partitions), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.stdout.startswith("done"):
        assert done.stdout.split() == ["done", "with", str(partitions)]
        return None
    assert done.stdout.startswith("killed before"), done.stderr
    return done.stdout.strip().removeprefix("killed before ")


if __name__ == "__main__":
    main()
