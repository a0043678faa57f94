"""Brokers and workers of a cluster on this machine, for the benchmarks that start one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

import recrawl
from benchmarks.scale import synthetic_urls
from recrawl.cluster import rotate_cluster_keys
from recrawl.corpus import CorpusConfig

__all__ = ["Brokers", "Workers", "add_pages", "first_pages", "memory_gigabytes"]

_IN_SYNC_SECONDS_MAX: Final = 300.0
_PAGES_PER_CALL: Final = 1 << 17
_PAGES_PER_HOST: Final = 50
_SCRIPT: Final = Path(__file__).parents[1] / "scripts" / "kafka"


class Brokers:
    """Real brokers.

    Parameters
    ----------
    folder
        Folder for their data.
    n_brokers
        Number of brokers.
    """

    def __init__(self, folder: Path, n_brokers: int) -> None:
        self._folder = folder
        self._n_brokers = n_brokers
        self._state = self._up()
        self._killed: set[int] = set()

    def _up(self) -> dict[str, Any]:
        command = [sys.executable, str(_SCRIPT), "up", "--brokers", str(self._n_brokers)]
        done = subprocess.run(
            [*command, "--folder", str(self._folder)], check=True, capture_output=True, text=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers."""
        return str(self._state["bootstrap"])

    @property
    def process_ids(self) -> list[int]:
        """Process of each broker."""
        return list(self._state["pids"])

    def kill(self, number: int) -> None:
        """Kill a broker."""
        self._killed.add(number)
        os.kill(self._state["pids"][number], signal.SIGKILL)

    def start_again(self) -> None:
        """Start the brokers that do not run, and wait until all copies are complete again."""
        self._state = self._up()
        deadline = time.monotonic() + _IN_SYNC_SECONDS_MAX
        # The others list a killed broker for some seconds, with complete copies, so it is asked
        # itself: it answers when it takes part again.
        addresses = self.bootstrap.split(",")
        for number in sorted(self._killed):
            while not _sees_complete_copies(addresses[number]):
                if time.monotonic() > deadline:
                    raise RuntimeError("the brokers do not catch up")
                time.sleep(0.2)
        self._killed.clear()

    def close(self) -> None:
        """Stop the brokers."""
        command = [sys.executable, str(_SCRIPT), "down", "--folder", str(self._folder)]
        subprocess.run(command, check=True, capture_output=True)


def _sees_complete_copies(broker: str) -> bool:
    """Return whether a broker answers, and all brokers have complete copies by what it knows."""
    # A new client, which asks this broker first.
    quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}
    admin = AdminClient({"bootstrap.servers": broker, **quiet})
    try:
        topics = admin.list_topics(timeout=2.0).topics.values()
    except KafkaException:
        return False
    return all(
        len(one.isrs) == len(one.replicas) for topic in topics for one in topic.partitions.values()
    )


class Workers:
    """Processes of ``recrawl worker``, by name.

    Parameters
    ----------
    folder
        Folder for the folders of the workers, their keys and what they print.
    settings
        Text of each worker's ``recrawl.toml``.
    """

    def __init__(self, folder: Path, settings: str) -> None:
        self.folder = folder
        self._settings = settings
        self._keys = folder / "cluster.keys"
        rotate_cluster_keys(self._keys, time.time_ns() // 1_000_000)
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._ports: dict[str, int] = {}

    def start(self, name: str) -> None:
        """Start a worker, and wait until it listens."""
        own = self.folder / name
        own.mkdir(exist_ok=True)
        (own / "recrawl.toml").write_text(self._settings)
        port = str(self._ports.get(name, 0))
        arguments = ["--worker-name", name, "--keys", str(self._keys), "--port", port]
        with (self.folder / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "recrawl", "worker", *arguments, "-C", str(own), "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.processes[name] = process
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} did not start; see {self.folder / f'{name}.log'}")
        self._ports[name] = urlsplit(json.loads(line)["url"]).port or 0

    def url(self, name: str) -> str:
        """Return the URL of the corpus at a worker."""
        return f"http://127.0.0.1:{self._ports[name]}/v1/corpora/corpus"

    def end(self, name: str, number: int) -> None:
        """End a worker by a signal."""
        process = self.processes.pop(name)
        process.send_signal(number)
        process.communicate()

    def close(self) -> None:
        """Stop all workers."""
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes.values():
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def add_pages(folder: Path, settings: str, n_pages: int) -> None:
    """Add pages in the folder of a worker that does not run yet.

    Parameters
    ----------
    folder
        Folder of the worker, which does not exist yet.
    settings
        Text of its ``recrawl.toml``.
    n_pages
        Number of pages.
    """
    folder.mkdir()
    file = folder / "recrawl.toml"
    file.write_text(settings)
    with recrawl.open(folder, CorpusConfig.from_toml(file)) as corpus:
        for first in range(0, n_pages, _PAGES_PER_CALL):
            corpus.add(_pages_from(first, n_pages))


def first_pages(n_pages: int) -> pa.StringArray:
    """Return the URLs of the first pages that `add_pages` adds, on many hosts."""
    return _pages_from(0, n_pages)


def _pages_from(first: int, n_pages: int) -> pa.StringArray:
    n_hosts = max(n_pages // _PAGES_PER_HOST, 1)
    return synthetic_urls(first, min(_PAGES_PER_CALL, n_pages - first), n_hosts)


def memory_gigabytes(process: int) -> float:
    """Return the memory of a process, with its part of what it shares with others."""
    # The table of due times is mapped once for each partition, and all share its memory.
    sizes = Path(f"/proc/{process}/smaps_rollup").read_text()
    (line,) = [line for line in sizes.splitlines() if line.startswith("Pss:")]
    return int(line.split()[1]) * 1_024 / 1e9
