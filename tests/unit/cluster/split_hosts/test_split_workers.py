"""A very large host is split over real workers; its delay holds, also when one is killed."""

import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from recrawl import Outcome
from recrawl.client import Client
from recrawl.errors import RecrawlError
from recrawl.node.orders import partition_in
from recrawl.node.routing import partition_of_key
from tests.unit.cluster.test_worker_command import (
    Workers,
    add_new,
    check_known,
    wait_until,
)

HOST = "huge.example"
PARTITIONS = 2
DELAY = 2.0
SECONDS_MAX = 600.0
HOME = partition_of_key(HOST, PARTITIONS)
URLS = [f"https://{HOST}/{i}" for i in range(150)]


@pytest.fixture
def workers(tmp_path: Path, kafka_bootstrap: str, kafka_topic: str) -> Iterator[Workers]:
    made = Workers(tmp_path, kafka_bootstrap, kafka_topic)
    made.settings = (
        made.settings.replace(
            "partitions = 4\n", f"partitions = {PARTITIONS}\ngroup_pages_max = 20\n"
        )
        + f"[politeness]\ndelay = {DELAY}\nin_flight_max = 1\n"
        "[protection]\nnew_pages_share = 1.0\nnew_domain_share = 1.0\n"
    )
    try:
        yield made
    finally:
        made.end()


def is_whole(client: Client) -> bool:
    """Whether all pages are there; while an owner is busy, a standby that is behind answers."""
    view = client.host(HOST)
    is_split_whole = (view.n_pages, view.is_split) == (len(URLS), True)
    return is_split_whole and all(client.explain(url) is not None for url in URLS[::7])


class Fetcher:
    """Fetches what workers hand out, which takes no time."""

    def __init__(self, clients: list[Client]) -> None:
        self.clients = clients
        self.visits: list[tuple[float, float, int]] = []
        """Begin and end of each fetch by the clock of the machine, and its partition."""

    def fetch(self) -> None:
        for client in self.clients:
            try:
                orders = client.lease(3)
            except RecrawlError:
                continue  # it is being taken over
            for order in orders:
                begun = time.time()
                until = order.expires_at_ms / 1000
                if begun < until:  # otherwise this machine has stood still
                    end = min(time.time(), until)
                    part = partition_in(order.handle)
                    self.visits.append((begun, end, part))
                    client.report(Outcome(handle=order.handle, digest=bytes(16)))

    def fetch_until(self, is_enough: Callable[[set[int]], bool]) -> None:
        first, give_up_at = len(self.visits), time.monotonic() + SECONDS_MAX
        while not is_enough({part for _, _, part in self.visits[first:]}):
            assert time.monotonic() < give_up_at
            self.fetch()
            time.sleep(0.2)


@pytest.mark.slow_without_jit
@pytest.mark.timeout(1_800)  # its windows last a minute each
def test_the_delay_of_a_split_host_holds_over_workers(workers: Workers) -> None:
    for name in "ab":
        workers.start(name)
    owners: dict[int, str | None] = {}

    def are_shared() -> bool:
        nonlocal owners
        owners = workers.owners()
        return set(owners.values()) == {"a", "b"}

    wait_until(are_shared)
    home = str(owners[HOME])
    (other,) = {"a", "b"} - {home}
    with Client(workers.urls[home]) as first, Client(workers.urls[other]) as second:
        add_new(second, URLS[:21])
        add_new(second, URLS[21:90])
        add_new(first, URLS[90:])
        for client in (first, second):
            check_known(client, URLS)
            wait_until(partial(is_whole, client))
        wait_until(lambda: second.stats().n_pages == len(URLS))
        fetcher = Fetcher([first, second])
        fetcher.fetch_until(lambda parts: parts == {0, 1})

        # The owner of the home partition is killed, and the other one takes it over.
        workers.processes[home].send_signal(signal.SIGKILL)
        workers.processes[home].wait()
        check_known(second, URLS)
        fetcher.clients = [second]
        fetcher.fetch_until(lambda parts: parts == {0, 1})
        check_known(second, URLS)
    assert len(fetcher.visits) > 10
    for (_, ended, before), (begun, _, part) in pairwise(sorted(fetcher.visits)):
        # Within one partition a report counts from the last tick, which is up to a second old.
        assert begun - ended >= DELAY - (1.0 if part == before else 0.0)
