"""Workers keep what they promise, whatever goes wrong; and bugs that are planted are found."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from recrawl.errors import LedgerError
from tests.simulation.cluster.messages import ControlMessages
from tests.simulation.cluster.partition_logs import ArchivedLog
from tests.simulation.cluster.planted_bugs import PLANTED_BUGS, plant_bug
from tests.simulation.cluster.run import CONFIG, N_PARTITIONS, new_folder, run_cluster
from tests.simulation.cluster.workers import Machines, SimulatedWorker
from tests.simulation.cluster.world import PropertyViolatedError, World

pytestmark = pytest.mark.slow_without_jit

# Runs that find each planted bug, and what they say about it.
# Seed to begin with, and what is found; if not there, then with one of the next seeds.
FINDINGS = {
    # Both owners order pages: that shows in the orders, or in what they cost.
    "claim without reading back": (1, "not made by the owner|the budget is overspent"),
    "order after a lost claim": (3, "not made by the owner"),
    "truncate before verification": (3, "was truncated to"),
    "count others as gone while cut off": (2, "as gone, which lives"),
    "publish increases first": (6, "quotas of"),
}
N_SEEDS = 12


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Each fault logs a warning."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory."""
    with new_folder() as path:
        yield path


def test_workers_keep_their_promises_under_faults(seed: int, folder: Path) -> None:
    report = run_cluster(seed, folder)
    assert report.n_steps > 3_000
    assert report.n_claims > N_PARTITIONS
    assert report.n_compared_states > 10
    assert min(report.n_handed_out, report.n_counted, report.n_truncated) > 0


def test_the_same_seed_is_the_same_run(folder: Path) -> None:
    assert run_cluster(7, folder / "1") == run_cluster(7, folder / "2")


@pytest.mark.parametrize("name", PLANTED_BUGS)
def test_a_planted_bug_is_found(name: str, folder: Path) -> None:
    first, problem = FINDINGS[name]
    found: list[str] = []
    with plant_bug(name):
        for seed in range(first, first + N_SEEDS):
            own = folder / str(seed)
            own.mkdir()
            try:
                run_cluster(seed, own)
            except PropertyViolatedError as error:
                found.append(str(error))
                # The same bug also shows in other ways.
                if re.search(problem, str(error)):
                    return
    pytest.fail(f"{problem} was not found by {N_SEEDS} seeds, only {found}")


def test_a_standby_whose_claim_failed_can_claim_again(tmp_path: Path) -> None:
    world = World(0)
    world.has_faults = False
    logs = [ArchivedLog(world) for _ in range(N_PARTITIONS)]
    machines = Machines(world, tmp_path, logs, ControlMessages(world), CONFIG)
    worker = SimulatedWorker("a", machines)
    corpus = worker.corpus
    corpus.stand_by(0)
    (node,) = worker.nodes()
    node.ledger._has_failed = True  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(LedgerError):
            corpus.open_partition(0)
    corpus.follow_standby(0)
    corpus.open_partition(0)
    assert [*corpus.owned_partitions()] == [0]
    worker.die()
