"""Public names of recrawl 0.1.0 still work, with a warning."""

import pytest

import recrawl.backtest
import recrawl.sim


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [
        (recrawl.backtest, "backtested", "run_backtest"),
        (recrawl.backtest, "compared", "compare_policies"),
        (recrawl.backtest, "Level", "FreshnessLevel"),
        (recrawl.backtest, "Logged", "LoggedResult"),
        (recrawl.backtest, "Finding", "SupportFinding"),
        (recrawl.sim, "Outcomes", "FetchOutcomes"),
        (recrawl.sim, "Signals", "WebSignals"),
        (recrawl.sim, "emitted_signals", "emit_signals"),
        (recrawl.sim, "renumbered_versions", "renumber_versions"),
        (recrawl.sim, "unlimited", "unlimited_settings"),
    ],
)
def test_an_old_name_gives_the_value_of_the_new_one(package: object, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"use {package.__name__}.{new}"):  # type: ignore[attr-defined]
        value = getattr(package, old)
    assert value is getattr(package, new)


@pytest.mark.parametrize("package", [recrawl.backtest, recrawl.sim])
def test_an_unknown_name_raises(package: object) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(package, "nothing")  # noqa: B009 - the name is unknown to mypy
