"""A crawl in a process of its own, which kills itself with SIGKILL at a named step.

The web is a function: three hosts, of which each page has another text at every fetch.  Two logs
that are appended to by single writes survive the kill: the requests that hosts saw, and the
versions that the corpus has acknowledged.
"""

import asyncio
import functools
import hashlib
import importlib
import inspect
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import recrawl
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.fetch import (
    FetchAnswer,
    FetchProblem,
    FetchRequest,
    FetchSettings,
    HostGate,
    PageFetcher,
)
from recrawl.fetch.sinks import open_sink, segments, spool
from recrawl.fetch.sinks.kinds.json_lines import JsonLinesSink
from recrawl.run import CrawlSettings
from recrawl.run.discovery import DiscoverySettings
from recrawl.run.robots_teller import RobotsTeller
from recrawl.run.session import CrawlSession
from recrawl.shard import Transition

__all__ = ["DELAY_SECONDS", "HOSTS", "PAGES", "KillStep", "crawl_until_killed"]

DELAY_SECONDS: Final = 0.05
HOSTS: Final = ("one.example", "two.example", "three.example")
PAGES: Final = tuple(f"http://{host}/{page}" for host in HOSTS for page in range(4))
# Small, so that a crawl of a few pages begins several files.
_SPOOL_FILE_BYTES: Final = 4_096
_WORDS: Final = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet")


class KillStep(NamedTuple):
    """A call at which the process kills itself.

    Parameters
    ----------
    target
        Module and name of a function or method, separated by a colon.
    when
        ``"before"`` or ``"after"`` the call, or ``"within"``: after half of the bytes.
    nth
        Number of the call.
    """

    target: str
    when: str = "after"
    nth: int = 1


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(step: KillStep) -> None:
    """Make a function kill the process at one of its calls."""
    module, _, name = step.target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = name.split(".")
    for one in outer:
        owner = getattr(owner, one)
    function = getattr(owner, name)
    calls = 0

    def is_time() -> bool:
        nonlocal calls
        calls += 1
        return calls == step.nth

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        at_last = is_time()
        if at_last and step.when == "before":
            _kill()
        if at_last and step.when == "within":
            _WITHIN[step.target](*args, **kwargs)
            _kill()
        found = function(*args, **kwargs)
        if at_last:
            _kill()
        return found

    @functools.wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        at_last = is_time()
        found = await function(*args, **kwargs)
        if at_last:
            _kill()
        return found

    setattr(owner, name, call_async if inspect.iscoroutinefunction(function) else call)


