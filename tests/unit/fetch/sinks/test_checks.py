"""All sinks pass the public checks."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest

from recrawl.errors import SinkError
from recrawl.fetch.sinks import SINK_KINDS, open_sink
from recrawl.fetch.sinks.kinds.kafka import KafkaSink
from recrawl.testing import SINK_CHECKS, SinkCheck, SinkTarget
from recrawl.testing.sinks import make_versions
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

# What a killed process did is not measured, and no kernel matters to it: CI runs it compiled alone.
PROCESS_CHECK = "check_a_killed_process_loses_nothing"
each_check = pytest.mark.parametrize(
    "check",
    [
        pytest.param(
            check,
            id=check.__name__,
            marks=pytest.mark.slow_without_jit if check.__name__ == PROCESS_CHECK else (),
        )
        for check in SINK_CHECKS
    ],
)


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
        made.result(300)
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
            timeout=300,
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


@pytest.mark.slow
def test_an_older_version_does_not_replace_a_row(database: str) -> None:
    target = PostgresTarget(database, f'Odd "name" {uuid.uuid4().hex}'.replace('"', ""))
    versions = make_versions(9)
    with closing(target.open_sink()) as sink:
        sink.write(versions)
        sink.write(versions[:2])
    rows = {row["url"]: row["number"] for row in target.rows()}
    assert sorted(rows.values()) == [3, 4, 5, 6, 7, 8, 9]


@pytest.mark.slow
def test_a_connection_that_was_lost_is_made_again(database: str) -> None:
    target = PostgresTarget(database, f"page_{uuid.uuid4().hex}")
    with closing(target.open_sink()) as sink:
        sink.write(make_versions(1))
        with psycopg.connect(database, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
        with pytest.raises(SinkError, match="PostgreSQL"):
            sink.write(make_versions(2))
        sink.write(make_versions(2))
    assert len(target.rows()) == 2


def test_a_database_that_does_not_answer_is_a_sink_error(tmp_path: Path) -> None:
    sink = open_sink("postgres", {"connection": f"host={tmp_path} dbname=x"})
    with pytest.raises(SinkError, match=r"PostgreSQL: .*connection"):
        sink.write(make_versions(1))
    sink.close()


def test_a_message_that_is_too_large_is_cut() -> None:
    sink = KafkaSink("127.0.0.1:1", "t", message_bytes_max=2_000, content=["body"])
    small, large = make_versions(2)
    large = replace(large, body=b"x" * 10_000)
    assert "body_base64" in json.loads(sink._value(small))
    row = json.loads(sink._value(large))
    assert row["is_cut"] is True
    assert row["digest"] == large.digest
    assert not {"body_base64", "added_passages"} & set(row)
    sink.close()


def test_brokers_that_do_not_answer_are_a_sink_error() -> None:
    settings = {"delivery.timeout.ms": 300, "socket.connection.setup.timeout.ms": 1_000}
    sink = KafkaSink("127.0.0.1:1", "t", content=(), client_settings=settings)
    with pytest.raises(SinkError, match="Kafka: "):
        sink.write(make_versions(1))
    sink.close()
