"""The log of a cluster: a topic of Kafka, or of whatever speaks its protocol.

A record is a message: its data is the value, its schema number (2 bytes, big-endian) the header
``schema``.  The key says which writer wrote it (8 random bytes per opened ledger) and as its
how-many-eth (8 bytes), so that a writer can find its own records among those of others.  Positions
are Kafka's offsets.  Several may write to one partition; the log's order is what counts.

There is no consumer group: who reads which partition from where is the caller's affair.
"""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from recrawl.errors import LedgerError, PositionLost
from recrawl.ledger.contract import (
    N_PARTITIONS_MAX,
    READ_BYTES_MAX,
    Record,
    Span,
    check_partition,
    check_records,
)
from recrawl.ledger.kafka_errors import LOGGER, PASSING, ledger_errors, patiently
from recrawl.ledger.kafka_topic import (
    MESSAGE_BYTES_MAX,
    admin_of,
    agreed_partitions,
    client_settings_of,
)

# After kafka_errors, which says what to install where it is missing.
from confluent_kafka import (  # isort: skip
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient  # isort: skip

__all__ = ["KafkaLedger", "KafkaLog"]

_HEADER = "schema"
_QUEUE_MESSAGES_MAX = 500_000
_QUEUE_KIB_MAX = 256 << 10
_READ_AHEAD_KIB_MAX = 32 << 10
_FLUSH_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.1

# Flushing does not wait for the batch to fill: a long linger costs a single record nothing, and
# makes large batches of a thousand.
_PRODUCER_SETTINGS = {
    "acks": "all",
    "compression.type": "lz4",
    "enable.idempotence": True,
    "linger.ms": 5,
    "message.max.bytes": MESSAGE_BYTES_MAX,
    "queue.buffering.max.messages": _QUEUE_MESSAGES_MAX,
    "queue.buffering.max.kbytes": _QUEUE_KIB_MAX,
}
# A fetch under way holds up the next one for as long as it may wait for data: hardly at all, then.
# Nothing is fetched between reads, so that this keeps no broker busy.
_CONSUMER_SETTINGS = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "fetch.message.max.bytes": MESSAGE_BYTES_MAX,
    "fetch.queue.backoff.ms": 1,
    "fetch.wait.max.ms": 1,
    "group.id": "recrawl-reads-without-a-group",
    "isolation.level": "read_uncommitted",
    "queued.max.messages.kbytes": _READ_AHEAD_KIB_MAX,
}


