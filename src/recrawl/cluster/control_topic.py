"""The topic beside the log in which workers tell each other what they do.

It has one partition, so that all read the same order, and is compacted: of each key the brokers
keep the last message at least.  A message that cannot be delivered within two seconds is dropped,
because a sign of life that arrives later would be a lie.

If somebody deletes the topic, a worker creates it again, and reads from its beginning.  What it
had is lost then, so `BEGINS_ANEW` asks all workers to say again what they know.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol, Self

from recrawl.cluster.members.heartbeats import HEARTBEAT_BYTES_MAX
from recrawl.errors import LedgerError
from recrawl.ledger.kafka_errors import (
    LOGGER,
    Brokers,
    is_transient,
    raise_as_ledger_error,
    retry_while_transient,
)
from recrawl.ledger.kafka_topic import TopicMissing, admin_of, client_settings_of, list_topics

# After kafka_errors, which raises a helpful ImportError if the package is missing.
from confluent_kafka import (  # isort: skip
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # isort: skip

__all__ = ["BEGINS_ANEW", "CONTROL_SUFFIX", "ControlLog", "ControlTopic"]

CONTROL_SUFFIX: Final = ".control"
"""What the name of the topic has after that of the log's."""
BEGINS_ANEW: Final = "topic/begins-anew"
"""Key that a reader gets before the first message of a topic that was deleted and created again."""
_DELIVERY_MS_MAX: Final = 2_000
# Brokers may list a new topic some moments late; a topic that is missing for longer was deleted.
_MISSING_MS: Final = 5_000
_CREATE_SECONDS: Final = 10.0
_MISSING_ERRORS: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
_UNLISTED_SECONDS_MAX: Final = 3.0
_UNLISTED_LOOK_SECONDS: Final = 0.2
_READ_MAX: Final = 10_000
_CLOSE_SECONDS: Final = 3.0
_TOPIC_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "600000",
    "max.compaction.lag.ms": "600000",
    "max.message.bytes": str(HEARTBEAT_BYTES_MAX + (64 << 10)),
    "min.cleanable.dirty.ratio": "0.1",
    # A late message of a worker that stood still must not replace a newer one before that one is
    # sent again.
    "min.compaction.lag.ms": "60000",
    # Only closed segments are compacted, and a worker that starts reads all that are left.
    "segment.bytes": str(16 << 20),
    "segment.ms": "600000",
}
_PRODUCER_SETTINGS: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "message.timeout.ms": _DELIVERY_MS_MAX,
    "queue.buffering.max.messages": 10_000,
    "topic.metadata.propagation.max.ms": _MISSING_MS,
}
_CONSUMER_SETTINGS: Final = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "fetch.wait.max.ms": 100,
    "group.id": "recrawl-reads-without-a-group",
    "queued.max.messages.kbytes": 16 << 10,
    "topic.metadata.propagation.max.ms": _MISSING_MS,
}


class ControlLog(Protocol):
    """Messages with keys that every worker writes, and every worker reads in the same order."""

    def publish(self, key: str, value: bytes) -> None:
        """Send a message, and do not wait for it."""
        ...

    def read(self) -> list[tuple[str, bytes]]:
        """Return the messages that have come since the last call; at first all that are kept.

        If all messages were lost, `BEGINS_ANEW` stands before the first one after that.
        """
        ...

    def close(self) -> None:
        """Send what waits, for a moment, and end."""
        ...


