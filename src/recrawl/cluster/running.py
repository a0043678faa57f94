"""Run a worker: open the corpus, take part in the cluster, and serve until it is told to stop."""

import logging
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import recrawl
from recrawl.cluster.api.cluster_corpus import ClusterCorpus
from recrawl.cluster.api.credentials import ClusterKeys
from recrawl.cluster.api.owners import TableOfOwners, owners_of, standbys_of
from recrawl.cluster.api.receiving import ForwardedRequests
from recrawl.cluster.api.worker_calls import WorkerCalls
from recrawl.cluster.api.worker_metrics import read_cluster_metrics
from recrawl.cluster.heartbeats import Heartbeat, check_name
from recrawl.cluster.view import open_control
from recrawl.cluster.worker import Worker
from recrawl.corpus import CorpusConfig, open_corpus
from recrawl.errors import ConfigError
from recrawl.messages.cluster_metrics import ClusterMetrics
from recrawl.node.records import RECORDS_VERSION
from recrawl.service import serve_corpora
from recrawl.shard import RunBudgetSet

__all__ = ["FREE_BYTES_MIN", "run_worker"]

logger = logging.getLogger(__name__)

FREE_BYTES_MIN: Final = 1 << 30
"""Free space on the disk below which a worker gives its partitions to others."""


class _DiskSpace:
    """Whether a disk has space for partitions.

    Parameters
    ----------
    folder
        Folder on the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._has_space = True

    def has_space(self) -> bool:
        """Return whether there is space; after the disk was full, twice as much is needed."""
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError:
            return False
        self._has_space = free >= (FREE_BYTES_MIN if self._has_space else 2 * FREE_BYTES_MIN)
        return self._has_space


def _check_config(config: CorpusConfig) -> None:
    """Raise `ConfigError` for what workers cannot share."""
    if isinstance(config.budget_event(), RunBudgetSet):
        raise ConfigError(
            "a cluster has no budget per run (budget.rate): give one per second, hour or day"
        )
    if config.ledger.kind == "kafka" and config.snapshots.shared is None:
        raise ConfigError(
            "a cluster needs snapshots that all workers reach: set snapshots.shared to a folder "
            'that all machines mount, or to a place such as "s3://bucket/recrawl"'
        )


def run_worker(
    folder: str | os.PathLike[str],
    *,
    worker: str,
    keys: Path,
    name: str = "corpus",
    address: str | None = None,
    zone: str = "",
    on_ready: Callable[[str], None] = lambda _: None,
    **serving: Any,
) -> None:
    """Run a worker until the process is told to stop (SIGTERM, Ctrl-C).

    Parameters
    ----------
    folder
        Folder of the worker's files, with ``recrawl.toml``; no other worker may use it.
    worker
        Name of the worker, which stays the same when it is started again.
    keys
        File of keys that all workers share.
    name
        Name of the corpus in paths, the same at all workers.
    address
        URL at which other workers reach this one; by default where it listens.
    zone
        Name of the place where the machine is.
    on_ready
        Function that is called with the URL of the server when it listens.
    **serving
        Further arguments of `recrawl.service.serve_corpora`, such as ``host`` and ``port``.
    """
    place = Path(folder)
    check_name(worker)
    shared_keys = ClusterKeys(keys)
    with open_corpus(place, partitions=()) as corpus:
        _check_config(corpus.config)
        control = open_control(corpus.config)
        owners = TableOfOwners(worker)
        calls = WorkerCalls(name, worker, shared_keys)
        n_partitions = corpus.nodes.n_partitions
        started: list[Worker] = []

        def read_metrics() -> ClusterMetrics | None:
            return read_cluster_metrics(corpus, calls.counts, started[0]) if started else None

        served = ClusterCorpus(corpus, owners, calls, read_metrics)

        def start(url: str) -> None:
            identity = Heartbeat(
                worker=worker,
                instance=secrets.token_hex(8),
                started_at_ms=time.time_ns() // 1_000_000,
                address=address or url,
                zone=zone,
                version=recrawl.__version__,
                reads_version=RECORDS_VERSION,
            )
            one = Worker(
                corpus,
                control,
                n_partitions,
                identity,
                quotas=corpus.quotas,
                can_own=_DiskSpace(place).has_space,
                on_replaced=lambda: os.kill(os.getpid(), signal.SIGTERM),
                on_members=lambda members: owners.replace(owners_of(members), standbys_of(members)),
            )
            one.start()
            started.append(one)
            on_ready(url)

        def stop() -> None:
            for one in started:
                if not one.leave() and not one.is_replaced:
                    logger.warning("this worker ends, and no other has its partitions yet")
                one.stop()

        serve_corpora(
            {name: served},
            folders={name: place},
            local_corpora={name: corpus},
            workers=ForwardedRequests({name: corpus}, owners, shared_keys),
            on_ready=start,
            before_stop=stop,
            **serving,
        )
