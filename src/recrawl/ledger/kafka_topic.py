"""Find or create the topic of a log; refuse a topic whose settings would lose records."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from recrawl.errors import LedgerError
from recrawl.ledger.contract import RECORD_BYTES_MAX
from recrawl.ledger.kafka_errors import (
    BROKER_WATCH,
    LOGGER,
    Brokers,
    is_transient,
    raise_as_ledger_error,
    retry_while_transient,
)

# After kafka_errors, which says what to install where it is missing.
from confluent_kafka import KafkaError, KafkaException, TopicCollection  # isort: skip
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # isort: skip
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

__all__ = [
    "MESSAGE_BYTES_MAX",
    "TopicMissing",
    "WantedCopies",
    "admin_of",
    "client_settings_of",
    "find_or_create_topic",
    "list_topics",
    "topic_id_of",
]

MESSAGE_BYTES_MAX = 8 << 20
assert RECORD_BYTES_MAX < MESSAGE_BYTES_MAX
_RETRY_SECONDS = 0.05
_ANSWER_SECONDS_MAX = 20.0
# A broker may list a topic some moments later than another one.
_UNLISTED_SECONDS_MAX = 3.0
_SOCKET_MS_MIN = 2_000
# With fewer copies, waiting for a second one would stop the log when a single broker fails.
_REPLICATION_FOR_TWO_IN_SYNC = 3
_NO_TOPIC_IDS = ("None", "AAAAAAAAAAAAAAAAAAAAAA")  # from brokers that have no ids
_NOT_PERMITTED = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
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


def client_settings_of(brokers: Brokers, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of all Kafka clients, including those of the user."""
    if wrong := sorted(_RESERVED_SETTINGS & settings.keys()):
        raise ValueError(
            f"client_settings must not contain settings that recrawl sets: {', '.join(wrong)}"
        )
    # A request to a broker that hangs ends early enough for another attempt, perhaps elsewhere.
    answer_ms = round(1000 * min(max(brokers.seconds_max / 3, 1.0), _ANSWER_SECONDS_MAX))
    return {
        "reconnect.backoff.max.ms": 1000,
        "socket.keepalive.enable": True,
        "socket.timeout.ms": max(answer_ms, _SOCKET_MS_MIN),
        **settings,
        "bootstrap.servers": brokers.address,
        "logger": BROKER_WATCH.new_log(),
        "error_cb": brokers.error_callback(),
    }


def admin_of(settings: Mapping[str, Any]) -> AdminClient:
    """Return a client that manages topics."""
    return AdminClient(dict(settings))


def list_topics(admin: AdminClient, seconds: float) -> Mapping[str, Any]:
    """Return what the brokers say about each topic, by its name.

    All topics are listed, because some brokers create a topic when it is requested by name.
    """
    try:
        return dict(admin.list_topics(timeout=seconds).topics)
    except KafkaException:
        admin.poll(0)  # hands over what the client has logged meanwhile
        raise


class TopicMissing(LedgerError):  # noqa: N818 - names a condition
    """A topic does not exist, and must not be created."""


class WantedCopies(NamedTuple):
    """How many brokers must store a topic."""

    replication: int | None = None
    """Number of copies of each record; None for the brokers' default."""
    in_sync_min: int | None = None
    """Number of copies that must exist before a record is acknowledged (``min.insync.replicas``);
    None for 2 of 3 or more copies, and otherwise for the brokers' default."""
    accepts_weaker: bool = False
    """Whether a topic with fewer copies may be used."""

    @property
    def in_sync_effective(self) -> int | None:
        """The smallest ``min.insync.replicas`` that the topic may have; None for any."""
        if self.in_sync_min is not None:
            return self.in_sync_min
        is_enough = (self.replication or 0) >= _REPLICATION_FOR_TWO_IN_SYNC
        return 2 if is_enough else None


class _FoundTopic(NamedTuple):
    n_partitions: int
    n_copies: int
    """Number of brokers that store the partition with the fewest copies."""


