"""Read logs of any order and size into columns, and sample large ones by whole pages."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from recrawl.backtest import history_of
from recrawl.sim import make_web
from tests.reference.backtest_logs import DAY, START_MS, TableSource, exact_log, polled_log


def observed(rows: Sequence[tuple[str, int, bytes | None, bool | None, int | None]]) -> TableSource:
    url, at, digest, changed, status = zip(*rows, strict=True)
    return TableSource(
        "observed",
        pa.table(
            {
                "url": pa.array(url),
                "at_ms": pa.array(at, pa.int64()),
                "digest": pa.array(digest, pa.binary()),
                "changed": pa.array(changed, pa.bool_()),
                "status": pa.array(status, pa.int16()),
                "importance": pa.array([2.0] + [None] * (len(url) - 1), pa.float64()),
            }
        ),
    )


def test_a_page_has_changed_where_its_digest_differs_from_the_one_before() -> None:
    history = history_of(
        observed(
            [
                ("b", 3_000, b"y", None, 200),
                ("a", 2_000, b"x", None, 200),
                ("b", 1_000, b"x", None, 200),
                ("a", 1_000, b"x", None, 200),
                ("b", 2_000, b"x", None, 200),
            ]
        )
    )
    by_url = {
        url: history.changed[history.page == i].tolist()
        for i, url in enumerate(history.urls.to_pylist())
    }
    assert by_url == {"a": [False, False], "b": [False, False, True]}
    assert sorted(history.from_ms.tolist()) == [1_000, 1_000]


def test_flags_and_status_304_say_whether_a_page_changed_and_errors_are_ignored() -> None:
    history = history_of(
        observed(
            [
                ("a", 1_000, None, None, 200),
                ("a", 2_000, None, True, 200),
                ("a", 3_000, None, None, 304),
                ("a", 4_000, None, True, 503),
                ("a", 5_000, None, None, 200),
            ]
        )
    )
    assert history.changed.tolist() == [False, True, False]
    assert (history.n_errors, history.n_mute) == (1, 1)


def test_duplicate_rows_count_as_one_fetch() -> None:
    rows = [("a", 1_000, b"x", None, 200), ("a", 2_000, b"y", None, 200)]
    twice = history_of(observed(rows + rows))
    assert twice.changed.tolist() == [False, True]


def test_pages_without_importance_get_the_mean_of_the_others() -> None:
    history = history_of(observed([("a", 1, b"x", None, 200), ("b", 1, b"x", None, 200)]))
    assert history.importance.tolist() == [2.0, 2.0]


def test_clusters_are_hosts_or_top_folders() -> None:
    names = ["https://x.example/1", "https://x.example/2", "docs/a.md", "docs/b/c.md", "README"]
    rows = [(name, 1_000, b"x", None, 200) for name in names]
    history = history_of(observed(rows))
    cluster = dict(zip(history.urls.to_pylist(), history.cluster.tolist(), strict=True))
    assert cluster[names[0]] == cluster[names[1]]
    assert cluster[names[2]] == cluster[names[3]]
    assert len(set(cluster.values())) == 3


def test_a_large_log_is_sampled_by_pages_that_keep_all_their_rows() -> None:
    web = make_web(1, 40 * DAY, np.full(600, 0.1 / DAY))
    whole = history_of(polled_log(web, 4 * DAY))
    some = history_of(polled_log(web, 4 * DAY), n_pages_max=200)
    assert whole.n_pages == 600
    assert 50 <= some.n_pages <= 200
    assert some.kept_share in {0.5, 0.25, 0.125}
    assert np.bincount(some.page).tolist() == [11] * some.n_pages
    few = history_of(polled_log(web, 4 * DAY), n_rows_max=1_000)
    assert few.page.size <= 1_000


def test_sampled_changes_keep_pages_that_never_changed() -> None:
    rate = np.where(np.arange(800) < 40, 1 / DAY, 0.0)
    web = make_web(1, 10 * DAY, rate)
    history = history_of(exact_log(web), n_pages_max=100)
    assert history.n_pages <= 100
    assert np.count_nonzero(np.bincount(history.page, minlength=history.n_pages) == 0) > 20


def test_an_empty_log_is_an_empty_history() -> None:
    empty = pa.table({"url": pa.array([], pa.string()), "at_ms": pa.array([], pa.int64())})
    history = history_of(
        TableSource("observed", empty.append_column("digest", pa.array([], pa.binary())))
    )
    assert history.n_pages == 0
    assert history.page.size == 0


def test_digests_that_are_not_utf8_are_compared() -> None:
    rows = [("a", 1_000, b"\xff\xfe", None, 200), ("a", 2_000, b"\xff\xfd", None, 200)]
    assert history_of(observed(rows)).changed.tolist() == [False, True]


def test_a_history_of_changes_has_the_window_of_each_page() -> None:
    web = make_web(3, 10 * DAY, [0.5 / DAY, 0.0])
    history = history_of(exact_log(web))
    assert history.is_exact
    assert history.from_ms.tolist() == [START_MS, START_MS]
    assert history.page.size == web.changes.at.size


def test_a_digest_after_status_304_is_compared_with_the_digest_before_it() -> None:
    history = history_of(
        observed(
            [
                ("a", 1_000, b"x", None, 200),
                ("a", 2_000, None, None, 304),
                ("a", 3_000, b"y", None, 200),
                ("a", 4_000, None, None, 304),
                ("a", 5_000, b"y", None, 200),
                ("b", 6_000, b"z", None, 200),
            ]
        )
    )
    first = history.page == history.urls.to_pylist().index("a")
    assert history.changed[first].tolist() == [False, False, True, False, False]
    version = history.version[first]
    assert version[0] == version[1] != version[2]
    assert version[2] == version[3] == version[4]
    assert history.n_mute == 0
