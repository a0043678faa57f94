"""Real crawls of a local site, each in a process of its own."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

PROGRAM = Path(__file__).with_name("crawl_program.py")
ROOT = Path(__file__).resolve().parents[3]
DAY_MS = 86_400_000

Handler = Callable[[web.Request], web.StreamResponse]


@dataclass
class Site:
    """A site with listings that lead to pages, and a count of its requests.

    Parameters
    ----------
    n_listings
        Number of listings, each of which leads to the next.
    n_pages
        Number of pages of each listing.
    """

    n_listings: int = 3
    n_pages: int = 10
    url: str = ""
    version: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    others: dict[str, Handler] = field(default_factory=dict)
    has_etags: bool = True

    @property
    def n_all(self) -> int:
        """Number of listings and pages."""
        return self.n_listings * (1 + self.n_pages)

    def paths(self) -> Counter[str]:
        """Return how often each path was requested, without robots.txt."""
        return Counter(path for path, _ in self.requests if path != "/robots.txt")

    def take_paths(self) -> Counter[str]:
        """Return how often each path was requested since the last call."""
        found = self.paths()
        self.requests.clear()
        return found

    def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.requests.append((path, dict(request.headers)))
        if path in self.others:
            return self.others[path](request)
        if path == "/robots.txt":
            return web.Response(status=404)
        body = self._body(path)
        if body is None:
            return web.Response(status=404, text="not found")
        headers = {"ETag": f'"{path}-{self.version.get(path, 0)}"'} if self.has_etags else {}
        if headers and request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        return web.Response(text=body, content_type="text/html", headers=headers)

    def _body(self, path: str) -> str | None:
        kind, _, number = path.strip("/").partition("/")
        version = self.version.get(path, 0)
        if kind == "list" and int(number) < self.n_listings:
            k = int(number)
            first = k * self.n_pages
            links = "".join(
                f'<li><a href="/page/{i}">Page {i}</a></li>'
                for i in range(first, first + self.n_pages)
            )
            more = f'<a class="next" href="/list/{k + 1}">next</a>'
            more = more if k + 1 < self.n_listings else ""
            return f"<h1>Listing {k}</h1><p>Version {version} of it.</p><ul>{links}</ul>{more}"
        if kind == "page":
            words = f"Page {number} says something of its own in version {version}."
            return f"<h1>Page {number}</h1><p>{words}</p>"
        return None


@contextmanager
def serve_site(site: Site) -> Iterator[Site]:
    """Serve a site from a thread."""
    loop = asyncio.new_event_loop()
    started = threading.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        return site.answer(request)

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/{path:.*}", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        started.set()
        return runner

    runner = loop.create_task(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield site
    finally:
        asyncio.run_coroutine_threadsafe(runner.result().cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def _python() -> list[str]:
    """Return the command that runs a program; measured if the tests are."""
    if "COVERAGE_FILE" not in os.environ or "coverage" not in sys.modules:
        return [sys.executable]
    options = ["run", "--parallel-mode", f"--rcfile={ROOT / 'pyproject.toml'}"]
    return [sys.executable, "-m", "coverage", *options]


@dataclass
class CrawlDone:
    """What a crawl did."""

    items: list[dict[str, Any]]
    stats: dict[str, Any]
    messages: list[str]
    version: str

    def stat(self, name: str) -> Any:
        return self.stats.get(name, 0)


@dataclass
class Crawl:
    """A crawl of a site.

    Parameters
    ----------
    site
        Site to crawl.
    folder
        Folder for the corpus and for results.
    library
        Folder with another version of Scrapy; None for the one that is installed.
    """

    site: Site
    folder: Path
    library: str | None = None

    def start(
        self,
        spider: str = "SiteSpider",
        *,
        paths: tuple[str, ...] = ("/list/0",),
        days: float = 0.0,
        with_addon: bool = True,
        **settings: Any,
    ) -> "subprocess.Popen[str]":
        """Start a crawl, some days ahead of the system clock; settings are those of Scrapy."""
        defaults = {
            "RECRAWL_CORPUS": str(self.folder / "corpus"),
            "RECRAWL_CONTENT": False,
            "RECRAWL_NEWS": True,
        }
        asked = {
            "spider": spider,
            "urls": [self.site.url + path for path in paths],
            "ahead_ms": round(days * DAY_MS),
            "with_addon": with_addon,
            "settings": defaults | settings,
        }
        environment = dict(os.environ, RECRAWL_KERNELS="interpreted")
        if self.library is not None:
            environment["PYTHONPATH"] = self.library
        return subprocess.Popen(
            [*_python(), str(PROGRAM), json.dumps(asked), str(self.folder / "done.json")],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, spider: str = "SiteSpider", **options: Any) -> CrawlDone:
        """Run a crawl to its end; options are those of `start`."""
        process = self.start(spider, **options)
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 0, output
        done = json.loads((self.folder / "done.json").read_text())
        return CrawlDone(**done)
