"""The documentation lists every dependency with its reason."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/explanation/dependencies.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def declared_packages() -> list[str]:
    requirements = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
    for extra in PROJECT["project"].get("optional-dependencies", {}).values():
        requirements += extra
    for group in PROJECT["dependency-groups"].values():
        requirements += [line for line in group if isinstance(line, str)]
    return sorted({re.split(r"[^\w.-]", line)[0] for line in requirements})


@pytest.mark.parametrize("package", declared_packages())
def test_a_dependency_is_listed_with_a_reason(package: str) -> None:
    used, _, _ = PAGE.partition("## Considered and not used")
    assert re.search(rf"^\| `{package}` \| \S", used, re.M)


def test_only_declared_dependencies_are_listed() -> None:
    used, _, _ = PAGE.partition("## Considered and not used")
    assert set(re.findall(r"^\| `([\w.-]+)` \|", used, re.M)) == set(declared_packages())
