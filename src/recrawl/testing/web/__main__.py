"""Serve the local web in real time, in a process of its own: ``python -m recrawl.testing.web``.

It prints one line of JSON about the web, and then one about each host.
"""

import argparse
import asyncio
import json
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from recrawl.testing.web.hosts import make_hosts
from recrawl.testing.web.local_web import LocalWeb
from recrawl.testing.web.request_log import RequestLog, log_line
from recrawl.testing.web.server import serve, system_time_ms


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m recrawl.testing.web",
        description="Serve a web that misbehaves, at addresses of this machine.",
    )
    parser.add_argument("--port", type=int, default=0, help="port; 0 chooses one")
    parser.add_argument("--hosts", type=int, default=200, help="number of hosts")
    parser.add_argument("--pages", type=int, default=20_000, help="number of pages of all hosts")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument(
        "--page-speed", type=float, default=1.0, help="how much faster pages change"
    )
    parser.add_argument("--started-at-ms", type=int, help="start of the histories of pages")
    parser.add_argument("--log", type=Path, help="file to which each request is added")
    parser.add_argument(
        "--by-name", action="store_true", help="use names of hosts in URLs instead of addresses"
    )
    parser.add_argument(
        "--well-behaved", action="store_true", help="serve without faults and wrong hints"
    )
    return parser


async def _serve(options: argparse.Namespace, log_file: TextIO | None) -> None:
    host_traits = make_hosts(
        options.hosts, options.pages, options.seed, is_well_behaved=options.well_behaved
    )
    started_at_ms = options.started_at_ms or system_time_ms()
    web = LocalWeb(
        host_traits,
        started_at_ms=started_at_ms,
        page_speed=options.page_speed,
        is_by_address=not options.by_name,
    )
    # A server may run for days: its log is in the file, not in memory.
    to_file = None if log_file is None else lambda row: _write(log_file, log_line(row))
    log = RequestLog(to_file, keeps_rows=False)
    async with await serve(web, port=options.port, log=log) as server:
        first = {"port": server.port, "started_at_ms": started_at_ms, "n_hosts": len(host_traits)}
        _write(sys.stdout, json.dumps(first) + "\n")
        for traits in host_traits:
            row: dict[str, object] = {
                "url": web.hosts[traits.name].origin + "/",
                "host": traits.name,
            }
            row |= {"n_pages": traits.n_pages, "robots": traits.robots, "sitemap": traits.sitemap}
            _write(sys.stdout, json.dumps(row) + "\n")
        stopped = asyncio.Event()
        with suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        await stopped.wait()


def _write(file: TextIO, text: str) -> None:
    file.write(text)
    file.flush()


def run(arguments: list[str] | None = None) -> None:
    """Serve until the process is interrupted."""
    options = _parser().parse_args(arguments)
    with suppress(KeyboardInterrupt):
        if options.log is None:
            asyncio.run(_serve(options, None))
        else:
            with options.log.open("a", encoding="utf-8") as log_file:
                asyncio.run(_serve(options, log_file))


if __name__ == "__main__":
    run()
