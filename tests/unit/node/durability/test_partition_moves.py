"""One move of each partition at a time, and none after the end."""

import os
import threading
import time

import pytest

from recrawl.errors import ForkedError, RecrawlError
from recrawl.node.durability.partition_moves import PartitionMoves


def hold(moves: PartitionMoves, partition: int) -> tuple[threading.Thread, threading.Event]:
    """Begin a move in a thread; it ends when the event is set."""
    has_begun, may_end = threading.Event(), threading.Event()

    def run() -> None:
        with moves.move(partition):
            has_begun.set()
            may_end.wait(60)

    thread = threading.Thread(target=run)
    thread.start()
    assert has_begun.wait(60)
    return thread, may_end


def test_moves_of_one_partition_wait_for_each_other_and_others_do_not() -> None:
    moves = PartitionMoves()
    order: list[str] = []
    thread, may_end = hold(moves, 1)
    with moves.move(2):
        order.append("other")

    def move_same() -> None:
        with moves.move(1):
            order.append("same")

    second = threading.Thread(target=move_same)
    second.start()
    second.join(0.05)
    order.append("end")
    may_end.set()
    thread.join()
    second.join()
    assert order == ["other", "end", "same"]


def test_a_thread_may_move_what_it_moves_already() -> None:
    moves = PartitionMoves()
    with moves.move(1), moves.move(1):
        assert moves.close()  # as a signal handler does
    with pytest.raises(RecrawlError, match="closed"), moves.move(1):
        pass


def test_close_waits_for_moves_and_ends_those_that_wait() -> None:
    moves = PartitionMoves()
    thread, may_end = hold(moves, 1)
    results: list[object] = []

    def wait() -> None:
        try:
            with moves.move(1):
                results.append("moved")
        except RecrawlError:
            results.append("refused")

    others = [
        threading.Thread(target=wait),
        threading.Thread(target=lambda: results.append(moves.close())),
    ]
    others[1].start()
    while not moves.is_closed:
        time.sleep(0.001)
    others[0].start()
    for one in others:
        one.join(0.05)
    assert results == []
    may_end.set()
    for one in (thread, *others):
        one.join()
    assert sorted(map(str, results)) == ["True", "refused"]
    assert not moves.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
# Python 3.12 warns of forks in processes with threads, which is what is tested here.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_gets_an_error_instead_of_waiting() -> None:
    moves = PartitionMoves()
    thread, may_end = hold(moves, 1)
    child = os.fork()
    if not child:
        try:
            moves.close()
        except ForkedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    may_end.set()
    thread.join()
