"""The configuration of a corpus, as a TOML file or one frozen object."""

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

from recrawl.errors import ConfigError
from recrawl.node.config.content_section import ContentConfig
from recrawl.node.config.holdout_section import HoldoutConfig
from recrawl.node.config.run_section import RunConfig
from recrawl.node.config.sections import (
    AuditConfig,
    BudgetConfig,
    CapacityConfig,
    ChangesConfig,
    ClockConfig,
    DiscoveryConfig,
    ErrorsConfig,
    HostConfig,
    LearningConfig,
    LeasesConfig,
    LedgerConfig,
    PatternConfig,
    PickerConfig,
    PolitenessConfig,
    ProtectionConfig,
    RequestsConfig,
    ScrubConfig,
    ShapeConfig,
    SignalsConfig,
    SnapshotsConfig,
    shard_fields,
)
from recrawl.node.config.values import Money, Rate, TimeWindows
from recrawl.node.config.values import seconds as duration
from recrawl.shard.events import BudgetSet, RunBudgetSet, event_of
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.status import BudgetUnit, PriceMode

__all__ = [
    "AuditConfig",
    "BudgetConfig",
    "CapacityConfig",
    "ChangesConfig",
    "ClockConfig",
    "ContentConfig",
    "CorpusConfig",
    "DiscoveryConfig",
    "ErrorsConfig",
    "HoldoutConfig",
    "HostConfig",
    "LearningConfig",
    "LeasesConfig",
    "LedgerConfig",
    "PatternConfig",
    "PickerConfig",
    "PolitenessConfig",
    "ProtectionConfig",
    "Rate",
    "RequestsConfig",
    "ScrubConfig",
    "ShapeConfig",
    "SignalsConfig",
    "SnapshotsConfig",
    "duration",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusConfig:
    """All settings of a corpus; every section and field has a default.

    Fields accept the same values as in TOML: durations in seconds or as text such as ``"6h"``,
    budgets as text such as ``"30/h"``.  The object stores durations in seconds and budgets as a
    `Rate`.

    Examples
    --------
    >>> config = CorpusConfig.from_toml('''
    ... [budget]
    ... rate = "30/h"
    ...
    ... [politeness]
    ... delay = "2s"
    ...
    ... [[pattern]]
    ... match = "/product/*"
    ... max_age = "1d"
    ... ''')
    >>> config.budget.rate, config.shard_settings().group_delay, config.patterns[0].max_age
    (Rate(amount=30.0, per_seconds=3600.0), 2.0, 86400.0)
    """

    corpus: ShapeConfig = field(default_factory=ShapeConfig)
    ledger: LedgerConfig = field(default_factory=LedgerConfig)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    politeness: PolitenessConfig = field(default_factory=PolitenessConfig)
    hosts: Mapping[str, HostConfig] = field(
        default_factory=dict, metadata={"of": HostConfig, "each": "name"}
    )
    patterns: tuple[PatternConfig, ...] = field(
        default=(), metadata={"of": PatternConfig, "each": "row", "key": "pattern"}
    )
    learning: LearningConfig = field(default_factory=LearningConfig)
    discovery: DiscoveryConfig = field(default_factory=DiscoveryConfig)
    audit: AuditConfig = field(default_factory=AuditConfig)
    holdout: HoldoutConfig = field(default_factory=HoldoutConfig)
    signals: SignalsConfig = field(default_factory=SignalsConfig)
    protection: ProtectionConfig = field(default_factory=ProtectionConfig)
    content: ContentConfig = field(default_factory=ContentConfig)
    run: RunConfig = field(default_factory=RunConfig)
    requests: RequestsConfig = field(default_factory=RequestsConfig)
    leases: LeasesConfig = field(default_factory=LeasesConfig)
    errors: ErrorsConfig = field(default_factory=ErrorsConfig)
    snapshots: SnapshotsConfig = field(default_factory=SnapshotsConfig)
    scrub: ScrubConfig = field(default_factory=ScrubConfig)
    changes: ChangesConfig = field(default_factory=ChangesConfig)
    clock: ClockConfig = field(default_factory=ClockConfig)
    picker: PickerConfig = field(default_factory=PickerConfig)
    capacity: CapacityConfig = field(default_factory=CapacityConfig)

    def __post_init__(self) -> None:
        self._check_types()
        self.shard_settings()
        for host in self.hosts:
            self._check_host(host)
        self._check_patterns()
        if self.snapshots.shared is not None and self.ledger.kind != "kafka":
            raise ConfigError(
                'snapshots.shared must not be given unless ledger.kind is "kafka"; use `recrawl '
                "backup` for a corpus in one folder"
            )

    def _check_types(self) -> None:
        for section in fields(self):
            kind: Any = section.default_factory
            value = getattr(self, section.name)
            if isinstance(kind, type) and not isinstance(value, kind):
                raise TypeError(
                    f"{section.name} must be a {kind.__name__}, got {type(value).__name__}.  For "
                    f"plain values use CorpusConfig.from_dict({{{section.name!r}: {{...}}}})"
                )

    def _check_host(self, host: str) -> None:
        if self.corpus.group_by == "key":
            if not host or not host.isprintable():
                raise ConfigError(f'hosts."{host}" must be the key of a group, got {host!r}')
        elif not host or host != host.lower() or set(host) & set("/ @?#"):
            raise ConfigError(
                f'hosts."{host}" must be a host such as "example.com", in lower case, got {host!r}'
            )
        try:
            _shard_settings({"politeness": self.politeness_of(host)})
        except ConfigError as error:
            problem = str(error).removeprefix("politeness.")
            raise ConfigError(f'hosts."{host}".{problem}') from None

    def _check_patterns(self) -> None:
        shares: dict[str, float] = {}
        for i, pattern in enumerate(self.patterns):
            share = shares.setdefault(pattern.kind_name, pattern.share or 0.0)
            if share != (pattern.share or 0.0):
                raise ConfigError(
                    f"pattern[{i}].share must be the same for all patterns of one kind, "
                    f"{share!r}, got {pattern.share!r}"
                )
        if math.fsum(shares.values()) > 1 + 1e-9:
            raise ConfigError(
                "pattern.share must be 1 at most for all patterns together, got "
                f"{math.fsum(shares.values()):g}"
            )
        # Kind 0 is reserved for pages that match no pattern.
        if len(shares) > self.capacity.kinds_max - 1:
            raise ConfigError(
                f"pattern must name {self.capacity.kinds_max - 1} kinds at most "
                f"(capacity.kinds_max - 1), got {len(shares)}"
            )

    @classmethod
    def from_toml(cls, source: str | PathLike[str]) -> Self:
        """Return the configuration in a TOML text or file.

        Parameters
        ----------
        source
            TOML text as a `str`, or the path of a file as a `pathlib.Path`.
        """
        if isinstance(source, str):
            return cls._from_text(source)
        try:
            text = Path(source).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{source} cannot be read: {error}") from error
        try:
            return cls._from_text(text)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None

    @classmethod
    def _from_text(cls, text: str) -> Self:
        try:
            return cls.from_dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"not valid TOML: {error}") from None

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> Self:
        """Return the configuration in a dictionary: sections by name, each with values by key.

        Examples
        --------
        >>> CorpusConfig.from_dict({"politeness": {"delai": 2}})
        Traceback (most recent call last):
        recrawl.errors.ConfigError: politeness.delai is not known; did you mean politeness.delay?
        """
        known = {f.metadata.get("key", f.name): f for f in fields(cls)}
        sections: dict[str, Any] = {}
        for key, table in tables.items():
            if key not in known:
                raise ConfigError(_unknown_key_message("", key, known))
            found = known[key]
            each, kind = found.metadata.get("each"), found.metadata.get("of")
            if each == "row":
                if not isinstance(table, list):
                    raise ConfigError(f"{key} must be written as [[{key}]], got {table!r}")
                rows = (_make_section(kind, row, f"{key}[{i}]") for i, row in enumerate(table))
                sections[found.name] = tuple(rows)
            elif each == "name":
                sections[found.name] = {
                    name: _make_section(kind, row, f'{key}."{name}"')
                    for name, row in _require_table(table, key).items()
                }
            else:
                sections[found.name] = _make_section(found.default_factory, table, key)
        return cls(**sections)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that differ from the defaults, as `from_dict` and JSON take them.

        Examples
        --------
        >>> CorpusConfig.from_dict({"budget": {"rate": "30/h"}}).to_dict()
        {'budget': {'rate': '30/h'}}
        """
        tables: dict[str, Any] = {}
        for f in fields(self):
            key, value = f.metadata.get("key", f.name), getattr(self, f.name)
            match f.metadata.get("each"):
                case "row":
                    table: Any = [_non_default_values(row) for row in value]
                case "name":
                    table = {name: _non_default_values(row) for name, row in value.items()}
                case _:
                    table = _non_default_values(value)
            if table:
                tables[key] = table
        return tables

    def shard_settings(self) -> ShardSettings:
        """Return the settings of the shards."""
        return _shard_settings({f.name: getattr(self, f.name) for f in fields(self)})

    def budget_event(self, *, share: float = 1.0) -> BudgetSet | RunBudgetSet | None:
        """Return the event that sets the budget; None if neither rate nor price is configured.

        Parameters
        ----------
        share
            Share of the budget that this shard gets, if there are several.  The budget of a run is
            split when the run is chosen.
        """
        budget = self.budget
        if budget.rate is None and budget.price is None:
            return None
        rate = budget.rate or Rate.of("unlimited")
        is_finite = 0 < rate.amount < math.inf
        common: dict[str, Any] = {
            "unit": BudgetUnit.COST if budget.is_in_cost else BudgetUnit.FETCHES,
            "price_mode": PriceMode.BUDGET if budget.price is None else PriceMode.FIXED,
            "price": budget.price or 0.0,
        }
        if is_finite and rate.per_seconds is None:
            return event_of(RunBudgetSet, amount=budget.amount, **common)
        return event_of(
            BudgetSet,
            amount=budget.amount * share,
            # Period 0 for an unlimited budget, which needs no saving up, and for a budget of 0,
            # so that credit saved before cannot be spent.
            period_seconds=rate.per_seconds or 0.0 if is_finite else 0.0,
            burst_seconds=budget.burst_seconds,
            **common,
        )

    def politeness_of(self, host: str) -> PolitenessConfig:
        """Return the politeness rule of a host: [politeness], overridden by [hosts."HOST"]."""
        own = self.hosts.get(host, HostConfig())
        given = {f.name: getattr(own, f.name) for f in fields(own) if f.name != "unlimited"}
        return replace(self.politeness, **{k: v for k, v in given.items() if v is not None})


def _non_default_values(section: Any) -> dict[str, Any]:
    """Return the values of a section that differ from their defaults."""
    values = {}
    for f in fields(section):
        value = getattr(section, f.name)
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        if value != default:
            values[f.name] = _plain_value(value)
    return values


def _plain_value(value: Any) -> Any:
    """Return a value as JSON and TOML have it."""
    if isinstance(value, TimeWindows):
        return value.texts()
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Rate | Money) else value


def _require_table(table: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} must be a section, [{where}], got {table!r}")
    return table


def _make_section(kind: Any, table: Any, where: str) -> Any:
    """Return a section object made from its TOML table."""
    names = {f.name: f for f in fields(kind)}
    for key in _require_table(table, where):
        if key not in names:
            raise ConfigError(_unknown_key_message(where, key, names))
    try:
        return kind(**table)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}") from None
    except TypeError:
        # Only a pattern has a field without a default.
        raise ConfigError(f"{where}.match must be given") from None


def _unknown_key_message(where: str, key: str, known: Mapping[str, Any]) -> str:
    prefix = f"{where}." if where else ""
    what = "is not known" if where else "is not a known section"
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if near:
        return f"{prefix}{key} {what}; did you mean {prefix}{near[0]}?"
    return f"{prefix}{key} {what}; choose from {', '.join(prefix + name for name in known)}"


def _shard_settings(sections: Mapping[str, Any]) -> ShardSettings:
    """Return the shard settings of sections; errors name settings as recrawl.toml does."""
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    for section_name, section in sections.items():
        if section_name in ("hosts", "patterns"):
            continue
        for shard_name, own_name in shard_fields(type(section)).items():
            values[shard_name] = getattr(section, own_name)
            names[shard_name] = f"{section_name}.{own_name}"
    try:
        return ShardSettings(**values)
    except ValueError as error:
        name, _, problem = str(error).partition(" ")
        raise ConfigError(f"{names.get(name, name)} {problem}") from None
