"""Serve a table of jobs in PostgreSQL over HTTP: what a team would build instead of recrawl.

The same framework and server (FastAPI, uvicorn with httptools), a pool of connections, and the
statements of the table that `benchmarks.peers` measures, with ``FOR UPDATE SKIP LOCKED``.
``python -m benchmarks.job_table ADDRESS`` prints its port as a line of JSON, and serves until it is
ended.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.peer_queues import LEASE_SECONDS, REVISIT_SECONDS, PostgresTable

__all__ = ["job_table_app"]

_CONNECTIONS: Final = 16


class OutcomeRow(BaseModel):
    """The result of a fetch."""

    handle: int
    digest: str


def job_table_app(address: str) -> FastAPI:
    """Return the application of a database.

    Parameters
    ----------
    address
        Address of the database, which has the tables.
    """
    free: asyncio.Queue[psycopg.AsyncConnection[Any]] = asyncio.Queue()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        for _ in range(_CONNECTIONS):
            free.put_nowait(
                await psycopg.AsyncConnection.connect(address, autocommit=True, prepare_threshold=0)
            )
        yield
        while not free.empty():
            await free.get_nowait().close()

    app = FastAPI(lifespan=lifespan)

    async def run(statement: str, values: tuple[Any, ...]) -> tuple[list[Any], int]:
        connection = await free.get()
        try:
            cursor = await connection.execute(statement, values)
            return (await cursor.fetchall() if cursor.description else []), cursor.rowcount
        finally:
            free.put_nowait(connection)

    @app.post("/orders")
    async def lease(n: int = 1) -> dict[str, Any]:
        now = time.time()
        rows, _ = await run(PostgresTable.LEASE, (now, n, now + LEASE_SECONDS))
        return {
            "orders": [
                {"handle": handle, "url": url, "etag": etag, "last_modified": last_modified}
                for handle, url, etag, last_modified in rows
            ]
        }

    @app.post("/outcomes")
    async def report(rows: list[OutcomeRow]) -> dict[str, Any]:
        now = time.time()
        numbers = [row.handle for row in rows]
        digests = [row.digest.encode() for row in rows]
        _, n_done = await run(PostgresTable.REPORT, (numbers, digests, now, now + REVISIT_SECONDS))
        return {"counts": {"done": n_done}}

    return app


async def _serve(address: str) -> None:
    config = uvicorn.Config(
        job_table_app(address), host="127.0.0.1", port=0, http="httptools", log_level="warning"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}/"}), flush=True)
    await serving


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
