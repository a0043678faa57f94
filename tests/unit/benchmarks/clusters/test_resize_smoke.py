"""The measurement of a change of partitions runs, on few pages; the times are not checked."""

import pytest

from benchmarks import resize


@pytest.mark.slow_without_jit
def test_a_writer_goes_on_after_the_partitions_have_changed() -> None:
    found = resize.measure(n_pages=2_000, partitions=(2, 3), fetched=0.9, rate=500.0)
    assert found["partitions"] == [2, 3]
    assert found["pages"] == 2_000
    assert found["changes"] >= 1_800
    assert 0 < found["pause_seconds"] < found["seconds"]
    assert found["writer_gap_seconds"] > 0
    assert {"prepare", "send", "close", "create topic", "publish"} <= {*found["steps"]}
