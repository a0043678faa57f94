"""Pages of a pattern are changed in parts, which together change each of them once."""

from collections.abc import Callable

import pytest

from recrawl import Corpus
from recrawl.node.settings.pattern_changes import ScanPlace, change_part

N_PAGES = 120


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr("recrawl.node.node._ROWS_PER_SCAN", 8)
    made = open_corpus(corpus={"partitions": 3})
    made.add([f"https://h{i}.example/{'ab'[i % 2]}" for i in range(N_PAGES)])
    return made


def change_all(corpus: Corpus, settings: dict[str, float] | None) -> list[int]:
    """Change all pages of a pattern, in parts as small as possible; return the number of each."""
    n_pages, cursor = [], None
    while True:
        part = corpus.change_matching("/a", settings, cursor=cursor, seconds=0.0)
        n_pages.append(part.n_pages)
        cursor = part.cursor
        if cursor is None:
            return n_pages


def test_parts_change_all_pages_once_and_say_how_many(corpus: Corpus) -> None:
    n_set = change_all(corpus, {"importance": 3.0})
    assert len(n_set) >= N_PAGES // 8
    assert sum(n_set) == N_PAGES // 2
    rows = [row for one in corpus.pages(["url", "importance"]) for row in one.to_pylist()]
    assert {row["importance"] > 2 for row in rows if row["url"].endswith("/a")} == {True}
    assert {row["importance"] for row in rows if row["url"].endswith("/b")} == {1.0}
    assert sum(change_all(corpus, None)) == N_PAGES // 2
    assert sum(change_all(corpus, None)) == 0
    assert corpus.n_pages == N_PAGES // 2


def test_a_part_ends_when_its_time_is_over_and_never_before_it_has_begun(corpus: Corpus) -> None:
    times = iter([0.0, *([0.5] * 3), *([1.0] * 100)])
    n_batches = 0

    def count(_node: object, page: object) -> int:
        nonlocal n_batches
        n_batches += 1
        return 1

    part = change_part(
        list(corpus.nodes),
        "/a",
        count,
        ScanPlace(0, 0),
        seconds=1.0,
        monotonic=lambda: next(times),
    )
    assert (part.n_pages, n_batches) == (4, 4)
    assert part.following is not None


def test_all_are_changed_in_one_call(corpus: Corpus) -> None:
    assert corpus.set(pattern="/a", importance=2.0) == N_PAGES // 2
    assert corpus.remove(pattern="/a") == N_PAGES // 2
    assert corpus.n_pages == N_PAGES // 2


def test_wrong_settings_and_cursors_are_errors(corpus: Corpus) -> None:
    with pytest.raises(TypeError, match="no setting 'colour'"):
        corpus.change_matching("/a", {"colour": 1})
    with pytest.raises(ValueError, match="cursor must be one"):
        corpus.change_matching("/a", cursor="0_3_0")
