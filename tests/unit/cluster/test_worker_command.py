"""``recrawl worker`` and ``recrawl cluster``: real processes that are killed and stopped."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from recrawl import Outcome
from recrawl.cli import main
from recrawl.client import Client
from recrawl.corpus import Order, RowStatus
from recrawl.errors import RecrawlError
from recrawl.folder_lock import FolderLock
from recrawl.node.durability.corpus_format import CorpusFormat, new_corpus_id, write_format
from recrawl.urls import CANON_VERSION
from tests.unit.corpus.resize.resize_program import run_until

# On a busy machine each wait may take minutes.
pytestmark = pytest.mark.timeout(1_800)

URLS = [f"https://h{i}.example/page" for i in range(40)]
N_PARTITIONS = 4
LEASE_SECONDS = 900.0
# Orders in an answer that came too late are lost until they expire.
LOST_SECONDS_MAX = LEASE_SECONDS + 100.0


class Workers:
    """Processes of ``recrawl worker``."""

    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        self.folder = folder
        self.settings = (
            f"[corpus]\npartitions = {N_PARTITIONS}\n"
            f'[ledger]\nkind = "kafka"\nbootstrap = "{bootstrap}"\n'
            f'topic = "{topic}"\nreplication = 1\n'
            f'[snapshots]\nshared = "{folder / "shared"}"\n'
            '[budget]\nrate = "1000/s"\n'
        )
        self.keys = folder / "cluster.keys"
        (folder / "shared").mkdir()
        self.run("rotate-keys", str(self.keys))
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.urls: dict[str, str] = {}

    def start(self, name: str, program: str = "recrawl") -> None:
        own = self.folder / name
        own.mkdir(exist_ok=True)
        (own / "recrawl.toml").write_text(self.settings)
        arguments = ["--worker-name", name, "--keys", str(self.keys), "--port", "0", "-C", str(own)]
        with (self.folder / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", program, "worker", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"RECRAWL_KERNELS": "interpreted"},
            )
        self.processes[name] = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (self.folder / f"{name}.log").read_text()
        self.urls[name] = json.loads(line)["url"] + "v1/corpora/corpus"

    def run(self, *arguments: str, exit_code: int | None = 0) -> list[dict[str, Any]]:
        done = CliRunner().invoke(main, ["cluster", *arguments])
        assert exit_code is None or done.exit_code == exit_code, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    def stop(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGTERM)
        self.processes[name].communicate(timeout=300)
        assert self.processes[name].returncode == 0

    def problems(self) -> str:
        rows = self.run("status", "-C", str(self.folder / "a"), exit_code=None)
        return " ".join(row["problem"] for row in rows if "problem" in row)

    def owners(self) -> dict[int, str | None]:
        rows = self.run("status", "-C", str(self.folder / "a"), exit_code=None)
        return {row["partition"]: row["owner"] for row in rows if "partition" in row}

    def figures(self, name: str) -> dict[Any, float]:
        """Return the metrics of the cluster by their names and labels, as a worker has them."""
        url = self.urls[name].partition("/v1")[0] + "/metrics"
        with urlopen(url, timeout=300) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        found: dict[Any, float] = {}
        for sample in (one for family in families for one in family.samples):
            own = sample.name.removeprefix("recrawl_cluster_")
            labels = [v for k, v in sample.labels.items() if k not in ("corpus", "le")]
            if own != sample.name:
                found[(own, *labels) if labels else own] = sample.value
        return found

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()


@pytest.fixture
def workers(tmp_path: Path, kafka_bootstrap: str, kafka_topic: str) -> Iterator[Workers]:
    made = Workers(tmp_path, kafka_bootstrap, kafka_topic)
    try:
        yield made
    finally:
        made.end()


def wait_until(is_so: Callable[[], bool], seconds_max: float = 240.0) -> None:
    give_up_at = time.monotonic() + seconds_max
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.1)


def repeat_unavailable(
    call: Callable[[list[Any]], Any], given: Sequence[Any], expected: RowStatus = RowStatus.DONE
) -> None:
    """Make a call, again for rows that are unavailable, until each has the expected status.

    Workers wait some seconds for each other.  A row whose owner has answered later counts as well,
    so its repetition may be a duplicate.
    """
    rows, allowed = list(given), {expected}

    def is_done() -> bool:
        nonlocal rows, allowed
        found = [RowStatus(status) for status in call(rows).rows]
        assert set(found) <= {*allowed, RowStatus.UNAVAILABLE}
        pairs = zip(rows, found, strict=True)
        rows = [row for row, status in pairs if status == RowStatus.UNAVAILABLE]
        allowed = {expected, RowStatus.DUPLICATE}
        return not rows

    wait_until(is_done)


def add_new(client: Client, urls: Sequence[str]) -> None:
    """Add pages of which none is tracked yet."""
    repeat_unavailable(client.add, urls)


def check_known(client: Client, urls: Sequence[str]) -> None:
    """Check that pages are tracked, by adding them again."""
    repeat_unavailable(client.add, urls, RowStatus.DUPLICATE)


def lease_exactly(client: Client, n: int, seconds: float | None = None) -> list[Order]:
    """Lease the missing orders again until there are enough: a worker may answer too late."""
    orders: list[Order] = []

    def is_enough() -> bool:
        orders.extend(client.lease(n - len(orders), seconds=seconds))
        return len(orders) == n

    wait_until(is_enough, LOST_SECONDS_MAX)
    return orders


@pytest.mark.slow_without_jit
def test_any_worker_answers_and_nothing_is_lost_when_one_is_killed(workers: Workers) -> None:
    for name in "ab":
        workers.start(name)
        workers.figures(name)
        log = (workers.folder / f"{name}.log").read_text()
        assert "could not be read" not in log  # also before it has any partition
    wait_until(lambda: set(workers.owners().values()) == {"a", "b"})
    wait_until(lambda: sum(workers.figures(one)["owned_partitions"] for one in "ab") == 4)
    with Client(workers.urls["a"]) as first, Client(workers.urls["b"]) as second:
        add_new(first, URLS)
        wait_until(lambda: first.stats().n_pages == len(URLS))

        def has_figures() -> bool:
            """Whether one answer has all of them; a pause of two seconds freezes the placement."""
            figures = workers.figures("a")
            return (
                figures["forwarded_requests_total", "done"] > 0
                and (figures["partitions"], figures["unowned_partitions"]) == (N_PARTITIONS, 0)
                and (figures["workers", "present"], figures["placement_frozen"]) == (2, 0)
                and figures["budget_per_second", "fetches"] == 1000
                and 0 < figures["quota_per_second", "fetches"] < 1000
                and figures["forwarded_request_seconds_count"] > 0
                and figures["moves_total", "claim", "done"] >= figures["owned_partitions"]
            )

        wait_until(has_figures)
        check_known(second, URLS)
        orders = lease_exactly(second, 20)
        done = [Outcome(handle=order.handle, digest=bytes(16)) for order in orders]
        repeat_unavailable(first.report, done[:10])

        workers.processes["b"].send_signal(signal.SIGKILL)
        workers.processes["b"].communicate()
        check_known(first, URLS)
        # What the dead one had handed out and not heard of is still under way.
        repeat_unavailable(first.report, done[10:])
        leased: set[str] = set()
        others = set(URLS) - {order.url for order in orders}

        def are_leased() -> bool:
            leased.update(order.url for order in first.lease(100))
            return leased >= others

        wait_until(are_leased, LOST_SECONDS_MAX)

        # One that ends gives its partitions away first.
        workers.start("b")
        wait_until(lambda: "b" in workers.owners().values())
        workers.processes["a"].send_signal(signal.SIGTERM)
        assert workers.processes["a"].wait(300) == 0
        wait_until(lambda: set(workers.owners().values()) == {"b"})
    with Client(workers.urls["b"]) as second:
        check_known(second, URLS)


@pytest.mark.slow_without_jit
def test_a_newer_version_is_written_when_all_read_it_and_older_workers_own_nothing_then(
    workers: Workers,
) -> None:
    newer = "tests.unit.cluster.newer_worker"
    workers.start("b")
    workers.start("a", newer)
    wait_until(lambda: set(workers.owners().values()) == {"a", "b"})
    wait_until(lambda: "All write version 1" in workers.problems())
    with Client(workers.urls["a"]) as first:
        add_new(first, URLS)
        repeat_unavailable(lambda urls: first.set(urls, importance=2.0), URLS)
        # The older worker reads what the newer one has written, and takes its partitions.
        workers.stop("a")
        wait_until(lambda: set(workers.owners().values()) == {"b"})
    with Client(workers.urls["b"]) as second:
        wait_until(lambda: second.explain(URLS[0]).importance == 2.0)  # type: ignore[union-attr]
    workers.start("a", newer)
    wait_until(lambda: "a" in workers.owners().values())
    workers.stop("b")
    log = workers.folder / "a.log"
    wait_until(lambda: "now writes version 2 of the log's records\n" in log.read_text())
    with Client(workers.urls["a"]) as first:
        repeat_unavailable(lambda urls: first.set(urls, importance=4.0), URLS)

        # One that cannot read this owns nothing, says so, and forwards requests as before.
        workers.start("b")
        wait_until(lambda: "b cannot read the log" in workers.problems())
        wait_until(lambda: set(workers.owners().values()) == {"a"})
        wait_until(lambda: workers.figures("b")["log_unreadable"] == 1)
        with Client(workers.urls["b"]) as second:
            check_known(second, URLS)
        assert "upgrade it: schema must be one of" in (workers.folder / "b.log").read_text()

        workers.stop("b")
        workers.start("b", newer)
        wait_until(lambda: set(workers.owners().values()) == {"a", "b"})
        # A standby that is behind answers while the owner is busy.
        wait_until(lambda: first.explain(URLS[0]).importance == 4.0)  # type: ignore[union-attr]
        assert workers.figures("b")["log_unreadable"] == 0


class Writer:
    """Adds pages one by one through several workers, and remembers which were acknowledged."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.acknowledged: list[str] = []
        self._thread.start()

    def _write(self) -> None:
        for i in itertools.count():
            if self._stopping.is_set():
                return
            url = f"https://w{i}.example/"
            try:
                with Client(self._urls[i % len(self._urls)]) as client:
                    is_done = (client.add([url]).rows == RowStatus.DONE).all()
            except RecrawlError:
                is_done = False
            if is_done:
                self.acknowledged.append(url)
            else:
                time.sleep(0.2)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


