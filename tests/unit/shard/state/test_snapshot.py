"""Snapshots hold the state at the moment they began, whatever happens while they are written."""

import json
import zlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recrawl.errors import SnapshotError
from recrawl.shard import events as ev
from recrawl.shard import shard as shard_module
from recrawl.shard.shard import Shard
from recrawl.shard.state import snapshot as snapshot_module
from tests.reference.shards import DAY, HOUR, Story, ms, write_snapshot


def busy(n: int = 300, **settings: object) -> Story:
    """Return a story with many kinds of events."""
    story = Story(**settings)
    page = story.add(n, group=np.arange(n) % 5, kind=np.arange(n) % 3)
    for k in range(1, 5):
        story.tick(k * HOUR)
        order = story.order(page[k : 100 + k], lasts=HOUR / 2)
        story.signal(page[::3], source=k % 4)
        story.report(page[k : 80 + k], np.arange(80) % 4, order=order[:80])
        story.apply(story.shard.overdue(story.shard.now_ms))
    story.remove(page[-20:])
    return story


def apply_some_events(story: Story, k: int) -> None:
    """Apply events that depend on ``k``; ten successive values cover every kind of event."""
    t = story.shard.tables
    live = np.flatnonzero(t.pages.status[: story.register("n_slots")] > 0)
    page = ev.page_of(live, t.pages.generation[live])
    story.tick(5 * HOUR + k * 60)
    some = page[k % 7 :: 7]
    match k % 10:
        case 0:
            story.add(40, at=5 * HOUR, group=k, kind=k % 4)
        case 1:
            story.remove(some)
        case 2:
            story.report(some, np.arange(some.size) % 7)
        case 3:
            story.signal(some, source=k % 6)
        case 4:
            story.order(some)
        case 5:
            story.apply(
                ev.event_of(ev.PriorsSet, epoch=1, kind=[0, 1], shape=0.4 + k / 50, seconds=9 * DAY)
            )
            story.apply(ev.event_of(ev.KindsWeighted, epoch=1, kind=[0, 2], weight=[k, 1 / k]))
        case 6:
            other = Story(estimator=("counts", "gamma", "plug_in")[k % 3], group_delay=k)
            story.set_settings(other.settings)
        case 7:
            held = np.arange(story.register("first_order"), story.register("next_order"))
            story.apply(ev.event_of(ev.LeasesReleased, order=held[::2]))
            story.apply(
                ev.event_of(ev.LeasesExpired, epoch=1, at_ms=ms(6 * HOUR), order=held[1::2])
            )
        case 8:
            story.set_group(k, delay_ms=k)
            story.budget(k, 1)
            story.apply(ev.event_of(ev.SourcesSet, source=k, precision=0.5, delay_seconds=np.nan))
            story.apply(ev.event_of(ev.ImportanceSet, page=some, importance=k))
            story.apply(ev.event_of(ev.CostsSet, page=some, cost=k))
        case _:
            story.apply(
                ev.event_of(
                    ev.LimitsSet,
                    page=some,
                    interval_seconds_min=k,
                    interval_seconds_max=DAY,
                    stale_seconds=0,
                    stale_probability=0,
                )
            )
            story.apply(ev.event_of(ev.KindsSet, page=some, kind=k % 5))
            story.apply(ev.event_of(ev.RequestsSeen, page=some, n_requests=k, at_ms=ms(5 * HOUR)))
            story.apply(
                ev.event_of(ev.CurvesSet, page=some, ceiling=0.5, ratio=0.5, scroll_items=0)
            )


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("n_between", [1, 5, 23])
def test_events_between_pieces_are_not_in_the_snapshot(
    n_between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "_ROWS_PER_PIECE", 64)
    monkeypatch.setattr(shard_module, "_REBASED_AT_ONCE", 100)
    monkeypatch.setattr(shard_module, "_REBASED_PER_TICK", 10)
    story = busy()
    steps = 0
    for round_ in range(6):
        before, settings = story.shard.digest(), story.shard.settings
        snapshot = story.shard.snapshot(f"position {round_}")
        assert isinstance(snapshot.n_bytes, int)
        data = np.zeros(snapshot.n_bytes, np.uint8)
        for i, piece in enumerate(snapshot):
            if i % n_between == 0 and i < 150:
                apply_some_events(story, steps)
                steps += 1
            data[piece.offset : piece.offset + piece.data.size] = piece.data
        copy, position = Shard.restore(snapshot.manifest, data)
        assert position == f"position {round_}"
        assert copy.digest() == before
        assert copy.settings == settings
        assert story.shard.digest() != before
    assert story.replay().digest() == story.shard.digest()


