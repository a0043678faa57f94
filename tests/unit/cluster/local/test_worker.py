"""Workers move partitions among them: without a gap if all live, to the standby if one dies."""

import threading
import time

import pytest

from recrawl import Outcome
from recrawl.cluster import roles
from recrawl.cluster.status import observe_cluster
from recrawl.cluster.view import ClusterView
from recrawl.corpus import RowStatus
from tests.unit.cluster.local.cluster import N_PARTITIONS, URLS, Cluster, add_all, wait_until

# On a busy machine each wait may take minutes.
pytestmark = [pytest.mark.slow_without_jit, pytest.mark.timeout(1_800)]


def test_partitions_move_when_workers_join_die_and_leave(cluster: Cluster) -> None:
    cluster.join("a")
    wait_until(lambda: len(cluster.owners()) == N_PARTITIONS)
    assert add_all(cluster) == len(URLS)
    cluster.join("b")
    cluster.join("c")
    wait_until(lambda: cluster.is_settled() and len(set(cluster.owners().values())) == 3)
    wait_until(lambda: cluster.count_pages() == len(URLS))
    wait_until(cluster.is_settled)

    # One dies: its partitions go to the workers that follow them.
    dead = cluster.owners()[0]
    standbys = cluster.standbys()
    lost = [i for i, owner in cluster.owners().items() if owner == dead]
    all_heard_at = time.monotonic()
    cluster.end(dead, says_goodbye=False)

    def is_taken_over() -> bool:
        nonlocal all_heard_at
        now = time.monotonic()
        heard = [set(worker.presence.members.names) for worker in cluster.workers.values()]
        if all(one >= {dead, *cluster.workers} for one in heard):
            all_heard_at = now
        return len(cluster.owners()) == N_PARTITIONS

    wait_until(is_taken_over)
    # If a standby is late, as on a busy machine, another worker claims its partition.
    if time.monotonic() - all_heard_at < roles._UNOWNED_SECONDS_MAX:
        assert {i: cluster.owners()[i] for i in lost} == {i: standbys[i] for i in lost}
    wait_until(cluster.is_settled)

    # One leaves: the other has all of them before it ends.
    cluster.end(cluster.owners()[0], says_goodbye=True)
    # The first owner ends when it has read the claim, maybe before the next one takes calls.
    wait_until(lambda: len(cluster.owners()) == N_PARTITIONS)
    (corpus,) = cluster.corpora.values()
    assert corpus.n_pages == len(URLS)
    assert add_all(cluster) == 0


def test_operators_see_the_workers_drain_one_and_pin_a_partition(cluster: Cluster) -> None:
    for name in "abc":
        cluster.join(name)
    wait_until(cluster.is_settled)
    with ClusterView(cluster.control(), N_PARTITIONS) as view:

        def is_observed() -> bool:
            """Whether it shows all; a worker without a heartbeat for two seconds is missing."""
            status = view.observe()
            owners = {one.partition: one.owner for one in status.partitions}
            return (
                owners == cluster.owners()
                and all(len(one.standbys) == 1 for one in status.partitions)
                and [one.worker for one in status.workers] == ["a", "b", "c"]
                and status.problems == []
            )

        wait_until(is_observed)
        view.drain("b")
        view.pin(3, "c")
        with pytest.raises(ValueError, match="must be 0 to 5"):
            view.pin(6, "c")
    wait_until(
        lambda: (
            "b" not in cluster.owners().values()
            and cluster.is_settled()
            and cluster.owners().get(3) == "c"
        )
    )
    with ClusterView(cluster.control(), N_PARTITIONS) as view:
        wait_until(lambda: set(view.observe().rules.drained) == {"b"})
        view.drain("b", is_drained=False)
        view.pin(3, None)
    wait_until(lambda: "b" in cluster.owners().values() and cluster.is_settled())


