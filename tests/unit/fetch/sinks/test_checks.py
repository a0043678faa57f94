"""All sinks pass the public checks."""

import os
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from recrawl.fetch.sinks import SINK_KINDS
from recrawl.testing import SINK_CHECKS, SinkCheck, SinkTarget
from tests.unit.fetch.sinks.sink_targets import (
    CallableTarget,
    FolderTarget,
    JsonLinesTarget,
    KafkaTarget,
    ParquetTarget,
    PostgresTarget,
    WarcTarget,
    WebhookTarget,
)

FILE_KINDS = {
    "folder": FolderTarget,
    "json-lines": JsonLinesTarget,
    "parquet": ParquetTarget,
    "warc": WarcTarget,
}

each_check = pytest.mark.parametrize("check", SINK_CHECKS, ids=lambda check: check.__name__)


@each_check
@pytest.mark.parametrize("kind", FILE_KINDS)
def test_files(check: SinkCheck, kind: str, tmp_path: Path) -> None:
    target: SinkTarget = FILE_KINDS[kind](tmp_path / "target")
    check(target)


@each_check
def test_a_function(check: SinkCheck, tmp_path: Path) -> None:
    check(CallableTarget(tmp_path / "rows"))


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[WebhookTarget]:
    path = tmp_path / "requests"
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock, path.open("ab") as file:
                file.write(body + b"\n")
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield WebhookTarget(path, server.server_address[1])
    server.shutdown()
    thread.join()
    server.server_close()


@each_check
def test_a_webhook(check: SinkCheck, webhook: WebhookTarget) -> None:
    check(webhook)


@pytest.mark.slow
@each_check
def test_a_topic(check: SinkCheck, kafka_bootstrap: str, kafka_topic: str) -> None:
    from confluent_kafka.admin import (  # type: ignore[attr-defined] # noqa: PLC0415
        AdminClient,
        NewTopic,
    )

    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for made in admin.create_topics([NewTopic(kafka_topic, 1)]).values():
        made.result(30)
    check(KafkaTarget(kafka_bootstrap, kafka_topic))


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """Start PostgreSQL in a new folder; return how to connect to it."""
    folder = Path(tempfile.mkdtemp(prefix="recrawl-pg-", dir="/tmp"))
    is_root = os.geteuid() == 0
    if is_root:
        shutil.chown(folder, "nobody")

    def run(script: str) -> None:
        # Debian keeps the programs of the server outside of PATH.
        path = ":".join(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"))))
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=folder,
            env={"PATH": f"{path}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C"},
            user="nobody" if is_root else None,
            extra_groups=[] if is_root else None,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"install Debian's package postgresql: {done.stderr}"

    try:
        run(
            "initdb -D data -U test -A trust -E UTF8 --no-sync >log\n"
            f"pg_ctl -D data -o \"-c listen_addresses= -k '{folder}'\" -l log -w start >>log"
        )
        yield f"host={folder} user=test dbname=postgres"
    finally:
        if (folder / "data/postmaster.pid").exists():
            run("pg_ctl -D data -m fast -w stop >>log")
        shutil.rmtree(folder)


@pytest.mark.slow
@each_check
@pytest.mark.parametrize("has_history", [False, True], ids=["latest", "history"])
def test_a_table(check: SinkCheck, has_history: bool, database: str) -> None:
    check(PostgresTarget(database, f"page_{uuid.uuid4().hex}", has_history))


def test_every_kind_is_checked() -> None:
    checked = {*FILE_KINDS, "python", "webhook", "kafka", "postgres"}
    assert checked == set(SINK_KINDS)
