"""Simulated webs described in a TOML file, for users who have no log yet."""

import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.errors import WebFileError
from recrawl.sim import SignalSource, Web, make_web, papers_web, realistic_web, signals_web
from recrawl.units import count_text, seconds_text

__all__ = ["WEB_PAGES_MAX", "DescribedWeb", "web_of_beliefs", "web_of_toml"]

WEB_PAGES_MAX = 200_000
"""Largest number of pages of a simulated web."""
WEB_CHANGES_MAX = 20_000_000
"""Largest expected number of changes of all pages together."""
_DAYS_MAX = 36_500.0
_KINDS_MAX = 64
_DAY = 86_400.0
_PRESETS = ("papers", "realistic", "signals")
_TOP = {"preset", "pages", "days", "seed", "kind"}
_KIND = {
    *("name", "pages", "changes_per_day", "spread", "still_share", "interval_shape"),
    *("importance", "hosts", "signal_recall", "signal_precision"),
}


class DescribedWeb(NamedTuple):
    """A simulated web, and a sentence that describes it."""

    web: Web
    about: str


def _number(table: Mapping[str, Any], key: str, default: float, low: float, high: float) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise WebFileError(f"{key} must be a number from {low:g} to {high:g}, got {value!r}")
    return float(value)


def _check_keys(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise WebFileError(
                f"{where} has no key {key!r}; its keys are {', '.join(sorted(known))}"
            )


def web_of_toml(text: str) -> DescribedWeb:
    """Make the web that a TOML text describes.

    Parameters
    ----------
    text
        TOML text: either a ``preset`` ("papers", "realistic", "signals") with ``pages``, ``days``
        and ``seed``, or tables ``[[kind]]`` of pages: ``pages``, ``changes_per_day`` (median),
        ``spread`` (the standard deviation of the log of their rates), ``still_share`` (never
        change), ``interval_shape`` (1 at random, less in bursts, more regularly), ``importance``,
        ``hosts``, ``signal_recall`` and ``signal_precision``.

    Raises
    ------
    WebFileError
        If the text does not describe a web.

    Examples
    --------
    >>> shop = web_of_toml('''
    ... days = 60
    ... [[kind]]
    ... name = "products"
    ... pages = 300
    ... changes_per_day = 0.2
    ... spread = 1.0
    ... ''')
    >>> shop.web.n_pages, shop.about
    (300, '300 pages for 60 days: products (300)')
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WebFileError(f"the web file is not valid TOML: {error}") from error
    _check_keys(table, _TOP, "a web")
    seed = int(_number(table, "seed", 0, 0, 2**31))
    days = _number(table, "days", 90, 0.01, _DAYS_MAX)
    if "preset" in table:
        if "kind" in table:
            raise WebFileError("a web has either a preset or kinds of pages, not both")
        return _web_of_preset(table, seed, days)
    return _web_of_kinds(table, seed, days)


def _check_changes(rate: FloatArray, horizon: float) -> None:
    expected = float(rate.sum()) * horizon
    if not expected <= WEB_CHANGES_MAX:
        raise WebFileError(
            f"a web must have at most {WEB_CHANGES_MAX:,} changes, got about {expected:.3g}; use "
            "fewer pages, fewer days or lower change rates"
        )


def _web_of_preset(table: Mapping[str, Any], seed: int, days: float) -> DescribedWeb:
    name = table["preset"]
    if name not in _PRESETS:
        raise WebFileError(f"preset must be one of {', '.join(_PRESETS)}, got {name!r}")
    n_pages = int(_number(table, "pages", 1_000, 1, WEB_PAGES_MAX))
    horizon = days * _DAY
    if name == "realistic":
        web = realistic_web(seed, n_pages, horizon=horizon)
    elif name == "papers":
        web = papers_web(seed, horizon=horizon, n_pages=n_pages)
    else:
        web = signals_web(seed, horizon=horizon, n_pages=n_pages)
    about = f"The {name} web: {count_text(n_pages, 'page')} for {seconds_text(horizon)}"
    return DescribedWeb(web, about)


def _web_of_kinds(table: Mapping[str, Any], seed: int, days: float) -> DescribedWeb:
    kinds = table.get("kind", [])
    if not isinstance(kinds, list) or not all(isinstance(kind, dict) for kind in kinds):
        raise WebFileError("kinds of pages must be tables: [[kind]]")
    if not 1 <= len(kinds) <= _KINDS_MAX:
        raise WebFileError(f"a web needs 1 to {_KINDS_MAX} kinds of pages, got {len(kinds)}")
    rng = np.random.default_rng(seed)
    columns: list[dict[str, NDArray[Any]]] = []
    names = []
    n_hosts = 0
    n_left = WEB_PAGES_MAX
    for number, kind in enumerate(kinds):
        _check_keys(kind, _KIND, "a kind")
        n_pages = int(_number(kind, "pages", 100, 1, n_left))
        n_left = max(n_left - n_pages, 1)
        hosts = int(_number(kind, "hosts", 1, 1, n_pages))
        spread = _number(kind, "spread", 1.0, 0.0, 5.0)
        median = _number(kind, "changes_per_day", 0.1, 0.0, 10_000.0) / _DAY
        rate = median * np.exp(spread * rng.standard_normal(n_pages))
        rate[rng.random(n_pages) < _number(kind, "still_share", 0.0, 0.0, 1.0)] = 0.0
        columns.append(
            {
                "rate": rate,
                "importance": np.full(n_pages, _number(kind, "importance", 1.0, 0.0, 1e6)),
                "shape": np.full(n_pages, _number(kind, "interval_shape", 1.0, 0.1, 100.0)),
                "recall": np.full(n_pages, _number(kind, "signal_recall", 0.0, 0.0, 1.0)),
                "precision": np.full(n_pages, _number(kind, "signal_precision", 0.9, 0.01, 1.0)),
                "group": n_hosts + np.arange(n_pages) % hosts,
                "kind": np.full(n_pages, number),
            }
        )
        n_hosts += hosts
        names.append(f"{kind.get('name', f'kind {number + 1}')} ({n_pages:,})")
    column = {key: np.concatenate([c[key] for c in columns]) for key in columns[0]}
    if not column["importance"].sum() > 0:
        raise WebFileError("importance must be above 0 for some pages")
    sources = []
    if (column["recall"] > 0).any():
        sources = [
            SignalSource.with_precision(
                change_rate=column["rate"],
                recall=column["recall"],
                precision=column["precision"],
            )
        ]
    horizon = days * _DAY
    _check_changes(column["rate"], horizon)
    web = make_web(
        seed,
        horizon,
        column["rate"],
        importance=column["importance"],
        group=column["group"],
        kind=column["kind"].astype(np.int64),
        interval_shape=column["shape"],
        sources=sources,
    )
    pages = count_text(web.n_pages, "page")
    return DescribedWeb(web, f"{pages} for {seconds_text(horizon)}: {', '.join(names)}")


def web_of_beliefs(
    shape: FloatArray,
    seconds: FloatArray,
    *,
    days: float,
    importance: FloatArray,
    group: CountArray,
    seed: int = 0,
) -> DescribedWeb:
    """Make a web of pages with change rates drawn from the beliefs of a corpus.

    Parameters
    ----------
    shape, seconds
        Gamma belief about each page's change rate.
    days
        Days to simulate.
    importance, group
        Importance and group of each page.
    seed
        Random seed.
    """
    rng = np.random.default_rng(seed)
    rate = rng.gamma(shape, 1 / seconds)
    _check_changes(rate, days * _DAY)
    _, number = np.unique(group, return_inverse=True)
    web = make_web(seed, days * _DAY, rate, importance=importance, group=number)
    about = (
        f"{count_text(rate.size, 'page')} for {seconds_text(days * _DAY)}, each with a change "
        "rate drawn from this corpus's estimate for it"
    )
    return DescribedWeb(web, about)
