"""Kill ``recrawl run`` again and again, and check that nothing is lost and no host is hurried.

A server in a process of its own serves a web that misbehaves, with pages that change every few
minutes.  ``recrawl run`` crawls it into a folder of files and into JSON lines, and is killed with
SIGKILL at a random moment: some times while it starts, mostly while it fetches and reports.  The
last runs end by themselves, when the sinks have got everything.  Then

- every version that a sink had before a kill is still a change of the corpus,
- each sink has every change of the corpus, in order, with its body,
- the log of the server has no request that came before the delay of its host was over.

If anything differs, the folder with the corpus, the sinks and the log of the server is kept, and
the result says what differs.
"""

import difflib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import recrawl
from recrawl.fetch import FetchKind
from recrawl.fetch.sinks import Spool
from recrawl.run.discovery import Discovery
from recrawl.testing.web import LocalWeb, find_violations, make_hosts, read_request_log

__all__ = ["find_faults", "measure", "serve_web"]

N_HOSTS: Final = 8
N_PAGES: Final = 80
_PAGE_SPEED: Final = 2_000.0
# Promised by the defaults of `recrawl run`.
_DELAY_SECONDS: Final = 1.0
_TOLERANCE_SECONDS: Final = 0.05
_START_SECONDS_MAX: Final = 90.0
_WORK_SECONDS_MAX: Final = 10.0
_LAST_SECONDS: Final = 10
_LAST_RUNS_MAX: Final = 20
# One run in so many is killed while it starts.
_KILLED_AT_START: Final = 6
# Differences that are printed in full.
_DIFFERENCES_MAX: Final = 10
_COUNTS_OF_FAULTS: Final = (
    "n_lost_after_a_kill",
    "n_without_body",
    "n_files_missing",
    "n_files_old",
)


def measure(
    n_kills: int, *, n_hosts: int = N_HOSTS, n_pages: int = N_PAGES, seed: int = 0
) -> dict[str, Any]:
    """Return what was lost, duplicated or impolite after so many kills.

    Parameters
    ----------
    n_kills
        Number of runs that are killed.
    n_hosts, n_pages
        Size of the web.
    seed
        Random seed.
    """
    folder = Path(tempfile.mkdtemp(prefix="run-kills-"))
    found = _measure_in(folder, n_kills, n_hosts, n_pages, seed)
    if find_faults(found):
        found["folder"] = str(folder)
    else:
        shutil.rmtree(folder)
    return found


def find_faults(found: dict[str, Any]) -> list[str]:
    """Return which promises the result of `measure` breaks, as names of its fields."""
    faults = [name for name in ("violations", *_COUNTS_OF_FAULTS) if found[name]]
    return faults + [name for name in ("has_every_number", "is_as_the_feed") if not found[name]]


def _measure_in(
    folder: Path, n_kills: int, n_hosts: int, n_pages: int, seed: int
) -> dict[str, Any]:
    draws = random.Random(seed)
    with serve_web(folder, n_hosts, n_pages, page_speed=_PAGE_SPEED) as (urls, started_at_ms):
        seen: list[str] = []
        for i in range(n_kills):
            _run_and_kill(folder, urls, draws, is_early=i % _KILLED_AT_START == 3)
            seen.append(_lines_of_sink(folder))
            print(f"\r{i + 1} killed", end="", file=sys.stderr)
        print(file=sys.stderr)
        n_waiting = _n_waiting(folder)
        n_last_runs = _run_to_the_end(folder)
    log = read_request_log(folder / "requests.jsonl")
    web = LocalWeb(
        make_hosts(n_hosts, n_pages),
        started_at_ms=started_at_ms,
        page_speed=_PAGE_SPEED,
        is_by_address=True,
    )
    violations = find_violations(
        web, log, delay_seconds=_DELAY_SECONDS, tolerance_seconds=_TOLERANCE_SECONDS
    )
    return {
        "n_kills": n_kills,
        "n_requests": len(log),
        "violations": [f"{one.kind} {one.request.path}: {one.reason}" for one in violations],
        "n_waiting_after_last_kill": n_waiting,
        "n_last_runs": n_last_runs,
        **_compare_sinks(folder, seen),
    }


@contextmanager
def serve_web(
    folder: Path, n_hosts: int, n_pages: int, *, page_speed: float
) -> Iterator[tuple[list[str], int]]:
    """Serve a web in a process of its own; yield the URLs of its hosts and its start.

    Parameters
    ----------
    folder
        Folder for the log of the server.
    n_hosts, n_pages
        Size of the web.
    page_speed
        How much faster pages change.
    """
    command = [sys.executable, "-m", "recrawl.testing.web", "--hosts", str(n_hosts)]
    command += ["--pages", str(n_pages), "--page-speed", str(page_speed)]
    command += ["--log", str(folder / "requests.jsonl")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            head = json.loads(server.stdout.readline())
            hosts = [json.loads(server.stdout.readline()) for _ in range(head["n_hosts"])]
            yield [host["url"] for host in hosts], head["started_at_ms"]
        finally:
            server.terminate()


def _command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "recrawl", "run", "-C", str(folder / "corpus")]


def _environment() -> dict[str, str]:
    # A small corpus needs no compiled kernels, and runs are too short to compile any.
    return os.environ | {"RECRAWL_KERNELS": "interpreted"}


