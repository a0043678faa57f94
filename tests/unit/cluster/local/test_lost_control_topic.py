"""Somebody deletes the control topic while workers run: nothing is lost."""

import pytest
from confluent_kafka.admin import AdminClient

from recrawl import Outcome
from recrawl.cluster.budget.price import Agreement
from recrawl.cluster.budget.quotas import BUDGET_KEY, BudgetMessage
from recrawl.cluster.control_topic import BEGINS_ANEW
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.placement import PlacementRules
from recrawl.cluster.rules import OperatorRules, drain_message, pin_message
from recrawl.cluster.view import ClusterView
from recrawl.cluster.worker import Worker
from recrawl.messages.budgets import Budget
from tests.unit.cluster.local.cluster import N_PARTITIONS, URLS, Cluster, add_all, wait_until
from tests.unit.cluster.members.test_clocks import AtOnce, OwnedByFew
from tests.unit.cluster.test_presence import Wires

# On a busy machine each wait may take minutes.
pytestmark = [pytest.mark.slow_without_jit, pytest.mark.timeout(1_800)]

PER_SECOND = 800_000 / 3600
"""Budget that the tests set, which is not the configured one."""


def delete_control(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Delete the topic, and wait until no worker trusts what it hears."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([cluster.topic])[cluster.topic].result()
    # Pauses of this process freeze the placement as well, and may hide the first moments.
    workers = cluster.workers.values()
    wait_until(
        lambda: (
            all(one.presence.members.is_frozen for one in workers)
            or has_begun_anew(cluster, caplog)
        )
    )


def has_begun_anew(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> bool:
    """Return whether all workers have read the first message of the new topic."""
    return caplog.text.count(f"{cluster.topic} was deleted, and exists again") >= len(
        cluster.workers
    )


def is_heard(cluster: Cluster) -> bool:
    """Return whether all workers know again who takes part."""
    names = tuple(sorted(cluster.workers))
    found = [worker.presence.members for worker in cluster.workers.values()]
    return all(not one.is_frozen and one.names == names for one in found)


def observe_rules(cluster: Cluster) -> PlacementRules:
    """Return what operators have decided, as somebody reads it who reads the topic anew."""
    with ClusterView(cluster.control(), N_PARTITIONS) as view:
        return view.observe().rules


def is_spent(cluster: Cluster) -> bool:
    """Return whether the partitions share the budget that was set."""
    quotas = cluster.steady_quotas()
    assert sum(quotas) <= PER_SECOND * (1 + 1e-9)
    return len(quotas) == N_PARTITIONS and sum(quotas) > 0.999 * PER_SECOND


def test_workers_create_it_again_and_repeat_budget_and_decisions(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "abc":
        cluster.join(name)
    wait_until(cluster.is_settled)
    with ClusterView(cluster.control(), N_PARTITIONS) as view:
        view.drain("c")
        view.pin(3, "a")
    wait_until(lambda: "c" not in cluster.owners().values() and cluster.owners().get(3) == "a")
    wait_until(cluster.is_settled)
    cluster.corpora["a"].set_budget("800000/h")
    wait_until(lambda: is_spent(cluster))

    delete_control(cluster, caplog)
    # The log decides who owns a partition, so owners go on with what they own.
    n_added = n_done = 0

    def are_added() -> bool:
        nonlocal n_added
        n_added += add_all(cluster)
        return n_added == len(URLS)

    wait_until(are_added)
    for corpus in cluster.corpora.values():
        done = [Outcome(handle=one.handle, digest=bytes(16)) for one in corpus.lease(100)]
        n_done += int(corpus.report(done).counted.sum()) if done else 0
    assert n_done > 0

    # No operator has done anything.
    wait_until(lambda: has_begun_anew(cluster, caplog) and is_heard(cluster))
    wait_until(lambda: observe_rules(cluster) == PlacementRules({3: "a"}, frozenset("c")))
    wait_until(lambda: cluster.is_settled() and is_spent(cluster))

    # A worker that has read only the new topic splits the budget that was set, not its own.
    cluster.join("d")
    cluster.end("b", says_goodbye=True)
    with ClusterView(cluster.control(), N_PARTITIONS) as view:
        view.pin(0, "d")
    wait_until(lambda: cluster.owners().get(0) == "d" and cluster.is_settled())
    assert "c" not in cluster.owners().values()
    wait_until(lambda: is_spent(cluster))
    assert cluster.count_pages() == len(URLS)
    wait_until(lambda: cluster.count_outcomes() == n_done)


def test_decisions_that_are_made_in_the_new_topic_hold(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "ab":
        cluster.join(name)
    wait_until(cluster.is_settled)
    with ClusterView(cluster.control(), N_PARTITIONS) as view:
        view.drain("b")
        view.pin(3, "a")
    wait_until(lambda: set(cluster.owners().values()) == {"a"} and cluster.is_settled())
    delete_control(cluster, caplog)
    with ClusterView(cluster.control(), N_PARTITIONS) as view:
        view.drain("b", is_drained=False)
    wait_until(lambda: is_heard(cluster) and "b" in cluster.owners().values())
    wait_until(lambda: observe_rules(cluster) == PlacementRules({3: "a"}, frozenset()))
    wait_until(cluster.is_settled)


def test_only_decisions_that_nobody_has_said_again_are_repeated_once() -> None:
    rules = OperatorRules()
    for message in (
        drain_message("a", is_drained=True),
        drain_message("b", is_drained=True),
        drain_message("c", is_drained=False),
        pin_message(1, "a"),
        pin_message(2, None),
    ):
        rules.hear(*message)
    assert rules.take_lost() == []
    rules.begin_anew()
    rules.hear(*drain_message("b", is_drained=False))
    assert sorted(rules.take_lost()) == [("drain/a", b"yes"), ("pin/1", b"a")]
    assert rules.take_lost() == []
    assert rules.placement == PlacementRules({1: "a"}, frozenset("a"))


def test_decisions_are_repeated_when_all_that_operators_have_said_since_is_read() -> None:
    wires, now, later = Wires(), 50.0, AtOnce()
    operator = wires.connect()
    worker = Worker(
        OwnedByFew(),
        wires.connect(),
        4,
        Heartbeat(worker="a", instance="a", started_at_ms=1),
        monotonic=lambda: now,
        restores=later,
        claims=later,
        ticks=later,
    )

    def run(seconds: float) -> None:
        nonlocal now
        for _ in range(round(10 * seconds)):
            now += 0.1
            worker.presence.step()
            worker.step()

    operator.publish(*drain_message("b", is_drained=True))
    operator.publish(*drain_message("c", is_drained=True))
    run(10)
    worker._hear(BEGINS_ANEW, b"")
    operator.publish(*drain_message("b", is_drained=False))
    now += 3.0  # it stands still, and then acts before it reads
    worker.presence._members = worker.presence._membership.members(now)
    worker.step()
    run(10)
    drained = [(key, value) for key, value in wires.messages if key.startswith("drain/")]
    assert drained[2:] == [("drain/b", b"no"), ("drain/c", b"yes")]


def test_a_budget_is_said_again_until_it_is_read_and_a_newer_one_holds() -> None:
    configured, known, newer = (
        BudgetMessage(revision=i, budget=Budget(100.0 + i)) for i in range(3)
    )
    agreement = Agreement(1, configured.budget)
    agreement.hear(BUDGET_KEY, known.to_bytes())
    assert agreement.step(0.0, {}, dict) == []
    agreement.say_again()
    assert agreement.step(10.0, {}, dict) == [(BUDGET_KEY, known.to_bytes())]
    # A worker that has read only the new topic says the configured one.
    agreement.hear(BUDGET_KEY, configured.to_bytes())
    assert agreement.step(20.0, {}, dict) == [(BUDGET_KEY, known.to_bytes())]
    agreement.hear(BUDGET_KEY, known.to_bytes())
    assert agreement.step(30.0, {}, dict) == []
    agreement.say_again()
    agreement.hear(BUDGET_KEY, newer.to_bytes())
    assert agreement.step(40.0, {}, dict) == []
    assert agreement.budget == newer.budget
