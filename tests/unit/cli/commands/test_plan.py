"""Tests of ``recrawl plan``: text, rows, charts and exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import recrawl
from recrawl.cli import main
from recrawl.corpus import CorpusConfig
from tests.unit.charts.drawings import parsed, texts

Plan = Callable[..., Result]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 90 pages on three hosts, of three kinds, one of the hosts slow."""
    folder = tmp_path_factory.mktemp("corpus")
    told: dict[str, Any] = {
        "budget": {"rate": "8/d"},
        "politeness": {"delay": 1},
        "hosts": {"slow.example": {"delay": "3d"}},
        "pattern": [{"match": "/product/*", "kind": "product"}, {"match": "/help/*"}],
    }
    with recrawl.open(folder, CorpusConfig.from_dict(told)) as corpus:
        for host in ("a.example", "b.example", "slow.example"):
            for kind in ("product", "help", "<blog>"):
                corpus.add([f"https://{host}/{kind}/{i}" for i in range(10)])
    return folder


@pytest.fixture
def plan(folder: Path) -> Plan:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["plan", "-C", str(folder), *arguments])

    return run


def rows_of(result: Result, part: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return [row for row in rows if row["part"] == part]


def test_text_starts_with_a_summary(plan: Plan) -> None:
    result = plan("--no-json")
    assert result.exit_code == 0
    first = " ".join(result.stdout.split())
    assert first.startswith("A budget of 8 fetches/day keeps pages ")
    assert "because of host delays" in first
    assert "slow.example" in first
    assert "product" in first


def test_rows_have_names_with_units(plan: Plan) -> None:
    result = plan("--json", "--target", "80 % of product")
    (whole,) = rows_of(result, "plan")
    assert whole["budget_per_hour"] == pytest.approx(8 / 24)
    assert whole["n_pages"] == 90
    assert len(rows_of(result, "curve")) == 32
    assert {row["kind"] for row in rows_of(result, "kind")} == {"product", "/help/*", "other"}
    hosts = {row["host"]: row for row in rows_of(result, "host")}
    assert len(hosts) == 3
    assert hosts["slow.example"]["is_slowed"]
    assert hosts["slow.example"]["fetches_per_hour_max"] == pytest.approx(1 / 72)
    (target,) = rows_of(result, "target")
    assert (target["verdict"], target["share"], target["of"]) == ("met", 0.8, "product")


def test_a_target_out_of_reach_exits_with_3(plan: Plan) -> None:
    yes = plan("--target", "50 %")
    assert yes.exit_code == 0
    no = plan("--json", "--target", "50 %", "--target", "99.9 % of slow.example under 1 h")
    assert no.exit_code == 3
    assert [row["verdict"] for row in rows_of(no, "target")] == ["met", "out of reach"]
    assert rows_of(no, "targets together")[0]["is_possible"] is False
    dear = plan("--no-json", "--target", "99 %", "--budget", "1/d")
    assert dear.exit_code == 3
    assert plan("--target", "50 % of /nothing/*").exit_code == 3


def test_a_plan_can_be_compared_with_another_budget(plan: Plan) -> None:
    (whole,) = rows_of(plan("--json", "--budget", "48/d"), "plan")
    assert whole["budget_per_hour"] == pytest.approx(2)
    (plain,) = rows_of(plan("--json", "--unweighted"), "plan")
    assert plain["is_weighted"] is False


@pytest.mark.parametrize(
    "arguments",
    [
        ("--target", "nearly all"),
        ("--target", "95 % of ftp://x/*"),
        ("--budget", "often"),
        ("--budget", "100/run"),
        ("--budget", "unlimited"),
        ("--plot", "plan.pdf"),
    ],
)
def test_wrong_arguments_are_usage_errors(plan: Plan, arguments: tuple[str, ...]) -> None:
    result = plan(*arguments)
    assert result.exit_code == 2
    assert "Error" in result.output
    assert "Traceback" not in result.output


def test_a_chart_is_written(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"
    result = plan("--no-json", "--target", "90 %", "--plot", str(file))
    assert str(file) in result.stderr.replace("\n", "")
    chart = file.read_text(encoding="utf-8")
    assert parsed(chart) is not None
    shown = texts(chart)
    assert {"all pages", "product", "/help/*", "90 %"} <= set(shown)
    assert any(words.startswith("your budget: 8 fetches/day") for words in shown)


def test_a_page_is_written(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "plan.html"
    plan("--target", "90 %", "--target", "80 % of slow.example", "--plot", str(file))
    page = file.read_text(encoding="utf-8")
    for words in ("Targets", "Kinds of page", "Hosts", "Method", "All together"):
        assert words in page


def test_a_file_that_cannot_be_written_is_a_message(plan: Plan, tmp_path: Path) -> None:
    result = plan("--plot", str(tmp_path / "no" / "plan.svg"))
    assert result.exit_code == 1
    assert "plan.svg" in result.output


def test_a_corpus_without_pages_or_budget_says_so(tmp_path: Path) -> None:
    with recrawl.open(tmp_path) as corpus:
        pass
    run = CliRunner()
    empty = run.invoke(main, ["plan", "-C", str(tmp_path), "--no-json"])
    assert empty.exit_code == 0
    assert "No pages to plan for yet." in empty.stdout
    with recrawl.open(tmp_path) as corpus:
        corpus.add(["https://a.example/1"])
    file = tmp_path / "plan.html"
    found = run.invoke(main, ["plan", "-C", str(tmp_path), "--no-json", "--plot", str(file)])
    assert "the corpus has no budget per hour or day" in " ".join(found.stdout.split())
    assert "Delays of hosts cost no freshness." in file.read_text(encoding="utf-8")
