"""The guide "Run a cluster" runs as written: three brokers, three workers and two fetchers."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.test_shared_corpus import SITES, sites
from tests.docs.tutorial_shell import Shell, Step, steps

__all__ = ["sites"]

# Each of its waits may take minutes on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/run-a-cluster.md").read_text("utf-8")
PORTS = ("8381", "8382", "8383")
WORKERS = ("worker-1", "worker-2", "worker-3")
SNAPSHOTS = "/tmp/news-snapshots"
N_PARTITIONS = 12
# Number, owner, pages, quota, snapshot and standby of a partition.
ROW = re.compile(r"\s*\d+\s+(worker-\d)\s+\d+\s.*\bworker-\d \([\d.]+ s\)")
# Generous, because machines that run tests may be busy.
SECONDS_MAX = 180.0


def free_ports() -> list[str]:
    """Return free ports below those that the system gives to clients, so that they stay free."""
    found: list[str] = []
    while len(found) < len(PORTS):
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(str(port))
    return found


def wait_until(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < give_up_at, what()
        time.sleep(0.2)


class Guide:
    """Runs the commands of the guide, with addresses and folders of this test."""

    def __init__(self, folder: Path, sites: list[str]) -> None:
        self.folder = folder
        self.shell = Shell(folder, PORTS[0])
        self.shell.environment |= {
            "RECRAWL_KERNELS": "interpreted",
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self._replaced = {
            **dict(zip(PORTS, free_ports(), strict=True)),
            **dict(zip(SITES, sites, strict=True)),
            SNAPSHOTS: str(folder / "snapshots"),
            "recrawl run": "recrawl run --allow-network 127.0.0.1/32",
            "scripts/kafka": f"python {ROOT / 'scripts/kafka'}",
        }
        self.n_partitions = N_PARTITIONS
        (self._config,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)

    def run(self, step: Step) -> str:
        command = step.command
        for shown, real in self._replaced.items():
            command = command.replace(shown, real)
        code, printed, remarks = self.shell.run(command)
        assert code == 0, (command, printed, remarks, self.logs())
        assert "Traceback" not in remarks, remarks
        return printed

    def start_brokers(self, step: Step) -> None:
        found = json.loads(self.run(step))
        (shown,) = re.findall(r'^bootstrap = "(.*)"$', self._config, re.M)
        assert json.loads(step.shown).keys() == found.keys()
        assert json.loads(step.shown)["bootstrap"] == shown
        config = self._config.replace(shown, found["bootstrap"])
        config = config.replace(SNAPSHOTS, self._replaced[SNAPSHOTS])
        (self.folder / "recrawl.toml").write_text(config)

    def wait_for_owners(self, step: Step, owners: set[str]) -> None:
        """Repeat ``recrawl cluster status`` until exactly these workers own partitions.

        Each partition must have a standby, too.
        """
        printed = ""

        def is_so() -> bool:
            nonlocal printed
            code, printed, _ = self.shell.run(step.command)
            rows = [found[1] for line in printed.splitlines() if (found := ROW.match(line))]
            return code == 0 and len(rows) == self.n_partitions and set(rows) == owners

        wait_until(is_so, lambda: (owners, printed, self.logs()))

    def logs(self) -> str:
        files = [self.folder / f"{worker}.log" for worker in WORKERS]
        return "\n".join(file.read_text() for file in files if file.exists())

    def has_stopped(self, worker: str) -> bool:
        return "Stopped." in (self.folder / f"{worker}.log").read_text()

    def close(self) -> None:
        for worker in WORKERS:
            file = self.folder / f"{worker}.pid"
            if file.exists() and not self.has_stopped(worker):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(file.read_text()), signal.SIGKILL)
        self.shell.run(f"{self._replaced['scripts/kafka']} down --folder brokers")


@pytest.fixture
def guide(tmp_path: Path, sites: list[str]) -> Iterator[Guide]:
    guide = Guide(tmp_path, sites)
    try:
        yield guide
    finally:
        guide.close()


@pytest.mark.slow_without_jit
def test_the_guide_runs_as_written(guide: Guide) -> None:
    owners = set(WORKERS)
    for step in steps(PAGE):
        command = step.command
        if command.startswith("pip "):
            continue  # recrawl is installed, or this test would not run
        if command.startswith("scripts/kafka up"):
            guide.start_brokers(step)
        elif command.startswith("recrawl cluster status"):
            guide.wait_for_owners(step, owners)
        elif command.startswith("tail"):
            wait_until(lambda: all(map(guide.has_stopped, WORKERS)), guide.logs)
            assert guide.run(step).count("Stopped.") == len(WORKERS)
        else:
            printed = guide.run(step)
            if command.startswith("recrawl worker"):
                (worker,) = re.findall(r"--worker-name (\S+)", command)
                owners |= {worker}
            elif command.startswith("kill -9"):
                owners -= set(re.findall(r"worker-\d", command))
            elif command.startswith("recrawl cluster drain"):
                (worker,) = re.findall(r"worker-\d", command.split(" -C ")[0])
                owners = owners | {worker} if "--undo" in command else owners - {worker}
            elif command.startswith("recrawl resize"):
                (number,) = re.findall(r"--partitions (\d+)", command)
                guide.n_partitions = int(number)
                assert f"from {N_PARTITIONS} to {number} partitions" in printed, printed
            elif command.startswith("recrawl changes"):
                assert printed.count("new") == len(SITES), printed
            elif command.startswith("recrawl stats"):
                assert "3 pages" in printed or "pages 3" in " ".join(printed.split()), printed
