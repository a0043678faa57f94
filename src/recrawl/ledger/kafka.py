"""The log of a cluster: a topic of Kafka, or of whatever speaks its protocol.

A record is a message: its data is the value, its schema number (2 bytes, big-endian) the header
``schema``, and the id of its corpus (16 bytes) the header ``corpus``.  The key is the writer (8
random bytes per opened ledger) and the writer's count of records (8 bytes), so that a writer can
find its own records among those of others.  Positions are Kafka's offsets.  Several processes may
write to one partition; the order of the log decides.

There is no consumer group: the caller decides which partition to read, and from where.
"""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from recrawl.errors import IdentityError, LedgerError, PositionLost
from recrawl.ledger.contract import (
    N_PARTITIONS_MAX,
    READ_BYTES_MAX,
    AppendedSpan,
    Record,
    check_partition,
    check_records,
)
from recrawl.ledger.kafka_errors import (
    LOGGER,
    Brokers,
    is_transient,
    raise_as_ledger_error,
    retry_while_transient,
)
from recrawl.ledger.kafka_topic import (
    MESSAGE_BYTES_MAX,
    WantedCopies,
    admin_of,
    client_settings_of,
    find_or_create_topic,
    topic_id_of,
)
from recrawl.one_process import OneProcess, ProcessLock

# After kafka_errors, which raises a helpful ImportError if the package is missing.
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
_CORPUS_HEADER = "corpus"
_QUEUE_MESSAGES_MAX = 500_000
_QUEUE_KIB_MAX = 256 << 10
_READ_AHEAD_KIB_MAX = 32 << 10
_FLUSH_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.1

