"""The files for contributors are valid, agree with each other and name files that exist."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOME = PROJECT["project"]["urls"]["Homepage"]
LOCK = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
FORMS = sorted(
    path for path in ROOT.glob(".github/ISSUE_TEMPLATE/*.yml") if path.name != "config.yml"
)
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
YAML_FILES = sorted(
    [*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
)
TEXTS = sorted(
    [
        *YAML_FILES,
        *ROOT.glob(".devcontainer/*"),
        *ROOT.glob(".github/*.md"),
        *ROOT.glob("docs/contributing/*.md"),
        ROOT / "CODE_OF_CONDUCT.md",
        ROOT / "pyproject.toml",
    ]
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def locked_versions() -> dict[str, list[str]]:
    """Return the versions of each package in the lock file; several where Pythons differ."""
    versions: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([\w.+!-]+)", LOCK, re.M):
        versions.setdefault(name, []).append(version)
    return versions


def group_requirements(group: str) -> list[str]:
    """Return the requirements of a dependency group and of the groups that it includes."""
    requirements = []
    for line in PROJECT["dependency-groups"][group]:
        if isinstance(line, str):
            requirements.append(line)
        else:
            requirements += group_requirements(line["include-group"])
    return requirements


def number_parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


# ---------------------------------------------------------------------------- syntax


@pytest.mark.parametrize("path", YAML_FILES, ids=name_of)
def test_yaml_is_valid(path: Path) -> None:
    assert isinstance(read_yaml(path), dict)


def test_the_dev_container_is_valid() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert (ROOT / ".devcontainer" / container["build"]["dockerfile"]).is_file()
    assert "requirements-dev.lock" in container["postCreateCommand"]


def test_there_are_three_issue_forms() -> None:
    assert [path.stem for path in FORMS] == ["bug", "feature", "question"]


@pytest.mark.parametrize("path", FORMS, ids=name_of)
def test_an_issue_form_asks_each_question_once(path: Path) -> None:
    form = read_yaml(path)
    assert form["name"]
    assert form["description"]
    questions = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in questions}) == len(questions) > 0
    assert all(part["attributes"]["label"] for part in questions)


# ---------------------------------------------------------------------------- workflows


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_a_workflow_has_read_permission_and_a_time_limit(path: Path) -> None:
    workflow = read_yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        if called := job.get("uses"):
            assert (ROOT / called).is_file()
        else:
            assert job["timeout-minutes"] <= 90


def test_pull_requests_are_checked_by_the_same_script_as_checkouts() -> None:
    checks = read_yaml(ROOT / ".github/workflows/checks.yml")
    # YAML 1.1 reads the key "on" as true.
    assert "pull_request" in checks[True]
    assert {"run": ".ci/run"} in checks["jobs"]["everything"]["steps"]
    assert (ROOT / ".ci/run").is_file()


def test_every_supported_python_is_tested() -> None:
    jobs = read_yaml(ROOT / ".github/workflows/checks.yml")["jobs"]
    (lowest,) = (
        step["with"]["python-version"]
        for step in jobs["everything"]["steps"]
        if "python-version" in step.get("with", {})
    )
    tested = {lowest, *jobs["tests"]["strategy"]["matrix"]["python"]}
    classifiers = " ".join(PROJECT["project"]["classifiers"])
    assert tested == set(re.findall(r"Python :: (3\.\d+)", classifiers))
    assert PROJECT["project"]["requires-python"] == f">={lowest}"


def test_only_the_publish_job_gets_an_identity_token() -> None:
    jobs = read_yaml(ROOT / ".github/workflows/release.yml")["jobs"]
    assert {name for name, job in jobs.items() if "permissions" in job} == {"publish"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == ["checks", "build"]


# ---------------------------------------------------------------------------- the lock file


@pytest.mark.parametrize(
    "requirement", sorted({*PROJECT["project"]["dependencies"], *group_requirements("dev")})
)
def test_the_lock_file_has_a_version_that_is_new_enough(requirement: str) -> None:
    name, _, lowest = requirement.partition(";")[0].partition(">=")
    # The lock file writes names in their normal form.
    versions = locked_versions().get(name.partition("[")[0].replace(".", "-"), [])
    assert versions, f"{name} is missing; run the command in the first lines of the lock file"
    assert all(number_parts(version) >= number_parts(lowest) for version in versions)


def test_every_locked_package_has_a_hash() -> None:
    entries = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.M)[1:]
    assert len(entries) == sum(map(len, locked_versions().values()))
    assert all("--hash=sha256:" in entry for entry in entries)


def test_the_lock_file_names_its_command_and_no_package_index() -> None:
    assert "uv pip compile pyproject.toml --group dev" in "".join(LOCK.splitlines()[:3])
    assert "://" not in LOCK
    options = set(re.findall(r"(?<!\S)--[a-z-]+", LOCK.partition("==")[2]))
    assert options == {"--hash"}
    assert not re.search(r"index|find-links|\bhost\b", LOCK.partition("==")[0])


# ---------------------------------------------------------------------------- the citation


def test_the_citation_is_of_this_project() -> None:
    citation = read_yaml(ROOT / "CITATION.cff")
    project = PROJECT["project"]
    assert citation["version"] == project["version"]
    assert citation["title"] == project["name"]
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]
    assert citation["repository-code"] == project["urls"]["Source"]


def test_the_citation_and_the_documentation_name_the_same_papers() -> None:
    equations = tomllib.loads((ROOT / "docs/explanation/equations.toml").read_text("utf-8"))
    cited = {re.findall(r"\*(.+)\*", paper["cite"])[0]: paper for paper in equations["paper"]}
    references = {entry["title"]: entry for entry in read_yaml(ROOT / "CITATION.cff")["references"]}
    assert set(references) == set(cited)
    for title, entry in references.items():
        assert cited[title]["cite"].startswith(entry["authors"][0]["family-names"])


# ---------------------------------------------------------------------------- links


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_links_into_the_repository_lead_to_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(rf"{re.escape(HOME)}/(?:blob|tree)/main/([\w./-]+)", text)
    for target in links:
        assert (ROOT / target).exists(), target
    elsewhere = set(re.findall(r"https://github\.com/recrawl[\w/.-]*", text))
    assert all(link.startswith(HOME) for link in elsewhere)


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_files_named_in_the_text_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"(?<![\w/.-])([A-Z_]+\.(?:md|cff)|requirements-[\w-]+\.\w+)", text):
        assert (ROOT / name).is_file(), name