def test_a_restored_shard_continues_like_the_original() -> None:
    story = busy()
    copies = []
    for k in range(30):
        if k % 6 == 0:
            copies.append((k, Shard.restore(*write_snapshot(story.shard.snapshot("here")))[0]))
        mark = len(story.log)
        apply_some_events(story, k)
        for _, copy in copies:
            copy.apply_all(story.log[mark:])
    for k, copy in copies:
        assert copy.digest() == story.shard.digest(), k


def test_a_snapshot_of_an_empty_shard_is_restored() -> None:
    story = Story()
    copy, _ = Shard.restore(*write_snapshot(story.shard.snapshot("0")))
    assert copy.digest() == story.shard.digest()
    for shard in (copy, story.shard):
        page = shard.free_pages(5)
        shard.apply(
            ev.event_of(
                ev.PagesAdded, page=page, group=0, kind=0, importance=1, cost=1, at_ms=ms(0)
            )
        )
    assert copy.digest() == story.shard.digest()


def test_a_snapshot_of_a_restored_shard_is_the_same_bytes() -> None:
    manifest, data = write_snapshot(busy().shard.snapshot("7"))
    again, same = write_snapshot(Shard.restore(manifest, data.copy())[0].snapshot("7"))
    assert again == manifest
    assert np.array_equal(same, data)


def test_another_snapshot_may_begin_before_one_is_done() -> None:
    story = busy()
    abandoned = story.shard.snapshot("1")
    next(abandoned)
    apply_some_events(story, 2)
    before = story.shard.digest()
    second = story.shard.snapshot("2")
    apply_some_events(story, 3)
    assert Shard.restore(*write_snapshot(second))[0].digest() == before


def test_pieces_of_zeros_are_left_out() -> None:
    snapshot = busy().shard.snapshot("1")
    sizes = 0
    for piece in snapshot:
        assert piece.data.any()
        sizes += piece.data.size
    assert 0 < sizes < snapshot.n_bytes


def test_pieces_are_made_after_the_shard_has_changed() -> None:
    story = busy()
    before = story.shard.digest()
    snapshot = story.shard.snapshot("1")
    data = np.zeros(snapshot.n_bytes, np.uint8)
    step = 0
    while (copied := snapshot.copy_next()) is not None:
        apply_some_events(story, step)
        step += 1
        for piece in snapshot.make_pieces(copied):
            data[piece.offset : piece.offset + piece.data.size] = piece.data
    assert story.shard.digest() != before
    assert Shard.restore(snapshot.manifest, data)[0].digest() == before


def test_room_for_copies_may_be_reserved_before_tables_grow() -> None:
    story = busy()
    room = snapshot_module.reserve_room(story.shard.tables)
    n_groups = story.shard.tables.groups.n_pages.size
    story.shard.apply(
        ev.event_of(
            ev.PagesAdded,
            page=story.shard.free_pages(1),
            group=n_groups,
            kind=0,
            importance=1,
            cost=1,
            at_ms=story.shard.now_ms,
        )
    )
    assert story.shard.tables.groups.n_pages.size > n_groups
    copy, _ = Shard.restore(*write_snapshot(story.shard.snapshot("1", room)))
    assert copy.digest() == story.shard.digest()


def test_the_manifest_is_complete_only_after_the_last_piece() -> None:
    snapshot = busy().shard.snapshot("1")
    next(snapshot)
    assert not snapshot.is_done
    with pytest.raises(SnapshotError, match="last piece"):
        _ = snapshot.manifest


@pytest.fixture(scope="module")
def whole() -> tuple[str, NDArray[np.uint8]]:
    return write_snapshot(busy().shard.snapshot("9"))


@pytest.mark.parametrize("cut", [0, 1, 10, -1])
def test_a_broken_manifest_is_an_error(whole: tuple[str, NDArray[np.uint8]], cut: int) -> None:
    manifest, data = whole
    with pytest.raises(SnapshotError):
        Shard.restore(manifest[:cut], data)


