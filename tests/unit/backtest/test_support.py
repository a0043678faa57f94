"""Check which histories are large enough to compare policies on, and what is said of them."""

import numpy as np
import pyarrow as pa
import pytest

from recrawl.backtest import Support, history_of, replay_of, support_of
from recrawl.sim import make_web
from tests.reference.backtest_logs import DAY, TableSource, exact_log, polled_log


def support_for(source: TableSource, **limits: int) -> Support:
    history = history_of(source, **limits)
    return support_of(history, replay_of(history))


def test_a_large_log_is_accepted_without_cautions() -> None:
    web = make_web(1, 100 * DAY, np.full(60, 0.1 / DAY), group=np.arange(60))
    support = support_for(polled_log(web, DAY))
    assert support.is_enough
    assert not support.texts("caution")
    assert any("60 pages" in text for text in support.texts("fact"))


def test_too_few_pages_are_refused() -> None:
    web = make_web(1, 100 * DAY, np.full(5, 1 / DAY))
    support = support_for(polled_log(web, DAY))
    assert not support.is_enough
    assert "Only 5 pages" in support.texts("refusal")[0]


def test_too_few_changes_are_refused() -> None:
    web = make_web(1, 100 * DAY, np.full(100, 1e-4 / DAY))
    support = support_for(exact_log(web))
    assert any("changes were seen" in text for text in support.texts("refusal"))


def test_too_few_fetches_of_each_page_are_refused() -> None:
    web = make_web(1, 10 * DAY, np.full(100, 1 / DAY))
    support = support_for(polled_log(web, 9 * DAY))
    assert any("fetched 2 times or fewer" in text for text in support.texts("refusal"))


def test_an_empty_log_is_refused() -> None:
    web = make_web(1, 10 * DAY, np.zeros(0))
    assert not support_for(exact_log(web)).is_enough


def test_pages_that_change_faster_than_they_were_fetched_give_a_caution() -> None:
    web = make_web(1, 40 * DAY, np.full(60, 20 / DAY), group=np.arange(60))
    support = support_for(polled_log(web, DAY))
    assert any("faster than they were fetched" in text for text in support.texts("caution"))
    assert any("digests are of raw bytes" in text for text in support.texts("caution"))


def test_page_time_that_is_not_replayed_gives_a_caution() -> None:
    web = make_web(2, 50 * DAY, np.full(100, 0.3 / DAY))
    source = exact_log(web)
    windows = source.windows().to_pydict()
    shift = round(30 * DAY * 1000)
    windows["from_ms"] = [a + shift * (i % 2) for i, a in enumerate(windows["from_ms"])]
    source._windows = source.windows().from_pydict(windows)
    assert any("not replayed" in text for text in support_for(source).texts("caution"))


@pytest.mark.parametrize("n_pages_max", [20, 50])
def test_a_sampled_log_is_reported_as_a_sample(n_pages_max: int) -> None:
    web = make_web(1, 100 * DAY, np.full(400, 0.3 / DAY))
    support = support_for(exact_log(web), n_pages_max=n_pages_max)
    assert any("uses a sample" in text for text in support.texts("fact"))


def test_a_log_without_digests_and_flags_is_refused_for_that_reason_only() -> None:
    web = make_web(1, 100 * DAY, np.full(60, 0.1 / DAY), group=np.arange(60))
    fetches = pa.Table.from_batches(polled_log(web, DAY).batches())
    mute = fetches.set_column(2, "digest", pa.nulls(fetches.num_rows, pa.binary()))
    (refusal,) = support_for(TableSource("observed", mute)).texts("refusal")
    assert "do not say whether the page had changed" in refusal


def test_one_page_is_reported_in_the_singular() -> None:
    web = make_web(1, 100 * DAY, np.full(1, 0.1 / DAY))
    refusals = support_for(polled_log(web, DAY)).texts("refusal")
    assert any(text.startswith("Only 1 page was observed") for text in refusals)


def test_a_history_without_pages_is_refused_for_that_reason_only() -> None:
    support = support_for(exact_log(make_web(1, 10 * DAY, np.zeros(0))))
    assert support.texts("refusal") == ["The log contains no pages."]
