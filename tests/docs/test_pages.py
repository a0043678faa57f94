"""The documentation is complete: pages, links, glossary, decisions, manual."""

import re
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from recrawl.cli import main
from scripts.paper_map import public_modules

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MANUAL = (DOCS / "reference/cli.md").read_text(encoding="utf-8")
GLOSSARY = (DOCS / "reference/glossary.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("**/*.md")])
DECISIONS = sorted(DOCS.glob("adr/0*.md"))

# Nouns that have one meaning in the whole project, which the glossary must define.
NOUNS = (
    *("belief", "budget", "change", "due", "fetch", "group", "host", "importance", "lease"),
    *("order", "page", "partition", "poll", "precision", "price", "recall", "shard", "signal"),
    *("slot", "value"),
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#]+)", text):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_one_title(page: Path) -> None:
    outside_code = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert len(re.findall(r"^# \S", outside_code, re.M)) == 1


def terms() -> list[str]:
    (body,) = re.findall(r"^```\{glossary\}\n(.*?)^```$", GLOSSARY, re.M | re.S)
    return re.findall(r"^(\S.*)$", body, re.M)


def test_the_glossary_is_sorted_and_names_each_noun_once() -> None:
    assert terms() == sorted(set(terms()))


@pytest.mark.parametrize("noun", NOUNS)
def test_the_glossary_defines_the_noun(noun: str) -> None:
    assert noun in terms()


@pytest.mark.parametrize(
    "term", sorted(set(re.findall(r"\{term\}`(?:[^<`]*<)?([^>`]+)", GLOSSARY)))
)
def test_a_term_in_the_glossary_is_defined_there(term: str) -> None:
    assert term in terms()


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_its_parts_and_is_listed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {page.stem[:4]}. ")
    headings = re.findall(r"^## (.+)$", text, re.M)
    assert headings == ["Context", "Decision", "Consequences", "Rejected", "Status"]
    assert page.stem in (DOCS / "adr/index.md").read_text(encoding="utf-8")
    assert page.name in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def documented_modules() -> list[str]:
    """Return the packages and modules directly below ``recrawl.core``."""
    modules = (*public_modules("recrawl.core"), *public_modules("recrawl.papers"))
    names = [module.__name__ for module in modules]
    return [name for name in names if name.count(".") == 2]


@pytest.mark.parametrize("module", documented_modules())
def test_a_public_module_has_a_reference_page(module: str) -> None:
    _, package, name = module.split(".")
    page = DOCS / "reference" / package / f"{name}.md"
    assert f".. automodule:: {module}\n" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("module", documented_modules())
def test_a_public_module_is_on_the_architecture_page(module: str) -> None:
    assert f"`{module}`" in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def commands(group: click.Group, path: str = "recrawl") -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = [(path, group)]
    for name, command in group.commands.items():
        below = f"{path} {name}"
        found += (
            commands(command, below) if isinstance(command, click.Group) else [(below, command)]
        )
    return found


@pytest.mark.parametrize(("path", "command"), commands(main), ids=str)
def test_a_command_is_in_the_manual(path: str, command: click.Command) -> None:
    assert re.search(rf"^##+ {path}$", MANUAL, re.M)
    assert command.help


def test_the_manual_shows_the_printed_help() -> None:
    printed = CliRunner().invoke(main, ["--help"], prog_name="recrawl").output
    assert f"$ recrawl --help\n{printed}```" in MANUAL


def test_changelog_fragments_have_a_kind() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kinds = "|".join(kind["directory"] for kind in project["tool"]["towncrier"]["type"])
    for path in (ROOT / "changes.d").iterdir():
        if path.name not in ("README.md", "_template.md"):
            assert re.fullmatch(rf"(\d+|\+[\w-]+)\.({kinds})(\.\d+)?\.md", path.name), path.name
            assert path.read_text(encoding="utf-8").strip()