def _run_and_kill(folder: Path, urls: list[str], draws: random.Random, *, is_early: bool) -> None:
    command = _command(folder)
    if not (folder / "corpus/recrawl.toml").exists():
        is_early = False
        command += [*urls, "--allow-network", "127.0.0.0/8", "--budget", "20000/h"]
        command += ["--min-age", "1s"]
        command += ["--to", f"folder:{folder / 'pages'}", "--to", f"json-lines:{folder / 'lines'}"]
    requests = folder / "requests.jsonl"
    n_bytes = requests.stat().st_size if requests.exists() else 0
    with subprocess.Popen(
        command, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        end = time.monotonic() + _START_SECONDS_MAX
        if is_early:
            time.sleep(draws.uniform(0.2, 3.0))
        else:
            while not requests.exists() or requests.stat().st_size <= n_bytes:
                if process.poll() is not None or time.monotonic() > end:
                    process.kill()
                    assert process.stderr is not None
                    raise RuntimeError(f"recrawl run sends nothing: {process.stderr.read()}")
                time.sleep(0.01)
            time.sleep(draws.uniform(0.0, _WORK_SECONDS_MAX))
        process.send_signal(signal.SIGKILL)


def _run_to_the_end(folder: Path) -> int:
    """Run without kills until the sinks have every version; return the number of runs."""
    for n_runs in range(1, _LAST_RUNS_MAX + 1):
        # Ends with what waits, if the sinks are done within the seconds that they have.
        subprocess.run(
            [*_command(folder), "--for", f"{_LAST_SECONDS}s"],
            env=_environment(),
            capture_output=True,
            check=True,
        )
        if not _n_waiting(folder):
            return n_runs
    return _LAST_RUNS_MAX


def _n_waiting(folder: Path) -> int:
    """Return the largest number of versions in the spool that a sink does not have yet."""
    with closing(Spool.open(folder / "corpus/run/spool")) as spool:
        places = [*(spool.folder / "positions").glob("*.json")]
        numbers = [json.loads(path.read_bytes())["next"] for path in places]
        return spool.next_number - min(numbers, default=1)


def _lines_of_sink(folder: Path) -> str:
    """Return the complete lines of the JSON lines, oldest first."""
    texts = [path.read_text() for path in sorted((folder / "lines").glob("*.jsonl"))]
    text = "".join(texts)
    return text[: text.rfind("\n") + 1]


def _compare_sinks(folder: Path, seen: list[str]) -> dict[str, Any]:
    """Compare what the sinks have with the change feed of the corpus."""
    with recrawl.open(folder / "corpus") as corpus:
        discovery = Discovery(corpus)
        try:
            changes = [
                change
                for change in corpus.changes(limit=10_000_000)
                if discovery.kind_of(change) == FetchKind.PAGE
            ]
        finally:
            discovery.close()
    rows = [json.loads(line) for line in _lines_of_sink(folder).splitlines()]
    by_number = {row["number"]: row for row in rows}
    numbers = sorted(by_number)
    delivered = [(by_number[n]["url"], by_number[n]["transition"]) for n in numbers]
    wanted = [(change.url, change.what.name.lower()) for change in changes]
    removals = {"gone", "moved", "retired"}
    latest = {by_number[n]["url"]: by_number[n] for n in numbers}
    files = dict(_read_files(folder / "pages"))
    wanted_files = {
        url: row["digest"]
        for url, row in latest.items()
        if row["transition"] not in removals and row.get("markdown")
    }
    every_line = {row["id"] for row in rows}
    lost = {json.loads(line)["id"] for text in seen for line in text.splitlines()} - every_line
    return {
        "n_changes": len(changes),
        "n_versions_sent": len(rows),
        "n_versions_sent_again": len(rows) - len(numbers),
        "has_every_number": numbers == list(range(1, len(numbers) + 1)),
        "is_as_the_feed": delivered == wanted,
        "differences": _differences(delivered, wanted),
        "n_lost_after_a_kill": len(lost),
        "n_without_body": sum(
            row.get("digest") is None for row in rows if row["transition"] not in removals
        ),
        "n_files": len(files),
        "n_files_missing": sum(url not in files for url in wanted_files),
        "n_files_old": sum(files.get(url, one) != one for url, one in wanted_files.items()),
    }


def _differences(
    delivered: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]]
) -> list[str]:
    """Return where the versions of a sink and the changes of the feed part, one text each."""
    matcher = difflib.SequenceMatcher(None, delivered, wanted, autojunk=False)
    return [
        f"{what}: versions {first + 1} to {last}, {delivered[first:last][:3]}; "
        f"changes {first_wanted + 1} to {last_wanted}, {wanted[first_wanted:last_wanted][:3]}"
        for what, first, last, first_wanted, last_wanted in matcher.get_opcodes()
        if what != "equal"
    ][:_DIFFERENCES_MAX]


def _read_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the URL and the digest that each file of the folder gives."""
    for path in folder.rglob("*.md"):
        fields = dict(
            line.split(": ", 1) for line in path.read_text().split("---")[1].strip().splitlines()
        )
        yield json.loads(fields["url"]), json.loads(fields["digest"])
