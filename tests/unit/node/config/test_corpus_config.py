"""Tests of the configuration and of its error messages."""

import math
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest

from recrawl.errors import ConfigError
from recrawl.node.config.corpus_config import (
    BudgetConfig,
    CorpusConfig,
    HostConfig,
    PatternConfig,
    PolitenessConfig,
    Rate,
)
from recrawl.node.config.sections import shard_fields
from recrawl.shard import Shard
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.status import BudgetUnit, PriceMode

HOUR = 3_600.0
DAY = 24 * HOUR
DAY = 86_400.0


def problem_of(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        CorpusConfig.from_toml(text)
    return str(raised.value)


def test_an_empty_configuration_has_all_defaults() -> None:
    assert CorpusConfig.from_toml("") == CorpusConfig()
    assert CorpusConfig().shard_settings() == ShardSettings()
    assert CorpusConfig().budget_event() is None


def test_every_setting_of_a_shard_is_reached_exactly_once() -> None:
    config = CorpusConfig()
    sections = [type(getattr(config, f.name)) for f in fields(config) if not f.metadata]
    reached = [name for section in sections for name in shard_fields(section)]
    assert sorted(reached) == sorted(field.name for field in fields(ShardSettings))


def test_settings_reach_the_shard() -> None:
    config = CorpusConfig.from_toml("""
        [corpus]
        partitions = 4
        objective = "fragments"
        [politeness]
        delay = "1.5s"
        in_flight_max = 3
        [learning]
        half_life = inf
        [leases]
        length = "10m"
        [requests]
        prior_rate = "2/h"
        [picker]
        sweep = 60
    """)
    settings = config.shard_settings()
    assert config.corpus.partitions == 4
    assert settings.objective == "fragments"
    assert (settings.group_delay, settings.group_in_flight_max) == (1.5, 3)
    assert settings.belief_half_life == math.inf
    assert settings.lease_seconds == 600
    assert settings.request_prior_rate == pytest.approx(2 / HOUR)
    assert settings.sweep_seconds == 60


def test_a_configuration_made_in_python_equals_the_one_from_toml() -> None:
    read = CorpusConfig.from_toml("""
        [budget]
        rate = "30/h"
        [hosts."example.com"]
        delay = "5s"
        [[pattern]]
        match = "/product/*"
        max_age = "1d"
    """)
    made = CorpusConfig(
        budget=BudgetConfig(rate=Rate(amount=30, per_seconds=HOUR)),
        hosts={"example.com": HostConfig(delay=5.0)},
        patterns=(PatternConfig(match="/product/*", max_age=DAY),),
    )
    assert made == read


def test_a_configuration_is_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        CorpusConfig().budget.burst = 5.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[politeness]\ndealy = 2",
            "politeness.dealy is not known; did you mean politeness.delay?",
        ),
        ("[polite]", "polite is not a known section; did you mean politeness?"),
        ("[[patterns]]", "patterns is not a known section; did you mean pattern?"),
        ("[audit]\nxyzzy = 2", "audit.xyzzy is not known; choose from audit.share"),
        (
            '[hosts."example.com"]\ndelai = 2',
            'hosts."example.com".delai is not known; did you mean hosts."example.com".delay?',
        ),
        (
            '[[pattern]]\nmatch = "/a"\nmaxage = 2',
            "pattern[0].maxage is not known; did you mean pattern[0].max_age?",
        ),
    ],
)
def test_an_unknown_key_suggests_a_similar_one(text: str, problem: str) -> None:
    assert problem_of(text) == problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[politeness]\ndelay = "soon"',
            'politeness.delay must be a duration (seconds, or text such as "90s", "15m", "6h", '
            '"2d", "1w"), got \'soon\'',
        ),
        ("[politeness]\ndelay = -1", "politeness.delay must be a duration"),
        ("[politeness]\ndelay = nan", "politeness.delay must be a duration"),
        ("[politeness]\ndelay = true", "politeness.delay must be a duration"),
        ("[politeness]\ndelay = 5e6", "politeness.delay must be at most 4e6, got 5000000.0"),
        (
            "[politeness]\nin_flight_max = 1.5",
            "politeness.in_flight_max must be a whole number from 1, got 1.5",
        ),
        (
            '[corpus]\ngroup_by = "path"',
            'corpus.group_by must be one of "host", "domain", "key", got \'path\'',
        ),
        ("[corpus]\npartitions = 0", "corpus.partitions must be a whole number from 1, got 0"),
        ("[budget]\nrate = 30", "budget.rate must be a rate (text such as"),
        ('[budget]\nrate = "30"', "budget.rate must be a rate (text such as"),
        ('[budget]\nrate = "30/y"', "budget.rate must be a rate (text such as"),
        ("[budget]\nburst = inf", "budget.burst must be finite, got inf"),
        ('[requests]\nprior_rate = "5/run"', "requests.prior_rate must be a rate (per second"),
        ("[audit]\nshare = 1.0", "audit.share must be below 1, got 1.0"),
        ("[signals]\nprecision = 1", "signals.precision must be a number between 0 and 1"),
        ("[capacity]\nlimits_max = 70000", "capacity.limits_max must be at most 65535, got 70000"),
        ("politeness = 3", "politeness must be a section, [politeness], got 3"),
        ('[pattern]\nmatch = "/a"', "pattern must be written as [[pattern]], got"),
        ("[[pattern]]\nshare = 0.5", "pattern[0].match must be given"),
        ('[[pattern]]\nmatch = ""', "pattern[0].match must be text, got ''"),
        (
            '[[pattern]]\nmatch = "shop.example"',
            "pattern[0].match must be a pattern of URLs: pattern 'shop.example' has no path",
        ),
        (
            '[[pattern]]\nmatch = "/a"\nmin_age = "2h"\nmax_age = "1h"',
            "pattern[0].max_age must be at least min_age (7200 s), got 3600 s",
        ),
        (
            '[[pattern]]\nmatch = "/a"\nstale_for = "2h"',
            "pattern[0].stale_for must be given together with stale_probability",
        ),
        (
            '[[pattern]]\nmatch = "/a"\nshare = 0.6\n[[pattern]]\nmatch = "/b"\nshare = 0.6',
            "pattern.share must be 1 at most for all patterns together, got 1.2",
        ),
        (
            '[[pattern]]\nmatch = "/a"\nkind = "x"\nshare = 0.2\n'
            '[[pattern]]\nmatch = "/b"\nkind = "x"',
            "pattern[1].share must be the same for all patterns of one kind, 0.2, got None",
        ),
        (
            '[capacity]\nkinds_max = 2\n[[pattern]]\nmatch = "/a"\n[[pattern]]\nmatch = "/b"',
            "pattern must name 1 kinds at most (capacity.kinds_max - 1), got 2",
        ),
        ("[hosts.Example]", 'hosts."Example" must be a host such as "example.com"'),
        ('[hosts."a.com/x"]', 'hosts."a.com/x" must be a host such as "example.com"'),
        (
            '[hosts."a.com"]\ndelay = 5e6',
            'hosts."a.com".delay must be at most 4e6, got 5000000.0',
        ),
        ('[ledger]\nkind = "kafka"', 'ledger.bootstrap must be given where kind is "kafka"'),
        ('[ledger]\ntopic = "t"', 'ledger.topic must not be given unless kind is "kafka"'),
        (
            '[ledger]\nkind = "kafka"\nbootstrap = "b"\ntopic = "t"\nin_sync_min = 4',
            "ledger.in_sync_min must be at most replication (3), got 4",
        ),
        (
            '[ledger]\nkind = "kafka"\nbootstrap = "b"\ntopic = "t"\ngive_up_after = 0',
            "ledger.give_up_after must be positive, got 0.0",
        ),
        (
            '[ledger]\nkind = "kafka"\nbootstrap = "b"\ntopic = "t"\ndurability = "os"',
            'ledger.durability must not be given where kind is "kafka"',
        ),
        (
            '[ledger]\nkind = "kafka"\nbootstrap = "b"\ntopic = "t"\nclient_settings = {a = [1]}',
            "ledger.client_settings must be a table of text, numbers and booleans",
        ),
        ("[politeness", "not valid TOML: "),
    ],
)
def test_a_wrong_value_is_named_with_the_allowed_values(text: str, problem: str) -> None:
    assert problem_of(text).startswith(problem)


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "recrawl.toml"
    path.write_text("[polite]")
    with pytest.raises(ConfigError, match=r"recrawl\.toml: polite is not a known section"):
        CorpusConfig.from_toml(path)
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read"):
        CorpusConfig.from_toml(tmp_path / "none.toml")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"recrawl\.toml cannot be read"):
        CorpusConfig.from_toml(path)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "recrawl.toml"
    path.write_text('[[pattern]]\nmatch = "/a/*"\nkind = "ä"', "utf-8")
    assert CorpusConfig.from_toml(path).patterns[0].kind_name == "ä"


