"""`KafkaLog` fulfils the ledger interface, with other writers and with failing brokers."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from recrawl.errors import LedgerError, PositionLost
from recrawl.ledger import kafka_clients, kafka_errors
from recrawl.ledger import kafka_topic as kafka_topic_module
from recrawl.ledger.contract import AppendedSpan, Record
from recrawl.ledger.kafka import KafkaLedger, KafkaLog
from recrawl.ledger.kafka_clients import Delivery, Sender
from recrawl.ledger.kafka_errors import BROKER_WATCH, TRANSIENT_ERRORS
from recrawl.testing.ledgers import LEDGER_CHECKS, N_PARTITIONS, LedgerCheck
from tests.kafka_broker import SCRIPT
from tests.unit.ledger.conftest import (
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    PRODUCE,
    FailingBroker,
)

pytestmark = pytest.mark.kafka


def make_records(n: int, label: str = "") -> list[Record]:
    return [Record(i % 5, f"{label}{i}".encode()) for i in range(n)]


def wait_until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 60.0
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def data_of(ledger: KafkaLedger) -> list[bytes]:
    return [record.data for _, record in ledger.read(ledger.first)]


@pytest.fixture
def log(kafka_bootstrap: str, kafka_topic: str) -> Iterator[KafkaLog]:
    with KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=2) as opened:
        yield opened


@pytest.mark.parametrize("check", LEDGER_CHECKS, ids=lambda check: check.__name__)
def test_it_fulfils_the_ledger_interface(
    check: LedgerCheck, kafka_bootstrap: str, kafka_topic: str
) -> None:
    check(lambda: KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=N_PARTITIONS))


# ---------------------------------------------------------------------------- several writers


def test_a_span_lists_positions_if_others_wrote_between_the_records(
    log: KafkaLog, kafka_bootstrap: str, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = log.partition(0)
    send = KafkaLedger._send
    with KafkaLog.open(kafka_bootstrap, kafka_topic) as others:
        theirs = others.partition(0)
        assert theirs.append(make_records(1, "before")) == AppendedSpan(0, 1, True)

        def interrupted(self: KafkaLedger, *args: Any) -> None:
            send(self, *args)
            if self is mine and self._n_written == 2:
                self._clients.sender().producer.flush(10)
                assert theirs.append(make_records(1, "between")) == AppendedSpan(3, 4, True)

        monkeypatch.setattr(KafkaLedger, "_send", interrupted)
        assert mine.append(make_records(3, "m")) == AppendedSpan(1, 5, False, (1, 2, 4))
        assert theirs.append(make_records(2, "after")) == AppendedSpan(5, 7, True)
    expected = [b"before0", b"m0", b"m1", b"between0", b"m2", b"after0", b"after1"]
    assert data_of(mine) == expected
    assert mine.append(make_records(3)) == AppendedSpan(7, 10, True)


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
    """This happens to a batch that was sent twice; other writers wrote the same data meanwhile."""
    mine = log.partition(0)
    mine.append(make_records(2))
    send = KafkaLedger._send

    def without_offsets(
        self: KafkaLedger, sender: Sender, schema: int, data: bytes, delivered: Any, *rest: Any
    ) -> None:
        number = self._n_written

        def forgetful(error: KafkaError | None, message: Message) -> None:
            delivered(error, Message(key=message.key()) if number % 2 else message)

        send(self, sender, schema, data, forgetful, *rest)

    with KafkaLog.open(kafka_bootstrap, kafka_topic) as others:
        others.partition(0).append(make_records(4))
        monkeypatch.setattr(KafkaLedger, "_send", without_offsets)
        assert mine.append(make_records(4)) == AppendedSpan(6, 10, True)
        assert mine.append(make_records(1)) == AppendedSpan(10, 11, True)
        assert mine.append(make_records(1)) == AppendedSpan(11, 12, True)


def test_acknowledged_records_that_are_missing_raise_ledger_error(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def acknowledge_without_sending(self: KafkaLedger, *args: Any) -> None:
        args[3](None, Message(key=b"never sent"))

    monkeypatch.setattr(KafkaLedger, "_send", acknowledge_without_sending)
    with pytest.raises(LedgerError, match="1 records were acknowledged and are not in the log"):
        log.partition(0).append(make_records(1))


def test_many_partitions_share_their_connections(kafka_bootstrap: str, kafka_topic: str) -> None:
    def n_threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    with KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=64) as many:
        many.partition(0).append(make_records(1))
        many.partition(0).read(0)
        n_before = n_threads()
        for i in range(1, 64):
            assert many.partition(i).append(make_records(2)) == AppendedSpan(0, 2, True)
            assert len(many.partition(i).read(0)) == 2
        assert n_threads() <= n_before  # threads of earlier tests may end


def test_appends_to_several_partitions_are_under_way_at_the_same_time(
    kafka_bootstrap: str, kafka_topic: str
) -> None:
    """Whoever waits for acknowledgements takes those of others, and nobody waits for ever."""
    n_partitions, n_appends = 8, 40
    with KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=n_partitions) as several:

        def work(i: int) -> list[AppendedSpan]:
            ledger = several.partition(i)
            spans = []
            for k in range(n_appends):
                spans.append(ledger.append(make_records(3, f"{i}-{k}-")))
                if k % 10 == i % 10:
                    assert len(ledger.read(3 * k)) == 3
            return spans

        with ThreadPoolExecutor(n_partitions) as threads:
            found = list(threads.map(work, range(n_partitions)))
        expected = [AppendedSpan(3 * k, 3 * k + 3, True) for k in range(n_appends)]
        assert found == [expected] * n_partitions
        for i in range(n_partitions):
            labels = [f"{i}-{k}-{j}".encode() for k in range(n_appends) for j in range(3)]
            assert data_of(several.partition(i)) == labels


def test_who_takes_the_answers_passes_this_on(kafka_bootstrap: str) -> None:
    sender = Sender({"bootstrap.servers": kafka_bootstrap}, 10.0)
    soon, late = Delivery(), Delivery()
    soon.n_wanted = late.n_wanted = 1
    with ThreadPoolExecutor(2) as threads:
        ends_at = time.monotonic() + 120.0
        first = threads.submit(sender.wait, soon, ends_at)
        wait_until(lambda: (sender._is_polled, len(sender._waiting)) == (True, 1))
        second = threads.submit(sender.wait, late, ends_at)
        wait_until(lambda: (sender._is_polled, len(sender._waiting)) == (True, 2))
        soon.on_delivery(None, Message(key=b"soon"))
        first.result(60)
        wait_until(lambda: (sender._is_polled, len(sender._waiting)) == (True, 1))
        late.on_delivery(None, Message(key=b"late"))
        second.result(60)
    assert (sender._is_polled, len(sender._waiting)) == (False, 0)


@pytest.mark.parametrize("comes_before", [True, False])
def test_nobody_waits_for_answers_that_have_come(comes_before: bool) -> None:
    delivery = Delivery()
    delivery.n_wanted = 1
    if comes_before:
        delivery.on_delivery(None, Message(key=b"soon"))
    delivery.begin_wait()
    if not comes_before:
        delivery.on_delivery(None, Message(key=b"soon"))
    with ThreadPoolExecutor(1) as threads:
        threads.submit(delivery.wait, 600.0).result(60)
    assert delivery.is_complete


def test_a_log_is_closed_while_others_read(kafka_bootstrap: str, kafka_topic: str) -> None:
    """They get an error, and neither they nor the one who closes wait for ever."""
    for _ in range(5):
        log = KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=4)
        log.partition(0).append(make_records(1))

        def read_on(i: int, ledger: KafkaLedger) -> str:
            try:
                while True:
                    ledger.read(ledger.first if i % 2 else ledger.end)
            except LedgerError as error:
                return str(error)

        with ThreadPoolExecutor(4) as threads:
            found = [threads.submit(read_on, i, log.partition(i)) for i in range(4)]
            time.sleep(0.2)
            log.close()
            assert {one.result(60) for one in found} == {"the log is closed"}


def test_after_a_failed_append_other_partitions_go_on(
    failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    failing_broker.fail(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(LedgerError, match="an append failed"):
        shaky.partition(0).append(make_records(3))
    assert shaky.partition(1).append(make_records(3)) == AppendedSpan(0, 3, True)
    with pytest.raises(LedgerError, match="an earlier append failed"):
        shaky.partition(0).append(make_records(3))


def test_an_append_waits_while_the_queue_is_full(
    log: KafkaLog,
    kafka_bootstrap: str,
    kafka_topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(kafka_clients._PRODUCER_SETTINGS, "queue.buffering.max.messages", 10)
    with KafkaLog.open(kafka_bootstrap, kafka_topic) as narrow:
        assert narrow.partition(0).append(make_records(105)) == AppendedSpan(0, 105, True)
        assert len(log.partition(0).read(0)) == 105


def test_a_foreign_message_in_the_topic_raises_ledger_error(
    log: KafkaLog, kafka_bootstrap: str, kafka_topic: str
) -> None:
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    producer.produce(kafka_topic, b"hello", partition=1)
    producer.flush(10)
    with pytest.raises(LedgerError, match=r"message at 0 of partition 1 .* is not a record"):
        log.partition(1).read(0)


# ---------------------------------------------------------------------------- topics


def test_a_topic_is_created_only_if_create_is_set(kafka_bootstrap: str, kafka_topic: str) -> None:
    with pytest.raises(LedgerError, match="and creating it is disabled"):
        KafkaLog.open(kafka_bootstrap, kafka_topic, create=False)
    with pytest.raises(LedgerError, match="give n_partitions to create it"):
        KafkaLog.open(kafka_bootstrap, kafka_topic)
    KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=5, replication=1).close()
    with pytest.raises(LedgerError, match=r"n_partitions must be 5 .* got 4"):
        KafkaLog.open(kafka_bootstrap, kafka_topic, n_partitions=4)
    with KafkaLog.open(kafka_bootstrap, kafka_topic, create=False) as log:
        assert log.n_partitions == 5
    with pytest.raises(LedgerError, match=r"cannot be found or created: .*[Rr]eplication"):
        KafkaLog.open(kafka_bootstrap, f"{kafka_topic}-3", n_partitions=1, replication=3)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"retention.ms": "604800000"}, "retention.ms must be -1, got 604800000"),
        ({"cleanup.policy": "compact"}, "cleanup.policy must be delete, got compact"),
        ({"max.message.bytes": "1048588"}, "max.message.bytes must be 8388608, got 1048588"),
    ],
)
def test_a_topic_that_would_delete_or_reject_records_is_refused(
    settings: dict[str, str], complaint: str, kafka_bootstrap: str, kafka_topic: str
) -> None:
    kept = {"retention.ms": "-1", "max.message.bytes": "8388608"}
    new = NewTopic(kafka_topic, 1, 1, config={**kept, **settings})
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([new])[kafka_topic].result(300)
    with pytest.raises(LedgerError, match=f"{kafka_topic} cannot hold a log: .*{complaint}"):
        KafkaLog.open(kafka_bootstrap, kafka_topic)


def make_topic(bootstrap: str, topic: str, **settings: str) -> None:
    kept = {"retention.ms": "-1", "max.message.bytes": "8388608"}
    new = NewTopic(
        topic, 1, 1, config=kept | {key.replace("_", "."): settings[key] for key in settings}
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(300)


def test_a_topic_with_fewer_copies_than_wanted_is_refused_unless_accepted(
    kafka_bootstrap: str, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(kafka_bootstrap, kafka_topic, min_insync_replicas="1")
    with pytest.raises(LedgerError) as caught:
        KafkaLog.open(kafka_bootstrap, kafka_topic, replication=3)
    message = str(caught.value)
    assert "its replication factor is 1, and ledger.replication is 3" in message
    assert "its min.insync.replicas is 1, and ledger.in_sync_min is 2" in message
    assert f"--entity-name {kafka_topic} --add-config min.insync.replicas=2" in message
    assert 'ledger.weaker_topic = "accept"' in message
    with pytest.raises(LedgerError, match=r"min\.insync\.replicas is 1, and .* is 4"):
        KafkaLog.open(kafka_bootstrap, kafka_topic, in_sync_min=4)
    with KafkaLog.open(kafka_bootstrap, kafka_topic, replication=3, accept_weaker=True) as log:
        assert log.partition(0).append(make_records(1)) == AppendedSpan(0, 1, True)
    assert "may lose records that were acknowledged: its replication factor" in caplog.text
    KafkaLog.open(kafka_bootstrap, kafka_topic, replication=1).close()


def test_a_topic_that_may_elect_a_leader_without_the_newest_records_is_refused(
    kafka_bootstrap: str, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(kafka_bootstrap, kafka_topic, unclean_leader_election_enable="true")
    KafkaLog.open(kafka_bootstrap, kafka_topic).close()  # the only copy: nobody else can lead
    found = kafka_topic_module._FoundTopic(n_partitions=1, n_copies=3)
    monkeypatch.setattr(kafka_topic_module, "_find_topic", lambda *_: found)
    with pytest.raises(LedgerError, match=r"unclean\.leader\.election\.enable is true, so a bro"):
        KafkaLog.open(kafka_bootstrap, kafka_topic, replication=3, in_sync_min=1)


def test_the_settings_of_a_topic_must_be_read_unless_that_is_forbidden(
    log: KafkaLog, kafka_bootstrap: str, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [KafkaError.NOT_CONTROLLER, KafkaError.TOPIC_AUTHORIZATION_FAILED]

    class Answer:
        def __init__(self, code: int) -> None:
            self.code = code

        def result(self) -> None:
            raise KafkaException(KafkaError(self.code))

    def describe(_: AdminClient, resources: list[Any], **__: Any) -> dict[Any, Answer]:
        return {resources[0]: Answer(answers.pop(0))}

    monkeypatch.setattr(AdminClient, "describe_configs", describe)
    KafkaLog.open(kafka_bootstrap, kafka_topic).close()
    assert answers == []
    answers.append(KafkaError.INVALID_REQUEST)
    with pytest.raises(
        LedgerError, match=r"settings of the topic .* cannot be read: .*Invalid req"
    ):
        KafkaLog.open(kafka_bootstrap, kafka_topic)


def test_reserved_and_invalid_settings_are_refused(kafka_bootstrap: str) -> None:
    with pytest.raises(ValueError, match="settings that recrawl sets: acks, enable"):
        KafkaLog.open(
            kafka_bootstrap, "t", client_settings={"enable.idempotence": False, "acks": 0}
        )
    with pytest.raises(LedgerError, match=r"settings are invalid: .*no\.such\.setting"):
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
def open_shaky() -> Iterator[Callable[[FailingBroker], KafkaLog]]:
    """Return a function that opens a log on failing brokers, with short time limits."""
    opened: list[KafkaLog] = []

    def open_log(brokers: FailingBroker) -> KafkaLog:
        opened.append(
            KafkaLog.open(
                brokers.bootstrap,
                brokers.topic,
                create=False,
                client_settings={"retry.backoff.ms": 1, "retry.backoff.max.ms": 10},
                seconds_max=30.0,
            )
        )
        return opened[-1]

    yield open_log
    for log in opened:
        log.close()


@pytest.fixture
def shaky(
    failing_broker: FailingBroker, open_shaky: Callable[[FailingBroker], KafkaLog]
) -> KafkaLog:
    """Return a log on the failing broker, with short time limits."""
    return open_shaky(failing_broker)


@pytest.mark.parametrize(
    "errors",
    [
        [NOT_LEADER],
        [REQUEST_TIMED_OUT] * 2,
        [NOT_ENOUGH_REPLICAS] * 5,
        [NOT_ENOUGH_AFTER_APPEND, NOT_LEADER],
    ],
)
def test_records_are_written_exactly_once_despite_transient_errors(
    errors: list[int], failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    ledger = shaky.partition(0)
    for i in range(3):
        failing_broker.fail(PRODUCE, *errors)
        assert ledger.append(make_records(100, f"{i}-")) == AppendedSpan(
            100 * i, 100 * i + 100, True
        )
    found = Counter(record.data for _, record in ledger.read(0))
    assert found == Counter(r.data for i in range(3) for r in make_records(100, f"{i}-"))


def test_a_partition_without_leader_holds_up_no_other(
    two_brokers: FailingBroker, open_shaky: Callable[[FailingBroker], KafkaLog]
) -> None:
    """All partitions share a producer."""
    log = open_shaky(two_brokers)
    sick, well = log.partition(0), log.partition(1)
    for ledger in (sick, well):
        ledger.append(make_records(1, "before"))
    two_brokers.go_down(2)
    late = sick.begin_append(make_records(3, "late"))
    assert not late.wait(0.2)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(late.wait, 25.0)
        for i in range(5):
            assert well.append(make_records(2)).end == 3 + 2 * i
            assert not waiting.done()
        assert not late.wait(0.0)  # while another thread waits for it
        two_brokers.come_up(2)
        assert waiting.result()
    assert late.wait(0.0)
    assert late.finish() == AppendedSpan(1, 4, True)
    assert sick.append(make_records(1)) == AppendedSpan(4, 5, True)


def test_waiting_for_an_append_ends_when_it_has_failed(
    failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    ledger = shaky.partition(0)
    ledger.append(make_records(1))
    failing_broker.fail(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
    append = ledger.begin_append(make_records(1))
    assert append.wait(60.0)
    with pytest.raises(LedgerError, match="an append failed"):
        append.finish()
    assert shaky.partition(1).begin_append([]).wait(0.0)


def test_a_producer_retries_while_the_coordinator_is_loading(
    failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    failing_broker.fail(INIT_PRODUCER_ID, COORDINATOR_LOADING)
    assert shaky.partition(0).append(make_records(2)) == AppendedSpan(0, 2, True)


@pytest.mark.parametrize(
    ("request_kind", "error"),
    [(PRODUCE, TOPIC_AUTHORIZATION_FAILED), (INIT_PRODUCER_ID, CLUSTER_AUTHORIZATION_FAILED)],
)
def test_after_a_fatal_error_appends_fail_until_the_log_is_opened_again(
    request_kind: int, error: int, failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    failing_broker.fail(request_kind, error)
    ledger = shaky.partition(0)
    with pytest.raises(
        LedgerError, match=r"an append failed: .*([Aa]uthorization failed|Fatal error)"
    ):
        ledger.append(make_records(3))
    with pytest.raises(LedgerError, match=r"an earlier append failed .*; open the log again"):
        ledger.append(make_records(3))
    assert ledger.read(0) == []
    with KafkaLog.open(failing_broker.bootstrap, failing_broker.topic, create=False) as again:
        assert again.partition(0).append(make_records(3)) == AppendedSpan(0, 3, True)


def test_reads_retry_after_transient_errors(failing_broker: FailingBroker, shaky: KafkaLog) -> None:
    ledger = shaky.partition(0)
    ledger.append(make_records(10))
    for errors in ([NOT_LEADER], [NOT_LEADER, REQUEST_TIMED_OUT], [OFFSET_NOT_AVAILABLE] * 3):
        failing_broker.fail(LIST_OFFSETS, *errors)
        assert (ledger.first, ledger.end) == (0, 10)
        failing_broker.fail(LIST_OFFSETS, *errors)
        assert len(ledger.read(0)) == 10
    failing_broker.fail(FETCH, NOT_LEADER, REQUEST_TIMED_OUT)
    assert len(ledger.read(0)) == 10


# The codes of errors that Kafka's own clients retry: the subclasses of RetriableException.
RETRIABLE = [
    2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 88, 89,
    100, 103,
]  # fmt: skip


def test_all_errors_that_kafka_calls_retriable_count_as_transient() -> None:
    assert set(RETRIABLE) <= TRANSIENT_ERRORS
    fatal = {KafkaError._FATAL, KafkaError._FENCED, KafkaError._AUTHENTICATION, KafkaError._SSL}
    assert not fatal & TRANSIENT_ERRORS
    assert not {code for code in TRANSIENT_ERRORS if "uthorization" in KafkaError(code).str()}


@pytest.mark.parametrize("error", RETRIABLE)
def test_calls_wait_for_each_error_that_kafka_calls_retriable(
    error: int, failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    ledger = shaky.partition(0)
    failing_broker.fail(LIST_OFFSETS, error, error)
    ledger.append(make_records(10))
    assert (ledger.first, ledger.end) == (0, 10)
    failing_broker.fail(FETCH, error, error)
    assert len(ledger.read(0)) == 10


def test_reading_without_permission_raises_ledger_error(
    failing_broker: FailingBroker, shaky: KafkaLog
) -> None:
    ledger = shaky.partition(0)
    ledger.append(make_records(10))
    failing_broker.fail(LIST_OFFSETS, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(LedgerError, match=r"the bounds of the log: .*authorization failed"):
        _ = ledger.end
    failing_broker.fail(FETCH, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(LedgerError, match=r"cannot be read: .*authorization failed"):
        ledger.read(0)
    assert len(ledger.read(0)) == 10


def has_end(ledger: KafkaLedger, end: int) -> bool:
    """Return whether a log has an end; not while its broker does not answer."""
    try:
        return ledger.end == end
    except LedgerError:
        return False


def test_calls_time_out_if_the_brokers_do_not_answer(
    failing_broker: FailingBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is printed to stderr meanwhile."""
    where = (failing_broker.bootstrap, failing_broker.topic)
    with KafkaLog.open(*where, create=False, seconds_max=10.0) as log:
        ledger = log.partition(0)
        ledger.append(make_records(3))
        failing_broker.go_down()
        with pytest.raises(LedgerError, match="an append failed: 2 of 2 records were not written"):
            ledger.append(make_records(2))
        with pytest.raises(LedgerError, match="do not report the bounds of the log"):
            _ = ledger.end
        with pytest.raises(LedgerError, match="cannot be found"):
            KafkaLog.open(*where, create=False, seconds_max=0.2)
        failing_broker.come_up()
        wait_until(lambda: has_end(ledger, 3))
        with pytest.raises(LedgerError, match="open the log again"):
            ledger.append(make_records(2))
    with KafkaLog.open(*where, create=False) as log:
        assert log.partition(0).append(make_records(2)) == AppendedSpan(3, 5, True)
    assert capfd.readouterr().err == ""


