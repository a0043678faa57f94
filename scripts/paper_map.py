"""Write docs/explanation/papers.md: every equation of the papers with the code that implements it.

The equations are listed in docs/explanation/equations.toml; the code names them in the
``References`` section of its docstrings, one paper per line:

    CGM §4.2, Corollary 4.3 (eq. 1)
    Signals App. E (maximum likelihood)

``python -m scripts.paper_map`` writes the page.  With ``--check`` it writes nothing and prints what
is wrong: an equation that no function names, a reference that is not in the list, an outdated page.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from scripts.written_pages import ROOT, stale_pages, write_or_check

EQUATIONS = ROOT / "docs/explanation/equations.toml"
PAGE = ROOT / "docs/explanation/papers.md"
TESTS = ROOT / "tests"

HEAD = """\
<!-- Written by scripts/paper_map.py from equations.toml and the docstrings; do not edit. -->

# Where each equation is

If you have one of the papers open, find its equation here and follow the link to the code.
{doc}`notation` explains the short names of the papers and their symbols.
The last column names misprints of a paper, which {doc}`errata` describes.
The code has the corrected form.
"""

BEYOND = """\
## Beyond the papers

These public functions are not in the five papers.
Their derivations are comments in the code.
"""

_KINDS = {
    "section": "§",
    "sec": "§",
    "§": "§",
    "equation": "eq. ",
    "eq": "eq. ",
    "eqs": "eq. ",
    "equations": "eq. ",
    "figure": "fig. ",
    "figures": "fig. ",
    "fig": "fig. ",
    "figs": "fig. ",
    "table": "table ",
    "theorem": "theorem ",
    "thm": "theorem ",
    "lemma": "lemma ",
    "lemmas": "lemma ",
    "corollary": "corollary ",
    "cor": "corollary ",
    "example": "example ",
    "examples": "example ",
    "ex": "example ",
    "algorithm": "algorithm ",
    "alg": "algorithm ",
    "appendix": "app. ",
    "app": "app. ",
}
_PLACE = re.compile(
    r"(?P<kind>§+|[A-Za-z]+)\.?\s*(?P<number>[A-Za-z]?\.?\d+(?:\.\d+)*|[A-Za-z](?:\.\d+)*|[IVX]+|profile)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """One entry of equations.toml."""

    paper: str
    place: str
    says: str
    section: str = ""
    also: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    erratum: str = ""
    example: bool = False
    code: tuple[str, ...] = ()
    not_code: str = ""

    def names(self) -> set[str]:
        """Return every way to name this equation, in normal form."""
        return {normal_place(name) or name.lower() for name in (self.place, *self.also)}


@dataclass(frozen=True, slots=True)
class Reference:
    """One place named by one object, the remark that follows it, and the line it stands in."""

    paper: str
    place: str
    remark: str
    by: str
    line: str = ""
    line_places: frozenset[str] = frozenset()


@dataclass(slots=True)
class PaperMap:
    """The join of equations and code."""

    papers: dict[str, str]
    equations: list[Equation]
    claims: list[list[str]]
    unknown: list[Reference]
    beyond: list[str] = field(default_factory=list)

    def unclaimed(self) -> list[Equation]:
        """Return equations that no code implements and that give no reason."""
        return [
            equation
            for equation, claims in zip(self.equations, self.claims, strict=True)
            if not claims and not equation.not_code
        ]

    def problems(self) -> list[str]:
        """Return one line for each problem of the list or the references."""
        lines = []
        for equation in self.unclaimed():
            where = "test" if equation.example else "function"
            lines.append(f"no {where} names {equation.paper} {equation.place}: {equation.says}")
        lines += [f"{r.by} names {r.paper} {r.place}, not in the list" for r in self.unknown]
        return lines

    def page(self) -> str:
        """Return the Markdown page."""
        parts = [HEAD]
        for paper, cite in self.papers.items():
            parts.append(f"## {paper}\n\n{cite}\n")
            rows = ["| place | what it says | in code | erratum |", "|---|---|---|---|"]
            for equation, claims in zip(self.equations, self.claims, strict=True):
                if equation.paper == paper:
                    code = ", ".join(claims) or f"– ({equation.not_code or 'not yet'})"
                    place = _full_place(equation)
                    cells = (place, equation.says, code, equation.erratum)
                    rows.append("| " + " | ".join(c.replace("|", r"\|") for c in cells) + " |")
            parts.append("\n".join(rows) + "\n")
        if self.beyond:
            parts.append(BEYOND + "\n" + "\n".join(f"- {name}" for name in self.beyond) + "\n")
        return "\n".join(parts)


def _full_place(equation: Equation) -> str:
    place = equation.place
    if equation.section and equation.section != place:
        place = f"{equation.section}, {place}"
    return place


def normal_place(text: str) -> str | None:
    """Return the normal form of a place ("Thm. 4.1" is "theorem 4.1"), or None if it is none."""
    match = _PLACE.match(text.strip())
    if match is None:
        return None
    kind = _KINDS.get(match["kind"].lower().rstrip("§") or "§")
    return None if kind is None else kind + match["number"].lower()


def _items(text: str) -> Iterator[tuple[str, str]]:
    """Split at commas and after parentheses; yield what is outside and what is inside them."""
    outside = inside = ""
    depth = 0
    for character in text + ",":
        depth += (character == "(") - (character == ")")
        if depth == 0 and character in ",;)":
            yield outside.strip(), inside[1:]
            outside = inside = ""
        elif depth > 0:
            inside += character
        else:
            outside += character


def _expand_places(parts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield "fig. 10", "fig. 13" for "figs 10", "13", and "eq. 1", "eq. 2" for "eqs 1-2"."""
    kind = ""
    for part, remark in parts:
        spelled = f"{kind} {part}" if re.fullmatch(r"\d+(\.\d+)*", part) else part
        kind = spelled.split(" ")[0] if " " in spelled else kind
        span = re.fullmatch(r"([A-Za-z]+\.?)\s*(\d+)\s*[-–]\s*(\d+)", spelled)
        if span is None:
            yield normal_place(spelled) or spelled, remark
        else:
            for number in range(int(span[2]), int(span[3]) + 1):
                yield normal_place(f"{span[1]} {number}") or spelled, remark


