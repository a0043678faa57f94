"""Thousands of failed connections become one line when brokers go, and one when they return."""

import logging
import socket
from collections.abc import Callable

import pytest

from recrawl.ledger.broker_watch import BrokerWatch, accepts_connections

LINE = "%s [%s] %s"
ADDRESSES = ["127.0.0.1:9092", "127.0.0.1:9093", "kafka-3:9092"]


class Brokers:
    """Brokers that are reached or not, and the clients of a process that log what they see."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.now = 0.0
        self.watch = BrokerWatch(
            logging.getLogger("recrawl.ledger.kafka"),
            lambda address: address not in self.away,
            monotonic=lambda: self.now,
            is_stepped=True,
        )
        self.log = self.watch.new_log()

    def fail(
        self, address: str, client: int = 1, level: int = logging.ERROR, scheme: str = ""
    ) -> None:
        broker = f"{scheme}{address}/2"
        what = f"{broker}: Connect to ipv4#{address} failed: Connection refused"
        state = f" (after {client}ms in state CONNECT, 3 identical error(s) suppressed)"
        name = f"rdkafka#producer-{client}"
        self.log.log(level, LINE, "FAIL", name, f"[thrd:{broker}]: {what}{state}")

    def say(self, facility: str, message: str, level: int = logging.ERROR) -> None:
        self.log.log(level, LINE, facility, "rdkafka#consumer-1", f"[thrd:main]: {message}")


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    def take() -> list[str]:
        found = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
        caplog.clear()
        return found

    return take


def test_brokers_that_go_and_return_take_one_line_each_time(
    brokers: Brokers, lines: Callable[[], list[str]]
) -> None:
    for _ in range(2):
        brokers.away = set(ADDRESSES)
        for client in range(200):
            for address in ADDRESSES:
                brokers.fail(address, client)
        assert brokers.watch.step()
        assert lines() == [
            "no connection to the Kafka brokers 127.0.0.1:9092, 127.0.0.1:9093, kafka-3:9092: "
            "Connection refused; trying again until there is one"
        ]
        for _attempt in range(3):
            brokers.fail(ADDRESSES[0])
            assert brokers.watch.step()
        brokers.away = {ADDRESSES[2]}
        assert brokers.watch.step()
        assert lines() == []
        brokers.away = set()
        assert not brokers.watch.step()
        assert lines() == [
            "the Kafka brokers 127.0.0.1:9092, 127.0.0.1:9093, kafka-3:9092 can be reached again"
        ]


@pytest.mark.parametrize("scheme", ["ssl://", "sasl_ssl://", "sasl_plaintext://"])
def test_brokers_with_encryption_or_passwords_are_announced_like_others(
    brokers: Brokers, lines: Callable[[], list[str]], scheme: str
) -> None:
    address = "kafka-tls-1.example:9093"
    brokers.away = {address}
    brokers.fail(address, scheme=scheme)
    assert brokers.watch.step()
    assert lines() == [
        f"no connection to the Kafka broker {address}: Connection refused; "
        "trying again until there is one"
    ]
    brokers.say("FAIL", f"{scheme}{address}/2: SSL handshake failed: certificate verify failed")
    assert lines() == [f"{scheme}{address}/2: SSL handshake failed: certificate verify failed"]
    brokers.away = set()
    assert not brokers.watch.step()
    assert lines() == [f"the Kafka broker {address} can be reached again"]


def test_one_broker_that_stays_away_does_not_hide_what_becomes_of_others(
    brokers: Brokers, lines: Callable[[], list[str]]
) -> None:
    brokers.away = set(ADDRESSES)
    for address in ADDRESSES:
        brokers.fail(address)
    brokers.watch.step()
    lines()
    brokers.away = {ADDRESSES[2]}
    for brokers.now in (1.0, 30.0):
        assert brokers.watch.step()
    brokers.away = {ADDRESSES[1], ADDRESSES[2]}
    brokers.fail(ADDRESSES[1])
    brokers.now = 31.0
    assert brokers.watch.step()
    assert lines() == []  # of those that went together, some come and go for a while
    brokers.away = {ADDRESSES[2]}
    for brokers.now in (32.0, 92.0):
        assert brokers.watch.step()
    found = lines()
    assert found == ["the Kafka brokers 127.0.0.1:9092, 127.0.0.1:9093 can be reached again"]
    brokers.away = {ADDRESSES[0], ADDRESSES[2]}
    brokers.fail(ADDRESSES[0])
    assert brokers.watch.step()
    (line,) = lines()
    assert line.startswith("no connection to the Kafka broker 127.0.0.1:9092: ")
    brokers.away = set()
    assert not brokers.watch.step()
    assert lines() == ["the Kafka brokers 127.0.0.1:9092, kafka-3:9092 can be reached again"]


def test_brokers_are_not_watched_for_clients_that_have_ended(
    brokers: Brokers, lines: Callable[[], list[str]]
) -> None:
    brokers.away = set(ADDRESSES)
    brokers.fail(ADDRESSES[0])
    assert brokers.watch.step()
    assert len(lines()) == 1
    del brokers.log
    assert not brokers.watch.step()
    brokers.log = brokers.watch.new_log()
    brokers.fail(ADDRESSES[0])
    assert brokers.watch.step()
    assert len(lines()) == 1


def test_a_connection_that_only_ended_is_not_announced(
    brokers: Brokers, lines: Callable[[], list[str]]
) -> None:
    brokers.fail(ADDRESSES[0])
    brokers.fail(ADDRESSES[1], level=logging.INFO)  # an idle one, which the client expects
    assert not brokers.watch.step()
    assert lines() == []


def test_what_does_not_pass_by_itself_is_shown_once_a_minute(
    brokers: Brokers, lines: Callable[[], list[str]]
) -> None:
    wrong = "127.0.0.1:9092/bootstrap: SASL authentication error: Authentication failed"
    for seconds in (0.0, 1.0, 59.0):
        brokers.now = seconds
        brokers.say("FAIL", f"{wrong} (after {seconds:.0f}ms in state AUTH_REQ)")
        brokers.say("CONFWARN", "something about settings", logging.WARNING)
    assert lines() == [wrong, "something about settings"]
    brokers.now = 61.0
    brokers.say("FAIL", wrong)
    assert lines() == [wrong]
    brokers.say("GETPID", "Failed to acquire idempotence PID: Coordinator load in progress")
    brokers.log.log(logging.ERROR, "of another form")
    assert lines() == ["of another form"]
    assert not brokers.watch.step()


def test_a_broker_is_reached_if_something_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert accepts_connections(f"127.0.0.1:{server.getsockname()[1]}")
    with socket.socket() as bound:  # keeps the port, and does not listen
        bound.bind(("127.0.0.1", 0))
        assert not accepts_connections(f"127.0.0.1:{bound.getsockname()[1]}")
    assert not accepts_connections("no port")
