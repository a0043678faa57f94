"""The benchmarks of the Scrapy add-on run at a small scale."""

import pytest

from benchmarks import scrapy_days, scrapy_rate


@pytest.mark.slow_without_jit
def test_daily_crawls_are_compared_with_the_plain_one() -> None:
    rows = scrapy_days.measure(n_items=30, n_days=3, n_plain_days=2, prices=("1m",), seed=3)
    plain, filtered, refreshed, *with_budget = rows
    assert plain["delivered"] == 1.0
    assert plain["n_fetches"] > 3 * 40
    assert all(row["n_errors"] == 0 for row in rows)
    assert all(row["n_fetches"] <= plain["n_fetches"] for row in rows)
    # At such a low price nearly everything is worth a fetch every day.
    for row in (filtered, refreshed):
        assert row["delivered"] > 0.8
        assert row["freshness"] == pytest.approx(plain["freshness"], abs=0.05)
    assert len(with_budget) == 2
    assert scrapy_days.as_markdown(rows).count("\n") == 1 + len(rows)


@pytest.mark.slow_without_jit
def test_speeds_of_plain_crawls_and_of_crawls_with_the_addon_are_compared() -> None:
    measured = scrapy_rate.measure(
        n_pages=20, n_rounds=1, n_known=0, variants=("plain", "addon"), has_listing=True
    )
    for key in ("pages_per_second", "pages_per_cpu_second"):
        assert measured["speeds"][key]["share_addon_of_plain"] > 0
