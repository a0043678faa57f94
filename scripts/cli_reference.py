"""Write docs/reference/cli.md: every command as its help says it.

``python -m scripts.cli_reference`` writes the page.  With ``--check`` it writes nothing and names
what is wrong: a command without a text or an example, an option without one, a stale page.
"""

import sys
from collections.abc import Iterator

import click
from click.testing import CliRunner

from recrawl.cli import main as recrawl
from recrawl.cli.support.examples import ExampleCommand
from scripts.written_pages import ROOT, stale, written_or_checked

PAGE = ROOT / "docs/reference/cli.md"

HEAD = """\
<!-- Written by scripts/cli_reference.py from recrawl.cli; do not edit. -->

# Command line

`python -m recrawl` is the same as `recrawl`.

**Which corpus.**
`-C FOLDER` says which; else the variable `RECRAWL_CORPUS`; else it is the folder you are in.
One process at a time may change a corpus: a command waits ten seconds for another one.
`stats`, `explain`, `plan`, `changes`, `export`, `config` and `doctor` only read: they work while
another process holds it.

**Output.**
On a terminal words and tables, otherwise JSON lines; `--json` and `--no-json` say which.
Names of fields are stable and end with their unit.
Progress and remarks go to stderr.
`NO_COLOR=1` turns colours off.

**Pipes.**
`recrawl lease 100 | my-fetcher | recrawl report` is a crawler.
A fetcher reads orders and writes outcomes, a line of JSON each:

```python
import hashlib, json, sys, urllib.request

for line in sys.stdin:
    order = json.loads(line)
    outcome = {"handle": order["handle"], "status": 0}
    request = urllib.request.Request(order["fetch_url"])
    if order["etag"]:
        request.add_header("If-None-Match", order["etag"])
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            outcome["status"] = answer.status
            outcome["digest"] = hashlib.sha256(answer.read()).hexdigest()
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
| 1 | failed; what to do about it is said on stderr |
| 2 | wrong usage |
| 3 | the answer is no: `doctor` found something, a target cannot be met, a log is too thin |
| 130 | interrupted; what was acknowledged is kept |
| 141 | whoever read the output had seen enough |

**Completion.**
`source <(recrawl completion bash)`, in `~/.bashrc`, completes commands and options.
`zsh` and `fish` likewise.
It is click's: `_RECRAWL_COMPLETE=bash_source recrawl` prints the same.
"""


def commands(
    command: click.Command = recrawl, path: str = "recrawl"
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command by what is typed, in the order of the help."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from commands(below, f"{path} {name}")


def help_of(path: str) -> str:
    """Return what a command prints of itself, on a terminal of the usual width."""
    arguments = [*path.split()[1:], "--help"]
    environment = {"COLUMNS": "80", "RECRAWL_CORPUS": None}
    return CliRunner(env=environment).invoke(recrawl, arguments, prog_name="recrawl").output


def page() -> str:
    """Return the Markdown page."""
    parts = [HEAD]
    for path, _ in commands():
        depth = "##" if path.count(" ") < 2 else "###"
        parts.append(f"{depth} {path}\n\n```console\n$ {path} --help\n{help_of(path)}```\n")
    return "\n".join(parts)


def problems() -> list[str]:
    """Return one line for each thing that nothing is said of."""
    found = []
    for path, command in commands():
        if not command.help:
            found.append(f"nothing is said of {path}")
        if not isinstance(command, click.Group | ExampleCommand):
            found.append(f"{path} has no example")
        found += [
            f"nothing is said of {path} {option.opts[0]}"
            for option in command.params
            if isinstance(option, click.Option) and not option.help
        ]
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; return the exit status."""
    pages = {PAGE: page()}
    return written_or_checked(
        pages, lambda: problems() + stale(pages, "scripts.cli_reference"), arguments
    )


if __name__ == "__main__":
    sys.exit(main())
