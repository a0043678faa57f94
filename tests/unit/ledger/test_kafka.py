"""The log in a topic: the contract on a real broker, other writers, and brokers that fail."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from recrawl.errors import LedgerError, PositionLost
from recrawl.ledger import kafka as kafka_module
from recrawl.ledger.contract import Record, Span
from recrawl.ledger.kafka import KafkaLedger, KafkaLog
from recrawl.testing.ledgers import LEDGER_CHECKS, N_PARTITIONS, LedgerCheck
from tests.kafka_broker import SCRIPT
from tests.unit.ledger.conftest import (
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    PRODUCE,
    FailingBroker,
)


def numbered(n: int, label: str = "") -> list[Record]:
    return [Record(i % 5, f"{label}{i}".encode()) for i in range(n)]


def data_of(ledger: KafkaLedger) -> list[bytes]:
    return [record.data for _, record in ledger.read(ledger.first)]


@pytest.fixture
def log(kafka_bootstrap: str, kafka_topic: str) -> Iterator[KafkaLog]:
    with KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=2) as opened:
        yield opened


@pytest.mark.parametrize("check", LEDGER_CHECKS, ids=lambda check: check.__name__)
def test_the_contract(check: LedgerCheck, kafka_bootstrap: str, kafka_topic: str) -> None:
    check(lambda: KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=N_PARTITIONS))


# ---------------------------------------------------------------------------- several writers


def test_an_append_says_when_others_wrote_between_its_records(
    log: KafkaLog, kafka_bootstrap: str, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = log.partition(0)
    send = KafkaLedger._send
    with KafkaLog.open(kafka_bootstrap, kafka_topic) as others:
        theirs = others.partition(0)
        assert theirs.append(numbered(1, "before")) == Span(0, 1, True)

        def interrupted(self: KafkaLedger, *args: Any) -> None:
            send(self, *args)
            if self is mine and self._n_written == 2:
                assert self._producer is not None
                self._producer.flush(10)
                assert theirs.append(numbered(1, "between")) == Span(3, 4, True)

        monkeypatch.setattr(KafkaLedger, "_send", interrupted)
        assert mine.append(numbered(3, "m")) == Span(1, 5, False, (1, 2, 4))
        assert theirs.append(numbered(2, "after")) == Span(5, 7, True)
    expected = [b"before0", b"m0", b"m1", b"between0", b"m2", b"after0", b"after1"]
    assert data_of(mine) == expected
    assert mine.append(numbered(3)) == Span(7, 10, True)


def test_each_writer_sees_what_the_others_appended(
    log: KafkaLog, kafka_bootstrap: str, kafka_topic: str
) -> None:
    with KafkaLog.open(kafka_bootstrap, kafka_topic) as others:
        writers = (log.partition(0), others.partition(0))
        for i in range(10):
            writers[i % 2].append([Record(1, b"%d" % i)])
            assert writers[(i + 1) % 2].end == i + 1
            assert writers[(i + 1) % 2].read(i) == [(i, Record(1, b"%d" % i))]
        log.partition(0).truncate(10)
        with pytest.raises(PositionLost, match="position must be 10 to 10, got 9"):
            others.partition(0).read(9)


def test_records_that_are_acknowledged_without_offsets_are_found_by_reading(
    log: KafkaLog, kafka_bootstrap: str, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a batch that was sent twice; others have written the same data meanwhile."""
    mine = log.partition(0)
    mine.append(numbered(2))
    send = KafkaLedger._send

    def without_offsets(
        self: KafkaLedger, producer: Producer, schema: int, data: bytes, delivered: Any, *rest: Any
    ) -> None:
        number = self._n_written

        def forgetful(error: KafkaError | None, message: Message) -> None:
            delivered(error, Message(key=message.key()) if number % 2 else message)

        send(self, producer, schema, data, forgetful, *rest)

    with KafkaLog.open(kafka_bootstrap, kafka_topic) as others:
        others.partition(0).append(numbered(4))
        monkeypatch.setattr(KafkaLedger, "_send", without_offsets)
        assert mine.append(numbered(4)) == Span(6, 10, True)
        assert mine.append(numbered(1)) == Span(10, 11, True)
        assert mine.append(numbered(1)) == Span(11, 12, True)


