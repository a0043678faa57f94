"""Workers of one cluster in this process: each has a server and some of the partitions."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import recrawl
from recrawl.client import Client
from recrawl.cluster.api.cluster_corpus import ClusterCorpus
from recrawl.cluster.api.credentials import ClusterKeys, rotate_cluster_keys
from recrawl.cluster.api.owners import Owner, TableOfOwners
from recrawl.cluster.api.receiving import ForwardedRequests
from recrawl.cluster.api.worker_calls import ForwardingSettings, WorkerCalls
from recrawl.corpus import Corpus, CorpusConfig
from tests.unit.service.running_server import RunningServer

# Deadlines that a worker keeps on a busy machine, also while it compiles or loads kernels.
PATIENT = ForwardingSettings(
    seconds_max=300.0,
    lease_seconds_max=300.0,
    plan_seconds_max=300.0,
    own_seconds_max=300.0,
    own_lease_seconds_max=300.0,
    own_append_seconds_max=300.0,
)


class Worker:
    """One worker: a corpus with some partitions, and a server."""

    def __init__(
        self,
        name: str,
        corpus: Corpus,
        keys: Path,
        settings: ForwardingSettings = PATIENT,
        **options: Any,
    ) -> None:
        self.name = name
        self.corpus = corpus
        self.owners = TableOfOwners(name)
        self.keys = ClusterKeys(keys)
        self.calls = WorkerCalls("news", name, self.keys, settings)
        self.shared = ClusterCorpus(corpus, self.owners, self.calls)
        self.server = RunningServer(
            {"news": self.shared},
            local_corpora={"news": corpus},
            workers=ForwardedRequests({"news": corpus}, self.owners, self.keys),
            **options,
        )
        self.address = f"http://127.0.0.1:{self.server.port}"

    def owned(self) -> dict[int, Owner]:
        """Return what the others should know of this worker."""
        return {
            node.partition: Owner(self.name, self.address, node.shard.epoch)
            for node in self.corpus.nodes
        }

    def client(self, **options: Any) -> Client:
        return Client(f"{self.address}/v1/corpora/news", **options)


class Workers:
    """Workers with all partitions of a corpus; start them with ``with``."""

    def __init__(
        self,
        folder: Path,
        config: CorpusConfig,
        partitions: Sequence[Sequence[int]],
        settings: ForwardingSettings = PATIENT,
        **options: Any,
    ) -> None:
        keys = folder / "cluster-keys"
        rotate_cluster_keys(keys, time.time_ns() // 1_000_000)
        self._stack = ExitStack()
        self.all = []
        for i, own in enumerate(partitions):
            corpus = recrawl.open(folder / f"w{i}", config, partitions=own)
            self.all.append(Worker(f"w{i}", corpus, keys, settings, **options))
        self.tell_all()

    def tell_all(self, owners: Mapping[int, Owner] | None = None) -> None:
        """Give all workers the same table: by default the true one."""
        if owners is None:
            owners = {i: one for worker in self.all for i, one in worker.owned().items()}
        for worker in self.all:
            worker.owners.replace(owners)

    def __getitem__(self, i: int) -> Worker:
        return self.all[i]

    def __enter__(self) -> Self:
        for worker in self.all:
            self._stack.enter_context(worker.server)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()
