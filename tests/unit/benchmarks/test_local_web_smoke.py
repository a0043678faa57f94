"""The benchmark of the local web runs at a small scale."""

from benchmarks import local_web


def test_a_short_day_has_no_violation_and_no_false_time_out() -> None:
    measured = local_web.measure(n_hosts=50, n_pages=100, n_fetches=60)
    assert measured["n_requests"] >= 60
    assert measured["milliseconds_per_answer"] > 0
    assert (measured["n_violations"], measured["n_false_time_outs"]) == (0, 0)