def test_records_that_are_acknowledged_and_not_there_are_an_error(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def liar(self: KafkaLedger, *args: Any) -> None:
        args[3](None, Message(key=b"never sent"))

    monkeypatch.setattr(KafkaLedger, "_send", liar)
    with pytest.raises(LedgerError, match="1 records were acknowledged and are not in the log"):
        log.partition(0).append(numbered(1))


def test_a_queue_that_is_full_is_waited_for(
    log: KafkaLog,
    kafka_bootstrap: str,
    kafka_topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(kafka_module._PRODUCER_SETTINGS, "queue.buffering.max.messages", 10)
    with KafkaLog.open(kafka_bootstrap, kafka_topic) as narrow:
        assert narrow.partition(0).append(numbered(105)) == Span(0, 105, True)
        assert len(log.partition(0).read(0)) == 105


def test_a_message_of_somebody_else_is_no_record(
    log: KafkaLog, kafka_bootstrap: str, kafka_topic: str
) -> None:
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    producer.produce(kafka_topic, b"hello", partition=1)
    producer.flush(10)
    with pytest.raises(LedgerError, match=r"message at 0 of partition 1 .* is no record"):
        log.partition(1).read(0)


# ---------------------------------------------------------------------------- topics


def test_a_topic_is_made_only_where_that_was_asked_for(
    kafka_bootstrap: str, kafka_topic: str
) -> None:
    with pytest.raises(LedgerError, match="and it was not to be made"):
        KafkaLog.open(kafka_bootstrap, kafka_topic, create=False)
    with pytest.raises(LedgerError, match="say how many partitions"):
        KafkaLog.open(kafka_bootstrap, kafka_topic)
    KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=5, replication=1).close()
    with pytest.raises(LedgerError, match=r"n_partitions must be 5 .* got 4"):
        KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=4)
    with KafkaLog.open(kafka_bootstrap, kafka_topic, create=False) as log:
        assert log.n_partitions == 5
    with pytest.raises(LedgerError, match=r"cannot be looked up or made: .*[Rr]eplication"):
        KafkaLog.open(kafka_bootstrap, f"{kafka_topic}-3", n_partitions=1, replication=3)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"retention.ms": "604800000"}, "retention.ms must be -1, got 604800000"),
        ({"cleanup.policy": "compact"}, "cleanup.policy must be delete, got compact"),
        ({"max.message.bytes": "1048588"}, "max.message.bytes must be 8388608, got 1048588"),
    ],
)
def test_a_topic_that_would_forget_or_refuse_records_is_refused(
    settings: dict[str, str], complaint: str, kafka_bootstrap: str, kafka_topic: str
) -> None:
    kept = {"retention.ms": "-1", "max.message.bytes": "8388608"}
    new = NewTopic(kafka_topic, 1, 1, config={**kept, **settings})
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([new])[kafka_topic].result(30)
    with pytest.raises(LedgerError, match=f"{kafka_topic} cannot hold a log: .*{complaint}"):
        KafkaLog.open(kafka_bootstrap, kafka_topic)


def test_settings_that_promises_rest_on_are_left_alone(kafka_bootstrap: str) -> None:
    with pytest.raises(ValueError, match="leave alone what the log sets: acks, enable"):
        KafkaLog.open(
            kafka_bootstrap, "t", client_settings={"enable.idempotence": False, "acks": 0}
        )
    with pytest.raises(LedgerError, match=r"settings are wrong: .*no\.such\.setting"):
        KafkaLog.open(kafka_bootstrap, "t", client_settings={"no.such.setting": 1})
    with pytest.raises(ValueError, match="seconds_max must be positive, got 0"):
        KafkaLog.open(kafka_bootstrap, "t", seconds_max=0)
    with pytest.raises(ValueError, match="n_partitions must be 1 to 65535, got 0"):
        KafkaLog.open(kafka_bootstrap, "t", n_partitions=0)


# ---------------------------------------------------------------------------- faults

NOT_LEADER, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_AFTER_APPEND = 6, 7, 19, 20
TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, COORDINATOR_LOADING = 29, 31, 14
OFFSET_NOT_AVAILABLE = 78


@pytest.fixture
def shaky(failing_broker: FailingBroker) -> Iterator[KafkaLog]:
    """Return a log on the broker that can be told to fail, with little patience."""
    with KafkaLog.open(
        failing_broker.bootstrap,
        failing_broker.topic,
        create=False,
        client_settings={"retry.backoff.ms": 1, "retry.backoff.max.ms": 10},
        seconds_max=10.0,
    ) as log:
        yield log