def find_or_create_topic(
    admin: AdminClient,
    topic: str,
    *,
    n_partitions: int | None,
    create: bool,
    copies: WantedCopies,
    brokers: Brokers,
) -> int:
    """Return the number of partitions of a topic; create it if missing and ``create`` is set."""
    with raise_as_ledger_error(f"the topic {topic} cannot be found or created", brokers):
        found = _find_topic(admin, topic, brokers.seconds_max)
        if found is None and create:
            if n_partitions is None:
                raise LedgerError(
                    f"the topic {topic} does not exist; give n_partitions to create it"
                )
            found = _create_topic(admin, topic, n_partitions, copies, brokers.seconds_max)
        elif found is None:
            found = _wait_until_listed(
                admin, topic, min(_UNLISTED_SECONDS_MAX, brokers.seconds_max)
            )
    if found is None:
        raise TopicMissing(f"the topic {topic} does not exist, and creating it is disabled")
    if n_partitions not in (None, found.n_partitions):
        raise LedgerError(
            f"n_partitions must be {found.n_partitions} for topic {topic}, got {n_partitions}: it "
            "is the topic of another log, or partitions were added to it.  Nothing was changed"
        )
    with raise_as_ledger_error(f"the settings of the topic {topic} cannot be read", brokers):
        settings = _topic_settings(admin, topic, brokers.seconds_max)
    _check_topic_settings(topic, settings)
    _check_copies(topic, settings, found.n_copies, copies, brokers)
    return found.n_partitions


def topic_id_of(admin: AdminClient, topic: str, brokers: Brokers) -> str | None:
    """Return the id that the brokers gave a topic; another topic of the same name has another one.

    None if the brokers are older than Kafka 2.8, or the account may not describe the topic.
    """

    def describe(seconds: float) -> Any:
        answers = admin.describe_topics(TopicCollection([topic]), request_timeout=seconds)
        return answers[topic].result()

    try:
        found = str(retry_while_transient(describe, brokers.seconds_max).topic_id)
    except KafkaException as error:
        if error.args[0].code() not in _NOT_PERMITTED:
            raise LedgerError(
                f"the topic {topic} cannot be described: {brokers.problem(error.args[0])}"
            ) from error
        LOGGER.warning("the id of topic %s cannot be read: %s", topic, error)
        return None
    return None if found in _NO_TOPIC_IDS else found


def _find_topic(admin: AdminClient, topic: str, seconds_max: float) -> _FoundTopic | None:
    """Return a topic once all its partitions have a leader, None if the topic does not exist."""
    give_up_at = time.monotonic() + seconds_max
    while True:
        listed = retry_while_transient(
            lambda seconds: list_topics(admin, seconds), give_up_at - time.monotonic()
        )
        metadata = listed.get(topic)
        if metadata is None:
            return None
        if metadata.error is not None and not is_transient(metadata.error):
            raise KafkaException(metadata.error)
        partitions = metadata.partitions.values()
        if partitions and all(partition.leader >= 0 for partition in partitions):
            return _FoundTopic(len(partitions), min(len(each.replicas) for each in partitions))
        if time.monotonic() > give_up_at:
            raise LedgerError(
                f"the topic {topic} has partitions without a leader after {seconds_max:g} s"
            )
        time.sleep(_RETRY_SECONDS)


def _create_topic(
    admin: AdminClient, topic: str, n_partitions: int, copies: WantedCopies, seconds_max: float
) -> _FoundTopic:
    settings = dict(_TOPIC_SETTINGS)
    if copies.in_sync_effective is not None:
        settings["min.insync.replicas"] = str(copies.in_sync_effective)
    new = NewTopic(
        topic,
        num_partitions=n_partitions,
        replication_factor=-1 if copies.replication is None else copies.replication,
        config=settings,
    )
    try:
        retry_while_transient(
            lambda seconds: admin.create_topics([new], request_timeout=seconds)[topic].result(),
            seconds_max,
        )
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # created meanwhile
            raise
    found = _wait_until_listed(admin, topic, seconds_max)
    if found is None:
        raise LedgerError(f"the topic {topic} was created but is still not listed")
    return found