def test_an_error_names_what_a_broker_said_a_while_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library does not say the same thing again within half a minute."""

    class Silent:
        def poll(self, _: float) -> None:
            pass

        def list_topics(self, timeout: float) -> None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no metadata"))

    brokers = kafka_errors.Brokers("a:1", 30.0)
    silent: Any = Silent()
    brokers.ask_with(silent)
    brokers.error_callback()(KafkaError(KafkaError._TRANSPORT, "a:1/1: Connection refused"))
    silence = KafkaError(KafkaError._TIMED_OUT)
    assert "30 s (a:1: Connection refused)" in brokers.problem(silence)
    monkeypatch.setattr(kafka_errors, "_PROBLEM_SECONDS_MAX", -1.0)  # as if it were long ago
    assert "30 s (no metadata)" in brokers.problem(silence)


def test_messages_of_the_kafka_library_are_logged(
    failing_broker: FailingBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The library delivers its messages while an append waits."""
    where = (failing_broker.bootstrap, failing_broker.topic)
    with (
        caplog.at_level(logging.DEBUG, "recrawl.ledger.kafka"),
        KafkaLog.open(*where, create=False, seconds_max=10.0) as log,
    ):
        log.partition(0).append(make_records(1))
        failing_broker.go_down()
        with pytest.raises(LedgerError, match="an append failed"):
            log.partition(0).append(make_records(1))
        assert caplog.records
        failing_broker.come_up()


