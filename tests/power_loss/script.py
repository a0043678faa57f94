"""The program whose power is cut: two sessions on one corpus, with several threads and snapshots.

Run it under the shim: ``python -m tests.power_loss.script FOLDER SEED [MUTANT]``.  It writes what
it will do and what the corpus acknowledged into the trace, between the calls that reach the disk.
"""

import ctypes
import dataclasses
import json
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import recrawl
from benchmarks.workload import CONFIG, Worker
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.ledger import rocks
from tests.power_loss.mutants import MUTANTS

N_PARTITIONS = 3
N_STEPS = 14


def _make_say() -> Callable[[dict[str, Any]], None]:
    note = ctypes.CDLL(None).power_trace_note

    def say(line: dict[str, Any]) -> None:
        note(json.dumps(line).encode())

    return say


def _run_workers(
    corpus: Corpus, workers: list[Worker], n_steps: int, *, with_snapshot: bool
) -> None:
    def work(worker: Worker) -> None:
        for _ in range(n_steps):
            worker.step()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    if with_snapshot:
        corpus.snapshot()
    for thread in threads:
        thread.join()


def run_script(folder: Path, seed: int) -> None:
    """Run both sessions."""
    say = _make_say()
    # Small buffers, so that the engine writes, merges and deletes files during a short run.
    rocks._OPTIONS = dataclasses.replace(rocks._OPTIONS, write_buffer_bytes=16 << 10)
    tables = {**CONFIG, "corpus": {"partitions": N_PARTITIONS}, "snapshots": {"keep": 2}}
    config: CorpusConfig | None = CorpusConfig.from_dict(tables)
    for session in range(2):
        with recrawl.open(folder, config) as corpus:
            say({"opened": session})
            workers = [
                Worker(corpus, f"s{session}w{i}", random.Random(f"{seed} {session} {i}"), say)
                for i in range(2)
            ]
            workers[0].add()
            for i in range(4):
                _run_workers(corpus, workers, N_STEPS // 4, with_snapshot=i % 2 == 1)
                corpus.snapshot()
        say({"closed": session})
        config = None  # the second session uses the configuration of the first


if __name__ == "__main__":
    for mutant in sys.argv[3:]:
        MUTANTS[mutant]()
    run_script(Path(sys.argv[1]), int(sys.argv[2]))