def test_wrong_arguments_in_python_are_value_errors() -> None:
    with pytest.raises(ValueError, match=r"^delay must be a duration"):
        PolitenessConfig(delay=-1)
    with pytest.raises(ValueError, match=r"^audit_share|^audit\.share must be below 1"):
        CorpusConfig.from_dict({"audit": {"share": 1}})


def test_a_host_section_overrides_politeness() -> None:
    config = CorpusConfig.from_toml("""
        [politeness]
        delay = 2
        in_flight_max = 2
        [hosts."example.com"]
        delay = "10s"
    """)
    assert config.politeness_of("example.com") == replace(config.politeness, delay=10.0)
    assert config.politeness_of("example.org") == config.politeness


@pytest.mark.parametrize(
    ("budget", "columns"),
    [
        ('rate = "30/h"', (30, HOUR, HOUR, BudgetUnit.FETCHES, PriceMode.BUDGET, 0)),
        ('rate = "20000/day"', (20_000, DAY, DAY, BudgetUnit.FETCHES, PriceMode.BUDGET, 0)),
        ('rate = "5/s"', (5, 1, 60, BudgetUnit.FETCHES, PriceMode.BUDGET, 0)),
        ('rate = "100/run"', (100, BudgetUnit.FETCHES, PriceMode.BUDGET, 0)),
        (
            'rate = "50 EUR/month"\ncost_per_fetch = "0.0005 EUR"',
            (100_000, 30.4375 * DAY, 30.4375 * DAY, BudgetUnit.COST, PriceMode.BUDGET, 0),
        ),
        (
            'rate = "5/s"\nunit = "cost"\nburst = "1h"',
            (5, 1, HOUR, BudgetUnit.COST, PriceMode.BUDGET, 0),
        ),
        ("price = 900", (math.inf, 0, 60, BudgetUnit.FETCHES, PriceMode.FIXED, 900)),
        ('rate = "unlimited"', (math.inf, 0, 60, BudgetUnit.FETCHES, PriceMode.BUDGET, 0)),
    ],
)
def test_a_budget_becomes_a_valid_event(budget: str, columns: tuple[float, ...]) -> None:
    event = CorpusConfig.from_toml(f"[budget]\n{budget}").budget_event()
    assert event is not None
    assert tuple(column[0] for column in event) == columns
    assert Shard().apply(event).valid.all()


def test_one_of_several_shards_gets_its_share_of_the_budget() -> None:
    event = CorpusConfig.from_toml('[budget]\nrate = "30/h"').budget_event(share=0.25)
    assert event is not None
    assert event.amount[0] == 7.5


def test_a_section_as_a_dict_says_what_to_use_instead() -> None:
    with pytest.raises(TypeError, match=r"budget must be a BudgetConfig.*from_dict"):
        CorpusConfig(budget={"rate": "30/h"})  # type: ignore[arg-type]
