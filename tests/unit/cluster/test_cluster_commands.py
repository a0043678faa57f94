"""Commands for a cluster change nothing by mistake: no topics, and no workers that do not run."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from recrawl import cluster
from recrawl.cli import main
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.placement import PlacementRules
from recrawl.cluster.status import ClusterStatus, PartitionStatus
from recrawl.messages.partitions import OwnedPartition


class View:
    """A cluster of the workers a and b, of which c was drained and is down."""

    def __init__(self) -> None:
        self.decisions: list[tuple[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def observe(self) -> ClusterStatus:
        partition = PartitionStatus(
            partition=0,
            owner="a",
            epoch=1,
            n_pages=10,
            snapshot_seconds=None,
            standbys={"b": 0.1},
            quota_per_second=7_320 / 3600,
        )
        return ClusterStatus(
            workers=(
                Heartbeat(
                    worker="a",
                    instance="1",
                    started_at_ms=1,
                    owned={0: OwnedPartition(1, 10, None)},
                ),
                Heartbeat(worker="b", instance="1", started_at_ms=1, is_leaving=True),
            ),
            partitions=(partition,),
            rules=PlacementRules({}, frozenset({"c"})),
            budget_per_second=60_000 / 3600,
            price=0.055,
        )

    def drain(self, worker: str, *, is_drained: bool) -> None:
        self.decisions.append((worker, is_drained))

    def pin(self, partition: int, worker: str | None) -> None:
        self.decisions.append((str(partition), worker))


@pytest.fixture
def view(monkeypatch: pytest.MonkeyPatch) -> View:
    made = View()
    monkeypatch.setattr(cluster, "open_view", lambda _: made, raising=False)
    return made


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["cluster", *arguments])
    return done.exit_code, " ".join(done.output.split())


def test_a_worker_that_does_not_run_is_drained_or_pinned_only_on_purpose(view: View) -> None:
    for arguments in (["drain", "d"], ["drain", "d", "--undo"], ["pin", "0", "d"]):
        code, output = run(*arguments)
        assert code == 1
        assert "the worker d is not running; these are: a, b. Nothing was changed." in output
    assert view.decisions == []
    for arguments in (
        ["drain", "a"],
        ["drain", "c", "--undo"],
        ["drain", "d", "--absent"],
        ["pin", "0", "b"],
        ["pin", "0", "d", "--absent"],
        ["pin", "0", "--undo"],
    ):
        assert run(*arguments)[0] == 0
    assert view.decisions == [
        ("a", True),
        ("c", False),
        ("d", True),
        ("0", "b"),
        ("0", "d"),
        ("0", None),
    ]


@pytest.mark.usefixtures("view")
def test_the_status_shows_a_drained_worker_that_is_away() -> None:
    code, output = run("status", "--no-json")
    assert code == 0
    assert "drained, away" in output
    assert "Budget: 60,000/h. Price: 0.055 s of staleness that a fetch must save." in output
    assert "7.32e+03" not in output
    assert "7,320/h" in output
    assert "is stopping" in output
    rows = [
        json.loads(line)
        for line in CliRunner().invoke(main, ["cluster", "status"]).stdout.splitlines()
    ]
    workers = [row for row in rows if "worker" in row]
    assert [(row["worker"], row["is_drained"], row["is_away"]) for row in workers] == [
        ("a", False, False),
        ("b", False, False),
        ("c", True, True),
    ]
    assert len({frozenset(row) for row in workers}) == 1


def test_no_command_creates_a_topic(tmp_path: Path, kafka_bootstrap: str, kafka_topic: str) -> None:
    (tmp_path / "recrawl.toml").write_text(
        f'[ledger]\nkind = "kafka"\nbootstrap = "{kafka_bootstrap}"\ntopic = "{kafka_topic}"\n'
    )
    for arguments in (["status"], ["drain", "a"], ["pin", "0", "--undo"]):
        code, output = run(*arguments, "-C", str(tmp_path))
        assert code == 1
        assert f"the topic {kafka_topic} does not exist at {kafka_bootstrap}" in output
    found = AdminClient({"bootstrap.servers": kafka_bootstrap}).list_topics(timeout=60).topics
    assert not {kafka_topic, f"{kafka_topic}.control"} & found.keys()
