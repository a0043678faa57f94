"""The same log in other processes: with one thread, and with fewer processor features."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from recrawl.shard import events as ev
from recrawl.shard.shard import Shard
from recrawl.shard.state.tables import Tables
from recrawl.sim.faults.run import SETTINGS, record_log
from tests.reference.shard_words import check_words

REPLAY = """
import sys
import numpy as np
from recrawl.shard.events import decode_events
from recrawl.shard.shard import Shard
from recrawl.sim.faults.run import SETTINGS
source, target = sys.argv[1:]
shard = Shard(SETTINGS)
shard.apply_all(decode_events(open(source, "rb").read()))
columns = {
    f"{name}.{column}": array
    for name, table in shard.tables._asdict().items()
    for column, array in table._asdict().items()
}
np.savez(target, digest=shard.digest(), **columns)
"""

# Columns computed in floating point; all others are exact integers.
LEARNED = {
    "pages.word",
    "pages.belief_shape",
    "pages.belief_seconds",
    "pages.requests",
    "pages.request_seconds",
    "sources.true",
    "sources.total",
    "sources.delay_seconds",
    "registers.credit",
}


@pytest.fixture(scope="module")
def log() -> list[ev.Event]:
    return record_log(3, 4_000)


@pytest.fixture(scope="module")
def here(log: list[ev.Event]) -> Shard:
    shard = Shard(SETTINGS)
    shard.apply_all(log)
    return shard


def replay_elsewhere(
    log: list[ev.Event], folder: Path, **environment: str
) -> dict[str, np.ndarray]:
    source, target = folder / "log", folder / "state.npz"
    source.write_bytes(ev.encode_events(log))
    subprocess.run(
        [sys.executable, "-c", REPLAY, str(source), str(target)],
        env={**os.environ, **environment},
        check=True,
        timeout=600,
    )
    with np.load(target) as columns:
        return dict(columns)


def columns_of(tables: Tables) -> dict[str, np.ndarray]:
    return {
        f"{name}.{column}": array
        for name, table in tables._asdict().items()
        for column, array in table._asdict().items()
    }


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("n_threads", ["1", "2"])
def test_the_number_of_threads_changes_no_byte(
    log: list[ev.Event], here: Shard, tmp_path: Path, n_threads: str
) -> None:
    state = replay_elsewhere(log, tmp_path, NUMBA_NUM_THREADS=n_threads)
    assert str(state["digest"]) == here.digest()


@pytest.mark.slow_without_jit
def test_another_processor_has_the_same_integers_and_beliefs_within_a_code(
    log: list[ev.Event], here: Shard, tmp_path: Path
) -> None:
    state = replay_elsewhere(log, tmp_path, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    mine = columns_of(here.tables)
    n_slots = int(here.tables.registers.n_slots[0])
    assert mine.keys() == state.keys() - {"digest"}
    for name in mine:
        n_rows = n_slots if name.startswith("pages.") else None
        column, other = mine[name][:n_rows], state[name][:n_rows]
        if name not in LEARNED:
            assert column.tobytes() == other.tobytes(), name
        elif name == "pages.word":
            check_words(column, other)
        elif column.dtype.kind == "u":
            assert np.abs(column.astype(int) - other.astype(int)).max() <= 1, name
        else:
            assert np.allclose(column, other, rtol=1e-3), name
