"""Write changes of pages to a topic of Kafka, as events of CloudEvents.

Each event is in the structured form of the Kafka binding of CloudEvents 1.0.2: the whole event is
the value of the message.  The key of a message is the page, so that the changes of a page are in
one partition of the topic, in their order.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

from recrawl.corpus import PageChange
from recrawl.errors import SinkError
from recrawl.service.webhooks.events import EVENT_TYPE, event_text
from recrawl.service.webhooks.limits import WebhookLimits

__all__ = ["ChangeTopic", "read_client_settings"]

_SETTINGS_BYTES_MAX = 1 << 16
_FLUSH_SECONDS = 0.5
# At least once and in order depend on these settings, so users cannot change them.
_RESERVED = {
    "acks": "all",
    "enable.idempotence": True,
    # As the clients of Java do, so that all programs put a page into the same partition.
    "partitioner": "murmur2_random",
}


def read_client_settings(text: str) -> dict[str, str]:
    r"""Return the settings in a properties file of Kafka clients: lines of ``name=value``.

    Parameters
    ----------
    text
        Content of the file; lines that begin with ``#`` are comments.

    Examples
    --------
    >>> read_client_settings("# ours\nsecurity.protocol = SSL\n")
    {'security.protocol': 'SSL'}
    """
    if len(text) > _SETTINGS_BYTES_MAX:
        raise ValueError(f"a settings file has at most {_SETTINGS_BYTES_MAX:,} characters")
    settings = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise ValueError(f"line {number} of the settings must be name=value")
        settings[name.strip()] = value.strip()
    return settings


class ChangeTopic:
    """A topic that gets changes of pages.

    Parameters
    ----------
    brokers
        Addresses of the first brokers to contact, such as ``kafka-1:9092,kafka-2:9092``.
    topic
        Name of the topic.
    source
        Name of the corpus as a URI, the attribute ``source`` of the events.
    settings
        Further settings of the client, such as ``security.protocol``.
    seconds_max
        Time after which an unanswered write is an error.
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        *,
        source: str,
        settings: Mapping[str, Any] | None = None,
        seconds_max: float = 30.0,
    ) -> None:
        # Only here, because most servers have no Kafka.
        from confluent_kafka import KafkaException, Producer  # noqa: PLC0415

        if wrong := sorted({*_RESERVED, "bootstrap.servers"} & {*(settings or ())}):
            raise ValueError(f"recrawl sets these settings itself: {', '.join(wrong)}")
        self._topic = topic
        self._source = source
        self._limits = WebhookLimits()
        self._error_class = KafkaException
        self._problems: list[str] = []
        self._new_producer = partial(
            Producer,
            {
                "linger.ms": 5,
                **(settings or {}),
                **_RESERVED,
                "bootstrap.servers": brokers,
                "message.timeout.ms": round(seconds_max * 1000),
                "error_cb": self._note_error,
                "log_level": 0,  # what goes wrong is in the errors that `write` raises
            },
        )
        try:
            self._producer = self._new_producer()
        except KafkaException as error:
            raise ValueError(f"the settings of the Kafka client are not valid: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up what was not written."""
        self._producer.purge()
        self._producer.flush(1)

    def _note_error(self, error: Any) -> None:
        self._problems = [*self._problems[-3:], error.str()]

    def write(self, changes: Sequence[PageChange], *, with_passages: bool = False) -> None:
        """Write changes in their order; when it returns, the brokers have stored all of them.

        Parameters
        ----------
        changes
            Changes of pages.
        with_passages
            Whether the events have the passages of the pages.

        Raises
        ------
        SinkError
            If the brokers have not stored all; some may be in the topic.  Write all of them again.
        """
        failures: list[str] = []

        def note_delivery(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(error.str())

        for change in changes:
            event = event_text(
                change, self._source, with_passages=with_passages, limits=self._limits
            )
            self._produce(change, event.encode(), note_delivery)
        while self._producer.flush(_FLUSH_SECONDS):
            pass  # in steps, so that Ctrl-C ends it
        if failures:
            why = "; ".join(dict.fromkeys([failures[0], *self._problems[-1:]]))
            self._problems.clear()
            # A client that keeps messages in order may refuse all others after a failure.
            self.close()
            self._producer = self._new_producer()
            raise SinkError(
                f"Kafka has not stored {len(failures):,} of {len(changes):,} changes in the topic "
                f"{self._topic}: {why}"
            )

    def _produce(self, change: PageChange, value: bytes, note_delivery: Any) -> None:
        page = change.url if change.key is None else f"{change.key}\t{change.url}"
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    key=page.encode(),
                    value=value,
                    headers={"content-type": EVENT_TYPE},
                    on_delivery=note_delivery,
                )
            except BufferError:
                self._producer.poll(0.1)  # the client's own queue is full
                continue
            except self._error_class as error:
                raise SinkError(f"Kafka does not take a change: {error}") from None
            self._producer.poll(0)
            return
