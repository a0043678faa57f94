"""A rehearsal calls the kernels that a lease of a large corpus needs."""

import pytest

from recrawl.core.kernel import IS_COMPILED
from recrawl.shard.picker import rolling, scan
from recrawl.shard.rehearsal import rehearse_decisions
from recrawl.shard.settings import ShardSettings
from recrawl.shard.shard import _shared_due_table

pytestmark = pytest.mark.slow_without_jit


@pytest.mark.skipif(not IS_COMPILED, reason="interpreted kernels need not be loaded")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (rolling, "find_due"),
        (rolling, "place_pages"),
        (rolling, "revalue_rows"),
        (rolling, "sample_keys"),
        (rolling, "take_best"),
        (rolling, "take_due"),
        (rolling, "trim_rows"),
        (rolling, "value_pages"),
        (scan, "_choose_pages"),
    ],
)
def test_a_rehearsal_runs_a_kernel(
    module: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    kernel = getattr(module, name)

    def called(*arguments: object) -> object:
        calls.append(name)
        return kernel(*arguments)

    monkeypatch.setattr(module, name, called)
    rehearse_decisions(ShardSettings(), _shared_due_table())
    assert calls
