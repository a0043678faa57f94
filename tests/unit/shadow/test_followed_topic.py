"""A real topic of Kafka is followed, and a restart continues at the place."""

import json
import time
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from recrawl.errors import ReadError
from recrawl.readers.lines import LINE_BYTES_MAX
from recrawl.shadow import FollowedTopic

CHUNK = 1 << 20
SECONDS_MAX = 300.0


def create_topic(bootstrap: str, topic: str, n_partitions: int, **config: str) -> None:
    """Create a topic, and wait until the broker tells clients of all its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(topic, n_partitions, 1, config=config)])
    made[topic].result(SECONDS_MAX)
    until = time.monotonic() + SECONDS_MAX
    while True:
        found = admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic]
        errors = [found.error, *(one.error for one in found.partitions.values())]
        if len(found.partitions) == n_partitions and all(one is None for one in errors):
            return
        assert time.monotonic() < until, errors
        time.sleep(0.1)


def write(bootstrap: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 4 << 20})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS_MAX) == 0


def read_all(topic: FollowedTopic) -> list[Any]:
    rows: list[Any] = []
    while data := topic.read(CHUNK).data:
        rows += [json.loads(line) for line in data.splitlines()]
    return rows


@pytest.mark.slow
def test_messages_are_lines_and_a_restart_continues(kafka_bootstrap: str, kafka_topic: str) -> None:
    create_topic(kafka_bootstrap, kafka_topic, 2, **{"max.message.bytes": str(4 << 20)})
    write(
        kafka_bootstrap, kafka_topic, [b'{"n": 1}', b'{\n "n": 2}', b"", b"x" * LINE_BYTES_MAX * 2]
    )
    write(kafka_bootstrap, kafka_topic, [b'{"n": 3}'], partition=1)
    log = FollowedTopic(kafka_bootstrap, kafka_topic, seconds_max=SECONDS_MAX)
    assert sorted(row["n"] for row in read_all(log)) == [1, 2, 3]
    assert log.n_long_lines == 1
    place = json.loads(json.dumps(log.place()))
    log.close()
    write(kafka_bootstrap, kafka_topic, [b'{"n": 4}'])
    log = FollowedTopic(kafka_bootstrap, kafka_topic, place, seconds_max=SECONDS_MAX)
    assert read_all(log) == [{"n": 4}]
    log.close()
    far = {"offsets": {"0": 10_000, "1": 1}}
    log = FollowedTopic(kafka_bootstrap, kafka_topic, far, seconds_max=SECONDS_MAX)
    assert len(read_all(log)) == 3
    assert log.n_rests_lost == 1
    log.close()


@pytest.mark.slow
def test_a_read_at_the_end_waits_for_no_deadline(kafka_bootstrap: str, kafka_topic: str) -> None:
    create_topic(kafka_bootstrap, kafka_topic, 2)
    log = FollowedTopic(kafka_bootstrap, kafka_topic, seconds_max=1e6)
    assert read_all(log) == []
    for n in range(2):
        write(kafka_bootstrap, kafka_topic, [b'{"n": %d}' % n], partition=n)
        while not (rows := read_all(log)):
            pass
        assert rows == [{"n": n}]
    assert read_all(log) == read_all(log) == []
    log.close()


@pytest.mark.slow
def test_a_topic_that_does_not_exist_is_an_error(kafka_bootstrap: str, kafka_topic: str) -> None:
    log = FollowedTopic(kafka_bootstrap, kafka_topic, seconds_max=SECONDS_MAX)
    with pytest.raises(ReadError, match="cannot be read"):
        log.read(CHUNK)
    log.close()
