"""A short run of the measurement that kills ``recrawl run``."""

from benchmarks import run_kills


def test_three_kills_lose_nothing_and_hurry_no_host() -> None:
    found = run_kills.measure(3, n_hosts=2, n_pages=10)
    assert found["violations"] == []
    assert found["n_versions_sent"] > 0
    assert found["has_every_number"]
    assert found["is_as_the_feed"]
    faults = ("n_lost_after_a_kill", "n_without_body", "n_files_missing", "n_files_old")
    assert {name: found[name] for name in faults} == dict.fromkeys(faults, 0)
