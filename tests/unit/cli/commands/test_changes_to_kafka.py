"""Tests of ``recrawl changes --kafka``, with a real broker."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import recrawl as library
from recrawl.errors import SinkError
from recrawl.messages.enums import Transition
from recrawl.messages.views import PageChange
from recrawl.service import ChangeTopic, read_client_settings
from tests.unit.cli.conftest import PAGES, Recrawl

AT_MS = 1_700_000_000_000
N_PARTITIONS = 3
N_READS_MAX = 60


@pytest.fixture
def topic(kafka_bootstrap: str, kafka_topic: str) -> str:
    """Return a new topic with several partitions."""
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    (created,) = admin.create_topics([NewTopic(kafka_topic, N_PARTITIONS, 1)]).values()
    created.result(30)
    return kafka_topic


def _read(bootstrap: str, topic: str, n: int) -> list[Any]:
    """Return the first messages of a topic, by partition and place."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    try:
        for _ in range(N_READS_MAX):
            found += [one for one in consumer.consume(n, timeout=1) if one.error() is None]
            if len(found) >= n:
                break
    finally:
        consumer.close()
    return sorted(found, key=lambda one: (one.partition(), one.offset()))


def _told(digest: str, seconds: int) -> str:
    at_ms = AT_MS + 1000 * seconds
    rows = [{"url": url, "status": 200, "digest": digest, "fetched_at_ms": at_ms} for url in PAGES]
    return "\n".join(map(json.dumps, rows))


def test_changes_are_in_the_topic_by_page_and_in_order(
    in_corpus: Recrawl, kafka_bootstrap: str, topic: str
) -> None:
    in_corpus("report", stdin=_told("1", 0))
    in_corpus("report", stdin=_told("2", 10))
    send = ("changes", "--consumer", "search", "--kafka", kafka_bootstrap, "--topic", topic)
    assert in_corpus(*send).row == {"n_sent": 10}
    in_corpus("report", stdin=_told("3", 20))
    assert in_corpus(*send).row == {"n_sent": 5}
    assert in_corpus(*send).row == {"n_sent": 0}

    by_page: dict[bytes, list[Any]] = defaultdict(list)
    for message in _read(kafka_bootstrap, topic, 15):
        by_page[message.key()].append(message)
    assert sorted(by_page) == sorted(url.encode() for url in PAGES)
    for url, messages in by_page.items():
        assert len({one.partition() for one in messages}) == 1
        events = [json.loads(one.value()) for one in messages]
        assert [one["data"]["what"] for one in events] == ["new", "changed", "changed"]
        sequences = [one["sequence"] for one in events]
        assert sequences == sorted(set(sequences))
        assert {one["subject"] for one in events} == {url.decode()}
        assert dict(messages[0].headers()) == {"content-type": b"application/cloudevents+json"}


def test_only_wanted_changes_are_sent(in_corpus: Recrawl, kafka_bootstrap: str, topic: str) -> None:
    in_corpus("report", stdin=_told("1", 0))
    in_corpus("report", stdin=_told("2", 10))
    send = ("changes", "--consumer", "search", "--kafka", kafka_bootstrap, "--topic", topic)
    assert in_corpus(*send, "--what", "changed").row == {"n_sent": 5}


def test_a_consumer_stays_where_it_is_if_the_brokers_are_away(
    in_corpus: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_corpus("report", stdin=_told("1", 0))
    given = ChangeTopic.__init__
    monkeypatch.setattr(
        ChangeTopic,
        "__init__",
        lambda self, *places, **options: given(self, *places, **options, seconds_max=1),
    )
    send = ("changes", "--consumer", "search", "--kafka", "127.0.0.1:1", "--topic", "pages")
    ran = in_corpus(*send)
    assert ran.code == 1
    assert "Kafka has not stored 5 of 5 changes in the topic pages" in ran.err
    with library.open(tmp_path, read_only=True) as corpus:
        assert corpus.consumers() == []


def test_a_topic_can_be_written_after_a_failure(kafka_bootstrap: str, topic: str) -> None:
    change = PageChange("1-1", "https://a.example/", Transition.NEW, 1_000, sequence="01")
    with ChangeTopic("127.0.0.1:1", topic, source="urn:a", seconds_max=1) as away:
        for _ in range(2):
            with pytest.raises(SinkError, match="1 of 1"):
                away.write([change])
    with ChangeTopic(kafka_bootstrap, topic, source="urn:a") as written:
        written.write([change])
    (message,) = _read(kafka_bootstrap, topic, 1)
    assert json.loads(message.value())["source"] == "urn:a"


@pytest.mark.parametrize(
    "options",
    [
        ("--kafka", "localhost:9092"),
        ("--topic", "pages"),
        ("--kafka", "localhost:9092", "--topic", "pages"),
        ("--kafka-config", __file__),
        ("--kafka", "localhost:9092", "--topic", "pages", "--consumer", "a", "--no-commit"),
    ],
)
def test_options_that_need_others(in_corpus: Recrawl, options: tuple[str, ...]) -> None:
    assert in_corpus("changes", *options).code == 2


def test_settings_of_the_client() -> None:
    text = "# a comment\n\nsecurity.protocol=SASL_SSL\nsasl.password = a=b\n"
    assert read_client_settings(text) == {
        "security.protocol": "SASL_SSL",
        "sasl.password": "a=b",
    }
    with pytest.raises(ValueError, match="line 2"):
        read_client_settings("a=b\nnonsense")
    with pytest.raises(ValueError, match="acks"):
        ChangeTopic("localhost:1", "pages", source="urn:a", settings={"acks": "0"})
    with pytest.raises(ValueError, match="not valid"):
        ChangeTopic("localhost:1", "pages", source="urn:a", settings={"no.such": "1"})
