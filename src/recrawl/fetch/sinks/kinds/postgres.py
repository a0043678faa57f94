"""A table of PostgreSQL with the latest version of each page, or with all versions."""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recrawl.errors import SinkError
from recrawl.fetch.sinks.contract import DEFAULT_BATCH, BatchSettings, check_sink_name
from recrawl.fetch.sinks.kinds.json_lines import check_content
from recrawl.fetch.sinks.version import PageVersion

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresSink"]

_CONNECT_SECONDS = 10
_STATEMENT_MILLISECONDS = 60_000
_COLUMNS = (
    ("key", "text NOT NULL"),
    ("url", "text NOT NULL"),
    ("spool_id", "text NOT NULL"),
    ("number", "bigint NOT NULL"),
    ("transition", "text NOT NULL"),
    ("fetched_at", "timestamptz NOT NULL"),
    ("status", "integer NOT NULL"),
    ("content_type", "text"),
    ("digest", "text"),
    ("title", "text"),
    ("doc_id", "text"),
    ("metadata", "jsonb"),
    ("passages", "jsonb"),
)
_CONTENT = {"markdown": "text", "text": "text", "body": "bytea"}


class PostgresSink:
    """Writes versions into a table of PostgreSQL, which is created if it does not exist.

    The table holds the latest version of each page, by key and URL; rows of pages that are gone are
    deleted.  With ``has_history`` it holds all versions instead, and none is there twice.

    Parameters
    ----------
    connection
        Connection string, such as ``"host=localhost dbname=pages"`` or a URL.
    name
        Name of the sink.
    table
        Name of the table, if necessary with its schema: ``"crawl.page"``.
    content
        Columns with the content: ``"markdown"``, ``"text"`` and ``"body"``.
    has_history
        Whether the table holds every version.
    keeps_gone
        Whether rows of pages that are gone stay, with their last transition and no content.
    batch
        Number of versions per transaction.

    Raises
    ------
    ImportError
        If the package psycopg is not installed.
    """

    wants_unchanged = False

    def __init__(
        self,
        connection: str,
        *,
        name: str = "postgres",
        table: str = "page",
        content: Sequence[str] = ("markdown",),
        has_history: bool = False,
        keeps_gone: bool = False,
        batch: BatchSettings = DEFAULT_BATCH,
    ) -> None:
        try:
            import psycopg  # noqa: PLC0415
        except ImportError as error:
            raise ImportError(
                'the sink for PostgreSQL needs the package psycopg: pip install "recrawl[postgres]"'
            ) from error
        self.name = check_sink_name(name)
        self.batch = batch
        self._content = check_content(content)
        self._settings = connection
        self._table = table
        self._has_history = has_history
        self._keeps_gone = keeps_gone or has_history
        self._connection: psycopg.Connection[Any] | None = None

    def write(self, versions: Sequence[PageVersion]) -> None:
        """Write versions in one transaction; see `Sink.write`."""
        import psycopg  # noqa: PLC0415

        try:
            connection = self._connect()
            with connection.transaction(), connection.cursor() as cursor:
                removed = [v for v in versions if v.is_removal and not self._keeps_gone]
                if self._has_history:
                    cursor.executemany(self._upsert(), [self._row(v) for v in versions])
                else:
                    latest = {(v.key, v.url): v for v in versions}.values()
                    gone = {v.number for v in removed}
                    rows = [self._row(v) for v in latest if v.number not in gone]
                    cursor.executemany(self._upsert(), rows)
                    pages = [
                        (_text(v.key) or "", _text(v.url), v.spool_id, v.number) for v in removed
                    ]
                    cursor.executemany(self._delete(), pages)
        except psycopg.Error as error:
            self.close()
            raise SinkError(f"PostgreSQL: {str(error).strip()}") from error

    def _connect(self) -> "psycopg.Connection[Any]":
        import psycopg  # noqa: PLC0415

        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(
                self._settings,
                connect_timeout=_CONNECT_SECONDS,
                client_encoding="UTF8",
                autocommit=True,
            )
            self._connection = connection
            # Without it a commit could be lost with the server's machine.
            connection.execute("SET synchronous_commit = on")
            connection.execute(f"SET statement_timeout = {_STATEMENT_MILLISECONDS}")
            self._check_encoding(connection)
            self._create_table(connection)
        return self._connection

    def _check_encoding(self, connection: "psycopg.Connection[Any]") -> None:
        """Refuse a database that cannot store every character."""
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in ("UTF8", "SQL_ASCII"):
            self.close()
            raise SinkError(f"PostgreSQL: the database must have the encoding UTF8, not {encoding}")

    def _create_table(self, connection: "psycopg.Connection[Any]") -> None:
        columns = [*_COLUMNS, *((form, _CONTENT[form]) for form in self._content)]
        text = ", ".join(f'"{column}" {kind}' for column, kind in columns)
        key = "spool_id, number" if self._has_history else "key, url"
        statement = f"CREATE TABLE IF NOT EXISTS {self._name()} ({text}, PRIMARY KEY ({key}))"
        connection.execute(statement.encode())

    def _name(self) -> str:
        """Return the name of the table, quoted."""
        return ".".join('"' + part.replace('"', '""') + '"' for part in self._table.split("."))

    def _upsert(self) -> bytes:
        columns = [column for column, _ in _COLUMNS] + list(self._content)
        names = ", ".join(f'"{column}"' for column in columns)
        places = ", ".join("%s" for _ in columns)
        start = f"INSERT INTO {self._name()} AS old ({names}) VALUES ({places}) ON CONFLICT "
        if self._has_history:
            return (start + "DO NOTHING").encode()
        sets = ", ".join(f'"{column}" = EXCLUDED."{column}"' for column in columns[2:])
        # A version that is sent again must not replace a later one.
        is_later = "old.spool_id <> EXCLUDED.spool_id OR old.number <= EXCLUDED.number"
        return (start + f"(key, url) DO UPDATE SET {sets} WHERE {is_later}").encode()

    def _delete(self) -> bytes:
        return (
            f"DELETE FROM {self._name()} WHERE key = %s AND url = %s "
            "AND (spool_id <> %s OR number <= %s)"
        ).encode()

    def _row(self, version: PageVersion) -> tuple[object, ...]:
        passages = None
        if version.passages is not None:
            passages = {
                "added": [
                    {"hash": f"{one:016x}", "text": _text(text)}
                    for one, text in version.added_passages
                ],
                "removed": [f"{one:016x}" for one in version.removed_passages],
            }
        content = [getattr(version, form) for form in self._content]
        return (
            _text(version.key) or "",
            _text(version.url),
            version.spool_id,
            version.number,
            version.transition.name.lower(),
            _timestamp(version.fetched_at_ms),
            version.status,
            _text(version.content_type),
            version.digest,
            _text(version.title),
            _text(version.doc_id),
            _json(version.metadata),
            _json(passages),
            *(_text(value) if isinstance(value, str) else value for value in content),
        )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None


def _text(text: str | None) -> str | None:
    """Return text that PostgreSQL stores: without NUL, and valid in UTF-8."""
    if text is None:
        return None
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _json(value: Any) -> str | None:
    # jsonb has no NUL, and no half of a surrogate pair.
    if value is None:
        return None
    return _text(json.dumps(_clean(value), ensure_ascii=False))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(name): _clean(one) for name, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list) else value


def _timestamp(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
