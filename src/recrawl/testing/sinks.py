"""Checks of the sink interface: functions that raise `AssertionError` on a violation.

Each check takes a target: a place that is empty when the check starts, a function that opens your
sink for it, and functions that read what is there.  It must be possible to pickle a target, because
one check writes to it from another process, which it kills::

    @pytest.mark.parametrize("check", SINK_CHECKS, ids=lambda check: check.__name__)
    def test_my_sink(check, tmp_path):
        check(MyTarget(tmp_path))
"""

import hashlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from recrawl.fetch.sinks import FetchedPage, PageVersion, Sink, SinkRunner, Spool
from recrawl.shard import Transition
from recrawl.store import PassageChanges

__all__ = ["SINK_CHECKS", "SinkCheck", "SinkTarget", "fill_spool", "make_versions"]

_AT_MS = 1_790_000_000_000
_KILLS = 2
_STEPS_MAX = 1_000
_CHILD_SECONDS_MAX = 120


class SinkTarget(Protocol):
    """A place that a sink writes to, and that a check can read."""

    def open_sink(self) -> Sink:
        """Open the sink; a second call opens it for the same place again."""
        ...

    def read_pages(self) -> dict[str, str]:
        """Return the SHA-256 of the latest body of each page that is there, by URL."""
        ...

    def read_ids(self) -> list[str] | None:
        """Return the ids of all versions that are there; None if only the latest ones are kept."""
        ...


