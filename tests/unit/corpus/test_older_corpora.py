"""Corpora that an older version wrote open, replay to the state they had, and continue."""

import base64
import hashlib
import json
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest

import recrawl
from recrawl import Corpus, CorpusConfig, Outcome
from recrawl.shard import Shard
from recrawl.shard.state.snapshot import ADDED_COLUMNS, ADDED_TABLES
from tests.corpus_fixtures import extract_older_corpora
from tests.reference.shard_words import check_words

# Interpreted kernels come with a smaller due table here, which gives pages other codes.
pytestmark = pytest.mark.slow_without_jit
FIXTURE = Path(__file__).parents[2] / "fixtures" / "corpus_0_1_0"
DIGESTS = json.loads((FIXTURE / "digests.json").read_text())
FIXTURE_BYTES_MAX = 500_000
FORMAT_0_1_0 = 3


def load_maker() -> ModuleType:
    """Return the script that wrote the corpora."""
    spec = spec_from_file_location("make_corpus_0_1_0", FIXTURE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


maker = load_maker()
EMBEDDED: dict[str, Any] = {"kind": "rocksdb"}


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """Return a folder with copies of the corpora."""
    extract_older_corpora(tmp_path)
    return tmp_path


def stable_digest(shard: Shard) -> str:
    """Return the checksum of the fixture's script, of the columns that version 0.1.0 had."""
    added = {f"{t}.{c}" for (t, c), (since, _) in ADDED_COLUMNS.items() if since > FORMAT_0_1_0}
    columns = {
        name: column
        for name, column in maker.columns_of(shard).items()
        if name not in added and name.partition(".")[0] not in ADDED_TABLES
    }
    with mock.patch.object(maker, "columns_of", return_value=columns):
        return str(maker.stable_digest(shard))


def check_state(corpus: Corpus, name: str) -> None:
    """Compare the state of a corpus with what the older version had."""
    shards = [node.shard for node in corpus.nodes]
    assert [stable_digest(shard) for shard in shards] == DIGESTS[name]
    with np.load(FIXTURE / "expected.npz") as expected:
        for number, shard in enumerate(shards):
            for column, values in maker.columns_of(shard).items():
                if column in maker.LEARNED:
                    check_learned(column, values, expected[f"{name}.{number}.{column}"])


def check_learned(name: str, values: np.ndarray, expected: np.ndarray) -> None:
    """Compare learned columns; another processor may differ in the last bit, and so by one code."""
    if name == "pages.word":
        check_words(values, expected)
    elif values.dtype.kind in "iu":
        assert np.abs(values.astype(int) - expected.astype(int)).max(initial=0) <= 1, name
    else:
        np.testing.assert_allclose(values, expected, rtol=1e-3, err_msg=name)


def check_it_continues(folder: Path, config: CorpusConfig) -> None:
    """Work with a corpus, close it, and find everything in it when it is opened again."""
    clock = maker.SetClock()
    clock.sleep(30 * 86_400.0)
    with recrawl.open(folder, config, clock=clock) as corpus:
        n_pages = corpus.stats().n_pages
        assert n_pages == maker.N_PAGES - 4
        assert corpus.add(["https://new.example.com/"]).n_added == 1
        orders = corpus.lease(10)
        assert orders
        outcomes = [Outcome(handle=order.handle, digest=b"newer") for order in orders]
        assert corpus.report(outcomes).counted.all()
        n_changes = len(corpus.changes())
    digests = [node.shard.digest() for node in corpus.nodes]
    with recrawl.open(folder, config, read_only=True, clock=clock) as corpus:
        assert [node.shard.digest() for node in corpus.nodes] == digests
        assert corpus.stats().n_pages == n_pages + 1
        assert len(corpus.changes()) == n_changes


def test_the_files_are_those_that_were_written_and_small() -> None:
    archive = (FIXTURE / "corpora.tar.xz").read_bytes()
    assert hashlib.sha256(archive).hexdigest() == DIGESTS["corpora.tar.xz"]
    assert sum(path.stat().st_size for path in FIXTURE.iterdir()) <= FIXTURE_BYTES_MAX


def test_a_corpus_of_0_1_0_has_its_old_state_and_continues(corpora: Path) -> None:
    config = maker.config_of(EMBEDDED)
    folder = corpora / "embedded"
    with recrawl.open(folder, config, read_only=True, clock=maker.SetClock()) as corpus:
        check_state(corpus, "embedded")
        assert corpus.explain(maker.URLS[33]) is not None
        assert corpus.changes()
    check_it_continues(folder, config)


@pytest.fixture
def restored_topic(corpora: Path, kafka_bootstrap: str, kafka_topic: str) -> str:
    """Write the dumped messages to a new topic, in their order."""
    from confluent_kafka import Producer  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    settings = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
    topic = NewTopic(kafka_topic, num_partitions=2, replication_factor=1, config=settings)
    for future in admin.create_topics([topic]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": kafka_bootstrap, "enable.idempotence": True})
    with (corpora / "topic.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            producer.produce(
                kafka_topic,
                partition=row["partition"],
                key=base64.b64decode(row["key"]),
                value=base64.b64decode(row["value"]),
                headers=[(name, base64.b64decode(value)) for name, value in row["headers"]],
            )
    assert producer.flush(60) == 0
    return kafka_topic


@pytest.mark.parametrize("folder", ["on-kafka", "another-machine"])
def test_a_topic_of_0_1_0_has_its_old_state_and_continues(
    corpora: Path, kafka_bootstrap: str, restored_topic: str, folder: str
) -> None:
    """With the snapshots beside it, and from the topic alone."""
    ledger = {
        "kind": "kafka",
        "bootstrap": kafka_bootstrap,
        "topic": restored_topic,
        "replication": 1,
    }
    config = maker.config_of(ledger)
    if folder == "another-machine":
        shutil.rmtree(corpora / "on-kafka" / "snapshots")
        shutil.rmtree(corpora / "on-kafka" / "store")
        (corpora / "on-kafka").rename(corpora / folder)
    else:
        clock = maker.SetClock()
        with recrawl.open(corpora / folder, config, read_only=True, clock=clock) as corpus:
            check_state(corpus, "on-kafka")
    check_it_continues(corpora / folder, config)
