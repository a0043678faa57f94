"""Write docs/reference/cli.md: the help of every command.

``python -m scripts.cli_reference`` writes the page.  With ``--check`` it writes nothing and prints
what is wrong: a command without a text or an example, an option without a text, an outdated page.
"""

import sys
from collections.abc import Iterator

import click
from click.testing import CliRunner

from recrawl.cli import main as recrawl
from recrawl.cli.support.examples import ExampleCommand
from scripts.written_pages import ROOT, stale_pages, write_or_check

PAGE = ROOT / "docs/reference/cli.md"

HEAD = """\
<!-- Written by scripts/cli_reference.py from recrawl.cli; do not edit. -->

# Command line

`python -m recrawl` is the same as `recrawl`.

**Which corpus.**
A command uses the corpus in the folder that `-C FOLDER` names, otherwise the one in the variable
`RECRAWL_CORPUS`, otherwise the one in the current folder.
One process at a time may change a corpus; a command waits up to ten seconds for another one.
`stats`, `explain`, `plan`, `changes`, `export`, `config` and `doctor` only read, so they work while
another process uses the corpus.

**Output.**
On a terminal a command prints text and tables, otherwise JSON lines.
`--json` and `--no-json` choose.
Names of JSON fields are stable and end with their unit.
Progress and remarks go to standard error.
`NO_COLOR=1` turns colours off.

**Pipes.**
`recrawl lease 100 | my-fetcher | recrawl report` is a complete crawler.
The fetcher reads orders and writes outcomes, one line of JSON each:

```python
import base64, json, sys, urllib.request

for line in sys.stdin:
    order = json.loads(line)
    outcome = {"handle": order["handle"], "status": 0}
    request = urllib.request.Request(order["fetch_url"])
    if order["etag"]:
        request.add_header("If-None-Match", order["etag"])
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            outcome["status"] = answer.status
            outcome["content_type"] = answer.headers["Content-Type"]
            outcome["body_base64"] = base64.b64encode(answer.read()).decode()
            outcome["etag"] = answer.headers["ETag"]
    except urllib.error.HTTPError as error:
        outcome["status"] = error.code
    except OSError:
        pass
    print(json.dumps(outcome), flush=True)
```

**Exit codes.**

| code | means |
|---|---|
| 0 | done |
| 1 | failed; standard error says what to do |
| 2 | wrong usage |
| 3 | a check failed: `doctor` found a problem, a target cannot be met, or a log is too small |
| 130 | interrupted; everything saved so far stays saved |
| 141 | broken pipe: the reader of the output ended |

**Completion.**
To complete commands and options with the Tab key, add this line to `~/.bashrc`:
`source <(recrawl completion bash)`.
For other shells write `zsh` or `fish` instead of `bash`.
"""


def commands(
    command: click.Command = recrawl, path: str = "recrawl"
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name, in the order of the help."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from commands(below, f"{path} {name}")


def help_of(path: str) -> str:
    """Return the help of a command, for a terminal of 80 columns."""
    arguments = [*path.split()[1:], "--help"]
    environment = {"COLUMNS": "80", "RECRAWL_CORPUS": None}
    return CliRunner(env=environment).invoke(recrawl, arguments, prog_name="recrawl").output


def page_text() -> str:
    """Return the Markdown page."""
    parts = [HEAD]
    for path, _ in commands():
        depth = "##" if path.count(" ") < 2 else "###"
        parts.append(f"{depth} {path}\n\n```console\n$ {path} --help\n{help_of(path)}```\n")
    return "\n".join(parts)


def find_problems() -> list[str]:
    """Return one line for each command or option without a text."""
    found = []
    for path, command in commands():
        if not command.help:
            found.append(f"{path} has no help")
        if not isinstance(command, click.Group | ExampleCommand):
            found.append(f"{path} has no example")
        found += [
            f"{path} {option.opts[0]} has no help"
            for option in command.params
            if isinstance(option, click.Option) and not option.help
        ]
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; return the exit status."""
    pages = {PAGE: page_text()}
    return write_or_check(
        pages, lambda: find_problems() + stale_pages(pages, "scripts.cli_reference"), arguments
    )


if __name__ == "__main__":
    sys.exit(main())
