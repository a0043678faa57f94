"""The topic that a log is kept in: found or made, and refused if it would forget records."""

import time
from collections.abc import Mapping
from typing import Any

from recrawl.errors import LedgerError
from recrawl.ledger.contract import RECORD_BYTES_MAX
from recrawl.ledger.kafka_errors import LOGGER, ledger_errors, patiently

# After kafka_errors, which says what to install where it is missing.
from confluent_kafka import KafkaError, KafkaException  # isort: skip
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # isort: skip
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

__all__ = ["MESSAGE_BYTES_MAX", "admin_of", "agreed_partitions", "client_settings_of"]

MESSAGE_BYTES_MAX = 8 << 20
assert RECORD_BYTES_MAX < MESSAGE_BYTES_MAX
_LOOK_AGAIN_SECONDS = 0.05
# To know how a topic is set up is good and not necessary.
_DESCRIBE_SECONDS_MAX = 5.0
# What the promises rest on is not to be changed by whoever only wants to set a password.
_OURS = frozenset(
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
    """Return what all clients of a cluster are set to, with the user's settings among it."""
    if wrong := sorted(_OURS & settings.keys()):
        raise ValueError(f"client_settings must leave alone what the log sets: {', '.join(wrong)}")
    return {
        "reconnect.backoff.max.ms": 1000,
        "socket.keepalive.enable": True,
        **settings,
        "bootstrap.servers": bootstrap,
        "logger": LOGGER,
        "error_cb": lambda error: LOGGER.info("%s", error),
    }


def admin_of(settings: Mapping[str, Any]) -> AdminClient:
    """Return a client to manage topics with."""
    return AdminClient(dict(settings))


def agreed_partitions(
    admin: AdminClient,
    topic: str,
    *,
    n_partitions: int | None,
    create: bool,
    replication: int | None,
    seconds_max: float,
) -> int:
    """Return how many partitions the topic has; make it if it is not there and may be made."""
    with ledger_errors(f"the topic {topic} cannot be looked up or made"):
        n_found = _n_partitions(admin, topic, seconds_max)
        if n_found is None and create:
            if n_partitions is None:
                raise LedgerError(f"there is no topic {topic} yet: say how many partitions it has")
            n_found = _created(admin, topic, n_partitions, replication, seconds_max)
    if n_found is None:
        raise LedgerError(f"there is no topic {topic}, and it was not to be made")
    if n_partitions not in (None, n_found):
        raise LedgerError(f"n_partitions must be {n_found} for topic {topic}, got {n_partitions}")
    _refuse_a_topic_that_forgets(admin, topic, seconds_max)
    return n_found


def _n_partitions(admin: AdminClient, topic: str, seconds_max: float) -> int | None:
    """Return the number of partitions once all have a leader, None if there is no such topic."""
    # All topics, because asking for one by name makes it where brokers are set up so.
    give_up_at = time.monotonic() + seconds_max
    while True:
        listed = patiently(lambda seconds: admin.list_topics(timeout=seconds), seconds_max)
        found = listed.topics.get(topic)
        if found is None:
            return None
        if found.partitions and all(each.leader >= 0 for each in found.partitions.values()):
            return len(found.partitions)
        if time.monotonic() > give_up_at:
            raise LedgerError(f"the topic {topic} has partitions without a leader")
        time.sleep(_LOOK_AGAIN_SECONDS)


def _created(
    admin: AdminClient, topic: str, n_partitions: int, replication: int | None, seconds_max: float
) -> int:
    settings = dict(_TOPIC_SETTINGS)
    if replication is not None and replication >= 3:
        # An acknowledged record is then on two brokers at least, whichever are lost.
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
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # made by another meanwhile
            raise
    give_up_at = time.monotonic() + seconds_max
    while (n_found := _n_partitions(admin, topic, seconds_max)) is None:
        if time.monotonic() > give_up_at:
            raise LedgerError(f"the topic {topic} was made but is not there")
        time.sleep(_LOOK_AGAIN_SECONDS)
    return n_found


def _refuse_a_topic_that_forgets(admin: AdminClient, topic: str, seconds_max: float) -> None:
    """Refuse settings that somebody made for other purposes: a log forgets when told to."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    seconds = min(seconds_max, _DESCRIBE_SECONDS_MAX)
    try:
        found = admin.describe_configs([resource], request_timeout=seconds)[resource].result()
    except KafkaException as error:  # not everybody may ask
        LOGGER.warning("the settings of topic %s are not known: %s", topic, error)
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