def test_without_the_package_the_import_error_names_it() -> None:
    code = "import sys; sys.modules['confluent_kafka'] = None; import recrawl.ledger.kafka"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert 'confluent-kafka: pip install "recrawl[kafka]"' in done.stderr


# ---------------------------------------------------------------------------- the script


def script(*arguments: object) -> str:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a broker that tests may stop and start."""
    folder = tmp_path_factory.mktemp("broker")
    script("up", "--folder", folder)
    yield folder
    script("down", "--folder", folder)


def cluster_in(folder: Path) -> dict[str, Any]:
    cluster: dict[str, Any] = json.loads((folder / "cluster.json").read_text())
    return cluster


@contextmanager
def kill_and_restart(folder: Path) -> Iterator[None]:
    """Kill the broker; start it again when the block ends."""
    pid = cluster_in(folder)["pids"][0]
    os.kill(pid, signal.SIGKILL)
    try:
        wait_for_threads(pid, "ZX")
        yield
    finally:
        script("up", "--folder", folder)


@contextmanager
def freeze(folder: Path) -> Iterator[None]:
    """Suspend the broker, which keeps its connections; let it go on when the block ends."""
    pid = cluster_in(folder)["pids"][0]
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for_threads(pid, "T")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_for_threads(pid: int, states: str) -> None:
    """Wait until all threads of a process are in one of some states, or gone.

    On a busy machine they answer for a while before the first has taken a signal.
    """
    while not states_of_threads(pid) <= set(states):
        time.sleep(0.01)


def states_of_threads(pid: int) -> set[str]:
    """Return the letters that ``/proc`` shows for the threads of a process."""
    found = set()
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found.add((thread / "stat").read_text().rpartition(")")[2].split()[0])
    except (FileNotFoundError, ProcessLookupError):  # a thread, or all of them, has ended
        return states_of_threads(pid) if Path(f"/proc/{pid}").exists() else set()
    return found


BEGUN_SECONDS = 2.0
SECONDS_MAX = 300.0


# No kernel matters to a broker that is stopped and started: CI runs these compiled alone.
@pytest.mark.slow_without_jit
@pytest.mark.parametrize("absence", [kill_and_restart, freeze])
def test_calls_wait_until_a_stopped_broker_is_back(
    absence: Callable[[Path], AbstractContextManager[None]], own_broker: Path, kafka_topic: str
) -> None:
    where = (cluster_in(own_broker)["bootstrap"], kafka_topic)
    # A broker starts within seconds, on a busy machine within minutes.
    with KafkaLog.open(*where, n_partitions=4, seconds_max=SECONDS_MAX) as log:
        ledgers = [log.partition(i) for i in range(4)]
        for ledger in ledgers:
            ledger.append(make_records(100))
        calls: list[Callable[[], Any]] = [
            lambda: ledgers[0].append(make_records(100, "b")),
            lambda: ledgers[1].read(0),
            lambda: ledgers[2].end,
            lambda: ledgers[3].truncate(50),
            lambda: KafkaLog.open(*where, create=False, seconds_max=SECONDS_MAX),
            lambda: KafkaLog.open(
                where[0], f"{kafka_topic}-new", n_partitions=1, seconds_max=SECONDS_MAX
            ),
        ]
        with ThreadPoolExecutor(len(calls)) as pool:
            with absence(own_broker):
                begun = [pool.submit(call) for call in calls]
                time.sleep(BEGUN_SECONDS)
                assert [future for future in begun if future.done()] == []
            results = [future.result(SECONDS_MAX) for future in begun]
        assert results[:3] == [
            AppendedSpan(100, 200, True),
            list(enumerate(make_records(100))),
            100,
        ]
        assert ledgers[3].first == 50
        expected = make_records(100) + make_records(100, "b")
        for opened in (log, results[4]):
            assert opened.partition(0).read(0) == list(enumerate(expected))
        for opened in results[4:]:
            with opened:
                assert opened.partition(0).append(make_records(1)).is_whole


@pytest.mark.slow_without_jit
def test_an_error_names_the_broker_that_does_not_answer_and_why(
    own_broker: Path, kafka_topic: str
) -> None:
    address = cluster_in(own_broker)["bootstrap"]
    # A busy machine may need minutes to create a topic, and seconds to notice a closed connection.
    KafkaLog.open(address, kafka_topic, n_partitions=1, seconds_max=SECONDS_MAX).close()
    with KafkaLog.open(address, kafka_topic, seconds_max=30.0) as log:
        ledger = log.partition(0)
        ledger.append(make_records(1))
        with kill_and_restart(own_broker):
            why = rf"Kafka at {address} did not answer within 30 s \(.*Connection refused"
            with pytest.raises(LedgerError, match=rf"an append failed: .*{why}"):
                ledger.append(make_records(1))
            with pytest.raises(LedgerError, match=rf"the bounds of the log: {why}"):
                ledger.read(0)
            with pytest.raises(LedgerError, match=rf"cannot be found or created: {why}"):
                KafkaLog.open(address, kafka_topic, seconds_max=30.0)
    with pytest.raises(LedgerError, match=r"nowhere.invalid:9092 .*Failed to resolve"):
        KafkaLog.open("nowhere.invalid:9092", kafka_topic, seconds_max=30.0)


def test_a_log_that_could_not_be_opened_leaves_no_clients() -> None:
    before = weakref.WeakSet(BROKER_WATCH._clients)
    with pytest.raises(LedgerError, match="did not answer"):
        KafkaLog.open("127.0.0.1:1", "log", n_partitions=1, seconds_max=0.1)
    assert not set(BROKER_WATCH._clients).difference(before)


@pytest.mark.slow_without_jit
def test_a_log_survives_a_killed_broker(tmp_path: Path) -> None:
    up = ("up", "--brokers", 1, "--folder", tmp_path)
    cluster = json.loads(script(*up))
    try:
        # The system gives higher ports to clients, also while the broker is away.
        assert int(cluster["bootstrap"].rpartition(":")[2]) < 32_768
        with KafkaLog.open(cluster["bootstrap"], "log", n_partitions=1) as log:
            ledger = log.partition(0)
            assert ledger.append(make_records(100)) == AppendedSpan(0, 100, True)
            os.kill(cluster["pids"][0], signal.SIGKILL)
            wait_for_threads(cluster["pids"][0], "ZX")
            again = json.loads(script(*up))
            assert again["bootstrap"] == cluster["bootstrap"]
            assert again["pids"] != cluster["pids"]
            assert ledger.append(make_records(100)) == AppendedSpan(100, 200, True)
            assert [record for _, record in ledger.read(0)] == make_records(100) * 2
            cluster = again
    finally:
        script("down", "--folder", tmp_path)
    command = Path(f"/proc/{cluster['pids'][0]}/cmdline")
    assert not command.exists() or not command.read_bytes()  # a zombie process
