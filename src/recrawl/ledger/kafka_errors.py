"""Handle errors of Kafka: retry after transient ones, raise the others as `LedgerError`.

The extra ``kafka`` installs the client library for Kafka, `confluent-kafka`.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from weakref import WeakMethod

from recrawl.errors import LedgerError
from recrawl.ledger.broker_watch import BrokerWatch

try:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
except ImportError as error:
    raise ImportError(
        'a log on Kafka needs the package confluent-kafka: pip install "recrawl[kafka]"'
    ) from error

__all__ = [
    "BROKER_WATCH",
    "LOGGER",
    "TRANSIENT_ERRORS",
    "Brokers",
    "is_transient",
    "raise_as_ledger_error",
    "retry_while_transient",
]

LOGGER = logging.getLogger("recrawl.ledger.kafka")
LOGGER.addHandler(logging.NullHandler())  # without it, Python prints warnings to stderr
BROKER_WATCH = BrokerWatch(LOGGER)
"""The watch of all clients of this process."""

_T = TypeVar("_T")
_RETRY_SECONDS = 0.05
# A request in progress cannot be interrupted, so a long wait is many attempts.
_ATTEMPT_SECONDS_MAX = 10.0
_PROBE_SECONDS = 1.5
_PROBLEM_SECONDS_MAX = 120.0
_BROKERS_NAMED_MAX = 9
_IN_STATE = re.compile(r" \(after \d+ms in state [^)]*\)$")

# Errors while brokers start, stop or move a partition, while the network fails, and just after a
# topic was created.  A test compares this list with the errors that Kafka calls retriable.
_TRANSIENT_NAMES = (
    "_ALL_BROKERS_DOWN",
    "_DESTROY_BROKER",
    "_FAIL",
    "_INTR",
    "_ISR_INSUFF",
    "_NODE_UPDATE",
    "_NOENT",  # "No leaders found"
    "_OUTDATED",
    "_PREV_IN_PROGRESS",
    "_RESOLVE",
    "_RETRY",
    "_TIMED_OUT",
    "_TIMED_OUT_QUEUE",
    "_TRANSPORT",
    "_UNKNOWN_BROKER",
    "_UNKNOWN_PARTITION",
    "_UNKNOWN_TOPIC",
    "_WAIT_CACHE",
    "_WAIT_COORD",
    "BROKER_NOT_AVAILABLE",
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "FETCH_SESSION_ID_NOT_FOUND",
    "INCONSISTENT_TOPIC_ID",
    "INVALID_FETCH_SESSION_EPOCH",
    "INVALID_MSG",  # a checksum that does not fit: damaged on the way
    "KAFKA_STORAGE_ERROR",
    "LEADER_NOT_AVAILABLE",
    "LISTENER_NOT_FOUND",
    "NETWORK_EXCEPTION",
    "NOT_CONTROLLER",
    "NOT_COORDINATOR",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "PREFERRED_LEADER_NOT_AVAILABLE",
    "REASSIGNMENT_IN_PROGRESS",
    "REPLICA_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "STALE_BROKER_EPOCH",
    "STALE_CTRL_EPOCH",
    "THROTTLING_QUOTA_EXCEEDED",
    "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_TOPIC_ID",
    "UNKNOWN_TOPIC_OR_PART",
    "UNSTABLE_OFFSET_COMMIT",
)
# Older releases of the client library lack some of the names.
TRANSIENT_ERRORS: frozenset[int] = frozenset(
    getattr(KafkaError, name) for name in _TRANSIENT_NAMES if hasattr(KafkaError, name)
)
"""Codes of the errors after which a request may succeed later."""


class Brokers:
    """The brokers of a log: where they are, and what the client last said about them.

    Parameters
    ----------
    address
        Addresses of the first brokers to contact.
    seconds_max
        Time limit in seconds of every call.
    """

    def __init__(self, address: str, seconds_max: float) -> None:
        self.address = address
        self.seconds_max = seconds_max
        self._admin: AdminClient | None = None
        self._problems: dict[str, tuple[float, str]] = {}  # time and text of each broker's last

    def ask_with(self, admin: AdminClient) -> None:
        """Use this client to find out why brokers do not answer."""
        self._admin = admin

    def error_callback(self) -> Callable[[KafkaError], None]:
        """Return what a client calls with its errors; it does not hold this object.

        This object holds a client, and Python cannot find cycles that pass through clients: they
        would never end.
        """
        found = WeakMethod(self._on_error)

        def call(error: KafkaError) -> None:
            on_error = found()
            if on_error is not None:
                on_error(error)

        return call

    def _on_error(self, error: KafkaError) -> None:
        """Log and keep a message of a client."""
        LOGGER.info("%s", error)
        broker, separator, problem = error.str().partition(": ")
        if separator and len(self._problems) < _BROKERS_NAMED_MAX:
            broker = broker.partition("/")[0]
            text = f"{broker}: {_IN_STATE.sub('', problem)}"
            self._problems[broker] = time.monotonic(), text

    def problem(self, error: KafkaError) -> str:
        """Return what went wrong; if no broker answers, which they are and why."""
        is_waiting_over = is_transient(error) or error.code() == KafkaError._MSG_TIMED_OUT
        if not is_waiting_over or self._admin is None:
            return error.str()
        self._admin.poll(0)
        # Others may be hours old.  The client says the same thing again only after half a minute.
        oldest = time.monotonic() - _PROBLEM_SECONDS_MAX
        for broker, (noted_at, _) in list(self._problems.items()):
            if noted_at < oldest:
                self._problems.pop(broker, None)
        try:
            self._admin.list_topics(timeout=_PROBE_SECONDS)
        except KafkaException as silence:
            _release_frames(silence)
            self._admin.poll(0)
            why = (
                "; ".join(text for _, text in list(self._problems.values()))
                or silence.args[0].str()
            )
        else:
            return f"{error.str()}, for {self.seconds_max:g} s"
        return (
            f"Kafka at {self.address} did not answer within {self.seconds_max:g} s ({why}).\n"
            "Check ledger.bootstrap, and that the brokers run; ledger.give_up_after is the time "
            "to wait for them."
        )


@contextmanager
def raise_as_ledger_error(what: str, brokers: Brokers | None = None) -> Iterator[None]:
    """Raise errors of the client library as `LedgerError`.

    Parameters
    ----------
    what
        First words of the message.
    brokers
        Brokers to name if they do not answer.
    """
    try:
        yield
    except KafkaException as error:
        _release_frames(error)
        raise LedgerError(f"{what}: {_message_of(error, brokers)}") from error
    except SystemError as error:
        # A fatal error in a call with callbacks arrives wrapped in SystemError.
        if not isinstance(error.__cause__, KafkaException):
            raise
        _release_frames(error.__cause__)
        raise LedgerError(f"{what}: {_message_of(error.__cause__, brokers)}") from error


def _release_frames(error: KafkaException) -> None:
    """Let go of what an error was raised in.

    The client library never frees its errors, and they would keep the variables of all frames that
    they have passed through: clients, and records that could not be appended.
    """
    error.__traceback__ = None


def is_transient(error: KafkaError) -> bool:
    """Return whether a request that failed with this error may succeed later."""
    return error.code() in TRANSIENT_ERRORS or error.retriable()


def retry_while_transient(request: Callable[[float], _T], seconds_max: float) -> _T:
    """Return the result of a request; repeat it while it fails with a transient error.

    Parameters
    ----------
    request
        Function that sends the request; it takes its time limit in seconds.
    seconds_max
        Time limit for all attempts together.
    """
    give_up_at = time.monotonic() + seconds_max
    while True:
        left = give_up_at - time.monotonic()
        try:
            return request(min(max(_RETRY_SECONDS, left), _ATTEMPT_SECONDS_MAX))
        except KafkaException as error:
            if not is_transient(error.args[0]) or time.monotonic() > give_up_at:
                raise
            _release_frames(error)
            LOGGER.info("retrying after: %s", _message_of(error, None))
            time.sleep(_RETRY_SECONDS)


def _message_of(error: KafkaException, brokers: Brokers | None) -> str:
    cause = error.args[0]
    if not isinstance(cause, KafkaError):
        return str(cause)
    return cause.str() if brokers is None else brokers.problem(cause)