class KafkaLog:
    """The log of all partitions in one topic.

    Raises `LedgerError` where the brokers fail or do not answer in time.  `open` makes it.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        admin: AdminClient,
        topic: str,
        n_partitions: int,
        seconds_max: float,
    ) -> None:
        self._settings = settings
        self._admin = admin
        self._topic = topic
        self._n_partitions = n_partitions
        self._seconds_max = seconds_max
        self._ledgers: dict[int, KafkaLedger] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        bootstrap: str,
        topic: str,
        *,
        n_partitions: int | None = None,
        create: bool = True,
        replication: int | None = None,
        client_settings: Mapping[str, Any] | None = None,
        seconds_max: float = 60.0,
    ) -> Self:
        """Open the log in a topic.

        Parameters
        ----------
        bootstrap
            Brokers to ask first: ``"host:port,host:port"``.
        topic
            Of this log alone.
        n_partitions
            Checked if the topic is there, needed to make it.
        create
            Whether to make the topic if it is not there.
        replication
            On how many brokers a topic that is made is kept; None for what the brokers are set
            to.  From 3 on, a record is acknowledged when it is on two of them at least.
        client_settings
            Further settings of ``librdkafka``, such as those for encryption and passwords.
        seconds_max
            How long any call waits for the brokers before it raises `LedgerError`.

        Raises
        ------
        LedgerError
            The brokers do not answer, the topic is not there and not to be made, it has another
            number of partitions, or it would forget records by itself.
        """
        if seconds_max <= 0:
            raise ValueError(f"seconds_max must be positive, got {seconds_max}")
        if n_partitions is not None and not 1 <= n_partitions <= N_PARTITIONS_MAX:
            raise ValueError(f"n_partitions must be 1 to {N_PARTITIONS_MAX}, got {n_partitions}")
        settings = client_settings_of(bootstrap, client_settings or {})
        with ledger_errors("the settings are wrong"):
            admin = admin_of(settings)
        n_found = agreed_partitions(
            admin,
            topic,
            n_partitions=n_partitions,
            create=create,
            replication=replication,
            seconds_max=seconds_max,
        )
        return cls(settings, admin, topic, n_found, seconds_max)

    @property
    def n_partitions(self) -> int:
        """How many partitions the log has."""
        return self._n_partitions

    def partition(self, i: int) -> "KafkaLedger":
        """Return the ledger of partition ``i``, the same one at every call."""
        check_partition(i, self._n_partitions)
        with self._lock:
            if i not in self._ledgers:
                self._ledgers[i] = KafkaLedger(
                    self._settings, self._admin, self._topic, i, self._seconds_max
                )
            return self._ledgers[i]

    def close(self) -> None:
        """Close all connections; again does nothing."""
        with self._lock:
            for ledger in self._ledgers.values():
                ledger._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KafkaLedger:
    """The log of one partition; `KafkaLog.partition` makes it.

    It has two connections, one to write and one to read, and the latter from its first use on.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        admin: AdminClient,
        topic: str,
        i: int,
        seconds_max: float,
    ) -> None:
        self._settings = settings
        self._admin = admin
        self._topic = topic
        self._i = i
        self._seconds_max = seconds_max
        self._is_closed = False
        self._writing = threading.Lock()
        # At once: it takes half a second until a new producer may write.
        self._producer = _producer_of(settings, seconds_max)
        self._failure: str | None = None
        self._writer = os.urandom(8)
        self._n_written = 0
        self._end_seen: int | None = None  # none of our next records can be below it
        self._reading = threading.RLock()
        self._consumer: Consumer | None = None
        self._next: int | None = None  # what the consumer would return next
        self._ahead: Message | None = None  # what it returned and nobody has had yet

    @property
    def first(self) -> int:
        """Position of the earliest record that is kept; `end` where there is none."""
        return self._place(OFFSET_BEGINNING)

    @property
    def end(self) -> int:
        """Position after the last record, of whichever writer; asks the broker."""
        return self._place(OFFSET_END)

    def append(self, records: Sequence[Record]) -> Span:
        """Write records after the last one; see `Ledger.append`.

        Of others' records between them the span says so; then read from where you were.
        """
        check_records(records)
        with self._writing:
            if self._failure is not None:
                raise LedgerError(f"an earlier append failed ({self._failure}); open the log again")
            if not records:
                end = self.end
                return Span(end, end, True)
            if self._end_seen is None:
                self._end_seen = self.end
            try:
                offsets = self._produced(records)
            except BaseException as error:  # also one that ends the process, should it go on
                self._failure = str(error) or type(error).__name__
                if isinstance(error, LedgerError):
                    raise LedgerError(f"an append failed: {error}") from error
                raise
            first, end = min(offsets), max(offsets) + 1
            self._end_seen = end
            if end - first == len(records):
                return Span(first, end, True)
            return Span(first, end, False, tuple(sorted(offsets)))

    def read(self, position: int, *, n_bytes_max: int = READ_BYTES_MAX) -> list[tuple[int, Record]]:
        """Return records from a position up to the end; see `Ledger.read`."""
        with self._reading:
            end = self._end_from(position)
            messages = self._fetched(position, end, n_bytes_max)
        return [(_offset_of(message), self._record_of(message)) for message in messages]

    def sync(self) -> None:
        """Return at once: what was appended has been acknowledged by all in-sync replicas."""

    def truncate(self, position: int) -> None:
        """Forget the records below a position; see `Ledger.truncate`."""
        first, end = self.first, self.end
        if position > end:
            raise ValueError(f"position must be at most {end}, got {position}")
        if position <= first:
            return
        with ledger_errors("the log cannot be truncated"):
            below = TopicPartition(self._topic, self._i, position)
            patiently(
                lambda seconds: [
                    answer.result()
                    for answer in self._admin.delete_records(
                        [below], request_timeout=seconds
                    ).values()
                ],
                self._seconds_max,
            )

    # ------------------------------------------------------------------ writing

    def _produced(self, records: Sequence[Record]) -> list[int]:
        """Send records, all before waiting for any; return the offset of each."""
        producer = self._producer
        if producer is None:
            raise LedgerError("the log is closed")
        offsets: list[int] = []
        failures: list[KafkaError] = []
        lost: list[bytes] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None:
                failures.append(error)
            elif offset is None or offset < 0:
                lost.append(message.key() or b"")
            else:
                offsets.append(offset)

        give_up_at = time.monotonic() + self._seconds_max + _FLUSH_GRACE_SECONDS
        with ledger_errors("the brokers refuse"):
            for schema, data in records:
                self._send(producer, schema, data, delivered, give_up_at)
            producer.flush(max(0.0, give_up_at - time.monotonic()))
        if failures:
            raise LedgerError(f"{len(failures)} of {len(records)} records: {failures[0]}")
        if len(offsets) + len(lost) < len(records):
            producer.purge()
            raise LedgerError(f"the brokers did not answer within {self._seconds_max} s")
        if lost:
            # A batch that was sent twice, its first answer lost, is acknowledged without offsets.
            offsets += self._searched(set(lost))
        return offsets

    def _send(
        self, producer: Producer, schema: int, data: bytes, delivered: Any, give_up_at: float
    ) -> None:
        key = self._writer + self._n_written.to_bytes(8, "big")
        self._n_written += 1
        headers: list[tuple[str, str | bytes | None]] = [(_HEADER, schema.to_bytes(2, "big"))]
        while True:
            try:
                producer.produce(
                    self._topic,
                    value=data,
                    key=key,
                    partition=self._i,
                    headers=headers,
                    on_delivery=delivered,
                )
                return
            except BufferError:  # the queue is full: make room
                if time.monotonic() > give_up_at:
                    raise LedgerError("the brokers are too slow to take the records") from None
                producer.flush(_POLL_SECONDS)

    def _searched(self, keys: set[bytes]) -> list[int]:
        """Return the offsets of records that we wrote, found by their keys."""
        found = []
        with self._reading:
            position, end = self._end_seen or 0, self.end
            while position < end and keys:
                messages = self._fetched(position, end, READ_BYTES_MAX)
                if not messages:
                    break
                for message in messages:
                    if message.key() in keys:
                        keys.discard(message.key() or b"")
                        found.append(_offset_of(message))
                position = _offset_of(messages[-1]) + 1
        if keys:
            raise LedgerError(f"{len(keys)} records were acknowledged and are not in the log")
        return found

    # ------------------------------------------------------------------ reading

    def _open_consumer(self) -> Consumer:
        if self._is_closed:
            raise LedgerError("the log is closed")
        if self._consumer is None:
            with ledger_errors("the settings are wrong"):
                self._consumer = Consumer({**self._settings, **_CONSUMER_SETTINGS})
        return self._consumer

    def _place(self, which: int) -> int:
        """Return the beginning of the log or its end.

        Not by `Consumer.get_watermark_offsets`, which passes one off as the other where only one
        of them was answered.
        """
        where = TopicPartition(self._topic, self._i, which)

        def ask(seconds: float) -> int:
            (found,) = self._open_consumer().offsets_for_times([where], timeout=seconds)
            if found.error is not None:
                raise KafkaException(found.error)
            return int(found.offset)

        with self._reading, ledger_errors("the brokers do not say where the log ends"):
            return patiently(ask, self._seconds_max)

    def _end_from(self, position: int) -> int:
        """Return the end, unless the position is lost."""
        first, end = self.first, self.end
        if not first <= position <= end:
            raise PositionLost(f"position must be {first} to {end}, got {position}")
        return end

    def _fetched(self, position: int, end: int, n_bytes_max: int) -> list[Message]:
        """Return messages from a position up to an end, bounded by bytes but at least one."""
        consumer = self._open_consumer()
        messages: list[Message] = []
        n_bytes = 0
        give_up_at = time.monotonic() + self._seconds_max
        with ledger_errors("the log cannot be read"):
            if self._next != position:
                consumer.assign([TopicPartition(self._topic, self._i, position)])
                self._next, self._ahead = position, None
            while self._next < end:
                message = self._ahead or consumer.poll(_POLL_SECONDS)
                self._ahead = None
                if message is None or message.error() is not None:
                    if message is not None and self._is_end(message, end):
                        break
                    if time.monotonic() > give_up_at:
                        self._stop_fetching(consumer)
                        raise LedgerError(f"no records within {self._seconds_max} s")
                    continue
                n_bytes += len(message)
                if messages and n_bytes > n_bytes_max:
                    self._ahead, self._next = message, _offset_of(message)
                    return messages
                messages.append(message)
                self._next = _offset_of(message) + 1
                give_up_at = time.monotonic() + self._seconds_max
            self._stop_fetching(consumer)
        return messages

    def _is_end(self, message: Message, end: int) -> bool:
        """Whether there is nothing more to come; an error that does not pass is raised."""
        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return (message.offset() or 0) >= end
        if error.code() in PASSING or error.retriable():
            LOGGER.info("reading %s, partition %d: %s", self._topic, self._i, error)
            return False
        position = self._next
        assert position is not None
        self._stop_fetching(self._open_consumer())
        self._end_from(position)  # forgotten while we read?
        raise LedgerError(f"the log cannot be read: {error}")

    def _stop_fetching(self, consumer: Consumer) -> None:
        self._next = self._ahead = None
        consumer.unassign()

    def _record_of(self, message: Message) -> Record:
        headers = dict(message.headers() or ())
        schema = headers.get(_HEADER)
        if not isinstance(schema, bytes) or len(schema) != 2:
            raise LedgerError(
                f"the message at {message.offset()} of partition {self._i} of {self._topic} is no "
                "record: the topic must be for this log alone"
            )
        return Record(int.from_bytes(schema, "big"), message.value() or b"")

    def _close(self) -> None:
        with self._writing, self._reading:
            self._is_closed = True
            self._producer = None
            self._next = self._ahead = None
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                consumer.close()


def _producer_of(settings: Mapping[str, Any], seconds_max: float) -> Producer | None:
    with ledger_errors("the settings are wrong"):
        return Producer(
            {**settings, **_PRODUCER_SETTINGS, "message.timeout.ms": int(seconds_max * 1000)}
        )


def _offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