def _write_half_a_record(records: Any, kind: int, data: bytes) -> None:
    records._file.write(segments._HEAD.pack(len(data), 0, kind) + data[: len(data) // 2])
    records._file.flush()


def _write_half_a_line(sink: JsonLinesSink, versions: Sequence[Any]) -> None:
    line = json.dumps(versions[0].as_json())
    file = sink._writable_file()
    file.write(line[: len(line) // 2].encode())
    file.flush()


_WITHIN: Final[dict[str, Callable[..., None]]] = {
    "recrawl.fetch.sinks.segments:Segments._write": _write_half_a_record,
    "recrawl.fetch.sinks.kinds.json_lines:JsonLinesSink.write": _write_half_a_line,
}


def _append(path: Path, row: Sequence[Any]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, json.dumps(row).encode() + b"\n")
    os.close(descriptor)


def _answer_of(path: str, number: int) -> tuple[int, str, bytes]:
    """Return status, type and body of a path at a fetch; links lead to the pages 2 and 3."""
    if path == "/sitemap.xml":
        urls = "".join(f"<url><loc>http://HOST/{page}</loc></url>" for page in range(2))
        return 200, "application/xml", f"<urlset>{urls}</urlset>".encode()
    if path == "/robots.txt" or (not path[1:].isdecimal() and path != "/"):
        return 404, "text/plain", b""
    word, other = _WORDS[number % len(_WORDS)], _WORDS[number // len(_WORDS) % len(_WORDS)]
    body = f"<h1>Page {path}</h1><p>The {word} stands beside the {other}.</p>"
    return 200, "text/html", (body + '<a href="/2">Two</a> <a href="/3">Three</a>').encode()


class _Fetcher:
    """Answers by `_answer_of`, waits at the gate like a real fetcher, and logs requests."""

    def __init__(self, gate: HostGate, log: Path) -> None:
        self.gate = gate
        self._log = log
        text = log.read_text() if log.exists() else ""
        self._n = text.count('"start"')

    async def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Answer a request."""
        parts = urlsplit(request.url)
        host = parts.hostname or ""
        wait = await self.gate.enter(host)
        now_ms = time.time_ns() // 1_000_000
        if wait:
            return FetchAnswer(
                url=request.url,
                final_url=request.url,
                fetched_at_ms=now_ms,
                problem=FetchProblem.HOST_DELAY,
                retry_after_seconds=wait,
            )
        self._note("start", host)
        self._n += 1
        status, media_type, body = _answer_of(parts.path, self._n)
        await asyncio.sleep(0.001)
        self._note("end", host)
        self.gate.leave(host)
        return FetchAnswer(
            url=request.url,
            final_url=request.url,
            fetched_at_ms=now_ms,
            status=status,
            headers={"content-type": media_type},
            body=body.replace(b"HOST", host.encode()),
        )

    def _note(self, what: str, host: str) -> None:
        _append(self._log, (what, host, time.time()))

    async def close(self) -> None:
        """Close nothing."""


class _Session(CrawlSession):
    """A session whose fetcher needs no network."""

    def _open_fetcher(self, gate: HostGate, robots: RobotsTeller) -> PageFetcher:
        del robots
        return _Fetcher(gate, self.corpus.folder.parent / "requests")


def _log_acknowledged(folder: Path) -> None:
    """Log each version of a page once `Corpus.report` has returned."""
    report = Corpus.report

    @functools.wraps(report)
    def call(corpus: Corpus, outcomes: Any, *args: Any, **kwargs: Any) -> Any:
        reported = report(corpus, outcomes, *args, **kwargs)
        for outcome, transition in zip(outcomes, reported.transition.tolist(), strict=True):
            if outcome.body is not None and transition != Transition.NONE:
                digest = hashlib.sha256(outcome.body).hexdigest()
                _append(folder / "acknowledged", (digest, Transition(transition).name.lower()))
        return reported

    Corpus.report = call  # type: ignore[method-assign, assignment]


def crawl_until_killed(folder: Path, step: KillStep | None) -> None:
    """Crawl until the step is reached, or everything was fetched once if there is none.

    Parameters
    ----------
    folder
        Folder for the corpus, its sinks and the logs.
    step
        Step at which the process ends.
    """
    spool._FILE_BYTES_MAX = _SPOOL_FILE_BYTES
    _log_acknowledged(folder)
    if step is not None:
        _arm(step)
    sinks = [
        open_sink("json-lines", {"folder": folder / "lines"}),
        open_sink("folder", {"folder": folder / "pages"}),
    ]
    config = CorpusConfig.from_dict(
        {
            "budget": {"rate": "100000/h"},
            "politeness": {"delay": DELAY_SECONDS},
            "pattern": [{"match": "*", "kind": "page", "min_age": 0.001}],
        }
    )
    fetch_settings = FetchSettings(contact="https://example.com/bot", delay_seconds=DELAY_SECONDS)
    crawl_settings = CrawlSettings(is_single_pass=step is None, lease_seconds=2.0)
    with recrawl.open(folder / "corpus", config) as corpus:
        session = _Session(
            corpus,
            fetch_settings,
            sinks,
            discovery_settings=DiscoverySettings(follows_links=True),
        )
        urls = [f"http://{host}/" for host in HOSTS]
        asyncio.run(session.run(urls, crawl_settings))
        assert not any(one.n_waiting for one in session.sink_statuses)
