"""Tests that the reference page of the configuration is complete."""

import re
import tomllib
from dataclasses import fields

import pytest

from recrawl.node.config.corpus_config import CorpusConfig
from scripts import config_reference


def test_the_reference_page_is_complete_and_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    status = config_reference.main(["--check"])
    assert status == 0, capsys.readouterr().out


def test_the_example_is_a_configuration() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", config_reference.HEAD, re.S)
    assert CorpusConfig.from_toml(example).patterns[0].share == 0.4


def test_the_defaults_on_the_page_are_the_defaults() -> None:
    page = config_reference.page_text()
    for field in fields(CorpusConfig):
        if field.metadata:
            continue
        (table,) = re.findall(rf"^## `\[{field.name}\]`\n(.*?)(?=^## |\Z)", page, re.M | re.S)
        rows = re.findall(r"^\| `(\w+)` \|.*\| `(.*)` \|$", table, re.M)
        text = "\n".join(f"{key} = {default}" for key, default in rows)
        section = getattr(CorpusConfig.from_dict({field.name: tomllib.loads(text)}), field.name)
        assert section == getattr(CorpusConfig(), field.name)
