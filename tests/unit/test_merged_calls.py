"""Calls of many threads, done together."""

import signal
import threading
import time
from collections.abc import Sequence

import pytest

from recrawl.merged_calls import MergedCalls


class Doubling:
    """A function whose first call waits until others have come."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.may_run = threading.Event()
        self.is_running = threading.Event()

    def run_all(self, given: Sequence[int]) -> list[int | BaseException]:
        self.groups.append(list(given))
        self.is_running.set()
        assert self.may_run.wait(30)
        return [ValueError(str(n)) if n < 0 else 2 * n for n in given]


def wait_for_calls(calls: MergedCalls[int, int], n: int) -> None:
    deadline = time.monotonic() + 30
    while len(calls._waiting) < n:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def start_calls(
    calls: MergedCalls[int, int], given: Sequence[int], found: dict[int, object]
) -> list[threading.Thread]:
    """Start one thread per call, each after the one before it waits."""

    def call(n: int) -> None:
        try:
            found[n] = calls.call(n, n_rows=abs(n), kind=n // 100)
        except ValueError as error:
            found[n] = repr(error)

    threads = []
    for i, n in enumerate(given):
        threads.append(threading.Thread(target=call, args=(n,)))
        threads[-1].start()
        wait_for_calls(calls, i + 1)
    return threads


def run_merged(given: Sequence[int], n_rows_max: int) -> tuple[list[list[int]], dict[int, object]]:
    doubling = Doubling()
    calls = MergedCalls(doubling.run_all, n_rows_max)
    found: dict[int, object] = {}
    first = threading.Thread(target=lambda: found.update({1: calls.call(1)}))
    first.start()
    assert doubling.is_running.wait(30)
    threads = start_calls(calls, given, found)
    doubling.may_run.set()
    for thread in [first, *threads]:
        thread.join(30)
    return doubling.groups, found


def test_one_call_is_done_alone() -> None:
    doubling = Doubling()
    doubling.may_run.set()
    assert MergedCalls(doubling.run_all, 10).call(3) == 6
    assert doubling.groups == [[3]]


def test_calls_that_wait_are_done_together_in_their_order() -> None:
    groups, found = run_merged([5, 4, 3], 100)
    assert groups == [[1], [5, 4, 3]]
    assert found == {1: 2, 5: 10, 4: 8, 3: 6}


def test_a_group_has_a_limit_of_rows() -> None:
    groups, found = run_merged([6, 5, 4, 30, 2], 10)
    assert groups == [[1], [6], [5, 4], [30], [2]]
    assert found == {1: 2, 6: 12, 5: 10, 4: 8, 30: 60, 2: 4}


def test_only_equal_kinds_are_done_together() -> None:
    groups, _ = run_merged([5, 105, 106, 7], 1000)
    assert groups == [[1], [5], [105, 106], [7]]


def test_calls_of_no_kind_are_done_with_those_of_any() -> None:
    doubling = Doubling()
    calls = MergedCalls(doubling.run_all, 1_000)
    found: list[int] = []
    kinds = [None, "a", None, "a", "b", None]
    threads = [
        threading.Thread(target=lambda i=i, k=k: found.append(calls.call(i, kind=k)))
        for i, k in enumerate(kinds)
    ]
    first = threading.Thread(target=lambda: found.append(calls.call(9)))
    first.start()
    assert doubling.is_running.wait(30)
    for i, thread in enumerate(threads):
        thread.start()
        wait_for_calls(calls, i + 1)
    doubling.may_run.set()
    for thread in [first, *threads]:
        thread.join(30)
    assert doubling.groups == [[9], [0, 1, 2, 3], [4, 5]]
    assert sorted(found) == [0, 2, 4, 6, 8, 10, 18]


def test_callers_that_come_back_together_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    doubling = Doubling()
    doubling.may_run.set()
    calls = MergedCalls(doubling.run_all, 100)
    calls._n_expected, calls._last_seconds = 3, 60.0  # as after a group of three
    monkeypatch.setattr("recrawl.merged_calls._GATHERING_SECONDS_MAX", 60.0)
    found: dict[int, object] = {}
    threads = start_calls(calls, [3, 4], found)
    found[5] = calls.call(5)  # the third one
    for thread in threads:
        thread.join(30)
    assert doubling.groups == [[3, 4, 5]]
    assert found == {3: 6, 4: 8, 5: 10}


def test_nobody_waits_twice_for_callers_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    doubling = Doubling()
    doubling.may_run.set()
    calls = MergedCalls(doubling.run_all, 100)
    calls._n_expected, calls._last_seconds = 3, 0.01
    assert calls.call(3) == 6
    monkeypatch.setattr("recrawl.merged_calls._GATHERING_SECONDS_MAX", float("nan"))  # not used
    assert calls.call(4) == 8
    assert doubling.groups == [[3], [4]]


def test_an_error_of_one_call_is_its_own() -> None:
    _, found = run_merged([-5, -4], 100)
    assert found == {1: 2, -5: "ValueError('-5')", -4: "ValueError('-4')"}


def test_an_error_of_all_reaches_all_and_the_next_call_works() -> None:
    fails = [True]

    def run_all(given: Sequence[int]) -> list[int]:
        if fails.pop() if fails else False:
            raise OSError("no space")
        return list(given)

    calls = MergedCalls(run_all, 10)
    with pytest.raises(OSError, match="no space"):
        calls.call(1)
    assert calls.call(2) == 2


@pytest.mark.parametrize("n_interrupted", [1, 2])
def test_an_interrupted_call_leaves_its_place(
    n_interrupted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that is interrupted while it waits does not keep those behind it waiting."""

    class InterruptedLock:
        def __init__(self) -> None:
            self.lock = real_lock()
            self.n_acquired = 0

        def acquire(self) -> bool:
            self.n_acquired += 1
            if self.n_acquired == 2 and threading.current_thread().name == "interrupted":
                assert doubling.may_run.wait(30)
                self.lock.acquire()  # it has its turn, or its call is done
                raise KeyboardInterrupt
            return self.lock.acquire()

        def release(self) -> None:
            self.lock.release()

    real_lock = threading.Lock
    doubling = Doubling()
    calls = MergedCalls(doubling.run_all, 1)
    found: list[object] = []

    def call(n: int) -> None:
        try:
            found.append(calls.call(n))
        except KeyboardInterrupt:
            found.append("interrupted")

    first = threading.Thread(target=call, args=(1,))
    first.start()
    assert doubling.is_running.wait(30)
    monkeypatch.setattr("recrawl.merged_calls.Lock", InterruptedLock)
    threads = []
    for i in range(4):
        name = "interrupted" if i < n_interrupted else "other"
        threads.append(threading.Thread(target=call, args=(i + 2,), name=name))
        threads[-1].start()
        wait_for_calls(calls, i + 1)
    doubling.may_run.set()
    for thread in [first, *threads]:
        thread.join(30)
        assert not thread.is_alive()
    assert found.count("interrupted") == n_interrupted
    assert calls.call(50) == 100