@pytest.mark.slow_without_jit
def test_the_number_of_partitions_changes_while_workers_run(workers: Workers) -> None:
    for name in "ab":
        workers.start(name)
    wait_until(lambda: set(workers.owners().values()) == {"a", "b"})
    operator = workers.folder / "operator"
    operator.mkdir()
    (operator / "recrawl.toml").write_text(workers.settings)
    with Client(workers.urls["a"]) as first:
        add_new(first, URLS)
        orders = lease_exactly(first, 20, LEASE_SECONDS)
    writer = Writer(list(workers.urls.values()))
    try:
        wait_until(lambda: len(writer.acknowledged) > 5)
        # The first attempt is killed when the old partitions are closed.
        run_until(operator, 7, "create topic")
        done = CliRunner().invoke(main, ["resize", "--partitions", "7", "-C", str(operator)])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["partitions_before"] == N_PARTITIONS
        wait_until(lambda: set(workers.owners().values()) == {"a", "b"})
        wait_until(lambda: len(workers.owners()) == 7)
        n_before = len(writer.acknowledged)
        wait_until(lambda: len(writer.acknowledged) > n_before + 5)
    finally:
        writer.stop()
    with Client(workers.urls["a"]) as first, Client(workers.urls["b"]) as second:
        known = [*URLS, *writer.acknowledged]
        check_known(second, known)
        leased = {one.url for one in first.lease(200)}
        if time.time() < min(one.expires_at_ms for one in orders) / 1000:
            assert leased.isdisjoint(one.url for one in orders)
        outcomes = [Outcome(handle=one.handle, digest=bytes(16)) for one in orders]
        repeat_unavailable(second.report, outcomes)
        wait_until(lambda: first.stats().n_outcomes == len(orders))


