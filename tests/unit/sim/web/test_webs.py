from collections.abc import Callable

import numpy as np
import pytest

from recrawl.sim import (
    Content,
    Drift,
    Failures,
    Flapping,
    GroupSizes,
    HotStart,
    SignalSource,
    SiteWide,
    Web,
    WeeklyCycle,
    change_times,
    emit_signals,
    make_web,
    papers_web,
    realistic_web,
    recorded_web,
    signals_paper_web,
    signals_web,
)

HOUR, DAY = 3_600.0, 86_400.0


def everything(n_pages: int, seed: int = 4) -> Web:
    """Return a web in which all parts play."""
    number = np.arange(n_pages)
    rate = (0.05 + (number % 7) / 10) / DAY
    return make_web(
        seed,
        200 * DAY,
        rate,
        importance=1.0 + number % 3,
        group=number // 4,
        interval_shape=0.6,
        modulations=[HotStart(age_at_start=10 * DAY), Drift(), WeeklyCycle()],
        site_wide=SiteWide(rate=0.02 / DAY, share=0.5),
        flapping=Flapping(share=0.3),
        sources=[
            SignalSource.with_precision(
                change_rate=rate, recall=0.5, precision=0.5, delay_seconds=HOUR
            ),
            SignalSource(recall=0.1, false_rate=0.0),
        ],
        page_failures=Failures(),
        group_failures=Failures(share=0.01),
    )


@pytest.mark.parametrize("part", ["changes", "signals", "errors"])
def test_more_pages_do_not_change_the_others(part: str) -> None:
    few, many = getattr(everything(40), part), getattr(everything(120), part)
    n_rows = few.offsets[-1]
    for a, b in zip(few[1:], many[1:], strict=True):
        np.testing.assert_array_equal(a, b[:n_rows])
    np.testing.assert_array_equal(few.offsets, many.offsets[:41])


def test_the_rate_of_another_page_does_not_change_a_page() -> None:
    first = change_times(0, [1.0, 2.0, 3.0], 50.0)
    other = change_times(0, [9.0, 2.0, 0.0], 50.0)
    a = first.at[first.offsets[1] : first.offsets[2]]
    np.testing.assert_array_equal(a, other.at[other.offsets[1] : other.offsets[2]])


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short, long = change_times(2, [0.3], 100.0), change_times(2, [0.3], 300.0)
    np.testing.assert_array_equal(short.at, long.at[: short.at.size])


def test_different_seeds_give_different_webs() -> None:
    assert change_times(0, [1.0], 10.0).at[0] != change_times(1, [1.0], 10.0).at[0]


def test_times_are_sorted_and_before_the_end() -> None:
    web = everything(60)
    for times in (web.changes, web.signals):
        page = np.repeat(np.arange(60), np.diff(times.offsets))
        assert np.all(np.diff(times.at)[np.diff(page) == 0] >= 0)
        assert times.at.max() < 200 * DAY
        assert times.at.min() >= 0


def test_excursions_return_to_the_version_before() -> None:
    times = change_times(0, np.full(50, 0.5), 100.0)
    changes, version = Flapping(share=0.5, seconds=0.2).add_returns(0, times, 100.0)
    for page in range(50):
        rows = version[changes.offsets[page] : changes.offsets[page + 1]].tolist()
        latest = 0
        for before, now in zip([0, *rows], rows, strict=False):
            assert now < 0 or (now == latest and before < 0) or now == latest + 1
            latest = max(latest, now)


def test_false_signals_claim_their_own_time_and_true_ones_the_change_s() -> None:
    changes = change_times(0, np.full(20, 0.2), 100.0)
    source = SignalSource(recall=1.0, false_rate=0.0, delay_seconds=3.0)
    signals = emit_signals(0, changes, [source], 1e9)
    np.testing.assert_array_equal(np.sort(signals.claimed_at), np.sort(changes.at))
    assert np.all(signals.at > signals.claimed_at)
    false = emit_signals(0, changes, [SignalSource(recall=0.0, false_rate=0.5)], 100.0)
    np.testing.assert_array_equal(false.at, false.claimed_at)


