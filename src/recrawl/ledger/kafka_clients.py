"""The Kafka clients of a log: one that writes and one that reads, for all partitions together.

Each client has a thread and a connection for every broker, so a client per partition would need
thousands of them.  Appends to several partitions are under way at the same time: whoever waits for
acknowledgements takes those of the others, too.  Reads take turns, because a client that reads is
at one position.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from recrawl.errors import LedgerError, PositionLost
from recrawl.ledger.kafka_errors import (
    LOGGER,
    Brokers,
    is_transient,
    raise_as_ledger_error,
    retry_while_transient,
)
from recrawl.ledger.kafka_topic import MESSAGE_BYTES_MAX
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

__all__ = ["Delivery", "KafkaClients", "Sender", "offset_of"]

_QUEUE_MESSAGES_MAX = 500_000
_QUEUE_KIB_MAX = 256 << 10
_READ_AHEAD_KIB_MAX = 32 << 10
_POLL_SECONDS = 0.1
# `flush` sends at once and takes answers until those of all partitions have come, or this time is
# over; so one slow partition delays another by no more than this.
_FLUSH_SECONDS = 0.002

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


class Delivery:
    """The acknowledgements of one append."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.failures: list[KafkaError] = []
        self.unplaced: list[bytes] = []
        """Keys of records that were acknowledged without a position."""
        self.n_wanted = 0
        # Made when a thread waits, because most deliveries are complete before.
        self._woken: threading.Event | None = None

    @property
    def n_answered(self) -> int:
        """Number of records that were acknowledged or refused."""
        return len(self.offsets) + len(self.failures) + len(self.unplaced)

    @property
    def is_complete(self) -> bool:
        """Whether every record has its answer."""
        return self.n_answered >= self.n_wanted

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Note the answer to one record; called by whichever thread takes answers."""
        offset = message.offset()
        if error is not None:
            self.failures.append(error)
        elif offset is None or offset < 0:
            self.unplaced.append(message.key() or b"")
        else:
            self.offsets.append(offset)
        if self._woken is not None and self.is_complete:
            self._woken.set()

    def begin_wait(self) -> None:
        """Allow other threads to `wake` this delivery from now on."""
        self._woken = threading.Event()

    def wake(self) -> None:
        """End one wait early."""
        assert self._woken is not None
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Wait until it is complete or woken, at most for some time."""
        assert self._woken is not None
        # The last answer may have come just before `begin_wait`, and woken nobody.
        if not self.is_complete and self._woken.wait(seconds):
            self._woken.clear()


class Sender:
    """A client that writes, for all threads.

    Parameters
    ----------
    settings
        Settings of the client.
    seconds_max
        Time after which a record that is not acknowledged counts as failed.
    """

    def __init__(self, settings: Mapping[str, Any], seconds_max: float) -> None:
        with raise_as_ledger_error("the Kafka settings are invalid"):
            self.producer = Producer(
                {**settings, **_PRODUCER_SETTINGS, "message.timeout.ms": int(seconds_max * 1000)}
            )
        self._lock = threading.Lock()
        self._is_polled = False
        self._waiting: list[Delivery] = []

    def wait(self, delivery: Delivery, give_up_at: float) -> None:
        """Wait until a delivery is complete, or the time is over.

        One of the threads that wait takes the answers for all of them; when its own are complete,
        or its time is over, it passes this on.

        Parameters
        ----------
        delivery
            Delivery to wait for.
        give_up_at
            Time to stop waiting, on the monotonic clock.
        """
        if delivery.n_answered >= delivery.n_wanted:
            return  # the answers came together with those of another append
        delivery.begin_wait()
        with self._lock:
            self._waiting.append(delivery)
        try:
            while not delivery.is_complete and (left := give_up_at - time.monotonic()) > 0:
                with self._lock:
                    polls = not self._is_polled
                    self._is_polled = True
                if polls:
                    self._poll_until_complete(delivery, give_up_at)
                else:
                    delivery.wait(left)
        finally:
            with self._lock:
                self._waiting.remove(delivery)
                # Also without having polled: the one that is woken may have no time left.
                others = [] if self._is_polled else [*self._waiting]
            for following in others:
                if not following.is_complete:
                    following.wake()
                    break

    def poll(self) -> None:
        """Take answers that have come, to make room in the client's queue."""
        self.producer.poll(_POLL_SECONDS)

    def take_answers(self) -> None:
        """Take the answers that have come, without waiting for others."""
        self.producer.poll(0)

    def _poll_until_complete(self, delivery: Delivery, give_up_at: float) -> None:
        try:
            while not delivery.is_complete and time.monotonic() < give_up_at:
                self.producer.flush(_FLUSH_SECONDS)
        finally:
            with self._lock:
                self._is_polled = False