class ControlTopic:
    """A `ControlLog` in a topic of Kafka; create it with `open`."""

    def __init__(
        self,
        topic: str,
        producer: Producer,
        consumer: Consumer,
        admin: AdminClient,
        replication: int | None,
        *,
        may_create: bool = True,
    ) -> None:
        self._topic = topic
        self._may_create = may_create
        self._producer = producer
        self._consumer = consumer
        self._admin = admin
        self._replication = replication
        self._next_offset = 0
        self._is_missing = False
        self._starts_over = False
        self._created_at = -_CREATE_SECONDS

    @classmethod
    def open(
        cls,
        bootstrap: str,
        topic: str,
        *,
        replication: int | None = None,
        client_settings: Mapping[str, Any] | None = None,
        must_exist: Sequence[str] = (),
        seconds_max: float = 60.0,
    ) -> Self:
        """Open the topic, and create it if it does not exist.

        Parameters
        ----------
        bootstrap
            Addresses of the first brokers to contact: ``"host:port,host:port"``.
        topic
            Name of the topic.
        replication
            Number of brokers that store a topic created here; None for the brokers' default.
        client_settings
            Additional settings of ``librdkafka``.
        must_exist
            Names of topics that must exist; if there are any, none is created, also not if somebody
            deletes this one.
        seconds_max
            Time limit in seconds for creating it.

        Raises
        ------
        LedgerError
            The brokers do not answer, or refuse.
        TopicMissing
            A topic that must exist does not.
        """
        brokers = Brokers(bootstrap, seconds_max)
        settings = client_settings_of(brokers, client_settings or {})
        with raise_as_ledger_error("the Kafka settings are invalid"):
            admin = admin_of(settings)
            producer = Producer({**settings, **_PRODUCER_SETTINGS})
            consumer = Consumer({**settings, **_CONSUMER_SETTINGS})
        brokers.ask_with(admin)
        try:
            with raise_as_ledger_error("the control topic cannot be found or created", brokers):
                if must_exist:
                    _check_topics(admin, must_exist, seconds_max)
                else:
                    retry_while_transient(
                        lambda seconds: _create_topic(admin, topic, replication, seconds),
                        seconds_max,
                    )
                consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        except BaseException:
            consumer.close()
            raise
        return cls(topic, producer, consumer, admin, replication, may_create=not must_exist)

    def publish(self, key: str, value: bytes) -> None:
        """Send a message, and do not wait for it; see `ControlLog.publish`."""
        self._producer.poll(0)
        try:
            self._producer.produce(
                self._topic, value=value, key=key, partition=0, on_delivery=self._note_delivery
            )
        except BufferError:
            LOGGER.info("a message to %s was dropped: too many wait for the brokers", self._topic)
        except KafkaException as error:
            if not is_transient(error.args[0]):
                raise LedgerError(f"the control topic cannot be written: {error}") from error
            self._note_delivery(error.args[0], None)

    def _note_delivery(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            LOGGER.info("a message to the control topic was not delivered: %s", error)
            if error.code() in _MISSING_ERRORS:
                self._create_again()

    def read(self) -> list[tuple[str, bytes]]:
        """Return the messages that have come; see `ControlLog.read`."""
        if self._starts_over:
            # The new topic may be longer than the old one was, when this worker reads it at last.
            self._starts_over, self._is_missing = False, True
            self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
        found: list[tuple[str, bytes]] = []
        while len(found) < _READ_MAX:
            messages = self._consumer.consume(1_000, timeout=0)
            if not messages:
                break
            for message in messages:
                error = message.error()
                if error is not None:
                    self._check(error)
                    continue
                if self._begins_anew(message.offset()):
                    found.append((BEGINS_ANEW, b""))
                key, value = message.key(), message.value()
                if key is not None and value is not None:
                    found.append((bytes(key).decode("utf-8", "replace"), value))
        return found

    def _begins_anew(self, offset: int | None) -> bool:
        """Return whether a message that was read is the first one of a topic created again."""
        assert offset is not None
        begins_anew = self._is_missing or offset < self._next_offset
        if begins_anew:
            LOGGER.warning("the topic %s was deleted, and exists again", self._topic)
        self._is_missing, self._next_offset = False, offset + 1
        return begins_anew

    def _check(self, error: KafkaError) -> None:
        if not is_transient(error):
            raise LedgerError(f"the control topic cannot be read: {error}")
        LOGGER.info("reading %s: %s", self._topic, error)
        if error.code() in _MISSING_ERRORS:
            self._create_again()

    def _create_again(self) -> None:
        """Begin to create the topic, unless that was done just now."""
        now = time.monotonic()
        if not self._may_create or now - self._created_at < _CREATE_SECONDS:
            return
        self._created_at, self._starts_over = now, True
        LOGGER.warning("the topic %s does not exist, and is created again", self._topic)
        new = _new_topic(self._topic, self._replication)
        created = self._admin.create_topics([new], request_timeout=_CREATE_SECONDS)
        created[self._topic].add_done_callback(self._note_created)

    def _note_created(self, created: "Future[None]") -> None:
        error = created.exception()
        if error is not None and not _is_there(error):
            LOGGER.warning("the topic %s cannot be created again: %s", self._topic, error)

    def close(self) -> None:
        """Send what waits, for a moment, and end; see `ControlLog.close`."""
        self._producer.flush(_CLOSE_SECONDS)
        self._consumer.close()


def _new_topic(topic: str, replication: int | None) -> NewTopic:
    return NewTopic(topic, 1, replication or -1, config=dict(_TOPIC_SETTINGS))


def _is_there(error: BaseException) -> bool:
    """Return whether a topic could not be created because it exists."""
    return (
        isinstance(error, KafkaException)
        and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    )


def _check_topics(admin: AdminClient, topics: Sequence[str], seconds_max: float) -> None:
    """Raise `TopicMissing` unless all topics exist; a new one may be listed some moments late."""
    give_up_at = time.monotonic() + _UNLISTED_SECONDS_MAX
    while True:
        listed = retry_while_transient(lambda seconds: list_topics(admin, seconds), seconds_max)
        missing = next((one for one in topics if one not in listed), None)
        if missing is None:
            return
        if time.monotonic() > give_up_at:
            raise TopicMissing(f"the topic {missing} does not exist")
        time.sleep(_UNLISTED_LOOK_SECONDS)


def _create_topic(admin: AdminClient, topic: str, replication: int | None, seconds: float) -> None:
    """Create a topic unless it exists."""
    if topic in list_topics(admin, seconds):
        return
    new = _new_topic(topic, replication)
    try:
        admin.create_topics([new], request_timeout=seconds)[topic].result()
    except KafkaException as error:
        if not _is_there(error):
            raise
