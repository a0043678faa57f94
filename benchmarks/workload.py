"""Random operations on a corpus, each announced before it begins and confirmed when it returns.

Several workers may use one corpus, each in a thread.  A worker adds, removes, sets and signals only
pages of its own, and reports only orders of its own; it leases pages of all.
"""

import random
from collections.abc import Callable
from typing import Any

from benchmarks.acknowledged import outcome_of
from recrawl.corpus import Corpus

__all__ = ["CONFIG", "LEASE_SECONDS", "Worker"]

N_HOSTS = 12
LEASE_SECONDS = 86_400.0
"""Length of every lease: longer than any pause of a busy machine."""
CONFIG: dict[str, Any] = {
    "politeness": {"delay": 0, "in_flight_max": 1000, "burst": 1000},
    "pattern": [{"match": "*", "min_age": "2s"}],
}
"""Tables of the configuration that the operations need: every page may be leased at once.

A second outcome of a page within a second ends its order and does not count, so that `Acknowledged`
could not tell whether an outcome in doubt was logged: no page is leased again so soon.
"""


class Worker:
    """One source of random operations.

    Parameters
    ----------
    corpus
        Corpus to work on.
    name
        Name that no other worker has, also not an earlier one on this corpus.
    rng
        Source of randomness.
    say
        Function that passes a line on to `Acknowledged.record`.
    batch_max
        Largest number of pages per operation.
    """

    def __init__(
        self,
        corpus: Corpus,
        name: str,
        rng: random.Random,
        say: Callable[[dict[str, Any]], None],
        *,
        batch_max: int = 50,
    ) -> None:
        self._corpus = corpus
        self._name = name
        self._rng = rng
        self._say = say
        self._batch_max = batch_max
        self._n_operations = 0
        self._n_added = 0
        self._urls: list[str] = []
        self._removable: list[str] = []
        self._unsignalled: list[str] = []
        self._held: list[int] = []

    def step(self) -> None:
        """Run one random operation."""
        kinds = [(self.add, 25), (self.lease, 22)]
        if self._held:
            kinds += [(self.report, 25), (self.release, 4)]
        if self._urls:
            kinds += [(self.set, 8)]
        if self._unsignalled:
            kinds += [(self.signal, 10)]
        if self._removable:
            kinds += [(self.remove, 6)]
        calls, weights = zip(*kinds, strict=True)
        self._rng.choices(calls, weights)[0]()

    def _run(self, op: str, call: Callable[[], dict[str, Any]], **facts: Any) -> dict[str, Any]:
        self._n_operations += 1
        number = f"{self._name}/{self._n_operations}"
        self._say({"will": number, "op": op, **facts})
        answer = call()
        self._say({"done": number, **answer})
        return answer

    def _some(self, items: list[Any]) -> list[Any]:
        n = self._rng.randint(1, min(len(items), self._batch_max))
        return self._rng.sample(items, n)

    def add(self) -> None:
        """Add new pages, some of them on a host that is closed, whose pages are never leased."""
        n = self._rng.randint(1, self._batch_max)
        numbers = range(self._n_added, self._n_added + n)
        self._n_added += n
        host = "closed" if self._rng.random() < 0.4 else "h"
        urls = [f"https://{host}{i % N_HOSTS}.example/{self._name}/{i}" for i in numbers]

        def call() -> dict[str, Any]:
            if host == "closed":
                for i in range(N_HOSTS):
                    self._corpus.set_host(f"closed{i}.example", is_closed=True)
            assert self._corpus.add(urls).n_added == n
            return {}

        self._run("add", call, urls=urls)
        if host == "closed":
            self._removable += urls
            self._unsignalled += urls
        else:
            self._urls += urls

    def lease(self) -> None:
        """Lease pages of any worker."""
        n = self._rng.randint(1, 2 * self._batch_max)

        def call() -> dict[str, Any]:
            orders = self._corpus.lease(n, seconds=LEASE_SECONDS)
            return {"orders": [(order.handle, order.url) for order in orders]}

        answer = self._run("lease", call, n=n)
        self._held += [handle for handle, _ in answer["orders"]]

    def report(self) -> None:
        """Report some of the orders that this worker holds."""
        handles = self._some(self._held)
        self._held = sorted({*self._held} - {*handles})

        def call() -> dict[str, Any]:
            outcomes = [outcome_of(handle) for handle in handles]
            return {"counted": self._corpus.report(outcomes).counted.tolist()}

        self._run("report", call, handles=handles)

    def release(self) -> None:
        """Give back some of the orders that this worker holds."""
        handles = self._some(self._held)
        self._held = sorted({*self._held} - {*handles})
        self._run("release", lambda: {"n": self._corpus.release(handles)}, handles=handles)

    def signal(self) -> None:
        """Signal that some pages changed.

        Every page is signalled once and never fetched: a second signal within a second, or one
        within a second after a fetch, does not count.
        """
        urls = self._some(self._unsignalled)
        self._unsignalled = sorted({*self._unsignalled} - {*urls})
        self._run("signal", lambda: {"n": self._corpus.signal(urls, source="sitemap")}, urls=urls)

    def set(self) -> None:
        """Set the importance of some pages."""
        urls = self._some(self._urls)
        importance = self._rng.choice((0.25, 0.5, 2.0, 4.0))

        def call() -> dict[str, Any]:
            assert self._corpus.set(urls, importance=importance) == len(urls)
            return {}

        self._run("set", call, urls=urls, importance=importance)

    def remove(self) -> None:
        """Remove some pages of the closed host."""
        urls = self._some(self._removable)
        self._removable = sorted({*self._removable} - {*urls})
        self._unsignalled = sorted({*self._unsignalled} - {*urls})

        def call() -> dict[str, Any]:
            assert self._corpus.remove(urls) == len(urls)
            return {}

        self._run("remove", call, urls=urls)
