"""The spool keeps every body until all sinks have it, also when its process is killed."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from recrawl.errors import LockedError, SpoolFull, StorageError
from recrawl.fetch.sinks import FetchedPage, PageVersion, Spool
from recrawl.shard import Transition
from recrawl.store import PassageChanges

URL = "https://example.com/tea"


@dataclass(frozen=True)
class Change:
    cursor: str
    url: str = URL
    what: Transition = Transition.CHANGED
    at_ms: int = 1_000
    key: str | None = None
    doc_id: str | None = None
    metadata: dict[str, Any] | None = None
    passages: PassageChanges | None = None


@dataclass
class Feed:
    """A change feed: the cursor of a change is its number."""

    rows: list[Change] = field(default_factory=list)

    def add(self, **facts: Any) -> None:
        self.rows.append(Change(str(len(self.rows) + 1), **facts))

    def changes(self, after: str | None = None, *, limit: int = 1_000) -> list[Change]:
        first = int(after or 0)
        return self.rows[first : first + limit]


def page(body: bytes = b"<p>tea", at_ms: int = 1_000, url: str = URL, **facts: Any) -> FetchedPage:
    return FetchedPage(url=url, fetched_at_ms=at_ms, body=body, content_type="text/html", **facts)


def bodies(versions: Sequence[PageVersion]) -> list[bytes | None]:
    return [version.body for version in versions]


def test_a_version_has_everything(tmp_path: Path) -> None:
    headers = (("ETag", '"1"'), ("X-\u00e9", "\ud800"))
    passages = PassageChanges((1, 2), (2**64 - 1,), (), ("new",))
    with Spool.open(tmp_path) as spool:
        done = spool.append([page(headers=headers, final_url=URL + "/", status=203, key="k")])
        change = Change("7.0", key="k", doc_id="d", metadata={"a": [1]}, passages=passages)
        assert spool.settle([change], done) == 1
        assert spool.cursor == "7.0"
    with Spool.open(tmp_path) as spool:
        assert spool.cursor == "7.0"
        (version,) = spool.read(1)
        assert version.id == f"{spool.id}-1"
    assert (version.url, version.key, version.status) == (URL, "k", 203)
    assert version.headers == headers
    assert version.final_url == URL + "/"
    assert (version.doc_id, version.metadata, version.passages) == ("d", {"a": [1]}, passages)
    assert version.transition is Transition.CHANGED
    assert version.body == b"<p>tea"
    assert version.fetched_at_ms == 1_000


def test_only_changes_become_versions(tmp_path: Path) -> None:
    feed = Feed()
    with Spool.open(tmp_path) as spool:
        done = spool.append([page(url=f"https://example.com/{i}") for i in range(5)])
        feed.add(url="https://example.com/3", what=Transition.NEW)
        assert spool.settle_feed(feed, done) == 1
        assert [one.url for one in spool.read(1)] == ["https://example.com/3"]
        assert spool.pending == ()


def test_an_archive_gets_fetches_without_news_too(tmp_path: Path) -> None:
    with Spool.open(tmp_path, keeps_unchanged=True) as spool:
        done = spool.append([page(b"", status=304), page(url=URL + "/2")])
        spool.settle([Change("1")], done[1:])
        spool.settle((), done)
        versions = spool.read(1)
    assert [one.transition for one in versions] == [Transition.CHANGED, Transition.NONE]
    assert versions[0].status == 304
    assert versions[0].body is None
    assert versions[1].url == URL + "/2"


def test_a_change_without_a_body_is_a_version(tmp_path: Path) -> None:
    with Spool.open(tmp_path) as spool:
        spool.settle([Change("1", what=Transition.GONE, at_ms=5)])
        (version,) = spool.read(1)
    assert version.body is None
    assert version.is_removal
    assert version.fetched_at_ms == 5
    assert version.text is version.markdown is version.digest is None


@pytest.mark.parametrize("is_reported", [False, True])
def test_a_crash_between_spool_and_feed(tmp_path: Path, is_reported: bool) -> None:
    """The process dies after the body was stored, before or after its outcome was reported."""
    feed = Feed()
    spool = Spool.open(tmp_path)
    spool.append([page(b"first", 1_000)])
    spool.close()
    if is_reported:
        feed.add(at_ms=1_500)
    with Spool.open(tmp_path) as spool:
        assert len(spool.pending) == 1
        spool.settle_feed(feed, spool.pending)
        assert bodies(spool.read(1)) == ([b"first"] if is_reported else [])
        done = spool.append([page(b"second", 2_000)])
        feed.add(at_ms=2_500)
        spool.settle_feed(feed, done)
        found = bodies(spool.read(1))
    assert found == ([b"first", b"second"] if is_reported else [b"second"])


def test_each_change_gets_the_body_of_its_fetch(tmp_path: Path) -> None:
    with Spool.open(tmp_path) as spool:
        done = spool.append([page(b"a", 1_000), page(b"b", 2_000)])
        spool.settle([Change("1", at_ms=1_000), Change("2", at_ms=2_100)], done)
        assert bodies(spool.read(1)) == [b"a", b"b"]


def test_numbers_go_on_after_everything_was_deleted(tmp_path: Path) -> None:
    with Spool.open(tmp_path, bytes_max=1 << 20) as spool:
        first_id = spool.id
        for i in range(60):
            body = os.urandom(20_000)
            done = spool.append([page(body, i)])
            spool.settle([Change(str(i), at_ms=i)], done)
            assert bodies(spool.read(i + 1)) == [body]
            spool.forget_before(i + 2)
        assert spool.n_bytes < 1 << 18
    with Spool.open(tmp_path, bytes_max=1 << 20) as spool:
        assert spool.id == first_id
        assert spool.next_number == 61
        assert spool.cursor == "59"
        assert spool.read(61) == []


def test_a_body_is_kept_while_a_version_needs_it(tmp_path: Path) -> None:
    with Spool.open(tmp_path, bytes_max=1 << 20) as spool:
        early = spool.append([page(b"early", 0, url=URL + "/early")])
        for i in range(20):
            done = spool.append([page(os.urandom(20_000), i)])
            spool.settle([Change(str(i), at_ms=i)], done)
        spool.forget_before(spool.next_number)
        assert len(list(tmp_path.glob("*.spool"))) >= 3
        spool.settle([Change("99", url=URL + "/early")], early)
        assert bodies(spool.read(21)) == [b"early"]
        spool.forget_before(spool.next_number)
        assert len(list(tmp_path.glob("*.spool"))) == 1


def test_a_full_spool_says_so(tmp_path: Path) -> None:
    with Spool.open(tmp_path, bytes_max=100_000) as spool:
        n = 0
        while spool.n_bytes < spool.bytes_max:
            done = spool.append([page(os.urandom(9_000), n)])
            n += 1
            spool.settle([Change(str(n), at_ms=n)], done)
        with pytest.raises(SpoolFull, match="has room again when every sink"):
            spool.append([page()])
        assert 8 <= n <= 13
        assert spool.n_bytes < 130_000
        spool.settle([Change("1000", what=Transition.GONE)])  # always possible
        spool.forget_before(spool.next_number)
        assert not spool.is_full
        spool.append([page()])


@pytest.mark.parametrize("n_cut", [1, 5, 9, 10, 50])
def test_half_a_record_at_the_end_is_cut_off(tmp_path: Path, n_cut: int) -> None:
    with Spool.open(tmp_path) as spool:
        spool.settle([Change("1")], spool.append([page(b"whole")]))
        end = spool.n_bytes
        spool.append([page(b"torn " * 20, url=URL + "/torn")])
    (path,) = tmp_path.glob("*.spool")
    os.truncate(path, path.stat().st_size - n_cut)
    with Spool.open(tmp_path) as spool:
        assert spool.n_bytes == end
        assert spool.pending == ()
        assert bodies(spool.read(1)) == [b"whole"]
        spool.settle([Change("2")], spool.append([page(b"more")]))
    with Spool.open(tmp_path) as spool:
        assert bodies(spool.read(1)) == [b"whole", b"more"]


def test_every_possible_end_of_the_file_can_be_opened(tmp_path: Path) -> None:
    with Spool.open(tmp_path / "whole") as spool:
        for i in range(3):
            spool.settle([Change(str(i), at_ms=i)], spool.append([page(b"b%d" % i, i)]))
    (path,) = (tmp_path / "whole").glob("*.spool")
    data = path.read_bytes()
    for n in range(0, len(data), 29):
        folder = tmp_path / str(n)
        folder.mkdir()
        (folder / path.name).write_bytes(data[:n])
        with Spool.open(folder) as spool:
            versions = spool.read(1)
            assert bodies(versions) == [b"b%d" % i for i in range(len(versions))]
            spool.settle([Change("9")], spool.append([page(b"next", 9)]))
            assert spool.read(1)[-1].body == b"next"


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    with Spool.open(tmp_path, bytes_max=1 << 20) as spool:
        for i in range(20):
            spool.settle([Change(str(i), at_ms=i)], spool.append([page(os.urandom(20_000), i)]))
    first = min(tmp_path.glob("*.spool"))
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    with pytest.raises(StorageError, match="is damaged at byte"):
        Spool.open(tmp_path)


def test_a_spool_belongs_to_one_process(tmp_path: Path) -> None:
    with Spool.open(tmp_path), pytest.raises(LockedError, match="in use by another process"):
        Spool.open(tmp_path)
    Spool.open(tmp_path).close()


def test_reads_are_limited(tmp_path: Path) -> None:
    with Spool.open(tmp_path) as spool:
        for i in range(5):
            spool.settle([Change(str(i), at_ms=i)], spool.append([page(b"x" * 1_000, i)]))
        assert [one.number for one in spool.read(2, limit=2)] == [2, 3]
        assert [one.number for one in spool.read(1, bytes_max=1_500)] == [1, 2]
        assert [one.number for one in spool.read(4)] == [4, 5]
        assert spool.read(6) == []
        assert spool.first_number == 1
        assert spool.next_number == 6


def test_many_changes_are_settled_at_once(tmp_path: Path) -> None:
    feed = Feed()
    for i in range(2_500):
        feed.add(url=f"https://example.com/{i}")
    with Spool.open(tmp_path) as spool:
        assert spool.settle_feed(feed) == 2_500
        assert [one.number for one in spool.read(1, limit=9_999)] == list(range(1, 2_501))


def test_a_full_disk_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Spool.open(tmp_path) as spool:
        spool.settle([Change("1")], spool.append([page(b"first")]))
        sync = os.fsync

        def fail(fd: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(StorageError, match="No space left"):
            spool.append([page(b"second")])
        assert spool.pending == ()
        monkeypatch.setattr(os, "fsync", sync)
        # The system may have dropped what it could not write, so nothing is believed any more.
        with pytest.raises(StorageError, match="open the spool again"):
            spool.append([page(b"second")])
    with Spool.open(tmp_path) as spool:
        spool.settle((), spool.pending)
        spool.settle([Change("2")], spool.append([page(b"third")]))
        assert bodies(spool.read(1)) == [b"first", b"third"]


def test_changes_that_other_processes_fetched_become_no_versions(tmp_path: Path) -> None:
    feed = Feed()
    feed.add(url="https://example.com/coffee")
    feed.add()
    feed.add(url="https://example.com/milk", what=Transition.GONE)
    feed.add(url="https://example.com/cocoa", what=Transition.GONE)
    with Spool.open(tmp_path, only_own=True) as spool:
        gone = page(b"", url="https://example.com/milk", status=404)
        done = spool.append([page(), gone])
        assert spool.settle_feed(feed, done) == 2
        assert spool.cursor == "4"
        found = spool.read(1)
        assert [(one.url, one.transition) for one in found] == [
            (URL, Transition.CHANGED),
            ("https://example.com/milk", Transition.GONE),
        ]
        assert spool.pending == ()
