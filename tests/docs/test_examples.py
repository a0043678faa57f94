"""Examples in Markdown pages print what the page shows."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLE = re.compile(r"^```pycon\n(.*?)^```$", re.M | re.S)


def pages_with_examples() -> list[Path]:
    return [page for page in PAGES if EXAMPLE.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "page", pages_with_examples(), ids=lambda page: str(page.relative_to(ROOT))
)
def test_examples_print_what_the_page_shows(page: Path) -> None:
    """All blocks of a page are one session, as a reader types them."""
    text = page.read_text(encoding="utf-8")
    session = "\n".join(EXAMPLE.findall(text))
    test = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=output.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(output)


def test_the_readme_has_an_example() -> None:
    assert ROOT / "README.md" in pages_with_examples()
