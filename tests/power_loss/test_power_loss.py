"""A power cut at any moment loses nothing that a corpus acknowledged."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.power_loss.cuts import (
    CutResult,
    choose_cuts,
    cut_power,
    cuts_after_renames,
    record_run,
)
from tests.power_loss.disk import Survival
from tests.power_loss.folders import assert_equal_folders, disk_after
from tests.power_loss.mutants import MUTANTS
from tests.power_loss.strace_calls import count_recorded, count_seen
from tests.power_loss.trace import Op

N_CUTS = 50


def problems(results: Sequence[CutResult]) -> list[str]:
    return [f"{result.cut}: {result.problem}" for result in results if result.problem]


def test_power_cuts_lose_nothing_that_was_acknowledged(shim: Path, tmp_path: Path) -> None:
    calls = record_run(shim, tmp_path, 0)
    results = list(cut_power(calls, choose_cuts(calls, N_CUTS, 0), tmp_path))
    assert not problems(results)
    assert len(results) == N_CUTS
    assert max(result.n_acknowledged for result in results) > 20
    assert sum(result.n_in_doubt for result in results) > 0


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mistakes_are_found(mutant: str, shim: Path, tmp_path: Path) -> None:
    calls = record_run(shim, tmp_path, 0, mutant)
    # Cuts are tried until one shows the mistake.
    for cut in (*cuts_after_renames(calls, 60, 0), *choose_cuts(calls, 60, 0)):
        scratch = tmp_path / f"{cut.moment}-{cut.survival.name}-{cut.seed}"
        scratch.mkdir()
        if problems(list(cut_power(calls, [cut], scratch))):
            return
    pytest.fail("no power cut showed the mistake")


def test_the_shim_records_every_call_that_strace_sees(shim: Path, tmp_path: Path) -> None:
    calls = record_run(shim, tmp_path, 1, strace=tmp_path / "strace")
    root = tmp_path / "disk"
    seen = count_seen(tmp_path.glob("strace.*"), root)
    recorded = count_recorded(calls)
    assert seen == recorded
    kinds = {str(what[0]) for what in seen}
    assert {"write", "sync", "rename", "link", "unlink", "mkdir", "create"} <= kinds
    # A call that the shim had missed would be noticed, whatever its kind.
    for op in (Op.WRITE, Op.SYNC, Op.RENAME, Op.UNLINK, Op.LINK):
        missed = next(i for i, call in enumerate(calls) if call.op == op)
        assert count_recorded([*calls[:missed], *calls[missed + 1 :]]) != seen


def test_the_trace_rebuilds_the_disk_byte_for_byte(shim: Path, tmp_path: Path) -> None:
    calls = record_run(shim, tmp_path, 2)
    disk = disk_after(calls, tmp_path)
    disk.write_to(tmp_path / "rebuilt", Survival.EVERYTHING, random.Random(0))
    assert_equal_folders(tmp_path / "disk", tmp_path / "rebuilt")
