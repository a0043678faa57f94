"""Tables of PostgreSQL and SQLite that do what a corpus does when pages are leased and reported.

A lease takes the pages that are due longest, notes until when each is held, and returns their URLs
and validators.  A report compares the digest of each page with the stored one, counts the poll,
sets the next time, and adds a row to a table of changes if the digest differs.  When a call
returns, a power cut does not undo it.  Neither table learns or prices anything: it is the least
that a crawler with a table of its own has to do.
"""

import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

__all__ = ["PostgresTable", "Queue", "SqliteTable", "start_postgres"]

LEASE_SECONDS = 3_600.0
# A reported page is due again after all others, so that a short run never uses up a table.
REVISIT_SECONDS = 0.0


class Queue(Protocol):
    """One connection of one thread."""

    def lease(self, n_rows: int) -> Sequence[Any]:
        """Return up to ``n_rows`` held pages: number, URL, etag and last_modified of each."""

    def report(self, leased: Sequence[Any], digest: bytes) -> int:
        """Report that each leased page has content with a digest; return how many counted."""

    def close(self) -> None:
        """Close the connection."""


_COLUMNS = """
    id bigint PRIMARY KEY,
    url text NOT NULL UNIQUE,
    due_at double precision NOT NULL,
    is_held boolean NOT NULL DEFAULT false,
    n_polls integer NOT NULL DEFAULT 0,
    n_changes integer NOT NULL DEFAULT 0,
    digest {bytes},
    etag {bytes},
    last_modified {bytes}
"""
_CHANGES = """
    number {serial},
    page bigint NOT NULL,
    url text NOT NULL,
    at double precision NOT NULL
"""


class PostgresTable:
    """A connection to a table of pages in PostgreSQL, whose leases skip rows that others lock.

    Parameters
    ----------
    address
        Address of the database.
    """

    LEASE = """
        WITH taken AS (
            SELECT id FROM page WHERE due_at <= %s ORDER BY due_at LIMIT %s
            FOR UPDATE SKIP LOCKED
        )
        UPDATE page SET due_at = %s, is_held = true FROM taken WHERE page.id = taken.id
        RETURNING page.id, page.url, page.etag, page.last_modified
    """
    REPORT = """
        WITH given AS (
            SELECT unnest(%s::bigint[]) AS id, unnest(%s::bytea[]) AS digest
        ), before AS (
            SELECT page.id, page.url, page.digest IS DISTINCT FROM given.digest AS has_changed,
                given.digest
            FROM page JOIN given USING (id) WHERE page.is_held FOR UPDATE OF page
        ), feed AS (
            INSERT INTO change (page, url, at) SELECT id, url, %s FROM before WHERE has_changed
        )
        UPDATE page SET due_at = %s, is_held = false, n_polls = n_polls + 1,
            n_changes = n_changes + before.has_changed::int, digest = before.digest
        FROM before WHERE page.id = before.id
    """

    def __init__(self, address: str) -> None:
        import psycopg  # noqa: PLC0415

        self._connection = psycopg.connect(address, autocommit=True, prepare_threshold=0)

    def create(self, urls: Iterator[pa.StringArray]) -> None:
        """Create the table with pages that are all due."""
        with self._connection.cursor() as cursor:
            columns = _COLUMNS.format(bytes="bytea")
            cursor.execute(f"CREATE TABLE page ({columns}) WITH (fillfactor = 80)")
            changes = _CHANGES.format(serial="bigserial PRIMARY KEY")
            cursor.execute(f"CREATE TABLE change ({changes})")
            n = 0
            with cursor.copy("COPY page (id, url, due_at) FROM STDIN") as copy:
                for part in urls:
                    for url in part.to_pylist():
                        copy.write_row((n, url, n * 1e-6))
                        n += 1
            cursor.execute("CREATE INDEX page_due ON page (due_at)")
        self._connection.execute("VACUUM ANALYZE page")
        self._connection.execute("CHECKPOINT")

    def lease(self, n_rows: int) -> Sequence[Any]:
        """Return up to ``n_rows`` held pages."""
        now = time.time()
        found = self._connection.execute(self.LEASE, (now, n_rows, now + LEASE_SECONDS))
        return found.fetchall()

    def report(self, leased: Sequence[Any], digest: bytes) -> int:
        """Report pages; return how many counted."""
        now = time.time()
        numbers = [row[0] for row in leased]
        digests = [digest] * len(numbers)
        values = (numbers, digests, now, now + REVISIT_SECONDS)
        return self._connection.execute(self.REPORT, values).rowcount

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def start_postgres() -> Iterator[str]:
    """Start a PostgreSQL of our own, with Debian's package; yield its address.

    Memory is set as for a machine of this size; everything that makes it durable stays as it is.
    """
    # A short path, because that of a socket may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="recrawl-pg-", dir="/tmp"))
    is_root = os.geteuid() == 0
    if is_root:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "nobody")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        raise RuntimeError("install Debian's package postgresql")

    def run(script: str) -> None:
        subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=folder,
            env={"PATH": f"{programs[-1]}:{os.environ['PATH']}", "LC_ALL": "C"},
            user="nobody" if is_root else None,
            extra_groups=[] if is_root else None,
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=300,
        )

    settings = (
        f"-c listen_addresses= -k '{folder}' -c shared_buffers=2GB -c max_wal_size=8GB "
        "-c checkpoint_timeout=30min -c random_page_cost=1.1 -c max_connections=80"
    )
    try:
        run(
            "initdb -D data -U test -A trust -E UTF8 --no-sync >log\n"
            f'pg_ctl -D data -o "{settings}" -l log -w start >>log'
        )
        yield f"host={folder} user=test dbname=postgres"
    finally:
        if (folder / "data/postmaster.pid").exists():
            run("pg_ctl -D data -m fast -w stop >>log")
        shutil.rmtree(folder)


