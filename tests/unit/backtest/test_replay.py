"""Turn histories into webs that resemble the original ones."""

import numpy as np
import pytest

from recrawl.backtest import history_of, replay_of
from recrawl.backtest.replay import logged_account
from recrawl.sim import Bookkeeper, make_web
from tests.reference.backtest_logs import DAY, START_MS, exact_log, polled_log


def test_exact_changes_are_replayed_unchanged() -> None:
    web = make_web(2, 30 * DAY, np.full(20, 0.3 / DAY))
    history = history_of(exact_log(web))
    replay = replay_of(history)
    assert replay.start_ms == START_MS
    assert replay.seconds == pytest.approx(web.horizon)
    for page, url in enumerate(history.urls.take(replay.pages).to_pylist()):
        true = int(url.rpartition("/")[2])
        drawn, own = (
            w.changes.at[w.changes.offsets[i] : w.changes.offsets[i + 1]]
            for w, i in ((replay.web, page), (web, true))
        )
        assert drawn == pytest.approx(own, abs=0.001)


def test_a_simulated_change_lies_between_the_fetches_that_show_it() -> None:
    web = make_web(5, 60 * DAY, np.full(30, 0.2 / DAY))
    history = history_of(polled_log(web, DAY))
    replay = replay_of(history)
    for page in range(replay.pages.size):
        rows = history.page == replay.pages[page]
        found_at = history.at_ms[rows][history.changed[rows]]
        drawn = (
            replay.start_ms
            + 1000
            * replay.web.changes.at[
                replay.web.changes.offsets[page] : replay.web.changes.offsets[page + 1]
            ]
        )
        next_found = found_at[np.minimum(np.searchsorted(found_at, drawn), found_at.size - 1)]
        assert ((next_found - drawn) <= 86_400_000 + 1).all()


@pytest.mark.slow_without_jit
def test_changes_that_no_fetch_saw_are_simulated() -> None:
    web = make_web(7, 200 * DAY, np.full(300, 1 / DAY), group=np.arange(300))
    replay = replay_of(history_of(polled_log(web, 2 * DAY)))
    # At one change a day and one fetch every two days, 86 % of the fetches find a change.
    found = replay.web.changes.at.size / (replay.pages.size * replay.seconds) * DAY
    assert found == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow_without_jit
def test_the_freshness_of_the_log_matches_its_fetches_on_the_original_web() -> None:
    # 200 pages × 90 polls: the standard error of the difference is .003; 4 of them pass.
    web = make_web(11, 90 * DAY, np.full(200, 0.3 / DAY), group=np.arange(200))
    history = history_of(polled_log(web, DAY))
    own = logged_account(history, replay_of(history))
    assert own is not None
    books = Bookkeeper(web)
    page = np.repeat(np.arange(200), 90)
    at = np.tile(np.arange(1, 91) * DAY, 200) + (page % 97) * (DAY / 200)
    inside = at < web.horizon
    books.record(page[inside], at[inside])
    assert own.freshness == pytest.approx(books.close().freshness, abs=0.012)


def test_pages_added_late_are_not_replayed() -> None:
    web = make_web(2, 50 * DAY, np.full(40, 0.3 / DAY))
    source = exact_log(web)
    windows = source.windows().to_pydict()
    late = START_MS + round(45 * DAY * 1000)
    windows["from_ms"] = [late if i < 5 else at for i, at in enumerate(windows["from_ms"])]
    source._windows = source.windows().from_pydict(windows)
    replay = replay_of(history_of(source))
    assert replay.pages.size == 35
    assert replay.watched_share == pytest.approx(35 * 50 / (35 * 50 + 5 * 5))


def test_the_same_seed_simulates_the_same_changes() -> None:
    web = make_web(5, 60 * DAY, np.full(30, 0.2 / DAY))
    one, two, other = (
        replay_of(history_of(polled_log(web, DAY)), seed=seed).web.changes.at for seed in (1, 1, 2)
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_the_number_of_simulated_changes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recrawl.backtest.replay._CHANGES_DRAWN_MAX", 6_000)
    web = make_web(1, 40 * DAY, np.full(60, 50 / DAY), group=np.arange(60))
    replay = replay_of(history_of(polled_log(web, DAY)))
    assert replay.web.changes.at.size <= 60 * 41 + 6_000


def test_pages_fetched_only_once_are_replayed_without_changes() -> None:
    web = make_web(1, 0.5 * DAY, np.full(5, 1 / DAY))
    replay = replay_of(history_of(polled_log(web, DAY)))
    assert replay.web.changes.at.size == 0
