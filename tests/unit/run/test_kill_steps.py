"""A kill at any step of ``recrawl run`` loses nothing, and makes no host wait less.

Each test starts a crawl in a process that kills itself at a named step, starts others that go on,
and compares what is left: the change feed, the sinks, and the requests that hosts saw.
"""

import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import recrawl
from recrawl.kernel_mode import MODE_VARIABLE
from tests.unit.run.killed_crawl import (
    DELAY_SECONDS,
    HOSTS,
    PAGES,
    KillStep,
    crawl_until_killed,
)

# The crawls interpret their kernels in any case, so one lane of CI is enough.
pytestmark = [pytest.mark.slow, pytest.mark.slow_without_jit]

_RUN: Final = "recrawl.run"
_SINKS: Final = "recrawl.fetch.sinks"
_CORPUS: Final = "recrawl.corpus:Corpus"
# A process that hangs fails its test; the limit says nothing about speed.
_SECONDS_MAX: Final = 240.0
_PASSES_MAX: Final = 20
# The clocks of the gate and of the log round to milliseconds.
_TOLERANCE_SECONDS: Final = 0.002

LEASE_STEPS: Final = (
    KillStep(f"{_CORPUS}.lease", "before", 2),
    KillStep(f"{_CORPUS}.lease", "after"),
    KillStep(f"{_RUN}.held_orders:HeldOrders.write", "after"),
)
REQUEST_STEPS: Final = (
    KillStep("recrawl.fetch:HostGate.enter", "after", 8),
    KillStep("tests.unit.run.killed_crawl:_answer_of", "after", 9),
    KillStep("recrawl.fetch:HostGate.leave", "before", 9),
    KillStep("recrawl.fetch:HostGate.leave", "after", 9),
)
REPORT_STEPS: Final = (
    KillStep(f"{_SINKS}.spool:Spool.append", "before", 2),
    KillStep(f"{_SINKS}.spool:Spool.append", "after", 2),
    KillStep(f"{_SINKS}.segments:Segments._write", "within", 6),
    KillStep(f"{_SINKS}.segments:Segments._begin_file", "before", 2),
    KillStep(f"{_SINKS}.segments:open_new_file", "after", 2),
    KillStep(f"{_SINKS}.segments:Segments._begin_file", "after", 2),
    KillStep(f"{_RUN}.discovery:Discovery.take", "after", 2),
    KillStep(f"{_CORPUS}.add", "before", 3),
    KillStep(f"{_CORPUS}.add", "after", 3),
    KillStep(f"{_CORPUS}.report", "before", 3),
    KillStep(f"{_CORPUS}.report", "after", 3),
    KillStep(f"{_RUN}.discovery.finder:apply_polls", "after"),
    KillStep(f"{_RUN}.discovery:Discovery.commit", "after", 3),
    KillStep(f"{_SINKS}.spool:Spool._settle_some", "after", 2),
    KillStep(f"{_SINKS}.spool:Spool._settle_done", "after", 2),
    KillStep(f"{_SINKS}.spool:Spool.settle", "after", 3),
)
SINK_STEPS: Final = (
    KillStep(f"{_SINKS}.kinds.json_lines:JsonLinesSink.write", "before", 2),
    KillStep(f"{_SINKS}.kinds.json_lines:JsonLinesSink.write", "within", 2),
    KillStep(f"{_SINKS}.kinds.json_lines:JsonLinesSink.write", "after", 2),
    KillStep(f"{_SINKS}.kinds.folder:open_new_file", "after", 2),
    KillStep(f"{_SINKS}.kinds.folder:FolderSink._replace", "after", 2),
    KillStep(f"{_SINKS}.kinds.folder:FolderSink.write", "after", 2),
    KillStep(f"{_SINKS}.runner:replace_json", "after", 2),
    KillStep(f"{_SINKS}.segments:Segments.delete_before", "after", 4),
)
# These come first when a crawl goes on, so the crawl before was killed too.
RESTART_STEPS: Final = (
    KillStep(f"{_CORPUS}.release", "after"),
    KillStep(f"{_SINKS}.spool:Spool.settle_feed", "after"),
    KillStep(f"{_SINKS}.spool:Spool._recover", "after"),
    KillStep("recrawl.fetch.gate_file:GateFile._write_anew", "before"),
    KillStep("recrawl.fetch.gate_file:GateFile._write_anew", "after"),
    KillStep(f"{_RUN}.discovery:Discovery.start", "after"),
)


