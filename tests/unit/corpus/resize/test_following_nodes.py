"""New partitions are prepared from nodes that follow their logs, each as far as it has come."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.corpus.leasing.old_handles import OldHandles
from recrawl.corpus.resize.new_layout import LayoutDraft, NewLayout
from recrawl.ledger import RocksLog
from recrawl.node.content.judging import update_host_memory
from recrawl.node.durability.recovery import initial_shard
from recrawl.node.node import Node
from recrawl.node.routing import partition_of_key
from recrawl.store import Store
from tests.manual_clock import ManualClock
from tests.unit.corpus.resize.test_new_layout import N_AFTER, describe, fetch, format_after

pytestmark = pytest.mark.slow_without_jit

HOST = "huge.example"
SETTINGS: dict[str, Any] = {
    "corpus": {"partitions": 2, "group_pages_max": 20},
    "ledger": {"durability": "os"},
    "politeness": {"delay": 0, "in_flight_max": 50, "burst": 50},
    "protection": {"new_pages_share": 1.0, "new_domain_share": 1.0},
}


def urls(*numbers: int) -> list[str]:
    return [f"https://{HOST}/{i}" for i in range(*numbers)]


@contextmanager
def followers_of(corpus: Corpus, folder: Path) -> Iterator[list[Node]]:
    """Return nodes that follow the logs of a corpus, with stores of their own."""
    with ExitStack() as closing:
        nodes = []
        for node in corpus.nodes:
            store = Store.open(folder / str(node.partition), update_host=update_host_memory)
            closing.callback(store.close)
            nodes.append(
                Node(
                    shard=initial_shard(node.ledger),
                    ledger=node.ledger,
                    store=store,
                    position=0,
                    partition=node.partition,
                    is_shared=True,
                )
            )
        yield nodes


def finish(draft: LayoutDraft, corpus: Corpus, folder: Path) -> NewLayout:
    with (
        draft,
        RocksLog.open(
            folder / "log", N_AFTER, durability="os", corpus_id=format_after(corpus).corpus_id
        ) as log,
    ):
        return draft.finish([log.partition(i) for i in range(N_AFTER)], OldHandles.none())


def test_changes_of_a_split_host_keep_their_pages_if_its_home_is_followed_last(
    tmp_path: Path, clock: ManualClock
) -> None:
    """A part knows then that the host is split, and its home does not yet."""
    home = partition_of_key(HOST, 2)
    config = CorpusConfig.from_dict(SETTINGS)
    with (
        recrawl.open(tmp_path / "corpus", config, clock=clock) as corpus,
        followers_of(corpus, tmp_path / "followers") as nodes,
    ):
        layouts: dict[str, NewLayout] = {}
        drafts: dict[str, LayoutDraft] = {}
        for name in ("prepared", "whole"):
            (tmp_path / name).mkdir()
        corpus.add(urls(15), doc_id=[f"d{i}" for i in range(15)])
        fetch(corpus, clock, urls(15), "first")
        clock.pass_seconds(5)
        corpus.lease(1)
        for node in nodes:
            node.follow()
        drafts["prepared"] = LayoutDraft(
            nodes, format_after(corpus), tmp_path / "prepared", changes_max=1_000
        )
        drafts["prepared"].copy()
        clock.pass_seconds(5)
        corpus.add(urls(15, 40))
        corpus.add(urls(40, 80))
        assert all(node.shard.split_groups.size for node in corpus.nodes)
        nodes[1 - home].follow()
        drafts["prepared"].copy()
        nodes[home].follow()
        layouts["prepared"] = finish(drafts["prepared"], corpus, tmp_path / "prepared")
        drafts["whole"] = LayoutDraft(
            nodes, format_after(corpus), tmp_path / "whole", changes_max=1_000
        )
        layouts["whole"] = finish(drafts["whole"], corpus, tmp_path / "whole")
        n_changes = 0
        for i in range(N_AFTER):
            found = describe(tmp_path / "prepared", layouts["prepared"], i)
            expected = describe(tmp_path / "whole", layouts["whole"], i)
            assert found["names"] == expected["names"]
            assert found["changes"] == expected["changes"]
            assert "removed" not in {page for _, _, page, _ in found["changes"]}
            n_changes += len(found["changes"])
        assert n_changes == 15
