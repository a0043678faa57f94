"""Every equation of the papers has a function, and every reference names an equation."""

import inspect

import pytest

from scripts import paper_map


def test_every_equation_has_code_and_the_page_is_up_to_date(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = paper_map.main(["--check"])
    assert status == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("§4.2, Corollary 4.3 (eq. 1)", ["§4.2", "corollary 4.3", "eq. 1"]),
        ("Theorem 1, App. A (eqs 4, 5)", ["theorem 1", "app. a", "eq. 4", "eq. 5"]),
        ("§3 (β = −log(ν/γ)/α, the age of a signal)", ["§3"]),
        ("§5, figs 10, 13", ["§5", "fig. 10", "fig. 13"]),
        ("eqs 1-2", ["eq. 1", "eq. 2"]),
        ("Appendix D, Thm. D.2", ["app. d", "theorem d.2"]),
        ("App. A.1, §5.1 (approximations)", ["app. a.1", "§5.1"]),
        ("Lemma 2 and Lemma 4", ["lemma 2", "lemma 4"]),
        ("Equation 2 (where m = n)", ["eq. 2"]),
    ],
)
def test_places_may_be_spelled_in_several_ways(text: str, places: list[str]) -> None:
    assert [place for place, _ in paper_map.places_of(text)] == places


def references(line: str) -> list[paper_map.Reference]:
    doc = f"Return it.\n\nReferences\n----------\n{line}\n\nNotes\n-----\nNone."
    return list(paper_map.references_of(doc, {"CGM": "", "Signals": ""}, "here"))


def test_other_literature_is_ignored() -> None:
    assert references("A. Broder. On the resemblance of documents. 1997.") == []


EQUATIONS = [
    paper_map.Equation(paper="CGM", place="§4.2", about=("estimator",), says="−log((…)"),
    paper_map.Equation(
        paper="CGM", place="Corollary 4.3", also=("eq. 1",), section="§4.2", says="its mean"
    ),
    paper_map.Equation(paper="Signals", place="§5.1", about=("no signals",), says="U"),
    paper_map.Equation(paper="Signals", place="§5.1", about=("noisy",), says="V"),
]


@pytest.mark.parametrize(
    ("line", "claimed"),
    [
        ("CGM §4.2", {0}),
        ("CGM §4.2, Corollary 4.3", {1}),
        ("CGM §4.2 (the estimator), eq. 1", {0, 1}),
        ("CGM eq. 1", {1}),
        ("Signals §5.1 (noisy signals)", {3}),
        ("Signals §5.1", {2, 3}),
    ],
)
def test_a_section_before_one_of_its_equations_is_only_a_location(
    line: str, claimed: set[int]
) -> None:
    found = [paper_map.claims_on(EQUATIONS, reference) for reference in references(line)]
    assert set().union(*(f or [] for f in found)) == claimed


def test_an_unknown_place_is_reported() -> None:
    (reference,) = references("CGM §9.9")
    assert paper_map.claims_on(EQUATIONS, reference) is None


def test_each_object_is_listed_once() -> None:
    objects = [obj for _, obj in paper_map.public_objects() if not inspect.ismodule(obj)]
    assert len({id(obj) for obj in objects}) == len(objects)