def _wait_until_listed(admin: AdminClient, topic: str, seconds_max: float) -> _FoundTopic | None:
    """Return a topic; None if it is not listed in time."""
    give_up_at = time.monotonic() + seconds_max
    while (found := _find_topic(admin, topic, seconds_max)) is None:
        if time.monotonic() > give_up_at:
            return None
        time.sleep(_RETRY_SECONDS)
    return found


def _topic_settings(admin: AdminClient, topic: str, seconds_max: float) -> dict[str, str | None]:
    """Return the settings of a topic; none if the account may not read them."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found = retry_while_transient(
            lambda seconds: admin.describe_configs([resource], request_timeout=seconds)[
                resource
            ].result(),
            seconds_max,
        )
    except KafkaException as error:
        if error.args[0].code() not in _NOT_PERMITTED:
            raise
        LOGGER.warning("the settings of topic %s cannot be checked: %s", topic, error)
        return {}
    return {name: entry.value for name, entry in found.items()}


def _check_topic_settings(topic: str, settings: Mapping[str, str | None]) -> None:
    """Raise `LedgerError` if the settings of a topic would delete or reject records."""
    wrong = [
        f"{name} must be {wanted}, got {settings[name]}"
        for name, wanted in _TOPIC_SETTINGS.items()
        if name in settings and not _is_enough(name, settings[name], wanted)
    ]
    if wrong:
        raise LedgerError(f"the topic {topic} cannot hold a log: {'; '.join(wrong)}")


def _is_enough(name: str, value: str | None, wanted: str) -> bool:
    if name == "max.message.bytes":
        return value is not None and int(value) >= int(wanted)
    return value == wanted


def _check_copies(
    topic: str,
    settings: Mapping[str, str | None],
    n_copies: int,
    wanted: WantedCopies,
    brokers: Brokers,
) -> None:
    """Raise `LedgerError` if fewer brokers store a topic than wanted, unless that is accepted."""
    weak, change = [], []
    if n_copies < (wanted.replication or 1):
        weak.append(
            f"its replication factor is {n_copies}, and ledger.replication is {wanted.replication}"
        )
        change.append("kafka-reassign-partitions.sh adds copies")
    in_sync = int(settings.get("min.insync.replicas") or 0)
    if in_sync and in_sync < (wanted.in_sync_effective or 1):
        weak.append(
            f"its min.insync.replicas is {in_sync}, and ledger.in_sync_min is "
            f"{wanted.in_sync_effective}"
        )
        change.append(_alter_command(topic, "min.insync.replicas", wanted, brokers))
    if settings.get("unclean.leader.election.enable") == "true" and n_copies > 1:
        weak.append(
            "its unclean.leader.election.enable is true, so a broker that lacks the newest records "
            "may become the leader"
        )
        change.append(_alter_command(topic, "unclean.leader.election.enable", wanted, brokers))
    if not weak:
        return
    what = f"the topic {topic} may lose records that were acknowledged: {'; '.join(weak)}"
    if wanted.accepts_weaker:
        LOGGER.warning("%s", what)
        return
    raise LedgerError(
        f'{what}.\nChange the topic ({"; ".join(change)}), or set ledger.weaker_topic = "accept" '
        "in recrawl.toml to use it as it is."
    )


def _alter_command(topic: str, name: str, wanted: WantedCopies, brokers: Brokers) -> str:
    value = "false" if name.startswith("unclean") else wanted.in_sync_effective
    return (
        f"kafka-configs.sh --bootstrap-server {brokers.address} --alter --entity-type topics "
        f"--entity-name {topic} --add-config {name}={value}"
    )
