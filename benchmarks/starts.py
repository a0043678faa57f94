"""Time every command on a small corpus, with and without compiled kernels in the cache.

A cold start finds no cache of any kind, except Python's bytecode, which `pip` writes.  A warm start
is the same command again, on an equal corpus.  Times are those of whole processes, from start to
exit, with the processes that they start; a server is told to end as soon as it listens.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import recrawl
from recrawl.kernel_mode import MODE_VARIABLE

__all__ = ["COMMANDS", "measure"]

_URL = "https://host-1.example.com/page/1"
_PAGE = "<html><body><h1>Tea</h1><p>Green tea is steeped at eighty degrees.</p></body></html>"
_SERVES_TEXT = "http://127.0.0.1:"  # in what `recrawl serve` prints when it listens
_CHECK_FAILED = 3  # exit code of `recrawl doctor` if it finds something

COMMANDS: dict[str, list[str]] = {
    "init": ["init", "../new"],
    "add": ["add", "urls.txt"],
    "import": ["import", "crawl.jsonl"],
    "run": ["run", "--dry-run"],
    "lease": ["lease", "10"],
    "report": ["report", "outcomes.jsonl"],
    "release": ["release", "4096"],
    "signal": ["signal", "urls.txt", "--source", "sitemap"],
    "changes": ["changes"],
    "stats": ["stats"],
    "explain": ["explain", _URL],
    "content": ["content", "tea.html"],
    "plan": ["plan"],
    "export": ["export"],
    "serve": ["serve", "--port", "0"],
    "keys": ["keys", "list"],
    "receivers": ["receivers", "list"],
    "websub": ["websub", "list"],
    "webhooks": ["webhooks", "list"],
    "audit": ["audit"],
    "backtest": ["backtest", "crawl.jsonl"],
    "simulate": ["simulate", "--from-corpus", "--days", "1"],
    "bench": ["bench", "--tracks"],
    "set": ["set", _URL, "--importance", "2"],
    "remove": ["remove", _URL],
    "forget": ["forget", _URL],
    "config": ["config", "show"],
    "doctor": ["doctor"],
    "backup": ["backup", "../backups"],
    "restore": ["restore", "../backups", "../restored"],
    "completion": ["completion", "bash"],
}
"""Each command with arguments for the corpus of `measure`, whose folder is the current one."""


def _write_inputs(folder: Path) -> None:
    """Write the files that commands read."""
    (folder / "urls.txt").write_text(
        "".join(f"https://host-{i % 7}.example.org/new/{i}\n" for i in range(100))
    )
    (folder / "tea.html").write_text(_PAGE)
    outcomes = [
        {"url": f"https://host-{i % 7}.example.com/page/{i}", "status": 200, "digest": f"{i:032x}"}
        for i in range(7)
    ]
    (folder / "outcomes.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in outcomes))
    fetches = [
        {
            "url": f"https://host-{i % 7}.example.com/page/{i}",
            "at": f"2026-01-{day:02d}T00:00:00Z",
            "digest": f"{(day // (1 + i % 9)):032x}",
        }
        for day in range(1, 29)
        for i in range(40)
    ]
    (folder / "crawl.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in fetches))


def _make_corpus(folder: Path, n_pages: int) -> None:
    environment = {**os.environ, MODE_VARIABLE: "interpreted"}
    folder.mkdir()
    urls = "".join(f"https://host-{i % 7}.example.com/page/{i}\n" for i in range(n_pages))
    python = [sys.executable, "-m", "recrawl"]
    for words in (["init", "--budget", "600/h"], ["add", "-"], ["backup", "../backups"]):
        subprocess.run(
            [*python, *words],
            cwd=folder,
            env=environment,
            input=urls,
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    _write_inputs(folder)


def _time_command(
    words: list[str], template: Path, environment: Mapping[str, str]
) -> dict[str, float]:
    """Return the times of one run of a command in a copy of the corpus."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(template, scratch, dirs_exist_ok=True)
        before, moment = os.times(), time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "recrawl", *words],
            cwd=Path(scratch) / "corpus",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        said = ""
        while line := process.stdout.readline():
            said += line
            if words[0] == "serve" and _SERVES_TEXT in line:
                process.terminate()  # a server ends only when it is told to
        returncode = process.wait()
        seconds, after = time.perf_counter() - moment, os.times()
    if returncode not in (0, _CHECK_FAILED, -signal.SIGTERM):
        raise RuntimeError(f"recrawl {' '.join(words)} failed: {said[-1_000:]}")
    cpu_seconds = after.children_user + after.children_system
    cpu_seconds -= before.children_user + before.children_system
    return {"seconds": round(seconds, 2), "cpu_seconds": round(cpu_seconds, 2)}


def measure(
    commands: list[str], *, n_pages: int = 1_000, n_warm: int = 3, is_compiled: bool = False
) -> dict[str, Any]:
    """Time commands with no cache and again with it.

    Parameters
    ----------
    commands
        Names of commands; all if there are none.
    n_pages
        Number of pages of the corpus.
    n_warm
        Number of warm starts, of which the one with the least processor time counts.
    is_compiled
        Whether kernels are compiled; otherwise each command chooses, as it does for users.
    """
    results: dict[str, Any] = {"pages": n_pages}
    package = Path(recrawl.__file__).parent
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(package)], check=True)
    with tempfile.TemporaryDirectory() as scratch:
        template = Path(scratch)
        _make_corpus(template / "corpus", n_pages)
        for name in commands or COMMANDS:
            with tempfile.TemporaryDirectory() as caches:
                environment = {
                    **os.environ,
                    "NUMBA_CACHE_DIR": f"{caches}/numba",
                    "XDG_CACHE_HOME": f"{caches}/cache",
                    MODE_VARIABLE: "compiled" if is_compiled else "",
                }
                times = [
                    _time_command(COMMANDS[name], template, environment) for _ in range(1 + n_warm)
                ]
            warm = min(times[1:], key=lambda run: run["cpu_seconds"])
            results[name] = {"cold": times[0], "warm": warm}
            print(name, json.dumps(results[name]), file=sys.stderr, flush=True)
    return results
