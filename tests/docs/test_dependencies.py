"""Every dependency is named with its reason."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/explanation/dependencies.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def declared() -> list[str]:
    requirements = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
    for extra in PROJECT["project"].get("optional-dependencies", {}).values():
        requirements += extra
    for group in PROJECT["dependency-groups"].values():
        requirements += [line for line in group if isinstance(line, str)]
    return sorted({re.split(r"[^\w.-]", line)[0] for line in requirements})


@pytest.mark.parametrize("package", declared())
def test_is_named_with_a_reason(package: str) -> None:
    taken, _, _ = PAGE.partition("## Looked at, and left")
    assert re.search(rf"^\| `{package}` \| \S", taken, re.M)


def test_nothing_is_named_that_is_not_used() -> None:
    taken, _, _ = PAGE.partition("## Looked at, and left")
    assert set(re.findall(r"^\| `([\w.-]+)` \|", taken, re.M)) == set(declared())
