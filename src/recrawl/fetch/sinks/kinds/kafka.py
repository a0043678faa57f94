"""A topic of Kafka with a message for each version."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from recrawl.errors import SinkError
from recrawl.fetch.sinks.contract import DEFAULT_BATCH, BatchSettings, check_sink_name
from recrawl.fetch.sinks.kinds.json_lines import check_content
from recrawl.fetch.sinks.version import PageVersion

__all__ = ["KafkaSink"]

_MESSAGE_BYTES_MAX = 900_000
_SEND_SECONDS_MAX = 30.0
_SETTINGS: dict[str, Any] = {
    "acks": "all",
    "compression.type": "zstd",
    "enable.idempotence": True,
    "linger.ms": 5,
    "message.max.bytes": 1 << 20,
    "delivery.timeout.ms": round(_SEND_SECONDS_MAX * 1000),
}


class KafkaSink:
    """Sends each version as a message of JSON to a topic, with the URL of the page as its key.

    Messages have the fields of `PageVersion.as_json`; the headers ``id`` and ``transition`` can be
    read without parsing them.  All messages of a page are in one partition, in order.

    Parameters
    ----------
    bootstrap
        Addresses of the first brokers to contact: ``"host:port,host:port"``.
    topic
        Name of the topic, which must exist or be created by the brokers.
    name
        Name of the sink.
    content
        Forms of the content: ``"markdown"``, ``"text"`` and ``"body"``.
    message_bytes_max
        Size of a message beyond which its content and passages are left out; it then has
        ``"is_cut": true``.
    client_settings
        Further settings of librdkafka, such as those of TLS.
    batch
        Number of versions per call.

    Raises
    ------
    ImportError
        If the package confluent-kafka is not installed.
    """

    wants_unchanged = False

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        name: str = "kafka",
        content: Sequence[str] = ("markdown",),
        message_bytes_max: int = _MESSAGE_BYTES_MAX,
        client_settings: Mapping[str, Any] | None = None,
        batch: BatchSettings = DEFAULT_BATCH,
    ) -> None:
        try:
            from confluent_kafka import KafkaException, Producer  # noqa: PLC0415
        except ImportError as error:
            raise ImportError(
                'the sink for Kafka needs the package confluent-kafka: pip install "recrawl[kafka]"'
            ) from error
        self.name = check_sink_name(name)
        self.batch = batch
        self._content = check_content(content)
        self._topic = topic
        self._message_bytes_max = message_bytes_max
        settings = _SETTINGS | {"message.max.bytes": max(message_bytes_max + 65_536, 1 << 20)}
        settings |= {"bootstrap.servers": bootstrap, "log_level": 3} | dict(client_settings or {})
        self._settings = settings
        self._make = Producer
        self._error = KafkaException
        self._producer: Any = None

    def write(self, versions: Sequence[PageVersion]) -> None:
        """Send versions, and wait until the brokers have stored them; see `Sink.write`."""
        problems: list[str] = []
        n_acknowledged = 0

        def note(error: Any, _message: Any) -> None:
            nonlocal n_acknowledged
            if error is not None:
                problems.append(str(error))
            else:
                n_acknowledged += 1

        try:
            if self._producer is None:
                self._producer = self._make(self._settings)
            for version in versions:
                self._send(version, note)
            self._producer.flush(_SEND_SECONDS_MAX + 5.0)
        except (self._error, BufferError) as error:
            self._forget_producer()
            raise SinkError(f"Kafka: {error}") from error
        if problems or n_acknowledged < len(versions):
            self._forget_producer()
            reason = problems[0] if problems else "the brokers did not answer in time"
            raise SinkError(f"Kafka: {reason}")

    def _send(self, version: PageVersion, note: Any) -> None:
        page = version.url if version.key is None else f"{version.key}\t{version.url}"
        message = {
            "key": page.encode("utf-8", "replace"),
            "value": self._value(version),
            "headers": [
                ("id", version.id.encode()),
                ("transition", version.transition.name.lower().encode()),
            ],
            "on_delivery": note,
        }
        end = time.monotonic() + _SEND_SECONDS_MAX
        while True:
            try:
                self._producer.produce(self._topic, **message)
                return
            except BufferError:  # its queue is full
                if time.monotonic() > end:
                    raise
                self._producer.poll(0.1)

    def _value(self, version: PageVersion) -> bytes:
        row = version.as_json(self._content)
        value = json.dumps(row).encode()
        if len(value) > self._message_bytes_max:
            for field in ("markdown", "text", "body_base64", "added_passages", "removed_passages"):
                row.pop(field, None)
            row["is_cut"] = True
            value = json.dumps(row).encode()
        return value

    def _forget_producer(self) -> None:
        """Drop messages that are still queued: they are sent again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(1.0)

    def close(self) -> None:
        """Close the connections."""
        self._forget_producer()