@pytest.mark.parametrize("text", ["null", "[]", "{}", "7", '{"body": 3, "crc32": 0}', '"x"'])
def test_text_that_is_not_a_manifest_is_an_error(
    whole: tuple[str, NDArray[np.uint8]], text: str
) -> None:
    with pytest.raises(SnapshotError, match="not a manifest"):
        Shard.restore(text, whole[1])


def forged(manifest: str, change: object) -> str:
    body = json.loads(json.loads(manifest)["body"])
    change(body)  # type: ignore[operator]
    text = json.dumps(body)
    return json.dumps({"crc32": zlib.crc32(text.encode()), "body": text})


def test_a_changed_manifest_is_an_error(whole: tuple[str, NDArray[np.uint8]]) -> None:
    manifest, data = whole
    with pytest.raises(SnapshotError, match="checksum"):
        Shard.restore(manifest.replace("uint64", "int64", 1), data)
    for change, message in (
        (lambda body: body.update(format=99), "format must be .* a newer version"),
        (lambda body: body.update(format=0), "format must be"),
        (lambda body: body.update(format="2"), "format must be"),
        (lambda body: body["tables"]["priors"].pop("weight"), "priors.weight"),
        (lambda body: body["tables"].pop("groups"), "groups"),
        (lambda body: body["tables"]["pages"].pop("word"), "pages.word"),
        (lambda body: body["tables"]["pages"]["word"].update(type="int8"), "pages.word"),
        (lambda body: body["settings"].update(unheard_of=1), "settings"),
        (lambda body: body.pop("format"), "not a manifest"),
    ):
        with pytest.raises(SnapshotError, match=message):
            Shard.restore(forged(manifest, change), data)


def test_columns_that_an_older_snapshot_lacks_get_their_defaults() -> None:
    story = busy()
    for (table, column), (_, default) in snapshot_module.ADDED_COLUMNS.items():
        columns = getattr(story.shard.tables, table)
        value = getattr(columns, default) if isinstance(default, str) else default
        getattr(columns, column)[:] = value
    manifest, data = write_snapshot(story.shard.snapshot("9"))

    def as_written_then(body: dict[str, Any]) -> None:
        body["format"] = 1
        for (table, column), (added_in, _) in snapshot_module.ADDED_COLUMNS.items():
            assert 1 < added_in <= snapshot_module.FORMAT
            del body["tables"][table][column]

    old, position = Shard.restore(forged(manifest, as_written_then), data)
    assert position == "9"
    assert old.digest() == story.shard.digest()
    mark = len(story.log)
    for k in range(12):
        apply_some_events(story, k)
    old.apply_all(story.log[mark:])
    assert old.digest() == story.shard.digest()


def test_broken_bytes_in_any_column_are_an_error(whole: tuple[str, NDArray[np.uint8]]) -> None:
    manifest, data = whole
    places = json.loads(json.loads(manifest)["body"])["tables"]
    for table, columns in places.items():
        for column, place in columns.items():
            if place["rows"] == 0:
                continue
            broken = data.copy()
            broken[place["offset"]] ^= 0x10
            with pytest.raises(SnapshotError, match=f"{table}.{column} "):
                Shard.restore(manifest, broken)
    with pytest.raises(SnapshotError, match="bytes"):
        Shard.restore(manifest, data[:-1])


def test_checksums_can_be_skipped(whole: tuple[str, NDArray[np.uint8]]) -> None:
    manifest, data = whole
    checked, _ = Shard.restore(manifest, data.copy())
    unchecked, _ = Shard.restore(manifest, data.copy(), check=False)
    assert checked.digest() == unchecked.digest()


def test_checksums_of_pages_can_be_skipped(whole: tuple[str, NDArray[np.uint8]]) -> None:
    manifest, data = whole
    places = json.loads(json.loads(manifest)["body"])["tables"]
    broken = data.copy()
    broken[places["pages"]["word"]["offset"]] ^= 0x10
    shard, _ = Shard.restore(manifest, broken, check="small")
    assert shard.n_pages > 0
    for table in places.keys() - {"pages"}:
        broken = data.copy()
        broken[next(iter(places[table].values()))["offset"]] ^= 0x10
        with pytest.raises(SnapshotError, match=f"{table}\\."):
            Shard.restore(manifest, broken, check="small")
