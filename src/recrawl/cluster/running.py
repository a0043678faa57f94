"""Run a worker: open the corpus, take part in the cluster, and serve until it is told to stop."""

import logging
import os
import re
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import recrawl
from recrawl.cluster.api.cluster_corpus import ClusterCorpus
from recrawl.cluster.api.credentials import ClusterKeys
from recrawl.cluster.api.owners import TableOfOwners, owners_of, standbys_of
from recrawl.cluster.api.receiving import ForwardedRequests
from recrawl.cluster.api.worker_calls import WorkerCalls
from recrawl.cluster.api.worker_metrics import read_cluster_metrics
from recrawl.cluster.members.heartbeats import NAME_LENGTH_MAX, Heartbeat, check_address
from recrawl.cluster.view import open_control
from recrawl.cluster.worker import Worker
from recrawl.corpus import Corpus, CorpusConfig, open_corpus, present_config
from recrawl.errors import ConfigError, RecrawlError
from recrawl.folder_lock import note_address
from recrawl.messages.cluster_metrics import ClusterMetrics
from recrawl.node.records import RECORDS_VERSION
from recrawl.service import serve_corpora
from recrawl.shard import RunBudgetSet

__all__ = ["FREE_BYTES_MIN", "check_worker_config", "check_worker_start", "run_worker"]

logger = logging.getLogger(__name__)

_NEW_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_LENGTH_MAX}}}")
_WATCH_SECONDS: Final = 2.0
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


def check_worker_config(config: CorpusConfig) -> None:
    """Raise `ConfigError` for what workers cannot share."""
    if isinstance(config.budget_event(), RunBudgetSet):
        raise ConfigError(
            "a cluster has no budget per run (budget.rate): its workers share a rate, and cannot "
            "divide an amount among partitions before they know which of them will need it. Give a "
            'rate, such as "500/day"'
        )
    if config.holdout.share > 0:
        raise ConfigError(
            f"a cluster holds no hosts out, got holdout.share = {config.holdout.share:g}: the "
            "start of the experiment is kept in the folder of one machine, so the arms could not "
            "be compared. Delete the section [holdout], or run the experiment on a corpus of one "
            "process"
        )
    if config.ledger.kind == "kafka" and config.snapshots.shared is None:
        raise ConfigError(
            "a cluster needs snapshots that all workers reach: set snapshots.shared to a folder "
            'that all machines mount, or to a place such as "s3://bucket/recrawl"'
        )


def check_new_name(name: str) -> None:
    """Raise `ValueError` for the name of a worker that begins, if it has other characters.

    Names stand in logs, commands and labels of metrics.  Workers of earlier versions may have
    others, which are read.
    """
    if not _NEW_NAME.fullmatch(name):
        raise ValueError(
            "the name of a worker (--worker-name) has 1 to 128 letters, digits, '.', '-' and '_', "
            f"got {name!r:.200}"
        )


def check_worker_start(
    folder: Path, *, worker: str, keys: Path, address: str | None = None, host: str = ""
) -> ClusterKeys:
    """Check what a worker is started with, without brokers; return the keys.

    Parameters
    ----------
    folder
        Folder with ``recrawl.toml``.
    worker
        Name of the worker.
    keys
        File of keys that all workers share.
    address
        URL at which other workers reach it; None for where it listens.
    host
        Address at which it listens.

    Raises
    ------
    ConfigError
        If a file cannot be used, or others could not reach the worker.
    ValueError
        If the name or the address is malformed.
    """
    check_new_name(worker)
    if address is not None:
        check_address(address)
    elif _is_any_host(host):
        raise ConfigError(
            "this worker listens on all addresses of the machine (--host), so it must be given the "
            "one at which other workers reach it, such as --address http://10.1.0.7:8377/"
        )
    shared_keys = ClusterKeys(keys)
    config = present_config(folder)
    if config.ledger.kind != "kafka":
        raise ConfigError(
            f'{folder / "recrawl.toml"} has ledger.kind = "{config.ledger.kind}", and a worker '
            'needs "kafka": workers share the log'
        )
    check_worker_config(config)
    return shared_keys


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
    shared_keys = check_worker_start(
        Path(folder), worker=worker, keys=keys, address=address, host=str(serving.get("host", ""))
    )
    identity = Heartbeat(
        worker=worker,
        instance="",
        started_at_ms=0,
        address=address or "",
        zone=zone,
        version=recrawl.__version__,
        reads_version=RECORDS_VERSION,
    )
    while True:
        url = _serve_layout(Path(folder), identity, shared_keys, name, on_ready, **serving)
        if url is None:
            return
        # Clients and other workers know this one by its port.
        serving["port"] = urlsplit(url).port


