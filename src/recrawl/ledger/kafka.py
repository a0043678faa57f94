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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Self

from recrawl.errors import IdentityError, LedgerError
from recrawl.ledger.contract import (
    N_PARTITIONS_MAX,
    READ_BYTES_MAX,
    AppendedSpan,
    Record,
    check_partition,
    check_records,
)
from recrawl.ledger.kafka_clients import Delivery, KafkaClients, Sender, offset_of
from recrawl.ledger.kafka_errors import Brokers, raise_as_ledger_error, retry_while_transient
from recrawl.ledger.kafka_topic import (
    WantedCopies,
    admin_of,
    client_settings_of,
    find_or_create_topic,
    topic_id_of,
)
from recrawl.one_process import OneProcess, ProcessLock

# After kafka_errors, which raises a helpful ImportError if the package is missing.
from confluent_kafka import KafkaError, Message, TopicPartition  # isort: skip

__all__ = ["KafkaAppend", "KafkaLedger", "KafkaLog"]

_HEADER = "schema"
_CORPUS_HEADER = "corpus"
_FLUSH_GRACE_SECONDS = 5.0


class KafkaLog:
    """The log of all partitions in one topic.

    Create it with `open`.  Its methods raise `LedgerError` if the brokers fail or time out.
    """

    def __init__(self, clients: KafkaClients, n_partitions: int) -> None:
        self._clients = clients
        self._n_partitions = n_partitions
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
        log = cls(KafkaClients(settings, admin, topic, brokers), n_found)
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
        return self._ask_topic_id()

    def _ask_topic_id(self) -> str | None:
        clients = self._clients
        return topic_id_of(clients.admin, clients.topic, clients.brokers)

    def identify(self, corpus_id: str) -> None:
        """Check the id of the corpus in all partitions; later records carry it."""
        for i in range(self._n_partitions):
            found = self.partition(i).find_corpus_id()
            if found not in (None, corpus_id):
                raise IdentityError(
                    f"the topic {self._clients.topic} holds the log of corpus {found}, but this is "
                    f"corpus {corpus_id}. Nothing was changed. Check ledger.topic."
                )
        self._corpus_id = corpus_id
        for i in range(self._n_partitions):
            self.partition(i)._corpus = bytes.fromhex(corpus_id)

    def partition(self, i: int) -> "KafkaLedger":
        """Return the ledger of partition ``i``; every call returns the same object."""
        check_partition(i, self._n_partitions)
        with self._lock:
            if i not in self._ledgers:
                self._ledgers[i] = KafkaLedger(self._clients, i)
            return self._ledgers[i]

    def reopen_partition(self, i: int) -> "KafkaLedger":
        """Return a new ledger of partition ``i``, after an append of the former one has failed.

        Raises
        ------
        IdentityError
            The topic was created again meanwhile.
        """
        check_partition(i, self._n_partitions)
        if self._ask_topic_id() != self.topic_id:
            raise IdentityError(
                f"the topic {self._clients.topic} was created again, by somebody else"
            )
        with self._lock:
            ledger = KafkaLedger(self._clients, i)
            if self._corpus_id is not None:
                ledger._corpus = bytes.fromhex(self._corpus_id)
            if i in self._ledgers:
                ledger._end_seen = self._ledgers[i]._end_seen
            self._ledgers[i] = ledger
            return ledger

    def close(self) -> None:
        """Close all connections; a second call, or one in a forked child, does nothing."""
        if self._lock.is_forked:
            return
        with self._lock:
            self._clients.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KafkaLedger(OneProcess):
    """The log of one partition; `KafkaLog.partition` creates it.

    Parameters
    ----------
    clients
        Clients of the log, which all partitions share.
    i
        Number of the partition.
    """

    def __init__(self, clients: KafkaClients, i: int) -> None:
        self._clients = clients
        self._i = i
        self._corpus: bytes | None = None  # id of the corpus, for the header of every message
        self._writing = ProcessLock(threading.Lock())
        self._failure: str | None = None
        self._writer = os.urandom(8)
        self._n_written = 0
        self._end_seen: int | None = None  # lower bound of the positions of our next records
        self.remember_process()

    @property
    def first(self) -> int:
        """Position of the earliest record that the log still holds; `end` if it holds none."""
        self.check_process()
        return self._clients.first(self._i)

    @property
    def end(self) -> int:
        """Position after the last record of any writer, as the broker reports it."""
        self.check_process()
        return self._clients.end(self._i)

    def append(self, records: Sequence[Record]) -> AppendedSpan:
        """Write records after the last one; see `Ledger.append`.

        If other writers' records are between them, the span is not whole; read these first.
        """
        check_records(records)
        with self._writing:
            return self._begin(records).finish()

    def begin_append(self, records: Sequence[Record]) -> "KafkaAppend":
        """Send records without waiting for them; see `ParallelLedger.begin_append`."""
        check_records(records)
        with self._writing:
            return self._begin(records)

    def read(self, position: int, *, n_bytes_max: int = READ_BYTES_MAX) -> list[tuple[int, Record]]:
        """Return records from a position up to the end; see `Ledger.read`."""
        self.check_process()
        end = self._clients.checked_end(self._i, position)
        messages = self._clients.fetch(self._i, position, end, n_bytes_max)
        return [(offset_of(message), self._record_of(message)) for message in messages]

    def sync(self) -> None:
        """Return at once: all in-sync replicas have acknowledged the appended records."""

    def truncate(self, position: int) -> None:
        """Remove the records below a position; see `Ledger.truncate`."""
        first, end = self.first, self.end
        if position > end:
            raise ValueError(f"position must be at most {end}, got {position}")
        if position <= first:
            return
        clients = self._clients
        with raise_as_ledger_error("the log cannot be truncated", clients.brokers):
            below = TopicPartition(clients.topic, self._i, position)

            def request(seconds: float) -> None:
                # The client does not ask again who leads the partition if a broker says that it
                # does no longer, but listing the topic makes it.
                clients.admin.list_topics(clients.topic, timeout=seconds)
                for answer in clients.admin.delete_records(
                    [below], request_timeout=seconds
                ).values():
                    answer.result()

            retry_while_transient(request, clients.seconds_max)

    # ------------------------------------------------------------------ writing

    def _begin(self, records: Sequence[Record]) -> "KafkaAppend":
        """Send all records, without waiting for the acknowledgements."""
        if self._failure is not None:
            raise LedgerError(f"an earlier append failed ({self._failure}); open the log again")
        clients = self._clients
        if self._end_seen is None:
            self._end_seen = self.end
        append = KafkaAppend(self, len(records), self._end_seen, clients.seconds_max)
        if records:
            with self._fail_on_error(append):
                append.sender = clients.sender()
                with raise_as_ledger_error("the brokers refuse the records", clients.brokers):
                    for schema, data in records:
                        on_delivery = append.delivery.on_delivery
                        self._send(append.sender, schema, data, on_delivery, append.give_up_at)
        return append

    @contextmanager
    def _fail_on_error(self, append: "KafkaAppend") -> Iterator[None]:
        """Refuse further appends after an error of this one."""
        try:
            yield
        except BaseException as error:  # BaseException too: the process may continue after it
            if append.sender is not None:
                self._clients.give_up(append.sender)
            self._failure = str(error) or type(error).__name__
            if isinstance(error, LedgerError):
                raise LedgerError(f"an append failed: {error}") from error
            raise

    def _finish(self, append: "KafkaAppend") -> AppendedSpan:
        """Wait for the acknowledgements of an append; return the positions of its records."""
        if append.sender is None:  # there are no records
            end = self.end
            return AppendedSpan(end, end, True)
        offsets = append.delivery.offsets
        if len(offsets) < append.n_records:
            with self._fail_on_error(append):
                offsets = self._wait(append, append.sender)
        first, end = min(offsets), max(offsets) + 1
        if first < append.end_before:
            self._failure = (
                f"the records are at {first:,}, but the log went to {append.end_before:,} before: "
                f"the topic {self._clients.topic} was created again, or has lost records"
            )
            raise LedgerError(f"an append failed: {self._failure}")
        self._end_seen = end
        if end - first == append.n_records:
            return AppendedSpan(first, end, True)
        return AppendedSpan(first, end, False, tuple(sorted(offsets)))

    def _wait(self, append: "KafkaAppend", sender: Sender) -> list[int]:
        """Wait for the acknowledgements of an append; return the offset of each record."""
        brokers, delivery = self._clients.brokers, append.delivery
        with raise_as_ledger_error("the brokers refuse the records", brokers):
            sender.wait(delivery, append.give_up_at)
        if delivery.failures:
            raise LedgerError(
                f"{len(delivery.failures)} of {append.n_records} records were not written: "
                f"{brokers.problem(delivery.failures[0])}"
            )
        if not delivery.is_complete:
            raise LedgerError(brokers.problem(KafkaError(KafkaError._MSG_TIMED_OUT)))
        offsets = delivery.offsets
        if delivery.unplaced:
            # After a lost acknowledgement the batch is sent again and acknowledged without offsets.
            offsets += self._find_offsets(set(delivery.unplaced))
        return offsets

    def _send(
        self, sender: Sender, schema: int, data: bytes, on_delivery: Any, give_up_at: float
    ) -> None:
        key = self._writer + self._n_written.to_bytes(8, "big")
        self._n_written += 1
        headers: list[tuple[str, str | bytes | None]] = [(_HEADER, schema.to_bytes(2, "big"))]
        if self._corpus is not None:
            headers.append((_CORPUS_HEADER, self._corpus))
        while True:
            try:
                sender.producer.produce(
                    self._clients.topic,
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
                sender.poll()

    def _find_offsets(self, keys: set[bytes]) -> list[int]:
        """Return the offsets of our records with these keys, by reading the log."""
        offsets = []
        position, end = self._end_seen or 0, self.end
        while position < end and keys:
            messages = self._clients.fetch(self._i, position, end, READ_BYTES_MAX)
            if not messages:
                break
            for message in messages:
                if message.key() in keys:
                    keys.discard(message.key() or b"")
                    offsets.append(offset_of(message))
            position = offset_of(messages[-1]) + 1
        if keys:
            raise LedgerError(f"{len(keys)} records were acknowledged and are not in the log")
        return offsets

    # ------------------------------------------------------------------ reading

    def find_corpus_id(self) -> str | None:
        """Return the id of the corpus in the first or the last record; None if they have none.

        A log that 0.1.0 began has it only in later records, and so does a log whose first record
        was truncated meanwhile.
        """
        first, end = self.first, self.end
        for position in (first, end - 1) if end > first else ():
            for message in self._clients.fetch(self._i, position, position + 1, 1)[:1]:
                found = dict(message.headers() or ()).get(_CORPUS_HEADER)
                if isinstance(found, bytes):
                    return found.hex()
        return None

    def _record_of(self, message: Message) -> Record:
        headers = dict(message.headers() or ())
        schema = headers.get(_HEADER)
        if not isinstance(schema, bytes) or len(schema) != 2:
            raise LedgerError(
                f"the message at {message.offset()} of partition {self._i} of "
                f"{self._clients.topic} is not a record; use a topic that holds nothing but this "
                "log"
            )
        return Record(int.from_bytes(schema, "big"), message.value() or b"")


class KafkaAppend:
    """An append whose records are on their way; `KafkaLedger.begin_append` creates it.

    Parameters
    ----------
    ledger
        Ledger of the partition.
    n_records
        Number of records.
    end_before
        Position that the log had reached before; the records are not before it.
    seconds_max
        Time limit in seconds.
    """

    def __init__(
        self, ledger: KafkaLedger, n_records: int, end_before: int, seconds_max: float
    ) -> None:
        self._ledger = ledger
        self.n_records = n_records
        self.end_before = end_before
        self.begun_at = time.monotonic()
        self.give_up_at = self.begun_at + seconds_max + _FLUSH_GRACE_SECONDS
        self.delivery = Delivery()
        self.delivery.n_wanted = n_records
        self.sender: Sender | None = None

    def wait(self, seconds_max: float) -> bool:
        """Wait until the brokers have answered; see `PendingAppend.wait`."""
        if self.sender is None:  # there are no records
            return True
        self.sender.take_answers()
        self.sender.wait(self.delivery, min(self.begun_at + seconds_max, self.give_up_at))
        return self.delivery.is_complete or time.monotonic() >= self.give_up_at

    def finish(self) -> AppendedSpan:
        """Wait until the records are durable; return their positions."""
        return self._ledger._finish(self)
