"""What to make of the complaints of brokers: some pass, the others are errors of ours.

Kafka's own library, `confluent-kafka`, comes with the extra ``kafka``.
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

__all__ = ["LOGGER", "PASSING", "ledger_errors", "patiently"]

LOGGER = logging.getLogger("recrawl.ledger.kafka")
LOGGER.addHandler(logging.NullHandler())  # otherwise warnings are printed where nobody logs

_T = TypeVar("_T")
_LOOK_AGAIN_SECONDS = 0.05

# Seen while brokers start, end, or pass a partition on, and for a moment after a topic was made.
PASSING = frozenset(
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
def ledger_errors(what: str) -> Iterator[None]:
    """Raise `LedgerError` where Kafka's library raises an error of its own."""
    try:
        yield
    except KafkaException as error:
        raise LedgerError(f"{what}: {_words_of(error)}") from error
    except SystemError as error:
        # How an error that no client recovers from comes out of a call that has callbacks.
        if not isinstance(error.__cause__, KafkaException):
            raise
        raise LedgerError(f"{what}: {_words_of(error.__cause__)}") from error


def patiently(ask: Callable[[float], _T], seconds_max: float) -> _T:
    """Return what is answered; ask again while what is wrong passes and there is time left.

    Parameters
    ----------
    ask
        Takes how many seconds it may take.
    seconds_max
        For all of it.
    """
    give_up_at = time.monotonic() + seconds_max
    while True:
        try:
            return ask(max(_LOOK_AGAIN_SECONDS, give_up_at - time.monotonic()))
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > give_up_at:
                raise
            LOGGER.info("asking again after: %s", _words_of(error))
            time.sleep(_LOOK_AGAIN_SECONDS)


def _words_of(error: KafkaException) -> str:
    cause = error.args[0]
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