@pytest.mark.slow_without_jit
def test_pages_fill_groups_in_order_whatever_their_number() -> None:
    few = GroupSizes().assign_groups(seed=1, n_pages=1_000)
    many = GroupSizes().assign_groups(seed=1, n_pages=50_000)
    np.testing.assert_array_equal(few, many[:1_000])


def test_recorded_changes_outside_the_window_only_set_the_start() -> None:
    web = recorded_web(
        [1, 0, 0, 0],
        [50.0, 5.0, 12.0, 15.0],
        start_at=10.0,
        end_at=20.0,
        n_pages=2,
        version=[3, 7, 8, 7],
        divergences=[np.array([[0, 0.5], [0.5, 0]]), np.zeros((1, 1))],
    )
    assert web.changes.at.tolist() == [2.0, 5.0]
    assert web.version.tolist() == [1, 0]
    assert web.content.table.tolist() == [0.5]


@pytest.mark.parametrize(
    "make",
    [
        lambda: papers_web(0, horizon=10 * HOUR, n_pages=20),
        lambda: signals_web(0, horizon=10 * HOUR, n_pages=20),
        lambda: signals_paper_web(0, 20, horizon=50.0),
        lambda: realistic_web(0, 20, horizon=3 * DAY),
    ],
    ids=["papers", "signals", "signals paper", "realistic"],
)
def test_presets_have_all_columns(make: Callable[[], Web]) -> None:
    web = make()
    n_pages = web.n_pages
    for name in ("importance", "cost", "group", "kind", "change_rate", "has_date"):
        assert getattr(web, name).shape == (n_pages,)
    for name in ("changes", "signals", "requests", "errors"):
        assert getattr(web, name).offsets.size == n_pages + 1


@pytest.mark.slow_without_jit
def test_the_presets_have_the_ranges_they_name() -> None:
    web = signals_web(3, n_groups=200, n_pages=2_000, horizon=HOUR)
    silent = web.recall[:, 0] == 0
    assert 0.15 < silent.mean() < 0.45
    assert web.recall[~silent].min() >= 0.2
    assert web.recall.max() <= 0.98
    rates = papers_web(0, horizon=HOUR, n_pages=5_000).change_rate * HOUR
    assert np.isclose(rates.min(), 1 / 15_000)
    assert np.isclose(rates.max(), 3.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: change_times(0, [-1.0], 1.0), "rate must be"),
        (lambda: change_times(0, [1.0], 1.0, interval_shape=0.0), "interval_shape must be"),
        (lambda: HotStart(factor=0.5), "factor must be"),
        (lambda: Drift(sigma=-1.0), "sigma must not"),
        (lambda: WeeklyCycle(weekend_factor=-1.0), "weekend_factor must not"),
        (lambda: SiteWide(rate=-1.0), "rate must not"),
        (lambda: SiteWide(rate=1.0, share=2.0), "share must be"),
        (lambda: Flapping(share=2.0), "share must be"),
        (lambda: Flapping(seconds=0.0), "seconds must be"),
        (lambda: Failures(share=1.0), "share must be"),
        (lambda: Failures(seconds=0.0), "seconds must be"),
        (lambda: SignalSource(recall=2.0, false_rate=0.0), "recall must be"),
        (lambda: SignalSource(recall=0.5, false_rate=-1.0), "false_rate must not"),
        (
            lambda: SignalSource(recall=0.5, false_rate=0.0, delay_seconds=-1.0),
            "delay_seconds must not",
        ),
        (
            lambda: SignalSource.with_precision(change_rate=1.0, recall=0.5, precision=0.0),
            "precision must be",
        ),
        (lambda: GroupSizes(median=60.0), "median < mean"),
        (lambda: Content.of(1, n_items=0), "n_items must be"),
        (lambda: Content.of(1, static_items=-1.0), "static_items must not"),
        (
            lambda: recorded_web([0], [1.0, 2.0], start_at=0.0, end_at=1.0, n_pages=1),
            "must have the same length",
        ),
        (lambda: recorded_web([0], [1.0], start_at=1.0, end_at=1.0, n_pages=1), "end_at must be"),
    ],
)
def test_invalid_settings_of_webs_raise(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
