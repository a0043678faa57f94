"""Every claim of the papers is there, judged as it should be, and shown as it was found."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.claim import Check, Claim, Figures, Kind, Scale, Tables
from lab.drawing import panels
from lab.pages import problems
from lab.running import Report, all_claims, draw_claim, folder_of, judged, run_claim
from lab.tables import Table, read_tables

# One row for each claim or group of figures of the five papers, and one of ours.
KINDS = {
    "S-1": "✎", "S-2": "=", "S-3": "→", "S-4": "=", "S-5": "→", "S-6": "✎",
    "S-7, S-12..14": "✎", "S-8": "→", "S-9": "=", "S-10/11": "=", "S-G": "→",
    "C-1..4": "=", "C-5": "→", "C-6": "→", "C-7": "→", "C-8": "→", "C-R": "→",
    "P-1": "✎", "P-2": "→", "P-3, P-5, P-6": "✎", "P-4": "→", "P-7": "→",
    "G-1": "✎", "G-3..7": "=", "G-11..14": "=", "G-15": "=", "G-16, 17, 19": "✎",
    "G-18": "→", "G-T1": "→",
    "L-1..5": "✎", "L-2.3": "→", "L-6": "→", "L-7": "✎", "L-8/9": "→", "L-10": "→",
    "L-11/12": "→",
}  # fmt: skip
CLAIMS = list(all_claims())


def test_every_claim_of_the_papers_is_listed_with_its_kind() -> None:
    assert {claim.id: str(claim.kind) for claim in CLAIMS} == KINDS


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.slug)
def test_the_report_agrees_with_the_stored_numbers(claim: Claim) -> None:
    tables = read_tables(folder_of(claim) / Scale.FULL)
    assert tables, f"nothing is kept of {claim.id}: run python -m lab claims --full"
    report = Report(claim=claim, checks=judged(claim, tables))
    wrong = [check for check in report.checks if not check.holds]
    assert report.is_as_expected, wrong


def test_pages_and_figures_are_up_to_date() -> None:
    assert problems() == []


def small_claim(
    *,
    holds: bool,
    fails_because: str = "",
    corrected: str = "",
    needs: tuple[str, ...] = (),
) -> Claim:
    def measure(scale: Scale) -> Tables:
        return {"t": Table.of([{"x": 1.0 / 3.0, "scale": str(scale)}])}

    def judge(tables: Tables) -> tuple[Check, ...]:
        found = f"{tables['t'].value('x'):.9f}"
        return (Check(what="x", found=found, wanted="a third", holds=holds),)

    def draw(tables: Tables) -> Figures:
        figure, (axes,) = panels()
        axes.plot([0.0, tables["t"].value("x")], [0.0, 1.0])
        return {"": figure}

    return Claim(
        id="X-1",
        kind=Kind.ORDER,
        paper="Signals",
        figures="fig. 0",
        title="a third",
        says="a third",
        tolerance="none",
        measure=measure,
        judge=judge,
        draw=draw,
        captions={"": "a line"},
        corrected=corrected,
        fails_because=fails_because,
        failing=("x",) if fails_because else (),
        needs=needs,
    )


def test_verdicts_are_about_the_numbers_in_the_file(tmp_path: Path) -> None:
    report = run_claim(small_claim(holds=True), Scale.QUICK, tmp_path)
    assert report.checks[0].found == "0.333333300"
    assert report.verdict == "holds"
    assert report.is_as_expected


def test_a_failing_claim_is_expected_only_with_a_reason_in_the_report(tmp_path: Path) -> None:
    broken = run_claim(small_claim(holds=False), Scale.FULL, tmp_path)
    known = run_claim(small_claim(holds=False, fails_because="because"), Scale.FULL, tmp_path)
    mended = run_claim(small_claim(holds=True, fails_because="because"), Scale.FULL, tmp_path)
    assert [r.is_as_expected for r in (broken, known, mended)] == [False, True, False]
    assert (broken.verdict, known.verdict) == ("BROKEN", "does not hold")


def test_an_alternative_reading_is_shown_without_a_verdict() -> None:
    judged_one = Check(what="x", found="1", wanted="1", holds=True)
    other = Check(what="y", found="1", wanted="2", holds=False, is_judged=False)
    report = Report(claim=small_claim(holds=True), checks=(judged_one, other))
    assert (report.verdict, report.is_as_expected) == ("holds", True)


def test_longevity_is_shown_with_and_without_the_bound_on_risk() -> None:
    for claim in CLAIMS:
        if claim.id in ("L-8/9", "L-10", "L-11/12"):
            checks = judged(claim, read_tables(folder_of(claim) / Scale.FULL))
            shown = " ".join(check.what for check in checks if not check.is_judged)
            assert "curve fit with ρ = 10" in shown
            assert "bounds without ρ" in shown
            # What the verdict depends on is what was settled before the other reading was added.
            assert not any("ρ" in check.what for check in checks if check.is_judged)


def test_a_claim_with_a_corrected_number_holds_as_corrected(tmp_path: Path) -> None:
    held = run_claim(small_claim(holds=True, corrected="3 for 4"), Scale.FULL, tmp_path)
    broken = run_claim(small_claim(holds=False, corrected="3 for 4"), Scale.FULL, tmp_path)
    assert (held.verdict, broken.verdict) == ("holds, corrected", "BROKEN")


def test_claims_with_a_number_other_than_the_printed_one_say_so() -> None:
    corrected = {claim.id for claim in CLAIMS if claim.corrected}
    assert corrected == {"C-1..4", "C-6", "C-8", "G-3..7", "G-11..14", "G-15"}


def test_a_figure_cannot_be_corrected() -> None:
    with pytest.raises(ValueError, match="only a judged claim can be corrected"):
        replace(small_claim(holds=True), kind=Kind.FIGURE, judge=None, tolerance="", corrected="3")


def test_a_claim_without_its_data_is_not_run(tmp_path: Path) -> None:
    report = run_claim(small_claim(holds=True, needs=("nowhere.parquet",)), Scale.QUICK, tmp_path)
    assert (report.verdict, report.missing) == ("not run", "nowhere.parquet")


def test_a_figure_is_reproducible_and_names_its_data() -> None:
    claim = small_claim(holds=True)
    tables = claim.measure(Scale.QUICK)
    once, again = draw_claim(claim, tables), draw_claim(claim, tables)
    assert once == again
    assert once["x-1.svg"].startswith("<!-- claim=x-1 data=")
    assert "<svg" in once["x-1.svg"]