def test_no_row_is_lost_while_partitions_move_under_load(cluster: Cluster) -> None:
    cluster.join("a")
    wait_until(lambda: len(cluster.owners()) == N_PARTITIONS)
    assert add_all(cluster) == len(URLS)
    stopping = threading.Event()
    counted: list[int] = []
    problems: list[BaseException] = []

    def fetch() -> None:
        try:
            while not stopping.is_set():
                for name in list(cluster.corpora):
                    corpus = cluster.corpora[name]
                    orders = corpus.lease(5)
                    done = [Outcome(handle=one.handle, digest=bytes(16)) for one in orders]
                    rows = corpus.report(done).rows if done else ()
                    counted.append(sum(int(row) == RowStatus.DONE for row in rows))
                stopping.wait(0.02)
        except BaseException as error:
            problems.append(error)
            raise

    thread = threading.Thread(target=fetch)
    thread.start()
    try:
        cluster.join("b")
        wait_until(cluster.is_settled)
        cluster.join("c")
        wait_until(cluster.is_settled)
    finally:
        stopping.set()
        thread.join()
    assert problems == []
    assert sum(counted) > 0
    wait_until(lambda: cluster.count_outcomes() == sum(counted))


def test_all_workers_spend_one_budget_together(cluster: Cluster) -> None:
    for name in "ab":
        cluster.join(name)
    wait_until(cluster.is_settled)
    per_second = 400_000 / 3600
    wait_until(lambda: sum(cluster.steady_quotas()) > 0.999 * per_second)
    assert sum(cluster.steady_quotas()) <= per_second * (1 + 1e-9)
    cluster.corpora["a"].set_budget("800000/h")
    wait_until(lambda: sum(cluster.steady_quotas()) > 0.999 * 2 * per_second)
    assert sum(cluster.steady_quotas()) <= 2 * per_second * (1 + 1e-9)
    # What a partition spends is in its log: the next owner goes on with it.
    cluster.end("a", says_goodbye=True)
    wait_until(lambda: len(cluster.steady_quotas()) == N_PARTITIONS)
    assert 0 < sum(cluster.steady_quotas()) <= 2 * per_second * (1 + 1e-9)


def test_a_worker_ends_if_another_with_its_name_was_started(cluster: Cluster) -> None:
    replaced: list[str] = []
    cluster.join("a", on_replaced=lambda: replaced.append("a"))
    wait_until(lambda: len(cluster.owners()) == N_PARTITIONS)
    cluster.join("a", folder="other", on_replaced=lambda: replaced.append("other"))
    wait_until(lambda: replaced == ["a"])
    wait_until(lambda: set(cluster.owners().values()) == {"other"})
    assert not cluster.workers["a"].leave()
    assert replaced == ["a"]


def test_a_worker_with_a_full_disk_gives_its_partitions_to_others_until_it_has_space(
    cluster: Cluster,
) -> None:
    full: set[str] = set()
    cluster.join("a")
    cluster.join("b", can_own=lambda: "b" not in full)
    wait_until(lambda: cluster.is_settled() and set(cluster.owners().values()) == {"a", "b"})
    full.add("b")
    wait_until(
        lambda: set(cluster.owners().values()) == {"a"} and len(cluster.owners()) == N_PARTITIONS
    )
    with ClusterView(cluster.control(), N_PARTITIONS) as view:
        problem = "b cannot own partitions: its disk is full."
        wait_until(lambda: problem in view.observe().problems)
    full.clear()
    wait_until(lambda: set(cluster.owners().values()) == {"a", "b"} and cluster.is_settled())
    assert add_all(cluster) == len(URLS)


def test_a_worker_with_other_keys_owns_nothing_until_it_has_those_of_the_others(
    cluster: Cluster,
) -> None:
    for name in ("a", "b"):
        cluster.join(name, key_ids=lambda: ("shared",))
    wait_until(cluster.is_settled)
    keys = ["other"]
    cluster.join("c", key_ids=lambda: tuple(keys))
    worker, control = cluster.workers["c"], cluster.control()
    try:
        wait_until(lambda: not worker.presence.members.is_frozen)
        status = observe_cluster(control, N_PARTITIONS)
    finally:
        control.close()
    assert [one.worker for one in status.workers if one.has_other_keys] == ["c"]
    assert [problem for problem in status.problems if "cluster keys" in problem] == [
        "c cannot own partitions: the others have none of its cluster keys. Give it their file of "
        "keys."
    ]
    assert {*cluster.owners().values(), *cluster.standbys().values()} == {"a", "b"}
    keys[:] = ["other", "shared"]
    wait_until(lambda: "c" in cluster.owners().values())
