"""Settings of the add-on, read from the settings of a Scrapy project."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object
from scrapy.utils.project import data_path

from recrawl.corpus import CorpusConfig
from recrawl.errors import ConfigError
from recrawl.node.config.rates import seconds as duration_seconds

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from recrawl.corpus import Clock

__all__ = ["PRICE", "AddonSettings", "corpus_config"]

PRICE: Final = "1h"
"""Default of ``RECRAWL_PRICE``."""
# Scrapy limits requests at the same time itself; this never does.
_UNLIMITED_IN_FLIGHT: Final = 1_000_000
# Answers of a host that are not reported yet, in refresh mode.
_UNREPORTED_MAX: Final = 512
_PREFIX: Final = "RECRAWL_"
_KNOWN: Final = frozenset(
    {
        "BUDGET",
        "CHANGES",
        "CLOCK",
        "CONTENT",
        "CORPUS",
        "ENABLED",
        "FALLBACK_SCHEDULER",
        "ITEM_FIELD",
        "KEEP_TEXT",
        "LEASE",
        "MAX_AGE",
        "MODE",
        "NEWS",
        "PRICE",
        "RUN",
        "UNCHANGED",
        "WAIT_MAX",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonSettings:
    """What the add-on does in one crawl.

    Parameters
    ----------
    mode
        ``"filter"``: the spider's requests are dropped if their page is not worth fetching yet.
        ``"refresh"``: recrawl chooses the pages, and the spider's requests only add pages.
    folder
        Folder of the corpus.
    budget
        Largest number of fetches, such as ``"500/run"`` or ``"20000/day"``; None for no limit.
    price
        Time that a fetch must be expected to save, in which the copy would be outdated, in seconds;
        None if the budget sets the price.
    max_age
        Longest time between two fetches of a page, by pattern of URLs.
    unchanged
        Treatment of a page that is not fetched, or answers that it was not modified: ``"drop"``, or
        ``"callback"`` to call the spider's ``parse_unchanged``.
    run
        Name of the run that pays, if the budget is per run; today's date if None.
    lease_seconds
        Time for which a page is reserved for this crawl while it is fetched.
    wait_seconds_max
        Longest time that a request waits for a page that an earlier crawl still holds, or for its
        host.
    reads_content
        Whether bodies are read for changes of their text; otherwise their bytes are compared.
    keeps_text
        Whether the text of new passages is kept.
    says_news
        Whether each response says what changed, in ``response.meta["recrawl"]``; it then waits
        until its page is reported.
    item_field
        Field of items that gets the change of their page; None for none.
    changes_path
        File to which changes are appended as JSON lines; None for none.
    clock
        Time source; None for the system clock.
    """

    mode: Literal["filter", "refresh"] = "filter"
    folder: Path
    budget: str | None = None
    price: float | None = None
    max_age: Mapping[str, str]
    unchanged: Literal["drop", "callback"] = "drop"
    run: str | None = None
    lease_seconds: float = 300.0
    wait_seconds_max: float = 600.0
    reads_content: bool = True
    keeps_text: bool = False
    says_news: bool = False
    item_field: str | None = None
    changes_path: Path | None = None
    clock: "Clock | None" = None

    @classmethod
    def of(cls, settings: "BaseSettings", spider_name: str) -> "AddonSettings":
        """Return the settings of a crawl.

        Parameters
        ----------
        settings
            Settings of Scrapy.
        spider_name
            Name of the spider, which names the folder of the corpus unless that is set.

        Raises
        ------
        ConfigError
            If a setting is unknown or has an invalid value.
        """
        _check_names(settings)
        budget = settings.get("RECRAWL_BUDGET")
        return cls(
            mode=_choice(settings, "MODE", ("filter", "refresh")),
            folder=_folder(settings, spider_name),
            budget=None if budget is None else str(budget),
            price=_price(settings, budget),
            max_age=_max_age(settings),
            unchanged=_choice(settings, "UNCHANGED", ("drop", "callback")),
            run=settings.get("RECRAWL_RUN"),
            lease_seconds=_seconds(settings, "LEASE", "5m"),
            wait_seconds_max=_seconds(settings, "WAIT_MAX", "10m"),
            reads_content=settings.getbool("RECRAWL_CONTENT", True),
            keeps_text=settings.getbool("RECRAWL_KEEP_TEXT", False),
            says_news=settings.getbool("RECRAWL_NEWS", False),
            item_field=settings.get("RECRAWL_ITEM_FIELD") or None,
            changes_path=_path_or_none(settings.get("RECRAWL_CHANGES")),
            clock=_clock(settings.get("RECRAWL_CLOCK")),
        )


def corpus_config(
    chosen: AddonSettings, *, delay_seconds: float, n_per_host: int, previous: CorpusConfig | None
) -> CorpusConfig:
    """Return the configuration of the corpus of a crawl.

    Parameters
    ----------
    chosen
        Settings of the add-on.
    delay_seconds
        ``DOWNLOAD_DELAY`` of Scrapy.
    n_per_host
        ``CONCURRENT_REQUESTS_PER_DOMAIN`` of Scrapy.
    previous
        Configuration in ``recrawl.toml``, which has precedence; None if there is none.
    """
    if previous is not None:
        return previous
    chooses_pages = chosen.mode == "refresh"
    budget: dict[str, Any] = {}
    if chosen.budget is not None:
        budget["rate"] = chosen.budget
    if chosen.price is not None:
        budget["price"] = chosen.price
    # In filter mode the order and pace of requests are Scrapy's; recrawl must not add delays.
    politeness: dict[str, Any] = {"delay": 0, "in_flight_max": _UNLIMITED_IN_FLIGHT}
    if chooses_pages:
        # Reports come some time after answers, so more orders are held than requests are sent.
        politeness = {"delay": delay_seconds, "in_flight_max": max(n_per_host, 1) + _UNREPORTED_MAX}
    tables: dict[str, Any] = {
        "budget": budget,
        "politeness": politeness,
        # The spider has chosen these pages, so no share of the budget protects against them.
        "protection": {"new_pages_share": 1.0, "new_domain_share": 1.0},
        "leases": {"length": chosen.lease_seconds},
        # What is lost if the machine stops is fetched again; nothing is lost if a crawl is killed.
        "ledger": {"durability": "os"},
        "content": {
            "enabled": chosen.reads_content,
            "keep_text": chosen.keeps_text,
            "processes": int(chosen.reads_content),
        },
        "pattern": [{"match": one, "max_age": age} for one, age in chosen.max_age.items()],
    }
    return CorpusConfig.from_dict(tables)


def _check_names(settings: "BaseSettings") -> None:
    for name in map(str, settings):
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in _KNOWN:
            known = ", ".join(f"{_PREFIX}{one}" for one in sorted(_KNOWN - {"FALLBACK_SCHEDULER"}))
            raise ConfigError(f"{name} is not a setting of recrawl; choose from {known}")


def _folder(settings: "BaseSettings", spider_name: str) -> Path:
    """Return the folder of the corpus: the one that is set, or one for each spider."""
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in spider_name) or "spider"
    chosen = settings.get("RECRAWL_CORPUS")
    if chosen:
        return Path(str(chosen).replace("%(name)s", name))
    try:
        return Path(data_path(f"recrawl/{name}"))
    except NotConfigured:  # a project without scrapy.cfg, as on Scrapyd
        return Path(".scrapy", "recrawl", name)


def _choice(settings: "BaseSettings", name: str, allowed: tuple[Any, ...]) -> Any:
    value = settings.get(_PREFIX + name) or allowed[0]
    if value not in allowed:
        choices = " or ".join(repr(one) for one in allowed)
        raise ConfigError(f"{_PREFIX}{name} must be {choices}, got {value!r}")
    return value


def _seconds(settings: "BaseSettings", name: str, default: str) -> float:
    value = settings.get(_PREFIX + name)
    try:
        # The command line gives numbers as text.
        seconds = duration_seconds(default if value is None else _number_or_text(value))
    except ValueError as error:
        raise ConfigError(f"{_PREFIX}{name}: {error}") from None
    if not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(f"{_PREFIX}{name} must be a positive time, got {value!r}")
    return seconds


def _number_or_text(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _price(settings: "BaseSettings", budget: Any) -> float | None:
    """Return the fixed price; None if a budget per unit of time sets it."""
    is_set = settings.get("RECRAWL_PRICE") is not None
    is_per_time = budget is not None and not str(budget).replace(" ", "").endswith("/run")
    return None if is_per_time and not is_set else _seconds(settings, "PRICE", PRICE)


def _max_age(settings: "BaseSettings") -> dict[str, str]:
    value = settings.get("RECRAWL_MAX_AGE")
    if value is None:
        return {}
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        return {"*": value}
    return {str(one): str(age) for one, age in settings.getdict("RECRAWL_MAX_AGE").items()}


def _path_or_none(value: Any) -> Path | None:
    return Path(value) if value else None


def _clock(value: Any) -> "Clock | None":
    """Return the clock that a setting names, or is; tests use their own."""
    if isinstance(value, str):
        value = load_object(value)
    clock: Clock | None = value() if isinstance(value, type) else value
    return clock