class KafkaClients(OneProcess):
    """The clients of one log; its methods may be called from several threads.

    Parameters
    ----------
    settings
        Settings of all clients.
    admin
        Client that manages topics.
    topic
        Name of the topic.
    brokers
        Brokers of the log.
    """

    def __init__(
        self, settings: Mapping[str, Any], admin: AdminClient, topic: str, brokers: Brokers
    ) -> None:
        self._settings = settings
        self.admin = admin
        self.topic = topic
        self.brokers = brokers
        self.seconds_max = brokers.seconds_max
        self._is_closed = False
        changing = threading.Lock()
        self._changing = ProcessLock(changing)
        self._unused = threading.Condition(changing)
        self._n_requests = 0  # reads that are under way
        # Created now, because a new producer needs half a second until it may write.
        self._sender: Sender | None = Sender(settings, brokers.seconds_max)
        self._reading = ProcessLock(threading.RLock())
        self._consumer: Consumer | None = None
        self._read_partition = -1
        self._next: int | None = None  # position of the message that the consumer returns next
        self._ahead: Message | None = None  # message beyond the limit of the last read
        self.remember_process()

    def native_handles(self) -> tuple[object, ...]:
        """Return the clients, whose destructors would wait for their threads."""
        producer = None if self._sender is None else self._sender.producer
        return producer, self._consumer, self.admin

    def close(self) -> None:
        """Close the clients, after the reads that are under way; a second call does nothing."""
        with self._changing:
            self._is_closed = True
            self._sender = None
            # Closing frees what a request of another thread still uses.
            self._unused.wait_for(lambda: self._n_requests == 0)
            consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    # ------------------------------------------------------------------ writing

    def sender(self) -> Sender:
        """Return the client that writes; a new one after `give_up`."""
        with self._changing:
            self._check_open()
            if self._sender is None:
                self._sender = Sender(self._settings, self.seconds_max)
            return self._sender

    def give_up(self, sender: Sender) -> None:
        """Use a new client for later appends, because records of this one have failed.

        Appends to other partitions that are under way go on.
        """
        with self._changing:
            if self._sender is sender:
                self._sender = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise LedgerError("the log is closed")

    # ------------------------------------------------------------------ reading

    @contextmanager
    def _use_consumer(self) -> Iterator[Consumer]:
        """Yield the client that reads, which is not closed meanwhile."""
        with self._changing:
            self._check_open()
            if self._consumer is None:
                with raise_as_ledger_error("the Kafka settings are invalid"):
                    self._consumer = Consumer({**self._settings, **_CONSUMER_SETTINGS})
            consumer = self._consumer
            self._n_requests += 1
        try:
            yield consumer
        finally:
            with self._changing:
                self._n_requests -= 1
                self._unused.notify_all()

    def first(self, i: int) -> int:
        """Return the position of the earliest record of partition ``i``."""
        return self._watermark(i, OFFSET_BEGINNING)

    def end(self, i: int) -> int:
        """Return the position after the last record of partition ``i``."""
        return self._watermark(i, OFFSET_END)

    def _watermark(self, i: int, which: int) -> int:
        """Return the first position of a partition or its end.

        `Consumer.get_watermark_offsets` is not used, because it confuses the two where the broker
        answered only one of them.
        """
        where = TopicPartition(self.topic, i, which)

        def request(seconds: float) -> int:
            with self._use_consumer() as consumer:
                try:
                    (found,) = consumer.offsets_for_times([where], timeout=seconds)
                except KafkaException:
                    # The client keeps what it knows of the partition, also that it has no leader,
                    # for longer than we try, unless it lists the topic.
                    consumer.list_topics(self.topic, timeout=seconds)
                    raise
            if found.error is not None:
                raise KafkaException(found.error)
            return int(found.offset)

        with raise_as_ledger_error("the brokers do not report the bounds of the log", self.brokers):
            return retry_while_transient(request, self.seconds_max)

    def checked_end(self, i: int, position: int) -> int:
        """Return the end of a partition; raise `PositionLost` if it does not hold the position."""
        first, end = self.first(i), self.end(i)
        if not first <= position <= end:
            raise PositionLost(f"position must be {first} to {end}, got {position}")
        return end

    def fetch(self, i: int, position: int, end: int, n_bytes_max: int) -> list[Message]:
        """Return messages from a position up to an end: at least one, up to a limit of bytes.

        Parameters
        ----------
        i
            Number of the partition.
        position, end
            Positions of the first message, and after the last one.
        n_bytes_max
            Number of bytes after which it stops.
        """
        messages: list[Message] = []
        n_bytes = 0
        with (
            self._reading,
            self._use_consumer() as consumer,
            raise_as_ledger_error("the log cannot be read", self.brokers),
        ):
            give_up_at = time.monotonic() + self.seconds_max
            if (self._read_partition, self._next) != (i, position):
                consumer.assign([TopicPartition(self.topic, i, position)])
                self._read_partition, self._next, self._ahead = i, position, None
            while self._next is not None and self._next < end:
                message = self._ahead or consumer.poll(_POLL_SECONDS)
                self._ahead = None
                if message is None or message.error() is not None:
                    if message is not None and self._is_end(message, end, consumer):
                        break
                    if time.monotonic() > give_up_at:
                        self._stop_fetching(consumer)
                        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                    continue
                n_bytes += len(message)
                if messages and n_bytes > n_bytes_max:
                    self._ahead, self._next = message, offset_of(message)
                    return messages
                messages.append(message)
                self._next = offset_of(message) + 1
                give_up_at = time.monotonic() + self.seconds_max
            self._stop_fetching(consumer)
        return messages

    def _is_end(self, message: Message, end: int, consumer: Consumer) -> bool:
        """Return whether the end is reached; raise errors that are not transient."""
        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return (message.offset() or 0) >= end
        i, position = self._read_partition, self._next
        if is_transient(error):
            LOGGER.info("reading %s, partition %d: %s", self.topic, i, error)
            return False
        assert position is not None
        self._stop_fetching(consumer)
        self.checked_end(i, position)  # raises if the log was truncated meanwhile
        raise LedgerError(f"the log cannot be read: {error}")

    def _stop_fetching(self, consumer: Consumer) -> None:
        self._next = self._ahead = None
        consumer.unassign()


def offset_of(message: Message) -> int:
    """Return the position of a message that was read."""
    offset = message.offset()
    assert offset is not None
    return offset
