"""Outcomes know whether their fetch failed."""

import numpy as np

from recrawl import Outcome
from recrawl.node.reporting.many import verdicts
from recrawl.shard import Verdict


def test_a_failure_is_what_the_node_calls_a_transient_error() -> None:
    status = np.arange(1_000)
    changed = np.full(status.size, Verdict.CHANGED, np.uint8)
    verdict = verdicts(status, np.zeros(status.size, np.bool_), changed)
    failed = [Outcome(status=number).is_failure for number in status.tolist()]
    assert failed == (verdict == Verdict.TRANSIENT_ERROR).tolist()


def test_a_forbidden_fetch_has_not_failed() -> None:
    assert not Outcome(status=0, disallowed=True).is_failure
