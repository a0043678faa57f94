"""The measurements of a whole node run at a small scale and give plausible results."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.benchmarks.crash_mutants import MUTANTS

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.slow_without_jit


def run(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check_crash(found: dict[str, Any], kills: int) -> None:
    assert found["kills"] == kills
    assert found["corpus_opened_and_compared"] >= 1
    assert found["operations_acknowledged"] > 0
    assert found["lost"] == found["applied_twice"] == found["orders_handed_out_twice"] == 0
    assert found["pages_held_by_two"] == 0
    assert found["partitions"] > 1
    assert found["threads"] > 1


def test_a_killed_corpus_loses_nothing() -> None:
    found = run("crash", "--kills", "5", "--seed", "1")
    check_crash(found, 5)
    assert found["logs_cut"] == 1


@pytest.mark.parametrize("mutant", MUTANTS)
def test_killing_shows_mistakes(mutant: str) -> None:
    command = [sys.executable, "-m", "tests.unit.benchmarks.crash_mutants", mutant]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    # recrawl itself refuses a corpus whose store is ahead of its log.
    assert any(name in done.stderr for name in ("AssertionError", "LogDamagedError")), done.stderr[
        -4000:
    ]


def test_the_fetcher_is_compared_with_bare_aiohttp() -> None:
    found = run("fetch", "--pages", "100", "--rounds", "2", "--hosts", "20")
    speed = found["one_host"]
    assert speed["n_pages"] == 200
    assert 0 < speed["share_of_aiohttp"] < 2
    assert 0 < speed["share_of_aiohttp_and_resiliparse"] < 2
    assert found["many_hosts"]["n_requests"] == 80


def test_power_cuts_are_counted_by_what_survived() -> None:
    found = run("power", "--cuts", "4")
    assert found["power_cuts"] == sum(found["cuts_by_what_survived"].values()) == 4
    assert found["problems"] == []


def test_a_killed_corpus_on_kafka_loses_nothing(kafka_bootstrap: str) -> None:
    arguments = ["--ledger", "kafka", "--bootstrap", kafka_bootstrap, "--seed", "2"]
    check_crash(run("crash", "--kills", "2", *arguments), 2)


def test_a_corpus_is_reopened_and_used_after_a_kill() -> None:
    found = run("scale", "--pages", "20000", "--hosts", "1e6", "--calls", "5")
    assert found["pages"] == 20_000
    assert found["open_after_kill_seconds"] > 0
    assert len(found["first_leases_100_seconds"]) == 4


def test_the_first_minute_is_measured_by_phase() -> None:
    found = run(
        "first-minute", "--pages", "1.2e5", "--case", "grown", "--seconds", "3", "--snapshots", "1"
    )
    for phase in ("opened", "during snapshots", "after snapshots"):
        assert found[phase]["orders"] > 0
    assert found["slowest_wall"] >= found["steady_median_wall"] > 0
    assert found["slowest_calls"][0]["wall"] == found["slowest_wall"]


@pytest.mark.slow_without_jit
def test_the_service_is_measured_beside_an_embedded_corpus(tmp_path: Path) -> None:
    written = tmp_path / "service.csv"
    found = run("service", "--pages", "150000", "--bodies", "100", "--output", str(written))
    assert found["share_of_embedded_json"] > 0
    assert [row["clients"] for row in found["single_rows"]] == [1, 16, 32, 256]
    assert all(row["postgresql_pairs_per_second"] > 0 for row in found["single_rows"])
    assert found["attack"]["server_errors"] == 0
    # The documentation quotes the cells of this file.
    measured = (ROOT / "benchmarks/measured/service.csv").read_text().splitlines()
    lines = written.read_text().splitlines()
    assert lines[0] == measured[0]
    assert [line.split(",")[0] for line in lines] == [line.split(",")[0] for line in measured]


def test_calls_are_measured_by_their_number_of_rows() -> None:
    found = run("calls", "--pages", "5000")
    assert all(found[f"rows_per_second_{n_rows}_per_call"] > 0 for n_rows in (1_000, 100, 1))


@pytest.mark.parametrize("ledger", ["rocksdb", "kafka"])
def test_a_node_is_compared_with_the_bare_engine(ledger: str, kafka_bootstrap: str) -> None:
    arguments = ["--ledger", ledger]
    if ledger == "kafka":
        arguments += ["--bootstrap", kafka_bootstrap]
    found = run("throughput", "--rows", "2000", *arguments)
    assert found["add"]["rows_per_second"] > 0
    assert found["report_by_handle"]["ratio_to_bare_rocksdb"] > 0
    assert ("ratio_to_bare_kafka" in found["add"]) == (ledger == "kafka")


def test_a_soak_compares_half_time_with_the_end() -> None:
    """The mechanics only: in half a minute everything still grows."""
    found = run("soak", "--minutes", "0.5", "--pages", "2000")
    assert found["ordered"] >= found["reported"] > 0
    assert found["added"] - found["removed"] == 2_000
    assert found["snapshots_in_second_half"] >= 0
    for name in ("memory_bytes", "open_files", "disk_bytes"):
        assert found["half_time"][name] > 0
        share = found["end"][name] / found["half_time"][name] - 1
        assert found["growth"][name] == pytest.approx(share, abs=1e-4)
        assert (name in found["grew"]) == (found["growth"][name] > 0.05)


def test_texts() -> None:
    found = run("texts", "--pages", "300", "--polls", "100")
    with_texts, with_digests = found["with_texts"], found["with_digests"]
    assert with_texts["n_changed"] == with_digests["n_changed"] == 45
    for name in ("log_bytes_per_first_fetch", "log_bytes_per_later_fetch"):
        assert with_texts[name] > with_digests[name]
    # After some fetches without a change, nothing new is remembered of a page.
    assert with_texts["log_bytes_per_later_fetch"] < with_texts["log_bytes_per_first_fetch"] / 8
    assert found["bodies"]["n_outcomes"] > 0
    assert found["profile"]["share_of_steps"]["judging"] > 0


def test_a_corpus_is_compared_with_tables() -> None:
    found = run("peers", "--pages", "150000", "--rounds", "1", "--seconds", "0.2")
    for case in ("1 rows, 1 threads", "1 rows, 32 threads", "1000 rows, 1 threads"):
        for name in ("recrawl", "postgresql", "sqlite"):
            assert found[case][name]["rows_per_second"] > 0, (case, name)
        assert found[case]["ratio_to_postgresql"] > 0
    assert found["slow_sync"]["milliseconds_median"] > 2.0
