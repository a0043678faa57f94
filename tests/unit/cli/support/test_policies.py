"""Tests that errors in users' policies become messages."""

from pathlib import Path

import click
import numpy as np
import pytest

from recrawl.cli.support.policies import load_policies
from recrawl.errors import RecrawlError
from recrawl.sim import KnownPages

PAGES = KnownPages(np.ones(3), np.ones(3), np.zeros(3, np.int64), np.zeros(3, np.int64), True)
BODY = """
import sys
import numpy as np

class Mine:
    def __init__(self{arguments}):
        {made}
    def start(self, pages, at): pass
    def {signals}(self, at, page, source, claimed_at): pass
    def learn(self, at, page, outcomes): pass
    def pick(self, at, n): {picked}
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Write a module with a policy, and return its name."""
    monkeypatch.syspath_prepend(tmp_path)
    how = {
        "arguments": "",
        "made": "pass",
        "signals": "on_signals",
        "picked": "return np.arange(n)",
        **request.param,
    }
    name = f"policy_{abs(hash(str(how)))}"
    (tmp_path / f"{name}.py").write_text(BODY.format(**how))
    return f"{name}:Mine"


@pytest.mark.parametrize("written", [{}], indirect=True)
def test_a_correct_policy_is_passed_through(written: str) -> None:
    ((name, make),) = load_policies([written])
    policy = make(1.0)
    policy.start(PAGES, 0.0)
    assert name == written
    assert policy.pick(1.0, 2).tolist() == [0, 1]


@pytest.mark.parametrize("written", [{"signals": "hear"}], indirect=True)
def test_the_old_name_of_on_signals_is_accepted_with_a_warning(written: str) -> None:
    with pytest.warns(DeprecationWarning, match="rename the method to on_signals"):
        ((_, make),) = load_policies([written])
    make(1.0).on_signals(np.zeros(1), np.zeros(1, int), np.zeros(1, int), np.zeros(1))


@pytest.mark.parametrize(
    "written",
    [
        {"picked": "return np.array([3])"},
        {"picked": "return np.array([-1])"},
        {"picked": "return np.arange(n + 1) % 3"},
        {"picked": "return [0]"},
        {"picked": "return None"},
        {"picked": "raise KeyError('x')"},
        {"picked": "sys.exit(7)"},
    ],
    indirect=True,
)
def test_an_invalid_pick_is_a_recrawl_error(written: str) -> None:
    ((_, make),) = load_policies([written])
    policy = make(1.0)
    policy.start(PAGES, 0.0)
    with pytest.raises(RecrawlError, match=f"policy {written}"):
        policy.pick(1.0, 1)


@pytest.mark.parametrize(
    "written", [{"arguments": ", wanted"}, {"made": "sys.exit(7)"}], indirect=True
)
def test_a_policy_that_cannot_be_created_is_a_recrawl_error(written: str) -> None:
    ((_, make),) = load_policies([written])
    with pytest.raises(RecrawlError, match="cannot be created"):
        make(1.0)


def test_a_module_that_exits_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "policy_that_leaves.py").write_text("raise SystemExit(7)\n")
    with pytest.raises(click.BadParameter, match="SystemExit"):
        load_policies(["policy_that_leaves:Mine"])