@pytest.mark.parametrize(
    "errors",
    [
        [NOT_LEADER],
        [REQUEST_TIMED_OUT] * 2,
        [NOT_ENOUGH_REPLICAS] * 5,
        [NOT_ENOUGH_AFTER_APPEND, NOT_LEADER],
    ],
)
def test_errors_that_pass_lead_to_records_written_exactly_once(
    errors: list[int], failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    ledger = shaky.partition(0)
    for i in range(3):
        failing_broker.fail(PRODUCE, *errors)
        assert ledger.append(numbered(100, f"{i}-")) == Span(100 * i, 100 * i + 100, True)
    found = Counter(record.data for _, record in ledger.read(0))
    assert found == Counter(r.data for i in range(3) for r in numbered(100, f"{i}-"))


def test_a_writer_that_is_not_let_in_at_once_is_later(
    failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    failing_broker.fail(INIT_PRODUCER_ID, COORDINATOR_LOADING)
    assert shaky.partition(0).append(numbered(2)) == Span(0, 2, True)


@pytest.mark.parametrize(
    ("request_kind", "error"),
    [(PRODUCE, TOPIC_AUTHORIZATION_FAILED), (INIT_PRODUCER_ID, CLUSTER_AUTHORIZATION_FAILED)],
)
def test_errors_that_do_not_pass_close_the_ledger_to_appends(
    request_kind: int, error: int, failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    failing_broker.fail(request_kind, error)
    ledger = shaky.partition(0)
    with pytest.raises(
        LedgerError, match=r"an append failed: .*([Aa]uthorization failed|Fatal error)"
    ):
        ledger.append(numbered(3))
    with pytest.raises(LedgerError, match=r"an earlier append failed .*; open the log again"):
        ledger.append(numbered(3))
    assert ledger.read(0) == []
    with KafkaLog.open(failing_broker.bootstrap, failing_broker.topic, create=False) as again:
        assert again.partition(0).append(numbered(3)) == Span(0, 3, True)


def test_reading_outlasts_errors_that_pass(failing_broker: FailingBroker, shaky: KafkaLog) -> None:
    ledger = shaky.partition(0)
    ledger.append(numbered(10))
    for errors in ([NOT_LEADER], [NOT_LEADER, REQUEST_TIMED_OUT], [OFFSET_NOT_AVAILABLE] * 3):
        failing_broker.fail(LIST_OFFSETS, *errors)
        assert (ledger.first, ledger.end) == (0, 10)
        failing_broker.fail(LIST_OFFSETS, *errors)
        assert len(ledger.read(0)) == 10
    failing_broker.fail(FETCH, NOT_LEADER, REQUEST_TIMED_OUT)
    assert len(ledger.read(0)) == 10


def test_reading_what_may_not_be_read_is_an_error(
    failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    ledger = shaky.partition(0)
    ledger.append(numbered(10))
    failing_broker.fail(LIST_OFFSETS, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(LedgerError, match=r"where the log ends: .*authorization failed"):
        _ = ledger.end
    failing_broker.fail(FETCH, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(LedgerError, match=r"cannot be read: .*authorization failed"):
        ledger.read(0)
    assert len(ledger.read(0)) == 10


def test_brokers_that_do_not_answer_are_waited_for_so_long_and_no_longer(
    failing_broker: FailingBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    """And nothing is printed about it."""
    where = (failing_broker.bootstrap, failing_broker.topic)
    with KafkaLog.open(*where, create=False, seconds_max=1.0) as log:
        ledger = log.partition(0)
        ledger.append(numbered(3))
        failing_broker.go_down()
        with pytest.raises(LedgerError, match="an append failed: 2 of 2 records"):
            ledger.append(numbered(2))
        with pytest.raises(LedgerError, match="where the log ends"):
            _ = ledger.end
        with pytest.raises(LedgerError, match="cannot be looked up"):
            KafkaLog.open(*where, create=False, seconds_max=0.2)
        failing_broker.come_up()
        assert ledger.end == 3
        with pytest.raises(LedgerError, match="open the log again"):
            ledger.append(numbered(2))
    with KafkaLog.open(*where, create=False) as log:
        assert log.partition(0).append(numbered(2)) == Span(3, 5, True)
    assert capfd.readouterr().err == ""


def test_what_the_library_complains_of_is_logged(
    failing_broker: FailingBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so while an append waits, which is when what it has to say is asked for."""
    where = (failing_broker.bootstrap, failing_broker.topic)
    with (
        caplog.at_level(logging.DEBUG, "recrawl.ledger.kafka"),
        KafkaLog.open(*where, create=False, seconds_max=2.0) as log,
    ):
        log.partition(0).append(numbered(1))
        failing_broker.go_down()
        with pytest.raises(LedgerError, match="an append failed"):
            log.partition(0).append(numbered(1))
        assert caplog.records
        failing_broker.come_up()


def test_without_the_package_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['confluent_kafka'] = None; import recrawl.ledger.kafka"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert 'confluent-kafka: pip install "recrawl[kafka]"' in done.stderr


# ---------------------------------------------------------------------------- the script


def script(*arguments: object) -> str:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=90).stdout


def test_a_log_outlives_a_broker_that_is_killed_and_started_again(tmp_path: Path) -> None:
    up = ("up", "--brokers", 1, "--folder", tmp_path)
    cluster = json.loads(script(*up))
    try:
        with KafkaLog.open(cluster["bootstrap"], "log", n_partitions=1) as log:
            ledger = log.partition(0)
            assert ledger.append(numbered(100)) == Span(0, 100, True)
            os.kill(cluster["pids"][0], signal.SIGKILL)
            again = json.loads(script(*up))
            assert again["bootstrap"] == cluster["bootstrap"]
            assert again["pids"] != cluster["pids"]
            assert ledger.append(numbered(100)) == Span(100, 200, True)
            assert [record for _, record in ledger.read(0)] == numbered(100) * 2
            cluster = again
    finally:
        script("down", "--folder", tmp_path)
    command = Path(f"/proc/{cluster['pids'][0]}/cmdline")
    assert not command.exists() or not command.read_bytes()  # a child that nobody waits for