SinkCheck: TypeAlias = Callable[[SinkTarget], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A change of the feed, made up."""

    cursor: str
    url: str
    what: Transition
    at_ms: int
    key: str | None = None
    doc_id: str | None = None
    metadata: dict[str, Any] | None = None
    passages: PassageChanges | None = None


def _page_of(i: int) -> tuple[str, bytes]:
    url = f"https://example.com/page/{i % 7}"
    return url, f"<title>Page {i}</title><p>Text of version {i}, an apple.</p>".encode()


def make_versions(n: int, *, first: int = 1) -> list[PageVersion]:
    """Return versions of seven pages, each the successor of the one seven numbers before.

    Parameters
    ----------
    n
        Number of versions.
    first
        Number of the first one.
    """
    versions = []
    for number in range(first, first + n):
        url, body = _page_of(number)
        versions.append(_version(number, url, body))
    return versions


def _version(number: int, url: str, body: bytes | None, **facts: Any) -> PageVersion:
    given: dict[str, Any] = {
        "number": number,
        "spool_id": "0123456789abcdef",
        "url": url,
        "transition": Transition.CHANGED if number > 7 else Transition.NEW,
        "fetched_at_ms": _AT_MS + number,
        "status": 200,
        "content_type": "text/html; charset=utf-8",
        "body": body,
        "headers": (("Server", "example"), ("Content-Encoding", "gzip")),
        "passages": PassageChanges((1,), (2, number), (3,)),
    }
    return PageVersion(**(given | facts))


def fill_spool(spool: Spool, n: int) -> None:
    """Put versions of seven pages into a spool, as a crawl does.

    Parameters
    ----------
    spool
        Spool that is open.
    n
        Number of versions.
    """
    for first in range(1, n + 1, 10):
        pages, changes = [], []
        for i in range(first, min(first + 10, n + 1)):
            url, body = _page_of(i)
            at_ms = _AT_MS + i
            pages.append(
                FetchedPage(url=url, fetched_at_ms=at_ms, body=body, content_type="text/html")
            )
            what = Transition.CHANGED if i > 7 else Transition.NEW
            changes.append(_Change(cursor=f"{i}.0", url=url, what=what, at_ms=at_ms))
        spool.settle(changes, spool.append(pages))


def _pages_after(versions: Sequence[PageVersion]) -> dict[str, str]:
    """Return the digests of the latest versions, without pages that are gone."""
    pages: dict[str, str] = {}
    for version in versions:
        if version.is_removal:
            pages.pop(version.url, None)
        elif version.digest is not None:
            pages[version.url] = version.digest
    return pages


def _assert_holds(target: SinkTarget, versions: Sequence[PageVersion]) -> None:
    assert target.read_pages() == _pages_after(versions)
    ids = target.read_ids()
    if ids is not None:
        assert {version.id for version in versions} <= set(ids)


def check_a_sink_says_what_it_is(target: SinkTarget) -> None:
    """Check that a sink has a name and the other properties of the interface."""
    with closing(target.open_sink()) as sink:
        assert isinstance(sink, Sink)
        assert sink.name
        assert sink.wants_unchanged in (True, False)
        assert sink.batch.versions_max >= 1


def check_what_is_written_is_there(target: SinkTarget) -> None:
    """Check that versions are there when `write` returns, before the sink is closed."""
    versions = make_versions(20)
    with closing(target.open_sink()) as sink:
        sink.write(versions[:1])
        _assert_holds(target, versions[:1])
        sink.write(versions[1:])
        _assert_holds(target, versions)
    _assert_holds(target, versions)


def check_writing_nothing_changes_nothing(target: SinkTarget) -> None:
    """Check that a call without versions has no effect."""
    with closing(target.open_sink()) as sink:
        sink.write([])
        sink.write(make_versions(1))
        sink.write([])
        _assert_holds(target, make_versions(1))


def check_versions_may_come_again(target: SinkTarget) -> None:
    """Check that versions that are sent again do no harm, also in other groups."""
    versions = make_versions(12)
    with closing(target.open_sink()) as sink:
        sink.write(versions[:9])
        sink.write(versions[5:])
        sink.write(versions[5:])
        _assert_holds(target, versions)


def check_a_sink_can_be_opened_again(target: SinkTarget) -> None:
    """Check that a sink continues after it was closed, and that closing twice is harmless."""
    versions = make_versions(15)
    for first in range(0, 15, 5):
        sink = target.open_sink()
        sink.write(versions[first : first + 5])
        sink.close()
        sink.close()
    _assert_holds(target, versions)


def check_any_content_is_written(target: SinkTarget) -> None:
    """Check that no content, URL or header makes `write` fail: the web sends all of these."""
    bodies = [
        b"",
        b"\0\xff\xfe" * 10,
        bytes(range(256)),
        "Straße \u202e 茶".encode(),
        "Käse".encode("latin-1"),
        b"<p>" * 200,
        b"%PDF-1.4 broken",
        b'{"a": "\\ud800"}',
        b"<title>a\0b</title><p>\xed\xa0\x80 lone</p>",
        b"x" * 20_000,
    ]
    versions = [
        _version(i, f"https://example.com/content/{i}", body) for i, body in enumerate(bodies, 1)
    ]
    urls = [
        "https://example.com/../../../etc/passwd",
        "https://example.com/%2e%2e/%2e%2e/etc/passwd",
        "https://example.com/" + "long/" * 300,
        "https://example.com/" + "x" * 2_000,
        "https://example.com/?" + "q=%00&" * 50,
        "https://example.com/con",
        "https://example.com/a//b/./c/",
        "https://example.com/Upper",
        "https://example.com/upper",
        "https://example.com/a:b*c|d",
        "https://xn--bcher-kva.example/%E8%8C%B6",
        "https://[2001:db8::1]:8080/x",
    ]
    n = len(versions) + 1
    versions += [_version(i, url, b"<p>page</p>" + url.encode()) for i, url in enumerate(urls, n)]
    n = len(versions) + 1
    odd: list[dict[str, Any]] = [
        {"content_type": None},
        {"content_type": "text/html\r\nX: y"},
        {"content_type": "application/octet-stream"},
        {"headers": (("Bad Name", "x"), ("X-Line", "a\r\nb"), ("X-\u00e9", "\u2028"))},
        {"metadata": {"a": "\0\ud800", "b": [1, None]}, "doc_id": "d\0"},
        {"status": 206, "passages": None},
        {"fetched_at_ms": 1},
    ]
    versions += [
        _version(i, f"https://example.com/odd/{i}", b"<p>odd</p>", **facts)
        for i, facts in enumerate(odd, n)
    ]
    with closing(target.open_sink()) as sink:
        for version in versions:
            sink.write([version])
        _assert_holds(target, versions)


def check_pages_that_are_gone(target: SinkTarget) -> None:
    """Check that versions without a body are accepted, and that a page can return."""
    url, body = _page_of(1)
    versions = make_versions(3)
    for number, what in enumerate((Transition.GONE, Transition.RETIRED, Transition.MOVED), 4):
        gone = _version(number, url, None, transition=what, status=404, passages=None)
        versions.append(gone)
    with closing(target.open_sink()) as sink:
        sink.write(versions)
        _assert_holds(target, versions)
        versions.append(_version(7, url, body, transition=Transition.RETURNED))
        sink.write(versions[-1:])
        _assert_holds(target, versions)
        # A page that is gone and returns within one call.
        versions.append(_version(8, url, None, transition=Transition.GONE, status=410))
        versions.append(_version(9, url, body + b"!", transition=Transition.RETURNED))
        sink.write(versions[-2:])
        _assert_holds(target, versions)


def check_a_killed_process_loses_nothing(target: SinkTarget) -> None:
    """Check that a sink is complete although its process was killed in the middle, repeatedly."""
    n = 40
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Spool.open(folder) as spool:
            fill_spool(spool, n)
            versions = spool.read(1, limit=n)
        assert len(versions) == n
        context = multiprocessing.get_context("spawn")
        for kill in range(1, _KILLS + 1):
            arguments = (target, folder, kill)
            process = context.Process(target=_write_until_killed, args=arguments)
            process.start()
            process.join(_CHILD_SECONDS_MAX)
            assert process.exitcode == -signal.SIGKILL, f"exit code {process.exitcode}"
        with Spool.open(folder) as spool:
            runner = SinkRunner(spool, [target.open_sink()])
            for _ in range(_STEPS_MAX):
                if not runner.step(at_once=True):
                    break
            (status,) = runner.statuses()
            assert runner.stop(), status
        _assert_holds(target, versions)


def _write_until_killed(target: SinkTarget, folder: Path, kill: int) -> None:
    """Write to a sink in another process, which kills itself.

    It does so while a call of `write` syncs a file, or if it does not sync any, after a call of
    `write` and before the place of the sink is stored.
    """
    sync = os.fsync
    n_syncs = n_writes = 0
    is_writing = False

    def sync_or_die(fd: Any) -> None:
        nonlocal n_syncs
        if is_writing:
            n_syncs += 1
            if n_syncs == 2 * kill:
                os.kill(os.getpid(), signal.SIGKILL)
        sync(fd)

    os.fsync = sync_or_die
    with Spool.open(folder) as spool:
        sink = target.open_sink()
        write = sink.write

        def write_or_die(versions: Sequence[PageVersion]) -> None:
            nonlocal is_writing, n_writes
            is_writing = True
            for version in versions:
                write([version])
            is_writing = False
            n_writes += 1
            if n_writes == kill:
                os.kill(os.getpid(), signal.SIGKILL)

        sink.write = write_or_die  # type: ignore[method-assign]
        runner = SinkRunner(spool, [_InSmallBatches(sink)])
        while runner.step(at_once=True):
            pass


class _InSmallBatches:
    """A sink that gets few versions per call."""

    def __init__(self, sink: Sink) -> None:
        self.name = sink.name
        self.wants_unchanged = sink.wants_unchanged
        self.batch = type(sink.batch)(versions_max=4)
        self.write = sink.write
        self.close = sink.close


def body_digest(body: bytes) -> str:
    """Return the SHA-256 of a body, as `SinkTarget.read_pages` returns it."""
    return hashlib.sha256(body).hexdigest()


SINK_CHECKS: tuple[SinkCheck, ...] = (
    check_a_sink_says_what_it_is,
    check_what_is_written_is_there,
    check_writing_nothing_changes_nothing,
    check_versions_may_come_again,
    check_a_sink_can_be_opened_again,
    check_any_content_is_written,
    check_pages_that_are_gone,
    check_a_killed_process_loses_nothing,
)
