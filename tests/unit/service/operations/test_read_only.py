"""A corpus that cannot write refuses changes with 507, and still answers what only reads."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl.corpus import Corpus
from recrawl.service import ServiceLimits
from recrawl.service.hosting import write_guard
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer

READS = ("/stats", "/pages", f"/page?url={URLS[0]}", "/changes", "/budget", "/sources", "/plan")


class Disk:
    """What the server sees of a disk."""

    def __init__(self) -> None:
        self.free = 1 << 40

    def usage(self, _: Path) -> Any:
        if self.free < 0:
            raise OSError("for the test")
        return shutil._ntuple_diskusage(1 << 41, 1 << 40, self.free)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr("recrawl.service.hosting.write_guard.shutil.disk_usage", disk.usage)
    monkeypatch.setattr(write_guard, "_LOOK_SECONDS", 0.0)
    return disk


def metric(server: RunningServer, name: str) -> float:
    text = server.request("GET", "/metrics").data.decode()
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name}{{"))
    return float(line.split()[-1])


def test_a_nearly_full_disk_is_only_read(server: RunningServer, disk: Disk) -> None:
    assert server.post("/pages", [{"url": url} for url in URLS]).status == 200
    (order,) = server.post("/orders?n=1").json["orders"]
    changes: dict[tuple[str, str], Any] = {
        ("POST", "/pages"): [{"url": "https://new.example/"}],
        ("POST", "/orders?n=1"): None,
        ("POST", "/orders/by-url"): [{"url": URLS[0]}],
        ("POST", "/orders/extend"): {"handles": [order["handle"]], "seconds": 60},
        ("POST", "/outcomes"): [{"handle": order["handle"], "status": 200, "digest": "1"}],
        ("POST", "/signals?source=x"): [{"url": URLS[0]}],
        ("PUT", "/budget"): {"rate": "1/h"},
    }
    disk.free = ServiceLimits().disk_free_bytes_min - 1
    for (method, path), body in changes.items():
        answer = server.request(method, f"/v1/corpora/news{path}", body)
        assert (answer.status, answer.problem) == (507, "storage"), path
        assert int(answer.headers["retry-after"]) > 0
        assert "MB" in answer.json["detail"]
    for path in READS:
        assert server.get(path).status == 200, path
    assert server.request("GET", "/readyz").status == 200
    assert metric(server, "recrawl_read_only") == 1
    assert metric(server, "recrawl_disk_free_bytes") == disk.free
    disk.free += 1
    for (method, path), body in changes.items():
        assert server.request(method, f"/v1/corpora/news{path}", body).status == 200, path
    assert metric(server, "recrawl_read_only") == 0


def test_a_lease_that_waits_is_answered_when_the_disk_is_full(
    server: RunningServer, disk: Disk
) -> None:
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(server.post("/orders?wait=30").status))
    waiting.start()
    while not metric(server, "recrawl_waiting_leases"):
        time.sleep(0.05)
    disk.free = 0
    waiting.join(20)
    assert found == [507]


def test_a_disk_whose_space_is_not_known_is_written_to(server: RunningServer, disk: Disk) -> None:
    disk.free = -1
    assert server.post("/pages", [{"url": URLS[0]}]).status == 200
    assert metric(server, "recrawl_read_only") == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=48m", "recrawl-test", str(folder)]
    is_mounted = shutil.which("mount") and not subprocess.run(command, check=False).returncode
    if not is_mounted:
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(server: RunningServer, n_pages_max: int = 2_000_000) -> tuple[int, int]:
    """Add pages until one request is refused; return its status and how many pages were taken."""
    n_added = 0
    while n_added < n_pages_max:
        rows = [
            {"url": f"https://site{i % 100}.example/{'x' * 200}/{i}"}
            for i in range(n_added, n_added + 10_000)
        ]
        answer = server.post("/pages", rows)
        if answer.status != 200:
            return answer.status, n_added
        n_added += len(rows)
    raise AssertionError("the disk is not full")


@pytest.mark.slow
@pytest.mark.slow_without_jit
def test_a_disk_that_fills_up_stops_changes_before_one_fails(small_disk: Path) -> None:
    limits = ServiceLimits(disk_free_bytes_min=24 << 20)
    with RunningServer({"news": recrawl.open(small_disk / "corpus")}, limits=limits) as server:
        ballast = small_disk / "ballast"
        server.post("/pages", [{"url": url} for url in URLS])
        with ballast.open("wb") as file:
            free = shutil.disk_usage(small_disk).free
            file.write(bytes(max(free - (20 << 20), 0)))
        time.sleep(1.1)
        assert server.post("/orders").status == 507
        assert server.get("/stats").json["n_pages"] == len(URLS)
        ballast.unlink()
        time.sleep(1.1)
        assert len(server.post("/orders?n=2").json["orders"]) == 2


@pytest.mark.slow
@pytest.mark.slow_without_jit
def test_after_a_write_that_failed_the_corpus_is_read_and_nothing_is_lost(
    small_disk: Path,
) -> None:
    limits = ServiceLimits(disk_free_bytes_min=0)
    folder = small_disk / "corpus"
    with RunningServer({"news": recrawl.open(folder)}, limits=limits) as server:
        status, n_added = fill(server)
        assert status == 507
        assert n_added > 0
        assert server.post("/orders").status == 507
        assert metric(server, "recrawl_read_only") == 1
        for path in ("/stats", "/pages?limit=10", "/changes", "/budget"):
            assert server.get(path).status == 200, path
        assert server.get("/stats").json["n_pages"] >= n_added
    larger = small_disk.parent / "larger"
    shutil.copytree(folder, larger)
    with recrawl.open(larger) as corpus:
        assert corpus.n_pages >= n_added
        assert corpus.add(["https://another.example/"]).n_added == 1


def test_a_failed_write_shows_in_the_metrics_until_one_succeeds(
    server: RunningServer, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise recrawl.errors.StorageError("no space left")

    before: Callable[..., Any] = corpus.add
    monkeypatch.setattr(corpus, "add", fail)
    assert server.post("/pages", [{"url": URLS[0]}]).status == 507
    assert metric(server, "recrawl_read_only") == 1
    monkeypatch.setattr(corpus, "add", before)
    assert server.post("/pages", [{"url": URLS[0]}]).status == 200
    assert metric(server, "recrawl_read_only") == 0