# `flush` does not wait for a batch to fill, so a long linger does not delay a single record, and
# puts a thousand records into few batches.
_PRODUCER_SETTINGS = {
    "acks": "all",
    "compression.type": "lz4",
    "enable.idempotence": True,
    "linger.ms": 5,
    "message.max.bytes": MESSAGE_BYTES_MAX,
    "queue.buffering.max.messages": _QUEUE_MESSAGES_MAX,
    "queue.buffering.max.kbytes": _QUEUE_KIB_MAX,
}
# A pending fetch delays the next one for as long as it may wait for data, so that wait is short.
# Nothing is fetched between reads, so the short wait does not burden the broker.
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

    Create it with `open`.  Its methods raise `LedgerError` if the brokers fail or time out.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        admin: AdminClient,
        topic: str,
        n_partitions: int,
        brokers: Brokers,
    ) -> None:
        self._settings = settings
        self._admin = admin
        self._topic = topic
        self._n_partitions = n_partitions
        self._brokers = brokers
        self._corpus_id: str | None = None
        self._ledgers: dict[int, KafkaLedger] = {}
        self._lock = ProcessLock(threading.Lock())

    @classmethod
    def open(
        cls,
        bootstrap: str,
        topic: str,
        *,
        n_partitions: int | None = None,
        create: bool = True,
        replication: int | None = None,
        in_sync_min: int | None = None,
        accept_weaker: bool = False,
        client_settings: Mapping[str, Any] | None = None,
        seconds_max: float = 60.0,
        corpus_id: str | None = None,
    ) -> Self:
        """Open the log in a topic.

        Parameters
        ----------
        bootstrap
            Addresses of the first brokers to contact: ``"host:port,host:port"``.
        topic
            Name of the topic, which must hold nothing but this log.
        n_partitions
            Number of partitions: checked if the topic exists, needed to create it.
        create
            Whether to create the topic if it does not exist.
        replication
            Number of brokers that store the topic: those of a topic created here, and the smallest
            number that another one may have.  None for the brokers' default, and any number.
        in_sync_min
            Smallest ``min.insync.replicas`` of the topic: the number of brokers that have a record
            when it is acknowledged.  By default 2 if ``replication`` is 3 or more, otherwise any.
        accept_weaker
            Whether to use a topic that has fewer copies than this, or that may elect a leader
            without the newest records.
        client_settings
            Additional settings of ``librdkafka``, such as those for encryption and passwords.
        seconds_max
            Time limit in seconds of every call, after which it raises `LedgerError`.
        corpus_id
            Id of the corpus, which must be that of the topic's records; None to accept any.

        Raises
        ------
        IdentityError
            The topic holds the log of another corpus.
        LedgerError
            The brokers do not answer, the topic does not exist and may not be created, it has
            another number of partitions, its settings would delete records, or fewer brokers store
            it than wanted.
        """
        if seconds_max <= 0:
            raise ValueError(f"seconds_max must be positive, got {seconds_max}")
        if n_partitions is not None and not 1 <= n_partitions <= N_PARTITIONS_MAX:
            raise ValueError(f"n_partitions must be 1 to {N_PARTITIONS_MAX}, got {n_partitions}")
        brokers = Brokers(bootstrap, seconds_max)
        settings = client_settings_of(brokers, client_settings or {})
        with raise_as_ledger_error("the Kafka settings are invalid"):
            admin = admin_of(settings)
        brokers.ask_with(admin)
        n_found = find_or_create_topic(
            admin,
            topic,
            n_partitions=n_partitions,
            create=create,
            copies=WantedCopies(replication, in_sync_min, accept_weaker),
            brokers=brokers,
        )
        log = cls(settings, admin, topic, n_found, brokers)
        if corpus_id is not None:
            try:
                log.identify(corpus_id)
            except BaseException:
                log.close()
                raise
        return log

    @property
    def n_partitions(self) -> int:
        """Number of partitions of the log."""
        return self._n_partitions

    @property
    def corpus_id(self) -> str | None:
        """Id of the corpus whose records the topic holds; None if they have none yet."""
        found = (self.partition(i).find_corpus_id() for i in range(self._n_partitions))
        return next((corpus_id for corpus_id in found if corpus_id is not None), None)

    @cached_property
    def topic_id(self) -> str | None:
        """Id that the brokers gave the topic; a topic created again has another one.

        None if the brokers do not tell.
        """
        return topic_id_of(self._admin, self._topic, self._brokers)

    def identify(self, corpus_id: str) -> None:
        """Check the id of the corpus in all partitions; later records carry it."""
        for i in range(self._n_partitions):
            found = self.partition(i).find_corpus_id()
            if found not in (None, corpus_id):
                raise IdentityError(
                    f"the topic {self._topic} holds the log of corpus {found}, but this is corpus "
                    f"{corpus_id}. Nothing was changed. Check ledger.topic."
                )
        self._corpus_id = corpus_id
        for i in range(self._n_partitions):
            self.partition(i)._corpus = bytes.fromhex(corpus_id)

    def partition(self, i: int) -> "KafkaLedger":
        """Return the ledger of partition ``i``; every call returns the same object."""
        check_partition(i, self._n_partitions)
        with self._lock:
            if i not in self._ledgers:
                self._ledgers[i] = KafkaLedger(
                    self._settings, self._admin, self._topic, i, self._brokers
                )
            return self._ledgers[i]

    def close(self) -> None:
        """Close all connections; a second call, or one in a forked child, does nothing."""
        if self._lock.is_forked:
            return
        with self._lock:
            for ledger in self._ledgers.values():
                ledger._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KafkaLedger(OneProcess):
    """The log of one partition; `KafkaLog.partition` creates it.

    It has a connection for writing, and from the first read on a second one for reading.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        admin: AdminClient,
        topic: str,
        i: int,
        brokers: Brokers,
    ) -> None:
        self._settings = settings
        self._admin = admin
        self._topic = topic
        self._i = i
        self._brokers = brokers
        self._seconds_max = brokers.seconds_max
        self._is_closed = False
        self._corpus: bytes | None = None  # id of the corpus, for the header of every message
        self._writing = ProcessLock(threading.Lock())
        # Created now, because a new producer needs half a second until it may write.
        self._producer = _producer_of(settings, brokers.seconds_max)
        self._failure: str | None = None
        self._writer = os.urandom(8)
        self._n_written = 0
        self._end_seen: int | None = None  # lower bound of the positions of our next records
        self._reading = ProcessLock(threading.RLock())
        self._consumer: Consumer | None = None
        self._next: int | None = None  # position of the message that the consumer returns next
        self._ahead: Message | None = None  # message beyond the limit of the last read
        self.remember_process()

    def native_handles(self) -> tuple[object, ...]:
        """Return the clients, whose destructors would wait for their threads."""
        return self._producer, self._consumer, self._admin

    @property
    def first(self) -> int:
        """Position of the earliest record that the log still holds; `end` if it holds none."""
        return self._watermark(OFFSET_BEGINNING)

    @property
    def end(self) -> int:
        """Position after the last record of any writer, as the broker reports it."""
        return self._watermark(OFFSET_END)

    def append(self, records: Sequence[Record]) -> AppendedSpan:
        """Write records after the last one; see `Ledger.append`.

        If other writers' records are between them, the span is not whole; read these first.
        """
        check_records(records)
        with self._writing:
            if self._failure is not None:
                raise LedgerError(f"an earlier append failed ({self._failure}); open the log again")
            if not records:
                end = self.end
                return AppendedSpan(end, end, True)
            if self._end_seen is None:
                self._end_seen = self.end
            try:
                offsets = self._produce(records)
            except BaseException as error:  # BaseException too: the process may continue after it
                self._failure = str(error) or type(error).__name__
                if isinstance(error, LedgerError):
                    raise LedgerError(f"an append failed: {error}") from error
                raise
            first, end = min(offsets), max(offsets) + 1
            if first < self._end_seen:
                self._failure = (
                    f"the records are at {first:,}, but the log went to {self._end_seen:,} before: "
                    f"the topic {self._topic} was created again, or has lost records"
                )
                raise LedgerError(f"an append failed: {self._failure}")
            self._end_seen = end
            if end - first == len(records):
                return AppendedSpan(first, end, True)
            return AppendedSpan(first, end, False, tuple(sorted(offsets)))

    def read(self, position: int, *, n_bytes_max: int = READ_BYTES_MAX) -> list[tuple[int, Record]]:
        """Return records from a position up to the end; see `Ledger.read`."""
        with self._reading:
            end = self._checked_end(position)
            messages = self._fetch(position, end, n_bytes_max)
        return [(_offset_of(message), self._record_of(message)) for message in messages]

    def sync(self) -> None:
        """Return at once: all in-sync replicas have acknowledged the appended records."""

    def truncate(self, position: int) -> None:
        """Remove the records below a position; see `Ledger.truncate`."""
        first, end = self.first, self.end
        if position > end:
            raise ValueError(f"position must be at most {end}, got {position}")
        if position <= first:
            return
        with raise_as_ledger_error("the log cannot be truncated", self._brokers):
            below = TopicPartition(self._topic, self._i, position)
            retry_while_transient(
                lambda seconds: [
                    answer.result()
                    for answer in self._admin.delete_records(
                        [below], request_timeout=seconds
                    ).values()
                ],
                self._seconds_max,
            )

    # ------------------------------------------------------------------ writing

    def _produce(self, records: Sequence[Record]) -> list[int]:
        """Send all records, then wait for the acknowledgements; return the offset of each."""
        producer = self._producer
        if producer is None:
            raise LedgerError("the log is closed")
        offsets: list[int] = []
        failures: list[KafkaError] = []
        lost: list[bytes] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None:
                failures.append(error)
            elif offset is None or offset < 0:
                lost.append(message.key() or b"")
            else:
                offsets.append(offset)

        give_up_at = time.monotonic() + self._seconds_max + _FLUSH_GRACE_SECONDS
        with raise_as_ledger_error("the brokers refuse the records", self._brokers):
            for schema, data in records:
                self._send(producer, schema, data, on_delivery, give_up_at)
            producer.flush(max(0.0, give_up_at - time.monotonic()))
        if failures:
            raise LedgerError(
                f"{len(failures)} of {len(records)} records were not written: "
                f"{self._brokers.problem(failures[0])}"
            )
        if len(offsets) + len(lost) < len(records):
            producer.purge()
            raise LedgerError(self._brokers.problem(KafkaError(KafkaError._MSG_TIMED_OUT)))
        if lost:
            # After a lost acknowledgement the batch is sent again and acknowledged without offsets.
            offsets += self._find_offsets(set(lost))
        return offsets

    def _send(
        self, producer: Producer, schema: int, data: bytes, on_delivery: Any, give_up_at: float
    ) -> None:
        key = self._writer + self._n_written.to_bytes(8, "big")
        self._n_written += 1
        headers: list[tuple[str, str | bytes | None]] = [(_HEADER, schema.to_bytes(2, "big"))]
        if self._corpus is not None:
            headers.append((_CORPUS_HEADER, self._corpus))
        while True:
            try:
                producer.produce(
                    self._topic,
                    value=data,
                    key=key,
                    partition=self._i,
                    headers=headers,
                    on_delivery=on_delivery,
                )
                return
            except BufferError:  # the queue is full
                if time.monotonic() > give_up_at:
                    raise LedgerError("the brokers are too slow to take the records") from None
                producer.flush(_POLL_SECONDS)

    def _find_offsets(self, keys: set[bytes]) -> list[int]:
        """Return the offsets of our records with these keys, by reading the log."""
        offsets = []
        with self._reading:
            position, end = self._end_seen or 0, self.end
            while position < end and keys:
                messages = self._fetch(position, end, READ_BYTES_MAX)
                if not messages:
                    break
                for message in messages:
                    if message.key() in keys:
                        keys.discard(message.key() or b"")
                        offsets.append(_offset_of(message))
                position = _offset_of(messages[-1]) + 1
        if keys:
            raise LedgerError(f"{len(keys)} records were acknowledged and are not in the log")
        return offsets

    # ------------------------------------------------------------------ reading

    def find_corpus_id(self) -> str | None:
        """Return the id of the corpus in the first or the last record; None if they have none.

        A log that 0.1.0 began has it only in later records, and so does a log whose first record
        was truncated meanwhile.
        """
        with self._reading:
            first, end = self.first, self.end
            for position in (first, end - 1) if end > first else ():
                for message in self._fetch(position, position + 1, 1)[:1]:
                    found = dict(message.headers() or ()).get(_CORPUS_HEADER)
                    if isinstance(found, bytes):
                        return found.hex()
        return None

    def _get_consumer(self) -> Consumer:
        if self._is_closed:
            raise LedgerError("the log is closed")
        if self._consumer is None:
            with raise_as_ledger_error("the Kafka settings are invalid"):
                self._consumer = Consumer({**self._settings, **_CONSUMER_SETTINGS})
        return self._consumer

    def _watermark(self, which: int) -> int:
        """Return the first position of the log or its end.

        `Consumer.get_watermark_offsets` is not used, because it confuses the two where the broker
        answered only one of them.
        """
        where = TopicPartition(self._topic, self._i, which)

        def request(seconds: float) -> int:
            (found,) = self._get_consumer().offsets_for_times([where], timeout=seconds)
            if found.error is not None:
                raise KafkaException(found.error)
            return int(found.offset)

        with (
            self._reading,
            raise_as_ledger_error("the brokers do not report the bounds of the log", self._brokers),
        ):
            return retry_while_transient(request, self._seconds_max)

    def _checked_end(self, position: int) -> int:
        """Return the end of the log; raise `PositionLost` if the log does not hold the position."""
        first, end = self.first, self.end
        if not first <= position <= end:
            raise PositionLost(f"position must be {first} to {end}, got {position}")
        return end

    def _fetch(self, position: int, end: int, n_bytes_max: int) -> list[Message]:
        """Return messages from a position up to an end: at least one, up to a limit of bytes."""
        consumer = self._get_consumer()
        messages: list[Message] = []
        n_bytes = 0
        give_up_at = time.monotonic() + self._seconds_max
        with raise_as_ledger_error("the log cannot be read", self._brokers):
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
                        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
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
        """Return whether the end is reached; raise errors that are not transient."""
        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return (message.offset() or 0) >= end
        if is_transient(error):
            LOGGER.info("reading %s, partition %d: %s", self._topic, self._i, error)
            return False
        position = self._next
        assert position is not None
        self._stop_fetching(self._get_consumer())
        self._checked_end(position)  # raises if the log was truncated meanwhile
        raise LedgerError(f"the log cannot be read: {error}")

    def _stop_fetching(self, consumer: Consumer) -> None:
        self._next = self._ahead = None
        consumer.unassign()

    def _record_of(self, message: Message) -> Record:
        headers = dict(message.headers() or ())
        schema = headers.get(_HEADER)
        if not isinstance(schema, bytes) or len(schema) != 2:
            raise LedgerError(
                f"the message at {message.offset()} of partition {self._i} of {self._topic} is not "
                "a record; use a topic that holds nothing but this log"
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
    with raise_as_ledger_error("the Kafka settings are invalid"):
        return Producer(
            {**settings, **_PRODUCER_SETTINGS, "message.timeout.ms": int(seconds_max * 1000)}
        )


def _offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