def places_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the places in the text after a paper's name, each with the remark that follows it.

    A place inside parentheses counts too.  What is in parentheses and no place is a remark, and
    what is neither is yielded as it stands.
    """
    items = list(_items(text))
    yield from _expand_places(
        (part, inside) for outside, inside in items for part in _parts(outside)
    )
    for _, inside in items:
        heads = [part.partition(":")[0] for part in _parts(inside)]
        for place, remark in _expand_places((head, inside) for head in heads):
            if normal_place(place) is not None:
                yield place, remark


def _parts(text: str) -> list[str]:
    return [part.strip() for part in re.split(r",|;|\band\b", text) if part.strip()]


def references_of(doc: str | None, papers: dict[str, str], by: str) -> Iterator[Reference]:
    """Yield the places named in the ``References`` section of a docstring."""
    match = re.search(r"^References\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", doc or "", re.M | re.S)
    if match is None:
        return
    lines: list[str] = []
    for line in match[1].splitlines():
        if lines and lines[-1].count("(") > lines[-1].count(")"):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip().removeprefix("* ").removeprefix("- "))
    for line in lines:
        name, _, rest = line.partition(" ")
        if name.rstrip(",:") in papers:
            places = list(places_of(rest))
            line_places = frozenset(place for place, _ in places)
            for place, remark in places:
                yield Reference(name.rstrip(",:"), place, remark, by, rest, line_places)


# Modules of the maths that hold no formula of a paper: array types, compilation, checks.
FORMULA_FREE = {
    "recrawl.core.arrays",
    "recrawl.core.change_rate",
    "recrawl.core.exponentials",
    "recrawl.core.called_kernels",
    "recrawl.core.kernel",
    "recrawl.core.quick_calls",
    "recrawl.core.table_type",
    "recrawl.core.poll_columns",
}


def public_modules(package: str) -> Iterator[ModuleType]:
    """Yield the package and its public modules, nearer ones first."""
    root = importlib.import_module(package)
    names = [package] + [
        info.name
        for info in pkgutil.walk_packages(root.__path__, package + ".")
        if not any(part.startswith("_") for part in info.name.split("."))
        and info.name not in FORMULA_FREE
    ]
    for name in sorted(names, key=lambda name: (name.count("."), name)):
        yield importlib.import_module(name)


def public_objects() -> Iterator[tuple[str, object]]:
    """Yield each public module, class, function and method once, with how to link to it."""
    seen: set[int] = set()
    for module in (*public_modules("recrawl.core"), *public_modules("recrawl.papers")):
        yield f"{{py:mod}}`{module.__name__}`", module
        depth = module.__name__.count(".") - 1
        for name in getattr(module, "__all__", []):
            obj = getattr(module, name)
            if id(obj) in seen or not (inspect.isclass(obj) or callable(obj)):
                continue
            seen.add(id(obj))
            if depth > 1:  # not re-exported by its package, so not on a reference page
                path = module.__name__.replace(".", "/")
                yield f"`{name}` (`src/{path}.py`)", obj
                continue
            role = "class" if inspect.isclass(obj) else "func"
            yield f"{{py:{role}}}`{name} <{module.__name__}.{name}>`", obj
            if inspect.isclass(obj):
                for method, member in vars(obj).items():
                    member = getattr(member, "__func__", getattr(member, "fget", member))  # noqa: PLW2901
                    if not method.startswith("_") and inspect.isfunction(member):
                        target = f"{module.__name__}.{name}.{method}"
                        yield f"{{py:meth}}`{name}.{method} <{target}>`", member


def tests_of_examples(papers: dict[str, str]) -> Iterator[Reference]:
    """Yield the worked examples named in the name or the docstring of a test."""
    example = re.compile(r"\b(" + "|".join(papers) + r")\b[^.;\n]*?\bExamples? (\d+)")
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                by = f"`{path.relative_to(ROOT).as_posix()}::{node.name}`"
                for paper, number in example.findall(ast.get_docstring(node) or ""):
                    yield Reference(paper, f"example {number}", "", by)


def claims_on(equations: list[Equation], reference: Reference) -> list[int] | None:
    """Return the equations that ``reference`` names, or None if its place is unknown.

    A section that stands in one line with something in it only locates, unless its own remark
    says what it means.
    """
    ours = [i for i, e in enumerate(equations) if e.paper == reference.paper]
    found = [i for i in ours if reference.place in equations[i].names()]
    if matching := _matching_remark(equations, found, reference.remark):
        return matching
    section = [i for i in ours if normal_place(equations[i].section) == reference.place]
    if any(equations[i].names() & (reference.line_places - {reference.place}) for i in section):
        return []
    if len(found) > 1:
        coded = [i for i in found if not equations[i].not_code]
        found = _matching_remark(equations, found, reference.line) or coded
    return found if found or section else None


def _matching_remark(equations: list[Equation], found: list[int], remark: str) -> list[int]:
    words = remark.lower()
    return [i for i in found if any(word.lower() in words for word in equations[i].about)]


def _code_link(name: str) -> str:
    """Return how to show a function that the list names itself, which must exist."""
    module, _, function = name.rpartition(".")
    home = importlib.import_module(module)
    getattr(home, function)
    if function in getattr(home, "__all__", []) and module.count(".") == 2:
        return f"{{py:func}}`{function} <{name}>`"
    return f"`{function}` (`src/{module.replace('.', '/')}.py`)"


def _first_sentence(obj: object) -> str:
    summary = (inspect.getdoc(obj) or "").partition("\n\n")[0]
    return " ".join(summary.split())


def _tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}


def build_map() -> PaperMap:
    """Read the list and the code, and join them."""
    listed = tomllib.loads(EQUATIONS.read_text(encoding="utf-8"))
    papers = {paper["name"]: paper["cite"] for paper in listed["paper"]}
    equations = [Equation(**_tuples(entry)) for entry in listed["equation"]]
    claims = [[_code_link(name) for name in equation.code] for equation in equations]
    unknown: list[Reference] = []
    beyond: list[str] = []
    for by, obj in public_objects():
        references = list(references_of(inspect.getdoc(obj), papers, by))
        if not references and by.startswith("{py:func}"):
            beyond.append(f"{by}: {_first_sentence(obj)}")
        for reference in references:
            found = claims_on(equations, reference)
            if found is None:
                unknown.append(reference)
            for i in found or []:
                if not equations[i].example and by not in claims[i]:
                    claims[i].append(by)
    for reference in tests_of_examples(papers):
        for i in claims_on(equations, reference) or []:
            if reference.by not in claims[i]:
                claims[i].append(reference.by)
    return PaperMap(papers, equations, claims, unknown, sorted(beyond))


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; return the exit status."""
    paper_map = build_map()
    pages = {PAGE: paper_map.page()}
    return write_or_check(
        pages, lambda: paper_map.problems() + stale_pages(pages, "scripts.paper_map"), arguments
    )


if __name__ == "__main__":
    sys.exit(main())
