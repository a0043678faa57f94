"""Places that sinks write to in tests, and how to read them back."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from recrawl.fetch.sinks import Sink, open_sink
from recrawl.testing.sinks import body_digest

GONE = ("gone", "moved", "retired")


def pages_of(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the digests of the latest versions among rows, which may be there twice."""
    pages: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: int(row["id"].rpartition("-")[2])):
        if row["transition"] in GONE:
            pages.pop(row["url"], None)
        elif row["digest"] is not None:
            pages[row["url"]] = row["digest"]
    return pages


@dataclass(frozen=True)
class FolderTarget:
    folder: Path
    form: str = "markdown"

    def open_sink(self) -> Sink:
        return open_sink("folder", {"folder": str(self.folder), "form": self.form})

    def read_pages(self) -> dict[str, str]:
        """Markdown files name their URL and digest; raw ones only have a path."""
        pages: dict[str, str] = {}
        for path in self.folder.rglob("*"):
            if path.is_file():
                assert path.resolve().is_relative_to(self.folder.resolve())
                text = path.read_bytes()
                if self.form == "raw":
                    pages[str(path.relative_to(self.folder))] = body_digest(text)
                    continue
                facts = dict(re.findall(r"^(\w+): (.+)$", text.decode().split("---\n")[1], re.M))
                assert json.loads(facts["url"]) not in pages
                pages[json.loads(facts["url"])] = json.loads(facts["digest"])
        return pages

    def read_ids(self) -> None:
        return None


@dataclass(frozen=True)
class JsonLinesTarget:
    folder: Path
    file_bytes_max: int = 2_000

    def open_sink(self) -> Sink:
        settings = {"folder": self.folder, "content": ["body"]}
        return open_sink("json-lines", settings | {"file_bytes_max": self.file_bytes_max})

    def rows(self) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for path in sorted(self.folder.glob("*.jsonl"))
            for line in path.read_text().splitlines()
        ]

    def read_pages(self) -> dict[str, str]:
        for row in self.rows():
            if "body_base64" in row:
                assert body_digest(base64.b64decode(row["body_base64"])) == row["digest"]
        return pages_of(self.rows())

    def read_ids(self) -> list[str]:
        return [row["id"] for row in self.rows()]


@dataclass(frozen=True)
class ParquetTarget:
    folder: Path

    def open_sink(self) -> Sink:
        return open_sink("parquet", {"folder": self.folder, "content": ["body"]})

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for path in sorted(self.folder.glob("*.parquet")):
            found += pq.read_table(path).to_pylist()
        return found

    def read_pages(self) -> dict[str, str]:
        return pages_of(self.rows())

    def read_ids(self) -> list[str]:
        return [row["id"] for row in self.rows()]


@dataclass(frozen=True)
class CallableTarget:
    """A function that appends to a file."""

    path: Path

    def open_sink(self) -> Sink:
        from recrawl.fetch.sinks.kinds.callables import CallableSink  # noqa: PLC0415

        return CallableSink(self.store)

    def store(self, versions: list[Any]) -> None:
        with self.path.open("a") as file:
            for version in versions:
                file.write(json.dumps(version.as_json(())) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def read_pages(self) -> dict[str, str]:
        return pages_of(self.rows())

    def read_ids(self) -> list[str]:
        return [row["id"] for row in self.rows()]


@dataclass(frozen=True)
class WebhookTarget:
    """A receiver that stores requests in a file, see `test_webhook`."""

    path: Path
    port: int

    def open_sink(self) -> Sink:
        url = f"http://127.0.0.1:{self.port}/hook"
        settings = {"url": url, "secret": "tea", "allow_networks": ["127.0.0.0/8"]}
        return open_sink("webhook", settings | {"content": []})

    def rows(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        requests = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [row for request in requests for row in request["versions"]]

    def read_pages(self) -> dict[str, str]:
        return pages_of(self.rows())

    def read_ids(self) -> list[str]:
        return [row["id"] for row in self.rows()]


@dataclass(frozen=True)
class PostgresTarget:
    connection: str
    table: str
    has_history: bool = False

    def open_sink(self) -> Sink:
        settings = {"connection": self.connection, "table": self.table, "content": ["body"]}
        return open_sink("postgres", settings | {"has_history": self.has_history})

    def rows(self) -> list[dict[str, Any]]:
        import psycopg  # noqa: PLC0415
        from psycopg.rows import dict_row  # noqa: PLC0415

        with psycopg.connect(self.connection, row_factory=dict_row) as connection:
            query = f"SELECT *, spool_id || '-' || number AS id FROM \"{self.table}\""
            found = connection.execute(query.encode()).fetchall()
        for row in found:
            if row["body"] is not None:
                assert hashlib.sha256(row["body"]).hexdigest() == row["digest"]
        return found

    def read_pages(self) -> dict[str, str]:
        return pages_of(self.rows())

    def read_ids(self) -> list[str] | None:
        return [row["id"] for row in self.rows()] if self.has_history else None


@dataclass(frozen=True)
class KafkaTarget:
    bootstrap: str
    topic: str

    def open_sink(self) -> Sink:
        settings = {"bootstrap": self.bootstrap, "topic": self.topic, "content": ["body"]}
        return open_sink("kafka", settings)

    def rows(self) -> list[dict[str, Any]]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415

        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "recrawl-tests",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=300)
            consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
            rows: list[dict[str, Any]] = []
            while len(rows) < end:
                message = consumer.poll(300)
                assert message is not None
                assert not message.error()
                row = json.loads(message.value() or b"")
                headers: Any = message.headers()
                assert dict(headers)["id"] == row["id"].encode()
                rows.append(row)
            return rows
        finally:
            consumer.close()

    def read_pages(self) -> dict[str, str]:
        return pages_of(self.rows())

    def read_ids(self) -> list[str]:
        return [row["id"] for row in self.rows()]


@dataclass(frozen=True)
class WarcTarget:
    folder: Path

    def open_sink(self) -> Sink:
        return open_sink("warc", {"folder": self.folder, "file_bytes_max": 4_000})

    def records(self) -> list[tuple[dict[str, str], bytes]]:
        """Return the headers and payloads of all records, as warcio reads them."""
        from warcio.archiveiterator import ArchiveIterator  # noqa: PLC0415

        found = []
        for path in [*self.folder.glob("*.warc.gz"), *self.folder.glob("*.open")]:
            with path.open("rb") as file:
                for record in ArchiveIterator(file, check_digests="raise"):
                    headers = dict(record.rec_headers.headers)
                    if record.rec_type != "warcinfo":
                        headers["status"] = record.http_headers.get_statuscode()
                    found.append((headers, record.content_stream().read()))
        return found

    def read_pages(self) -> dict[str, str]:
        """Return the bodies by the dates of their records, revisits with what they refer to."""
        by_id = {headers["WARC-Record-ID"]: body for headers, body in self.records()}
        assert len(by_id) == len(self.records())
        pages: dict[str, str] = {}
        for headers, body in sorted(self.records(), key=lambda one: one[0]["WARC-Date"]):
            url = headers.get("WARC-Target-URI")
            if headers["WARC-Type"] == "warcinfo" or url is None:
                continue
            if headers["status"] in ("404", "410"):
                pages.pop(url, None)
                continue
            is_revisit = headers["WARC-Type"] == "revisit"
            pages[url] = body_digest(by_id[headers["WARC-Refers-To"]] if is_revisit else body)
        return pages

    def read_ids(self) -> None:
        return None
