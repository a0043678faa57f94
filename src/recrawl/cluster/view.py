"""What operators see of a cluster, and decide about it, from any machine that reaches Kafka."""

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from recrawl.cluster.control_topic import CONTROL_SUFFIX, ControlTopic
from recrawl.cluster.members.heartbeats import check_name
from recrawl.cluster.rules import drain_message, pin_message
from recrawl.cluster.status import ClusterStatus, observe_cluster
from recrawl.corpus import CorpusConfig, present_config
from recrawl.errors import ConfigError
from recrawl.ledger.kafka_topic import TopicMissing

__all__ = ["ClusterView", "open_control", "open_view"]

_CONFIG_FILE: Final = "recrawl.toml"


def open_control(config: CorpusConfig, *, create: bool = True) -> ControlTopic:
    """Open the control topic of a corpus.

    Parameters
    ----------
    config
        Configuration of the corpus.
    create
        Whether to create the topic if it does not exist.

    Raises
    ------
    ConfigError
        If its log is not on Kafka, or a topic does not exist and must not be created.
    """
    ledger = config.ledger
    if ledger.kind != "kafka" or ledger.bootstrap is None or ledger.topic is None:
        raise ConfigError(
            'a cluster needs a log on Kafka (ledger.kind = "kafka"), got ledger.kind = '
            f'"{ledger.kind}"'
        )
    topic = ledger.topic + CONTROL_SUFFIX
    try:
        return ControlTopic.open(
            ledger.bootstrap,
            topic,
            replication=ledger.replication,
            client_settings=ledger.client_settings,
            must_exist=() if create else (ledger.topic, topic),
        )
    except TopicMissing as error:
        raise ConfigError(
            f"{error} at {ledger.bootstrap}.\nCheck ledger.topic and ledger.bootstrap; a worker "
            "creates its topics when it starts."
        ) from error


def open_view(folder: str | os.PathLike[str]) -> "ClusterView":
    """Open the cluster of a corpus, to look at it and to move partitions; create no topics.

    Parameters
    ----------
    folder
        Folder with the configuration of the corpus, for instance that of a worker.
    """
    path = Path(folder) / _CONFIG_FILE
    if not path.exists():
        raise ConfigError(f"{path} does not exist; it says where the brokers are")
    config = present_config(Path(folder))
    return ClusterView(open_control(config, create=False), config.corpus.partitions)


class ClusterView:
    """A cluster, seen from outside.

    Parameters
    ----------
    control
        Control topic, which the view closes.
    n_partitions
        Number of partitions of the corpus.
    """

    def __init__(self, control: ControlTopic, n_partitions: int) -> None:
        self._control = control
        self._n_partitions = n_partitions

    def observe(self) -> ClusterStatus:
        """Listen for some seconds, and return what the workers say."""
        return observe_cluster(self._control, self._n_partitions)

    def drain(self, worker: str, *, is_drained: bool = True) -> None:
        """Take all partitions from a worker, or let it have some again.

        Parameters
        ----------
        worker
            Name of the worker.
        is_drained
            Whether it should have none.
        """
        self._control.publish(*drain_message(check_name(worker), is_drained=is_drained))

    def pin(self, partition: int, worker: str | None) -> None:
        """Give a partition to a worker for as long as that takes part.

        Parameters
        ----------
        partition
            Number of the partition.
        worker
            Name of the worker; None for any.
        """
        if not 0 <= partition < self._n_partitions:
            raise ValueError(
                f"the partition must be 0 to {self._n_partitions - 1}, got {partition}"
            )
        self._control.publish(
            *pin_message(partition, None if worker is None else check_name(worker))
        )

    def close(self) -> None:
        """Send what was decided, and end."""
        self._control.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