def test_a_signal_handler_may_call_in_the_middle_of_a_call() -> None:
    def run_all(given: Sequence[int]) -> list[int]:
        return [2 * n if n > 1 else calls.call(n + 1) for n in given]

    calls = MergedCalls(run_all, 10)
    assert calls.call(1) == 4
    assert calls.call(5) == 10


@pytest.mark.parametrize("waits_for", ["others", "its turn"])
def test_a_signal_handler_may_call_while_its_thread_waits(
    waits_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubling = Doubling()
    calls = MergedCalls(doubling.run_all, 100)
    found: list[int] = []

    def handle(*_: object) -> None:
        doubling.may_run.set()
        found.append(calls.call(7))

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        other = threading.Thread(target=lambda: found.append(calls.call(1)))
        if waits_for == "others":
            monkeypatch.setattr("recrawl.merged_calls._GATHERING_SECONDS_MAX", 0.5)
            calls._n_expected, calls._last_seconds = 9, 60.0
        else:
            other.start()
            assert doubling.is_running.wait(30)
        main = threading.main_thread().ident
        assert main is not None
        timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGUSR1))
        timer.start()
        found.append(calls.call(2))
        timer.join()
        if waits_for == "others":
            other.start()
        other.join(30)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert sorted(found) == [2, 4, 14]
    assert not calls._callers


def test_many_threads_get_their_own_results() -> None:
    calls: MergedCalls[int, int] = MergedCalls(lambda given: [2 * n for n in given], 7)
    wrong: list[int] = []

    def work(i: int) -> None:
        wrong.extend(n for n in range(i, 4_000, 16) if calls.call(n) != 2 * n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert wrong == []
