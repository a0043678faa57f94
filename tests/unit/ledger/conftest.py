"""A Kafka broker that answers with chosen errors."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from recrawl.ledger import kafka_topic as kafka_topic_module

__all__ = ["FailingBroker", "failing_broker"]

PRODUCE, FETCH, LIST_OFFSETS, INIT_PRODUCER_ID = 0, 1, 2, 22


class FailingBroker:
    """The mock broker of librdkafka, which answers with chosen errors.

    It stores nothing durably, so it serves only for tests of faults.
    """

    def __init__(self, topic: str, n_brokers: int = 1) -> None:
        package = Path(confluent_kafka.__file__).parent
        (library,) = package.with_name("confluent_kafka.libs").glob("librdkafka*")
        self._library = ctypes.CDLL(str(library))
        for name in ("rd_kafka_new", "rd_kafka_conf_new", "rd_kafka_mock_cluster_new"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        message = ctypes.create_string_buffer(512)
        configuration = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        self._library.rd_kafka_conf_set(configuration, b"log_level", b"0", message, 512)
        self._client = ctypes.c_void_p(
            self._library.rd_kafka_new(0, configuration, message, ctypes.c_size_t(512))
        )
        assert self._client.value, message.value
        self._cluster = ctypes.c_void_p(
            self._library.rd_kafka_mock_cluster_new(self._client, n_brokers)
        )
        self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), 2, 1)
        self.topic = topic

    @property
    def bootstrap(self) -> str:
        """Address of the broker."""
        found: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return found.decode()

    def fail(self, request: int, *errors: int) -> None:
        """Answer the next requests of one kind with errors."""
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster,
            ctypes.c_int16(request),
            ctypes.c_size_t(len(errors)),
            (ctypes.c_int * len(errors))(*errors),
        )

    def set_leader(self, partition: int, broker: int) -> None:
        """Let a broker lead a partition; brokers are counted from 1."""
        self._library.rd_kafka_mock_partition_set_leader(
            self._cluster, self.topic.encode(), ctypes.c_int32(partition), ctypes.c_int32(broker)
        )

    def go_down(self, broker: int = 1) -> None:
        """Close all connections of a broker, and let it stop answering."""
        self._library.rd_kafka_mock_broker_set_down(self._cluster, ctypes.c_int32(broker))

    def come_up(self, broker: int = 1) -> None:
        """Let a broker answer again."""
        self._library.rd_kafka_mock_broker_set_up(self._cluster, ctypes.c_int32(broker))

    def close(self) -> None:
        """Stop the broker."""
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)


@pytest.fixture
def failing_broker(kafka_topic: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingBroker]:
    # The mock broker does not answer requests for the settings of a topic.
    monkeypatch.setattr(kafka_topic_module, "_topic_settings", lambda *_: {})
    broker = FailingBroker(kafka_topic)
    yield broker
    broker.close()


@pytest.fixture
def two_brokers(kafka_topic: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingBroker]:
    """Return brokers of which 1 leads partition 1, and 2 leads partition 0."""
    monkeypatch.setattr(kafka_topic_module, "_topic_settings", lambda *_: {})
    brokers = FailingBroker(kafka_topic, 2)
    brokers.set_leader(0, 2)
    brokers.set_leader(1, 1)
    yield brokers
    brokers.close()
