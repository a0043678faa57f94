"""Threads that wait for the answers of brokers, with a client that is not connected."""

import threading
import time
from typing import Any

import pytest

from recrawl.ledger import kafka_clients
from recrawl.ledger.kafka_clients import Delivery, Sender

WAIT_SECONDS = 60.0


class Answer:
    """An answer to one record."""

    def offset(self) -> int:
        return 7


class FakeProducer:
    """A client whose answers come when a test says so, to whoever takes them."""

    def __init__(self, settings: Any) -> None:
        self.is_polled = threading.Event()
        self.may_return = threading.Event()
        self.answered: list[Delivery] = []

    def flush(self, seconds: float) -> int:
        self.is_polled.set()
        assert self.may_return.wait(WAIT_SECONDS)
        for delivery in self.answered:
            delivery.on_delivery(None, Answer())  # type: ignore[arg-type]
        self.answered = []
        return 0


class DeliveryOfSlowThread(Delivery):
    """A delivery whose thread runs again only when it is woken, after its time."""

    def wait(self, seconds: float) -> None:
        super().wait(WAIT_SECONDS)


def test_a_thread_without_time_left_passes_on_that_answers_must_be_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_clients, "Producer", FakeProducer)
    sender = Sender({}, 1.0)
    producer: Any = sender.producer
    deliveries = [Delivery(), DeliveryOfSlowThread(), Delivery()]
    threads = []
    begun_at = time.monotonic()
    for delivery, seconds in zip(deliveries, (0.1, 0.2, WAIT_SECONDS), strict=True):
        delivery.n_wanted = 1
        thread = threading.Thread(target=sender.wait, args=(delivery, begun_at + seconds))
        threads.append(thread)
        thread.start()
        assert producer.is_polled.wait(WAIT_SECONDS)  # by the first one
        while delivery not in sender._waiting:
            time.sleep(0.001)
    time.sleep(max(begun_at + 0.3 - time.monotonic(), 0.0))
    # The first two have no time left; the answer to the third comes after that.
    producer.is_polled.clear()
    producer.may_return.set()
    threads[0].join(WAIT_SECONDS)
    producer.answered.append(deliveries[2])
    threads[2].join(WAIT_SECONDS / 6)
    assert not threads[2].is_alive()
    assert deliveries[2].is_complete
    threads[1].join(WAIT_SECONDS)
