"""Find or create the topic of a log; refuse a topic whose settings would delete records."""

import time
from collections.abc import Mapping
from typing import Any

from recrawl.errors import LedgerError
from recrawl.ledger.contract import RECORD_BYTES_MAX
from recrawl.ledger.kafka_errors import LOGGER, raise_as_ledger_error, retry_while_transient

# After kafka_errors, which says what to install where it is missing.
from confluent_kafka import KafkaError, KafkaException  # isort: skip
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # isort: skip
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

__all__ = ["MESSAGE_BYTES_MAX", "admin_of", "client_settings_of", "find_or_create_topic"]

MESSAGE_BYTES_MAX = 8 << 20
assert RECORD_BYTES_MAX < MESSAGE_BYTES_MAX
_RETRY_SECONDS = 0.05
# Best effort: the log works without knowing the settings of its topic.
_DESCRIBE_SECONDS_MAX = 5.0
# Durability and order depend on these settings, so users cannot change them.
_RESERVED_SETTINGS = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "compression.type",
        "enable.auto.commit",
        "enable.idempotence",
        "enable.partition.eof",
        "isolation.level",
        "request.required.acks",
        "transactional.id",
    }
)
_TOPIC_SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(MESSAGE_BYTES_MAX),
}


def client_settings_of(bootstrap: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of all Kafka clients, including those of the user."""
    if wrong := sorted(_RESERVED_SETTINGS & settings.keys()):
        raise ValueError(
            f"client_settings must not contain settings that recrawl sets: {', '.join(wrong)}"
        )
    return {
        "reconnect.backoff.max.ms": 1000,
        "socket.keepalive.enable": True,
        **settings,
        "bootstrap.servers": bootstrap,
        "logger": LOGGER,
        "error_cb": lambda error: LOGGER.info("%s", error),
    }


def admin_of(settings: Mapping[str, Any]) -> AdminClient:
    """Return a client that manages topics."""
    return AdminClient(dict(settings))


def find_or_create_topic(
    admin: AdminClient,
    topic: str,
    *,
    n_partitions: int | None,
    create: bool,
    replication: int | None,
    seconds_max: float,
) -> int:
    """Return the number of partitions of a topic; create it if missing and ``create`` is set."""
    with raise_as_ledger_error(f"the topic {topic} cannot be found or created"):
        n_found = _n_partitions(admin, topic, seconds_max)
        if n_found is None and create:
            if n_partitions is None:
                raise LedgerError(
                    f"the topic {topic} does not exist; give n_partitions to create it"
                )
            n_found = _create_topic(admin, topic, n_partitions, replication, seconds_max)
    if n_found is None:
        raise LedgerError(f"the topic {topic} does not exist, and creating it is disabled")
    if n_partitions not in (None, n_found):
        raise LedgerError(f"n_partitions must be {n_found} for topic {topic}, got {n_partitions}")
    _check_topic_settings(admin, topic, seconds_max)
    return n_found


def _n_partitions(admin: AdminClient, topic: str, seconds_max: float) -> int | None:
    """Return the number of partitions once all have a leader, None if the topic does not exist."""
    # List all topics, because some brokers create a topic when it is requested by name.
    give_up_at = time.monotonic() + seconds_max
    while True:
        listed = retry_while_transient(
            lambda seconds: admin.list_topics(timeout=seconds), seconds_max
        )
        metadata = listed.topics.get(topic)
        if metadata is None:
            return None
        partitions = metadata.partitions
        if partitions and all(partition.leader >= 0 for partition in partitions.values()):
            return len(partitions)
        if time.monotonic() > give_up_at:
            raise LedgerError(
                f"the topic {topic} has partitions without a leader after {seconds_max} s"
            )
        time.sleep(_RETRY_SECONDS)


def _create_topic(
    admin: AdminClient, topic: str, n_partitions: int, replication: int | None, seconds_max: float
) -> int:
    settings = dict(_TOPIC_SETTINGS)
    if replication is not None and replication >= 3:
        # An acknowledged record is then on at least two brokers, so losing one loses nothing.
        settings["min.insync.replicas"] = "2"
    new = NewTopic(
        topic,
        num_partitions=n_partitions,
        replication_factor=-1 if replication is None else replication,
        config=settings,
    )
    try:
        admin.create_topics([new], request_timeout=seconds_max)[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # created meanwhile
            raise
    give_up_at = time.monotonic() + seconds_max
    while (n_found := _n_partitions(admin, topic, seconds_max)) is None:
        if time.monotonic() > give_up_at:
            raise LedgerError(f"the topic {topic} was created but is still not listed")
        time.sleep(_RETRY_SECONDS)
    return n_found


def _check_topic_settings(admin: AdminClient, topic: str, seconds_max: float) -> None:
    """Raise `LedgerError` if the settings of a topic would delete or reject records."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    seconds = min(seconds_max, _DESCRIBE_SECONDS_MAX)
    try:
        found = admin.describe_configs([resource], request_timeout=seconds)[resource].result()
    except KafkaException as error:  # some users lack the permission
        LOGGER.warning("the settings of topic %s cannot be checked: %s", topic, error)
        return
    values = {name: entry.value for name, entry in found.items()}
    wrong = [
        f"{name} must be {wanted}, got {values[name]}"
        for name, wanted in _TOPIC_SETTINGS.items()
        if name in values and not _is_enough(name, values[name], wanted)
    ]
    if wrong:
        raise LedgerError(f"the topic {topic} cannot hold a log: {'; '.join(wrong)}")


def _is_enough(name: str, value: str | None, wanted: str) -> bool:
    if name == "max.message.bytes":
        return value is not None and int(value) >= int(wanted)
    return value == wanted
