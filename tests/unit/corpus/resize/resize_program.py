"""Change the number of partitions of a corpus; kill this process before a step that is new."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from recrawl.corpus import present_config, resize_corpus


def main() -> None:
    folder, partitions, *known = sys.argv[1:]

    def kill(step: str) -> None:
        if step not in known:
            sys.stdout.write(f"killed before {step}\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    resize_corpus(folder, int(partitions), on_step=kill)
    sys.stdout.write(f"done with {present_config(Path(folder)).corpus.partitions}\n")


def run_until_killed(folder: Path, partitions: int, steps: list[str]) -> bool:
    """Run this program; return whether it has finished, or add the step that it was killed at."""
    module = "tests.unit.corpus.resize.resize_program"
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder), str(partitions), *steps],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.stdout.startswith("done"):
        assert done.stdout.split() == ["done", "with", str(partitions)]
        return True
    assert done.stdout.startswith("killed before"), done.stderr
    steps.append(done.stdout.strip().removeprefix("killed before "))
    return False


if __name__ == "__main__":
    main()
