"""Figures on pages come from the CSV files; none is written by hand."""

import csv
import re
from pathlib import Path

import pytest

from scripts import measured_page
from scripts.written_pages import ROOT

# Numbers that are not measurements: a rank, and the level of intervals.
BY_HAND = ("99th percentile", "95 % interval")


def test_pages_and_quotes_have_the_figures_of_their_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = measured_page.main(["--check"])
    assert status == 0, capsys.readouterr().out


def test_a_change_of_any_figure_is_noticed() -> None:
    found = measured_page.read_figures()
    for key, figure in found.items():
        if re.match(r"−?\d", figure):
            assert measured_page.find_problems(found | {key: f"{figure}1"}), key


@pytest.mark.parametrize("page", measured_page.PAGES, ids=lambda page: page.stem)
def test_no_figure_is_written_by_hand(page: Path) -> None:
    text = measured_page.template_path(page).read_text(encoding="utf-8")
    prose = re.sub(r"`[^`]*`", "", measured_page.PLACEHOLDER.sub("", text))
    for phrase in BY_HAND:
        prose = prose.replace(phrase, "")
    assert re.findall(r".*\d.*", prose) == []


@pytest.mark.parametrize(
    ("cell", "is_ratio", "prose"),
    [
        ("173000", False, "173 000"),
        ("5.0", False, "5.0"),
        ("100000000", False, "10⁸"),
        ("0.995", True, "99.5"),
        ("0.3", True, "30"),
        ("-0.1", True, "−10"),
        ("yes", False, "yes"),
    ],
)
def test_a_cell_is_formatted_for_prose(cell: str, is_ratio: bool, prose: str) -> None:
    assert measured_page.format_cell(cell, is_ratio=is_ratio) == prose


def test_the_source_of_a_figure_exists() -> None:
    sources = [row["source"] for row in rows("said")] + [row["command"] for row in rows("runs")]
    for source in sources:
        if command := re.match(r"python -m benchmarks (\S+)", source):
            module = command[1].replace("-", "_")
            assert (ROOT / "benchmarks" / f"{module}.py").exists(), source
        elif path := re.search(r"\b(tests|scripts|docs)/\S+", source):
            assert (ROOT / path[0]).exists(), source


def rows(name: str) -> list[dict[str, str]]:
    with (measured_page.FIGURES / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
