"""Read a Kafka topic whose messages are rows of a crawl log, one JSON object each."""

import time
from collections.abc import Mapping
from typing import Any

from recrawl.errors import ReadError
from recrawl.readers.lines import LINE_BYTES_MAX
from recrawl.shadow.followed_file import LogChunk

__all__ = ["FollowedTopic"]

_WAIT_SECONDS = 1.0
_MESSAGES_PER_CALL = 1_000
# Places are kept by the shadow itself, so users cannot change these settings.
_RESERVED = {
    "group.id": "recrawl-shadow-without-a-group",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
}


class FollowedTopic:
    """A topic that a crawler writes its fetches to.

    Parameters
    ----------
    brokers
        Addresses of the first brokers to contact, such as ``kafka-1:9092,kafka-2:9092``.
    topic
        Name of the topic.
    place
        Place to continue from, as `place` returned it; None for the oldest message.
    settings
        Further settings of the client, such as ``security.protocol``.
    seconds_max
        Time after which brokers that do not answer are an error.
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        place: Mapping[str, Any] | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        seconds_max: float = 30.0,
    ) -> None:
        try:
            from confluent_kafka import Consumer  # noqa: PLC0415
        except ImportError as error:
            raise ImportError(
                'a topic of Kafka needs the package confluent-kafka: pip install "recrawl[kafka]"'
            ) from error
        self.topic = topic
        self.n_long_lines = 0
        """Messages that were skipped because they are too long."""
        self.n_rests_lost = 0
        """Partitions whose oldest unread messages had been deleted."""
        self._seconds_max = seconds_max
        given = (place or {}).get("offsets", {})
        self._offsets = {int(number): int(offset) for number, offset in given.items()}
        self._assigned: set[int] = set()
        # The client says once that a partition is at its end, and again after further messages.
        self._at_end: set[int] = set()
        self._consumer = Consumer({**(settings or {}), "bootstrap.servers": brokers, **_RESERVED})

    @property
    def name(self) -> str:
        """Name of the log."""
        return f"topic {self.topic}"

    def place(self) -> dict[str, Any]:
        """Return the next offset of each partition, as a JSON object."""
        return {"offsets": {str(number): offset for number, offset in self._offsets.items()}}

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def read(self, n_bytes_max: int) -> LogChunk:
        """Return the next messages as lines, at most about ``n_bytes_max`` bytes."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            self._assign()
            return self._read_messages(n_bytes_max)
        except KafkaException as error:
            raise ReadError(f"{self.name} cannot be read: {error.args[0].str()}") from error

    def _assign(self) -> None:
        """Take all partitions of the topic, also those that were added since."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition  # noqa: PLC0415

        found = self._consumer.list_topics(self.topic, timeout=self._seconds_max)
        topic = found.topics[self.topic]
        if topic.error is not None:
            raise ReadError(f"{self.name} cannot be read: {topic.error.str()}")
        numbers = set(topic.partitions)
        if numbers == self._assigned:
            return
        for number in sorted(numbers - self._assigned):
            place = TopicPartition(self.topic, number)
            low, high = self._consumer.get_watermark_offsets(place, timeout=self._seconds_max)
            offset = self._offsets.get(number)
            # Beyond the end: the topic was deleted and created again.
            if offset is not None and not low <= offset <= high:
                self.n_rests_lost += 1
                self._offsets[number] = low
        self._consumer.assign(
            [
                TopicPartition(self.topic, number, self._offsets.get(number, OFFSET_BEGINNING))
                for number in sorted(numbers)
            ]
        )
        self._assigned = numbers
        self._at_end.clear()  # the client says it again of all

    def _read_messages(self, n_bytes_max: int) -> LogChunk:
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

        lines: list[bytes] = []
        n_bytes = 0
        give_up_at = time.monotonic() + self._seconds_max
        while n_bytes < n_bytes_max:
            messages = self._consumer.consume(_MESSAGES_PER_CALL, timeout=_WAIT_SECONDS)
            for message in messages:
                number, offset = message.partition(), message.offset()
                assert number is not None
                error = message.error()
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    self._at_end.add(number)
                    continue
                self._at_end.discard(number)
                assert offset is not None
                self._offsets[number] = offset + 1
                # A line break in JSON is never inside a string.
                line = (message.value() or b"").replace(b"\n", b" ").strip()
                if len(line) > LINE_BYTES_MAX:
                    self.n_long_lines += 1
                elif line:
                    lines.append(line + b"\n")
                    n_bytes += len(line)
            if self._at_end == self._assigned:
                break
            if not messages and (lines or time.monotonic() > give_up_at):
                break
        return LogChunk(b"".join(lines), False)
