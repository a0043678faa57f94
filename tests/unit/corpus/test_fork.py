"""After a fork, calls in the child raise at once, and the parent's corpus is not harmed."""

import asyncio
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import AsyncCorpus, Corpus, CorpusConfig, Outcome
from recrawl.errors import ForkedError
from recrawl.kv import KeyValues
from recrawl.one_process import ProcessLock
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URLS = [f"https://h{i % 3}.example/{i}" for i in range(50)]
_SECONDS_MAX = 300

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    # Python 3.12 warns of forks in processes with threads, which is what is tested here.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def run_in_child(work: Callable[[], Any]) -> None:
    """Run a function in a forked child; fail if it raises, hangs or is killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(_SECONDS_MAX)  # a deadlock ends the child
            work()
            gc.collect()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def report_one(corpus: Corpus, handle: int) -> None:
    corpus.report([Outcome(handle=handle, digest=b"1")])


def check_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(ForkedError, match=f"was opened in process {os.getppid()}"):
        call()


def test_every_call_in_a_child_raises_and_the_parent_goes_on(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    orders = corpus.lease(20)
    node, store = corpus.nodes[0], corpus.nodes[0].store
    ledger, values = node.ledger, node.store._kv

    names = [name for name in dir(Corpus) if not name.startswith("_") and name != "close"]
    assert {"add", "lease", "report", "stats", "changes", "snapshot"} <= set(names)

    def in_child() -> None:
        for order in orders:
            for _ in range(25):
                check_refused(partial(report_one, corpus, order.handle))
        calls: list[Callable[[], Any]] = [
            *(partial(getattr, corpus, name) for name in names),
            lambda: corpus.add(URLS),
            lambda: node.submit([]),
            node.follow,
            lambda: ledger.append([]),
            lambda: ledger.end,
            lambda: store.changes(store.first_change, 1),
            lambda: values.get(b"x"),
            lambda: values.write([b"x"], [b"y"]),
        ]
        for call in calls:
            check_refused(call)
        corpus.close()
        store.close()
        with corpus_exit(corpus):
            pass

    run_in_child(in_child)
    reported = corpus.report([Outcome(handle=o.handle, digest=b"1") for o in orders])
    assert reported.counted.all()
    corpus.snapshot()
    corpus.close()
    again = open_corpus()
    assert again.stats().n_pages == 50
    assert len(again.changes()) == 20


class corpus_exit:  # noqa: N801 - used as a function
    """Leave the block of an open corpus."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        type(self._corpus).__exit__(self._corpus, None, None, None)


def test_a_child_that_destroys_the_corpus_does_not_harm_the_parent(open_corpus: Open) -> None:
    """The engine's destructor would write files, or wait for threads that the child lacks."""
    opened = [open_corpus()]
    opened[0].add(URLS)

    def in_child() -> None:
        opened.clear()
        for thing in gc.get_objects():
            if isinstance(thing, KeyValues):
                thing._engine = None
        gc.collect()

    run_in_child(in_child)
    assert opened[0].add(["https://new.example/"]).n_added == 1


def test_a_lock_held_by_another_thread_does_not_block_the_child(open_corpus: Open) -> None:
    corpus = open_corpus()
    node = corpus.nodes[0]
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with node.lock:
            is_held.set()
            may_end.wait(_SECONDS_MAX)

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_held.wait(_SECONDS_MAX)

    def in_child() -> None:
        check_refused(lambda: corpus.add(URLS))
        check_refused(lambda: node.submit([]))
        check_refused(node.lock.__enter__)

    run_in_child(in_child)
    may_end.set()
    thread.join()
    assert corpus.add(URLS).n_added == 50


def report_many(corpus: Corpus, handles: list[int], results: Any) -> None:
    """Report each order in a worker process; count the refusals."""
    n_refused = 0
    for handle in handles:
        try:
            corpus.report([Outcome(handle=handle, digest=b"1")])
        except ForkedError:
            n_refused += 1
    results.put(n_refused)


def test_500_reports_in_worker_processes_are_all_refused(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([f"https://h{i % 7}.example/{i}" for i in range(500)])
    handles = [order.handle for order in corpus.lease(500)]
    assert len(handles) == 500
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        workers = [
            fork.Process(target=report_many, args=(corpus, handles[i::4], results))
            for i in range(4)
        ]
        for worker in workers:
            worker.start()
    assert sum(results.get(timeout=_SECONDS_MAX) for _ in workers) == 500
    for worker in workers:
        worker.join(_SECONDS_MAX)
        assert worker.exitcode == 0
    assert corpus.stats().in_flight == 500
    assert corpus.report([Outcome(handle=handle, digest=b"1") for handle in handles]).counted.all()


PARENT = """
import os, sys, time
import recrawl
corpus = recrawl.open(sys.argv[1])
corpus.add([f"https://h{i % 3}.example/{i}" for i in range(200)])
orders = corpus.lease(200)
children = []
for k in range(3):
    pid = os.fork()
    if pid == 0:
        for order in orders:
            try:
                corpus.report([recrawl.Outcome(handle=order.handle, digest=b"1")])
            except recrawl.errors.ForkedError:
                pass
            else:
                os._exit(1)
        del corpus
        sys.exit(0)  # runs finalisers, unlike os._exit
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
print(len(orders), flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_parent_that_is_killed_leaves_a_corpus_that_opens(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    politeness = {"politeness": IMPOLITE}
    recrawl.open(folder, CorpusConfig.from_dict(politeness)).close()
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PARENT, str(folder)],
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    n_orders = int(ran.stdout)
    assert n_orders > 0
    with recrawl.open(folder) as corpus:
        assert corpus.stats().n_pages == 200
        assert corpus.stats().in_flight == n_orders
        assert not corpus.changes()


def test_a_corpus_for_asyncio_raises_in_a_child(tmp_path: Path, clock: ManualClock) -> None:
    async def main() -> None:
        async with AsyncCorpus(tmp_path, clock=clock) as corpus:
            await corpus.add(URLS)

            def in_child() -> None:
                with pytest.raises(ForkedError):
                    corpus.add(["https://new.example/"]).send(None)

            run_in_child(in_child)
            assert (await corpus.stats()).n_pages == 50

    asyncio.run(main())


def test_a_child_may_read_the_corpus_but_not_open_one_for_writing(
    open_corpus: Open, tmp_path: Path
) -> None:
    """An engine for writing would wait for threads that the child lacks."""
    corpus = open_corpus()
    corpus.add(URLS)

    def in_child() -> None:
        with recrawl.open(corpus_folder, read_only=True) as reader:
            assert reader.stats().n_pages == 50
        with pytest.raises(ForkedError, match="spawn"):
            recrawl.open(tmp_path / "other")

    corpus_folder = corpus.folder
    run_in_child(in_child)
    assert corpus.stats().n_pages == 50


def test_locks_work_as_before_in_their_process() -> None:
    lock = ProcessLock(threading.RLock())
    with lock, lock:
        assert not lock.is_forked
