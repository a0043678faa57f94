"""Handle errors of Kafka: retry after transient ones, raise the others as `LedgerError`.

The extra ``kafka`` installs the client library for Kafka, `confluent-kafka`.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from recrawl.errors import LedgerError

try:
    from confluent_kafka import KafkaError, KafkaException
except ImportError as error:
    raise ImportError(
        'a log on Kafka needs the package confluent-kafka: pip install "recrawl[kafka]"'
    ) from error

__all__ = ["LOGGER", "TRANSIENT_ERRORS", "raise_as_ledger_error", "retry_while_transient"]

LOGGER = logging.getLogger("recrawl.ledger.kafka")
LOGGER.addHandler(logging.NullHandler())  # without it, Python prints warnings to stderr

_T = TypeVar("_T")
_RETRY_SECONDS = 0.05

# Errors while brokers start, stop or move a partition, and just after a topic was created.
TRANSIENT_ERRORS = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._WAIT_COORD,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


@contextmanager
def raise_as_ledger_error(what: str) -> Iterator[None]:
    """Raise errors of the client library as `LedgerError`; the message starts with ``what``."""
    try:
        yield
    except KafkaException as error:
        raise LedgerError(f"{what}: {_message_of(error)}") from error
    except SystemError as error:
        # A fatal error in a call with callbacks arrives wrapped in SystemError.
        if not isinstance(error.__cause__, KafkaException):
            raise
        raise LedgerError(f"{what}: {_message_of(error.__cause__)}") from error


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
        try:
            return request(max(_RETRY_SECONDS, give_up_at - time.monotonic()))
        except KafkaException as error:
            if error.args[0].code() not in TRANSIENT_ERRORS or time.monotonic() > give_up_at:
                raise
            LOGGER.info("retrying after: %s", _message_of(error))
            time.sleep(_RETRY_SECONDS)


def _message_of(error: KafkaException) -> str:
    cause = error.args[0]
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