@pytest.fixture(scope="module")
def processes() -> Iterator[Any]:
    """Return a context that starts processes which have everything imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.unit.run.killed_crawl"])
    with pytest.MonkeyPatch.context() as patch:
        # The corpora are small, and compiling takes longer than all crawls.
        patch.setenv(MODE_VARIABLE, "interpreted")
        yield context


def run(processes: Any, folder: Path, step: KillStep | None) -> None:
    """Run one crawl to its end, which must be the step if there is one."""
    process = processes.Process(target=crawl_until_killed, args=(folder, step))
    process.start()
    process.join(_SECONDS_MAX)
    if process.exitcode is None:
        os.kill(process.pid, signal.SIGKILL)
    assert process.exitcode == (0 if step is None else -signal.SIGKILL)


def run_to_the_end(processes: Any, folder: Path) -> None:
    """Run passes without a kill until every page was fetched.

    A pass ends when pages are due again, which may be before the last pages are found.
    """
    for _ in range(_PASSES_MAX):
        run(processes, folder, None)
        with recrawl.open(folder / "corpus", read_only=True) as corpus:
            if {one.url for one in corpus.changes(limit=100_000)} >= set(PAGES):
                return


def check(folder: Path) -> None:
    """Compare the sinks with the feed and with what was acknowledged, and requests with delays."""
    with recrawl.open(folder / "corpus", read_only=True) as corpus:
        changes = corpus.changes(limit=100_000)
    wanted = [
        (one.url, one.what.name.lower())
        for one in changes
        if (one.metadata or {}).get("recrawl") is None
    ]
    texts = [path.read_text() for path in sorted((folder / "lines").glob("*.jsonl"))]
    rows = {row["number"]: row for row in map(json.loads, "".join(texts).splitlines())}
    assert sorted(rows) == list(range(1, len(rows) + 1))
    assert [(rows[n]["url"], rows[n]["transition"]) for n in sorted(rows)] == wanted
    assert {url for url, _ in wanted} >= set(PAGES)
    digests = [(rows[n]["digest"], rows[n]["transition"]) for n in sorted(rows)]
    acknowledged = [tuple(json.loads(line)) for line in read_lines(folder / "acknowledged")]
    assert set(acknowledged) <= set(digests)
    assert all(digest is not None for digest, _ in digests)
    latest = {row["url"]: row["digest"] for _, row in sorted(rows.items())}
    assert dict(files_of(folder / "pages")) == latest
    check_delays(folder)


def check_delays(folder: Path) -> None:
    free_at = dict.fromkeys(HOSTS, 0.0)
    for what, host, at in map(json.loads, read_lines(folder / "requests")):
        if what == "start":
            assert at >= free_at[host] - _TOLERANCE_SECONDS, host
        free_at[host] = at + DELAY_SECONDS


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def files_of(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.rglob("*.md"):
        facts = path.read_text().split("---")[1].strip().splitlines()
        fields = dict(line.split(": ", 1) for line in facts)
        yield json.loads(fields["url"]), json.loads(fields["digest"])


def name_of(step: KillStep) -> str:
    return f"{step.when}-{step.target.partition(':')[2]}"


@pytest.mark.parametrize(
    "step", [*LEASE_STEPS, *REQUEST_STEPS, *REPORT_STEPS, *SINK_STEPS], ids=name_of
)
def test_a_kill_at_any_step_loses_nothing(processes: Any, tmp_path: Path, step: KillStep) -> None:
    run(processes, tmp_path, step)
    run_to_the_end(processes, tmp_path)
    check(tmp_path)


@pytest.mark.parametrize("step", RESTART_STEPS, ids=name_of)
def test_a_kill_while_a_crawl_goes_on_loses_nothing(
    processes: Any, tmp_path: Path, step: KillStep
) -> None:
    # A body is stored, its outcome is reported, and no sink has it.
    run(processes, tmp_path, KillStep(f"{_CORPUS}.report", "after", 3))
    run(processes, tmp_path, step)
    run_to_the_end(processes, tmp_path)
    check(tmp_path)