@pytest.mark.parametrize("command", ["worker", "serve"])
def test_a_folder_that_another_process_uses_is_refused_at_once(
    tmp_path: Path, command: str
) -> None:
    keys = tmp_path / "cluster.keys"
    assert CliRunner().invoke(main, ["cluster", "rotate-keys", str(keys)]).exit_code == 0
    (tmp_path / "recrawl.toml").write_text(
        '[ledger]\nkind = "kafka"\nbootstrap = "127.0.0.1:9"\ntopic = "t"\n'
        f'[snapshots]\nshared = "{tmp_path / "shared"}"\n'
    )
    shape = CorpusFormat(
        corpus_id=new_corpus_id(),
        canonical_urls=CANON_VERSION,
        partitions=1,
        group_by="host",
        ledger="kafka",
    )
    write_format(tmp_path, shape)
    arguments = ["--keys", str(keys)] if command == "worker" else []
    lock = FolderLock.take(tmp_path)
    try:
        done = CliRunner().invoke(main, [command, *arguments, "-C", str(tmp_path)])
    finally:
        lock.release()
    assert done.exit_code == 1
    assert f"{tmp_path} is in use by this process, {os.getpid()}" in " ".join(done.output.split())
    assert "compil" not in done.output.lower()


def test_a_worker_needs_a_log_on_kafka_and_says_so(tmp_path: Path) -> None:
    keys = tmp_path / "cluster.keys"
    assert CliRunner().invoke(main, ["cluster", "rotate-keys", str(keys)]).exit_code == 0
    arguments = ["worker", "--keys", str(keys), "-C", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "has no recrawl.toml" in done.output
    (tmp_path / "recrawl.toml").write_text("")
    done = CliRunner().invoke(main, ["cluster", "status", "-C", str(tmp_path)])
    assert done.exit_code == 1
    assert 'ledger.kind = "kafka"' in done.output