def _is_any_host(host: str) -> bool:
    """Return whether a server with this host listens on all addresses of its machine."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False  # a name


class _LayoutWatch:
    """Ends the server of this process when the number of partitions was changed.

    Parameters
    ----------
    corpus
        Corpus that is served.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="recrawl-layout", daemon=True)
        self.ended_server = False
        """Whether the server ends because of this watch."""

    def start(self) -> None:
        """Begin to watch, in a thread."""
        self._thread.start()

    def cancel(self) -> None:
        """Leave the server alone from now on; the thread ends soon."""
        with self._lock:
            self._stopping.set()

    def stop(self) -> None:
        """End the thread."""
        self.cancel()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(_WATCH_SECONDS):
            try:
                has_moved = self._corpus.has_moved()
            except (RecrawlError, OSError) as error:
                logger.info("whether the partitions have moved cannot be read: %s", error)
                continue
            if has_moved:
                self._end_server()
                return

    def _end_server(self) -> None:
        with self._lock:
            if self._stopping.is_set():
                return  # it ends already
            self.ended_server = True
            logger.warning("the number of partitions was changed; this worker begins again")
            os.kill(os.getpid(), signal.SIGTERM)


def _serve_layout(
    folder: Path,
    identity: Heartbeat,
    shared_keys: ClusterKeys,
    name: str,
    on_ready: Callable[[str], None],
    **serving: Any,
) -> str | None:
    """Run a worker until it is told to stop, or the number of partitions was changed.

    Returns its URL if it should begin again, with the new partitions; None if it should end.
    """
    worker = identity.worker
    with open_corpus(folder, partitions=()) as corpus:
        check_worker_config(corpus.config)
        control = open_control(corpus.config)
        owners = TableOfOwners(worker)
        calls = WorkerCalls(name, worker, shared_keys)
        watch = _LayoutWatch(corpus)
        started: list[Worker] = []
        urls: list[str] = []

        def read_metrics() -> ClusterMetrics | None:
            return read_cluster_metrics(corpus, calls.counts, started[0]) if started else None

        served = ClusterCorpus(corpus, owners, calls, read_metrics)

        def start(url: str) -> None:
            own = replace(
                identity,
                instance=secrets.token_hex(8),
                started_at_ms=time.time_ns() // 1_000_000,
                address=identity.address or url,
            )
            one = Worker(
                corpus,
                control,
                corpus.nodes.n_partitions,
                own,
                quotas=corpus.quotas,
                hosts=corpus.split_hosts,
                now_ms=corpus.now_ms,
                can_own=_DiskSpace(folder).has_space,
                key_ids=shared_keys.accepted_ids,
                on_replaced=lambda: os.kill(os.getpid(), signal.SIGTERM),
                on_members=lambda members: owners.replace(owners_of(members), standbys_of(members)),
            )
            one.start()
            started.append(one)
            urls.append(url)
            watch.start()
            note_address(folder, f"{url}v1/corpora/{name}")
            on_ready(url)

        def stop() -> None:
            watch.cancel()  # a worker that an operator has told to stop does not begin again
            for one in started:
                # Nobody can take partitions that are closed.
                is_left = watch.ended_server or one.leave()
                if not is_left and not one.is_replaced:
                    logger.warning(
                        "this worker ends, and no other has its partitions yet; everything is "
                        "saved, and a worker that runs or starts later takes them"
                    )
                one.stop()

        try:
            serve_corpora(
                {name: served},
                folders={name: folder},
                local_corpora={name: corpus},
                workers=ForwardedRequests({name: corpus}, owners, shared_keys),
                on_ready=start,
                before_stop=stop,
                **serving,
            )
        finally:
            watch.stop()
    return urls[0] if watch.ended_server else None
