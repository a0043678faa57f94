"""A policy of somebody else's may be wrong in any way, and that is said in a sentence."""

from pathlib import Path

import click
import numpy as np
import pytest

from recrawl.cli.support.policies import named_policies
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
    def hear(self, at, page, source, claimed_at): pass
    def learn(self, at, page, outcomes): pass
    def pick(self, at, n): {picked}
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Return the name of a module that is written with what the test asks for."""
    monkeypatch.syspath_prepend(tmp_path)
    how = {"arguments": "", "made": "pass", "picked": "return np.arange(n)", **request.param}
    name = f"policy_{abs(hash(str(how)))}"
    (tmp_path / f"{name}.py").write_text(BODY.format(**how))
    return f"{name}:Mine"


@pytest.mark.parametrize("written", [{}], indirect=True)
def test_one_that_does_what_it_should_is_left_alone(written: str) -> None:
    ((name, make),) = named_policies([written])
    policy = make(1.0)
    policy.start(PAGES, 0.0)
    assert name == written
    assert policy.pick(1.0, 2).tolist() == [0, 1]


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
def test_a_pick_that_is_none_is_an_error_of_ours(written: str) -> None:
    ((_, make),) = named_policies([written])
    policy = make(1.0)
    policy.start(PAGES, 0.0)
    with pytest.raises(RecrawlError, match=f"policy {written}"):
        policy.pick(1.0, 1)


@pytest.mark.parametrize(
    "written", [{"arguments": ", wanted"}, {"made": "sys.exit(7)"}], indirect=True
)
def test_one_that_cannot_be_made_is_an_error_of_ours(written: str) -> None:
    ((_, make),) = named_policies([written])
    with pytest.raises(RecrawlError, match="cannot be made"):
        make(1.0)


def test_a_module_that_leaves_is_a_wrong_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "policy_that_leaves.py").write_text("raise SystemExit(7)\n")
    with pytest.raises(click.BadParameter, match="SystemExit"):
        named_policies(["policy_that_leaves:Mine"])
