"""Pages of a pattern are changed at all workers, in parts that no deadline cuts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recrawl.client import Client
from recrawl.corpus import CorpusConfig
from recrawl.errors import ServiceUnavailable
from recrawl.messages.results import ChangedPart
from tests.unit.cluster.api.conftest import PARTITIONS
from tests.unit.cluster.api.workers import Workers

URLS = [f"https://h{i}.example/{'ab'[i % 2]}" for i in range(120)]


@pytest.fixture
def workers(
    tmp_path: Path, config: CorpusConfig, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workers]:
    monkeypatch.setattr("recrawl.node.node._ROWS_PER_SCAN", 8)
    monkeypatch.setattr("recrawl.cluster.api.cluster_corpus.PART_SECONDS", 0.0)
    with Workers(tmp_path, config, PARTITIONS) as running:
        yield running


def test_the_client_changes_all_pages_in_many_requests(
    workers: Workers, clients: list[Client]
) -> None:
    assert clients[0].add(URLS).n_added == 120
    sent = []
    change = workers[1].shared.change_matching

    def note_and_change(*given: Any, **options: Any) -> ChangedPart:
        sent.append(given)
        return change(*given, **options)

    workers[1].shared.change_matching = note_and_change  # type: ignore[method-assign]
    assert clients[1].set(pattern="/a", importance=3.0) == 60
    assert len(sent) >= 6
    assert clients[1].remove(pattern="/a") == 60
    assert clients[1].remove(pattern="/a") == 0
    assert clients[2].stats().n_pages == 60
    # One request for all of them, as of earlier clients.
    answer = workers[2].server.post("/pages/remove?pattern=/b")
    assert answer.json["n_pages"] == 60
    assert clients[0].stats().n_pages == 0


def test_a_partition_that_is_away_is_named_with_what_was_changed(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(URLS)
    here = workers[0].owned()
    n_before_away = workers[0].corpus.nodes[0].shard.n_pages
    workers.tell_all(here)
    with (
        workers[0].client(retry_seconds=0) as client,
        pytest.raises(ServiceUnavailable, match=f"^{n_before_away} pages were changed, and"),
    ):
        client.remove(pattern="/*")
    workers.tell_all()
    assert clients[0].remove(pattern="/*") == 120 - n_before_away
