"""Workers of one cluster in this process, which find each other through a real broker."""

import time
from collections.abc import Callable
from pathlib import Path

import recrawl
from recrawl.cluster.control_topic import CONTROL_SUFFIX, ControlTopic
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.worker import Worker
from recrawl.corpus import Corpus, CorpusConfig, RowStatus

N_PARTITIONS = 6
URLS = [f"https://h{i}.example/page" for i in range(60)]


def do_nothing() -> None:
    pass


class Cluster:
    """Workers of one corpus, in this process."""

    def __init__(self, folder: Path, config: CorpusConfig, bootstrap: str, topic: str) -> None:
        self.folder, self.config = folder, config
        self.bootstrap, self.topic = bootstrap, topic + CONTROL_SUFFIX
        self.workers: dict[str, Worker] = {}
        self.corpora: dict[str, Corpus] = {}

    def control(self) -> ControlTopic:
        return ControlTopic.open(self.bootstrap, self.topic, replication=1)

    def join(
        self,
        name: str,
        *,
        folder: str = "",
        on_replaced: Callable[[], None] = do_nothing,
        can_own: Callable[[], bool] = lambda: True,
        key_ids: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        place = folder or name
        corpus = recrawl.open(self.folder / place, self.config, partitions=[])
        identity = Heartbeat(worker=name, instance=place, started_at_ms=int(time.time() * 1000))
        worker = Worker(
            corpus,
            self.control(),
            N_PARTITIONS,
            identity,
            quotas=corpus.quotas,
            can_own=can_own,
            key_ids=key_ids,
            on_replaced=on_replaced,
        )
        self.workers[place], self.corpora[place] = worker, corpus
        worker.start()

    def owners(self) -> dict[int, str]:
        return {i: name for name, one in self.corpora.items() for i in one.owned_partitions()}

    def standbys(self) -> dict[int, str]:
        return {i: name for name, one in self.corpora.items() for i in one.standby_lags()}

    def quotas(self) -> list[float]:
        """Return what each partition may spend in a second, by its owner."""
        in_use = [one.quotas.in_use() for one in self.corpora.values()]
        return [quota.per_second for one in in_use for quota in one.values()]

    def steady_quotas(self) -> list[float]:
        """Return the quotas of one moment: they move while they are read one after the other."""
        found = [self.quotas()]

        def are_steady() -> bool:
            found.append(self.quotas())
            return found[-1] == found[-2]

        wait_until(are_steady)
        return found[-1]

    def count_pages(self) -> int:
        return sum(corpus.n_pages for corpus in self.corpora.values())

    def count_outcomes(self) -> int:
        owning = (one for one in self.corpora.values() if one.open_partitions())
        return sum(corpus.stats().n_outcomes for corpus in owning)

    def is_settled(self) -> bool:
        wanted = next(iter(self.workers.values())).places
        owners, standbys = self.owners(), self.standbys()
        n_open = sum(len(one.open_partitions()) for one in self.corpora.values())
        return (
            all(worker.places == wanted for worker in self.workers.values())
            and n_open == len(owners) == N_PARTITIONS
            and all(owners[i] == place.owner for i, place in enumerate(wanted))
            and all(standbys.get(i) == place.standby for i, place in enumerate(wanted))
        )

    def end(self, name: str, *, says_goodbye: bool) -> None:
        worker, corpus = self.workers.pop(name), self.corpora.pop(name)
        if says_goodbye:
            # It also gives up if it has heard of no other worker for some seconds.
            wait_until(lambda: worker.leave(300.0), 600.0)
        worker.stop(says_goodbye=says_goodbye)
        corpus.close()


def wait_until(is_so: Callable[[], bool], seconds_max: float = 300.0) -> None:
    give_up_at = time.monotonic() + seconds_max
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def add_all(cluster: Cluster) -> int:
    """Add every URL through the worker that owns it; return how many of them were added."""
    added = [corpus.add(URLS).rows for corpus in cluster.corpora.values()]
    return sum(int((rows == RowStatus.DONE).sum()) for rows in added)
