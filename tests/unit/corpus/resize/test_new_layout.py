"""New partitions that are prepared while the old ones are written are those of one whole copy."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.corpus.leasing.old_handles import OldHandles
from recrawl.corpus.resize.new_layout import LayoutDraft, NewLayout
from recrawl.ledger import RocksLog
from recrawl.node.durability.corpus_format import CorpusFormat, new_corpus_id
from recrawl.shard.state.snapshot import restore_tables
from recrawl.shard.state.status import LeaseStage, PageStatus
from recrawl.shard.state.tables import Tables
from recrawl.store import Names, Store
from recrawl.store.keys import CHANGE, FETCH, PAGE_MEMORY, RECORD, USER_DATA
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.slow_without_jit

N_AFTER = 3
SETTINGS: dict[str, Any] = {
    "corpus": {"partitions": 2},
    "politeness": {"delay": 0, "in_flight_max": 50, "burst": 50},
    "budget": {"rate": "1000/s"},
    "pattern": [{"match": "*/page/71*", "kind": "news"}],
}
_PAGE_OF_CHANGE = slice(8, 16)


def url_of(i: int) -> str:
    return f"https://h{i % 13}.site{i % 5}.example/page/{i}"


def urls(*numbers: int) -> list[str]:
    return [url_of(i) for i in range(*numbers)]


@pytest.fixture
def corpus(tmp_path: Path, clock: ManualClock) -> Iterator[Corpus]:
    config = CorpusConfig.from_dict(SETTINGS)
    with recrawl.open(tmp_path / "corpus", config, clock=clock) as opened:
        opened.add(urls(400), doc_id=[f"d{i}" if i % 3 else None for i in range(400)])
        fetch(opened, clock, urls(0, 300), "first")
        opened.signal(urls(70, 200, 3), source="sitemap")
        opened.signal(urls(70, 200, 4), source="feed")
        opened.remove(urls(20, 30))
        opened.lease(25, seconds=3_000)
        yield opened


def fetch(corpus: Corpus, clock: ManualClock, some: list[str], content: str) -> None:
    """Report contents of pages, one per second, of every fifth with a body."""
    for begin in range(0, len(some), 20):
        clock.pass_seconds(1)
        corpus.report(
            [
                Outcome(url=one, body=f"<p>{content} of {one}</p>".encode(), etag=b'"e"')
                if i % 5 == 0
                else Outcome(url=one, digest=f"{one} {content}".encode())
                for i, one in enumerate(some[begin : begin + 20])
            ]
        )


def format_after(corpus: Corpus) -> CorpusFormat:
    own = corpus.format
    corpus_id = new_corpus_id(f"{own.corpus_id} 1 {N_AFTER}")
    return replace(own, partitions=N_AFTER, generation=1, earlier=(2,), corpus_id=corpus_id)


def draft_of(corpus: Corpus, folder: Path) -> LayoutDraft:
    folder.mkdir()
    return LayoutDraft([*corpus.nodes], format_after(corpus), folder, changes_max=10_000)


def finish(draft: LayoutDraft, corpus: Corpus, folder: Path) -> NewLayout:
    """Finish a draft, and close it."""
    corpus_id = format_after(corpus).corpus_id
    with draft, RocksLog.open(folder / "log", N_AFTER, corpus_id=corpus_id) as log:
        return draft.finish([log.partition(i) for i in range(N_AFTER)], OldHandles.none())


def check_equals_whole_copy(draft: LayoutDraft, corpus: Corpus, folder: Path) -> None:
    """Finish a draft, and compare it with one that was made at once."""
    made = finish(draft, corpus, folder / "prepared")
    whole = finish(draft_of(corpus, folder / "whole"), corpus, folder / "whole")
    assert (made.n_pages, len(made.handles)) == (whole.n_pages, len(whole.handles))
    np.testing.assert_array_equal(made.handles.old, whole.handles.old)
    np.testing.assert_array_equal(made.handles.new, whole.handles.new)
    for i in range(N_AFTER):
        found = describe(folder / "prepared", made, i)
        expected = describe(folder / "whole", whole, i)
        for name, value in expected.items():
            np.testing.assert_equal(found[name], value, err_msg=f"{name} of partition {i}")


def describe(folder: Path, made: NewLayout, partition: int) -> dict[str, Any]:
    """Return everything that a new partition has, by names instead of slots."""
    saved = made.snapshots[partition]
    tables, _, _ = restore_tables(saved.manifest(), saved.columns())
    n_slots = int(tables.registers.n_slots[0])
    slots = np.arange(n_slots)
    assert (tables.pages.status[:n_slots] != PageStatus.FREE).all()
    with Store.open(folder / "store" / str(partition)) as store:
        texts = store.read_names_of(slots)
        assert None not in texts
        page, scanned = store.scan_names(0, n_slots + 1_000)
        assert page.tolist() == slots.tolist()
        assert scanned.to_pylist() == [(text or b"").decode() for text in texts]
        assert store.pages_of(scanned).tolist() == slots.tolist()
        names = {slot: (text or b"").decode() for slot, text in enumerate(texts)}
        order = np.array(sorted(range(n_slots), key=names.__getitem__), np.int64)
        found: dict[str, Any] = {"names": [names[slot] for slot in order.tolist()]}
        for table in ("groups", "sources", "limits", "priors", "runs", "registers"):
            found |= {f"{table} {k}": v for k, v in getattr(tables, table)._asdict().items()}
        for name, column in tables.pages._asdict().items():
            found[f"pages {name}"] = column[:n_slots][order]
        found |= describe_leases(tables, names) | {"links": describe_links(tables, names)}
        for prefix in (FETCH, RECORD, USER_DATA, PAGE_MEMORY):
            values = store.values.scan(prefix, bytes([prefix[0] + 1]))
            found[f"values {prefix!r}"] = sorted(
                (names[int.from_bytes(key[1:], "big")], value) for key, value in values
            )
        found["changes"] = [
            (key, value[:8], names.get(number_in(value), "removed"), value[16:])
            for key, value in store.values.scan(CHANGE, bytes([CHANGE[0] + 1]))
        ]
        found["origins"] = [*store.values.scan(b"o", b"p")]
        found["old feed"] = store.old_feed(0)
        found["counts"] = store.content_counts
        found["n_changes"] = store.n_changes
        for what in Names:
            n_names = store.n_names(what)
            found[f"names {what}"] = n_names, store.names_of(what, range(n_names + 1))
        groups: NDArray[np.int64] = np.arange(store.n_names(Names.GROUP))
        found["memories"] = store.host_memories_of(groups)
    return found


def number_in(value: bytes) -> int:
    return int.from_bytes(value[_PAGE_OF_CHANGE], "big", signed=True)


def describe_leases(tables: Tables, names: dict[int, str]) -> dict[str, Any]:
    used = tables.leases.stage != LeaseStage.EMPTY
    found: dict[str, Any] = {f"leases {k}": v[used] for k, v in tables.leases._asdict().items()}
    found["leases page"] = [names.get(int(page), "removed") for page in found["leases page"]]
    return found


def describe_links(tables: Tables, names: dict[int, str]) -> list[tuple[Any, ...]]:
    links = tables.links
    rows = np.flatnonzero(links.key)
    key = links.key[rows].astype(np.int64) - 1
    columns = [getattr(links, name)[rows].tolist() for name in links._fields if name != "key"]
    where = [names[slot] for slot in (key >> 3).tolist()]
    return sorted(zip(where, (key & 7).tolist(), *columns, strict=True))


def trim(corpus: Corpus, before_ms: int) -> None:
    """Remove early changes from all feeds."""
    for node in corpus.nodes:
        node.store.trim_changes(before_ms=before_ms)


Change = Callable[[Corpus, ManualClock], object]
CHANGES: dict[str, Change] = {
    "nothing": lambda _, __: None,
    "pages added": lambda corpus, _: corpus.add(urls(400, 520)),
    "pages removed": lambda corpus, _: corpus.remove(urls(100, 150)),
    "all pages removed": lambda corpus, _: corpus.remove(urls(400)),
    "pages replaced": lambda corpus, _: (
        corpus.remove(urls(100, 150)),
        corpus.add(urls(600, 630)),
        corpus.add(urls(110, 115)),
    ),
    "pages removed and added again": lambda corpus, _: (
        corpus.remove(urls(100, 150)),
        corpus.add(urls(100, 150)),
    ),
    "pages fetched": lambda corpus, clock: fetch(corpus, clock, urls(250, 350), "second"),
    "user data": lambda corpus, _: (
        corpus.add(urls(0, 10), doc_id=["new"] * 10),
        corpus.add(urls(31, 41), doc_id=[""] * 10),
    ),
    "signals": lambda corpus, _: corpus.signal(urls(100, 300), source="another"),
    "orders": lambda corpus, _: corpus.lease(40),
    "another kind": lambda corpus, _: corpus.add(urls(700, 720)),
    "changes removed": lambda corpus, clock: trim(corpus, clock.wall_ms() - 5_000),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_has_what_was_written_meanwhile(
    corpus: Corpus, clock: ManualClock, tmp_path: Path, change: str
) -> None:
    draft = draft_of(corpus, tmp_path / "prepared")
    draft.copy()
    CHANGES[change](corpus, clock)
    check_equals_whole_copy(draft, corpus, tmp_path)


@pytest.mark.parametrize("case", range(4))
def test_it_has_all_changes_of_several_copies(
    corpus: Corpus, clock: ManualClock, tmp_path: Path, case: int
) -> None:
    rng = np.random.default_rng(case)
    draft = draft_of(corpus, tmp_path / "prepared")
    n_added = 1_000
    for _ in range(4):

        def write(_: int) -> None:
            """Write also during a copy."""
            fetch(corpus, clock, urls(300, 340), f"{rng.integers(1 << 30)}")

        draft.copy(on_pages=write if rng.integers(2) else lambda _: None)
        for _ in range(3):
            begin = int(rng.integers(0, 350))
            match int(rng.integers(4)):
                case 0:
                    corpus.add(urls(n_added, n_added + 20))
                    n_added += 20
                case 1:
                    corpus.remove(urls(begin, begin + int(rng.integers(30))))
                case 2:
                    some = urls(begin, begin + 40)
                    known = [one for one in some if corpus.explain(one) is not None]
                    fetch(corpus, clock, known, f"{rng.integers(1 << 30)}")
                case _:
                    corpus.lease(10)
    check_equals_whole_copy(draft, corpus, tmp_path)


def test_little_is_copied_again(corpus: Corpus, clock: ManualClock, tmp_path: Path) -> None:
    with draft_of(corpus, tmp_path / "prepared") as draft:
        assert draft.copy() == corpus.stats().n_pages
        assert draft.copy() == 0
        fetch(corpus, clock, urls(200, 220), "second")
        corpus.add(urls(400, 405))
        assert draft.copy() == 25
        # A page moves into the gap of another one, unless that was the last of its partition.
        corpus.remove(urls(50, 51))
        assert draft.copy() <= 1
        assert draft.copy() == 0


def test_a_partition_without_changes_delays_only_those_that_are_newer(
    corpus: Corpus, clock: ManualClock, tmp_path: Path
) -> None:
    """Its next change may be as early as its time, so all changes before that are final."""
    with draft_of(corpus, tmp_path / "prepared") as draft:
        draft.copy()
        n_rows = sum(draft.n_merged_changes)
        n_changes = sum(node.store.n_changes for node in corpus.nodes)
        now_ms = min(node.shard.now_ms for node in corpus.nodes)
        newer = [one for one in corpus.changes(limit=10_000) if one.at_ms >= now_ms]
        assert n_changes - len(newer) <= n_rows <= n_changes
        assert n_rows > 200


def test_nothing_is_lost_if_the_time_was_set_back(
    corpus: Corpus, clock: ManualClock, tmp_path: Path
) -> None:
    draft = draft_of(corpus, tmp_path / "prepared")
    clock.pass_seconds(1_000)
    corpus.lease(1)
    draft.copy()
    # The first new change of one partition comes before what was merged of the other.
    draft._feeds._last = (clock.wall_ms() + 1_000_000, -1, draft._feeds._last[2])
    fetch(corpus, clock, urls(200, 260), "second")
    check_equals_whole_copy(draft, corpus, tmp_path)