class SqliteTable:
    """A connection to a table of pages in SQLite, which one thread at a time writes.

    Parameters
    ----------
    file
        File of the database.
    """

    _LEASE = """
        UPDATE page SET due_at = ?3, is_held = 1
        WHERE id IN (SELECT id FROM page WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2)
        RETURNING id, url, etag, last_modified
    """
    _FEED = """
        INSERT INTO change (page, url, at)
        SELECT id, url, ?1 FROM page WHERE id = ?2 AND is_held AND digest IS NOT ?3
    """
    _REPORT = """
        UPDATE page SET due_at = ?1, is_held = 0, n_polls = n_polls + 1,
            n_changes = n_changes + (digest IS NOT ?3), digest = ?3
        WHERE id = ?2 AND is_held
    """

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(
            file, isolation_level=None, timeout=60, check_same_thread=False
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA cache_size = -1000000")

    def create(self, urls: Iterator[pa.StringArray]) -> None:
        """Create the table with pages that are all due."""
        run = self._connection.execute
        run(f"CREATE TABLE page ({_COLUMNS.format(bytes='blob')})")
        run(f"CREATE TABLE change ({_CHANGES.format(serial='integer PRIMARY KEY')})")
        run("BEGIN")
        n = 0
        for part in urls:
            rows = [(n + i, url, (n + i) * 1e-6) for i, url in enumerate(part.to_pylist())]
            self._connection.executemany("INSERT INTO page (id, url, due_at) VALUES (?,?,?)", rows)
            n += len(rows)
        run("COMMIT")
        run("CREATE INDEX page_due ON page (due_at)")
        run("ANALYZE")
        run("PRAGMA wal_checkpoint(TRUNCATE)")

    def lease(self, n_rows: int) -> Sequence[Any]:
        """Return up to ``n_rows`` held pages."""
        now = time.time()
        self._connection.execute("BEGIN IMMEDIATE")
        rows = self._connection.execute(self._LEASE, (now, n_rows, now + LEASE_SECONDS)).fetchall()
        self._connection.execute("COMMIT")
        return rows

    def report(self, leased: Sequence[Any], digest: bytes) -> int:
        """Report pages; return how many counted."""
        now = time.time()
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(self._FEED, [(now, row[0], digest) for row in leased])
        values = [(now + REVISIT_SECONDS, row[0], digest) for row in leased]
        n_counted = self._connection.executemany(self._REPORT, values).rowcount
        self._connection.execute("COMMIT")
        return n_counted

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
