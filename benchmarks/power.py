"""Cut the power of a scripted run at every sync and rename, and check what is left of its corpus.

The run is recorded once per seed by a library that sees every change of the disk; then the disk is
rebuilt as it may look after each power cut, and the corpus on it is opened and compared with what
it had acknowledged.  Needs a C compiler (``cc``) and Linux.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.power_loss.cuts import choose_cuts, cut_power, moments_of, record_run
from tests.power_loss.trace import compile_shim

__all__ = ["measure"]

_RUNS = 2


def measure(n_cuts: int, *, seed: int = 0) -> dict[str, object]:
    """Cut the power many times; return what was checked.

    Parameters
    ----------
    n_cuts
        Number of power cuts, divided among two runs.
    seed
        Random seed of the operations and the cuts.
    """
    survived: Counter[str] = Counter()
    n_moments = n_acknowledged = n_in_doubt = 0
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        shim = compile_shim(Path(folder))
        for run in range(_RUNS):
            scratch = Path(folder) / str(run)
            scratch.mkdir()
            calls = record_run(shim, scratch, seed + run)
            n_moments += len(moments_of(calls))
            n_own = n_cuts // _RUNS + (run < n_cuts % _RUNS)
            for result in cut_power(calls, choose_cuts(calls, n_own, seed + run), scratch):
                survived[result.cut.survival.value] += 1
                n_acknowledged += result.n_acknowledged
                n_in_doubt += result.n_in_doubt
                if result.problem:
                    problems.append(f"run {run}, {result.cut}: {result.problem}")
                if sys.stderr.isatty():
                    print(
                        f"\r{survived.total()} cuts, {len(problems)} problems",
                        end="",
                        file=sys.stderr,
                    )
    return {
        "power_cuts": survived.total(),
        "moments_before_and_after_syncs_and_renames": n_moments,
        "cuts_by_what_survived": dict(survived),
        "operations_acknowledged_and_found": n_acknowledged,
        "operations_in_doubt": n_in_doubt,
        "problems": problems,
    }
