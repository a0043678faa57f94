"""Placement is the same everywhere, even, and moves little."""

import random
import subprocess
import sys

import pytest

from recrawl.cluster.placement import (
    Place,
    PlacementRules,
    page_weight,
    place_partitions,
)

WORKERS = [f"worker-{i}" for i in range(8)]


def owners_of(places: list[Place]) -> list[str | None]:
    return [place.owner for place in places]


def loads_of(weights: list[int], places: list[Place]) -> dict[str | None, int]:
    loads: dict[str | None, int] = {}
    for weight, place in zip(weights, places, strict=True):
        loads[place.owner] = loads.get(place.owner, 0) + weight
    return loads


def test_who_has_no_workers_has_no_owners() -> None:
    assert place_partitions([1, 1], []) == [Place(None, None)] * 2
    assert place_partitions([1, 1], ["a"]) == [Place("a", None)] * 2
    assert place_partitions([], ["a"]) == []


@pytest.mark.parametrize("n_workers", [2, 3, 4, 8])
@pytest.mark.parametrize("n_partitions", [12, 256])
def test_loads_are_even(n_workers: int, n_partitions: int) -> None:
    workers, weights = WORKERS[:n_workers], [1] * n_partitions
    loads = loads_of(weights, place_partitions(weights, workers))
    # A tenth more than a share; at least one partition more, if that is less than one.
    share = n_partitions / n_workers
    assert max(loads.values()) <= max(1.1 * share, share + 1)
    assert set(loads) == set(workers)


def test_heavy_partitions_are_spread() -> None:
    weights = [page_weight(n) for n in [10**8] * 4 + [10**5] * 60]
    loads = loads_of(weights, place_partitions(weights, WORKERS[:4]))
    heavy = [weight for weight in weights if weight > 10**7]
    assert max(loads.values()) < 1.1 * sum(weights) / 4 + max(heavy) / 100


@pytest.mark.parametrize("number", range(20))
def test_if_a_worker_leaves_its_partitions_go_to_their_standbys(number: int) -> None:
    chance = random.Random(number)
    workers = WORKERS[: chance.randint(2, 8)]
    weights = [page_weight(chance.randrange(1, 10**6)) for _ in range(chance.randint(1, 64))]
    before = place_partitions(weights, workers)
    for gone in workers:
        after = place_partitions(weights, [one for one in workers if one != gone])
        for place, following in zip(before, after, strict=True):
            assert place.standby != place.owner
            if place.owner == gone:
                assert following.owner == place.standby


def test_few_other_partitions_move() -> None:
    """Without bounds a twelfth of all would move to a twelfth worker; bounds move some more."""
    n_moved = n_joined = 0
    weights = [1] * 256
    for n in range(4, 12):
        workers = [f"w{i}" for i in range(n + 1)]
        fewer, more = (owners_of(place_partitions(weights, workers[:k])) for k in (n, n + 1))
        n_moved += sum(a != b for a, b in zip(fewer, more, strict=True))
        n_joined += more.count(workers[n])
    assert n_moved <= 2.5 * n_joined


def test_the_order_of_workers_does_not_matter() -> None:
    weights = [1, 5, 3, 2] * 8
    places = place_partitions(weights, WORKERS)
    assert place_partitions(weights, list(reversed(WORKERS))) == places
    assert place_partitions(weights, [*WORKERS, *WORKERS]) == places


def test_every_process_finds_the_same() -> None:
    code = (
        "from recrawl.cluster.placement import place_partitions as p;"
        "print([place.owner for place in p([1] * 12, ['a', 'b', 'c'])])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{owners_of(place_partitions([1] * 12, ['a', 'b', 'c']))}\n"}


def test_pinned_partitions_stay_while_their_worker_takes_part() -> None:
    rules = PlacementRules(pins={0: "worker-3", 1: "worker-3", 2: "nobody"})
    places = place_partitions([1] * 24, WORKERS, rules)
    assert [place.owner for place in places[:2]] == ["worker-3"] * 2
    assert places[2].owner in WORKERS
    others = [one for one in WORKERS if one != "worker-3"]
    assert owners_of(place_partitions([1] * 24, others, rules))[0] == places[0].standby


def test_a_drained_worker_gets_nothing() -> None:
    rules = PlacementRules(drained={"worker-0"}, pins={5: "worker-0"})
    places = place_partitions([1] * 24, WORKERS[:3], rules)
    named = {place.owner for place in places} | {place.standby for place in places}
    assert named == {"worker-1", "worker-2"}
    # Better a drained worker than none.
    assert place_partitions([1], ["worker-0"], rules) == [Place("worker-0", None)]


def test_weights_are_powers_of_two_and_small_partitions_weigh_the_same() -> None:
    assert [page_weight(n) for n in (-1, 0, 1, 1_000, 2**18 - 1, 2**18, 10**9)] == [
        2**17, 2**17, 2**17, 2**17, 2**17, 2**18, 2**29,
    ]  # fmt: skip
