"""Calculate what clusters of several sizes need, from what was measured of smaller ones."""

import math
from collections.abc import Callable

from recrawl.node.config.sections import SnapshotsConfig
from recrawl.run.settings import CrawlSettings

__all__ = ["cluster_sizes"]

# Pages, and what was measured with at least as many partitions.
_SIZES = {"a": (1e8, "small_12"), "b": (1e9, "small_64"), "c": (1e10, "small_256")}
_EXAMPLE = "b"
# Pages of a partition, at most; and partitions of a small cluster.
_PARTITION_PAGES = 4e7
_PARTITIONS_MIN = 12
# A worker process is to be busy for half of the time of the one core that it can fill.
_BUSY_SHARE = 0.5
_COPIES_OF_LOG = 3
_WORKERS_MIN = 3
# Of the memory of a machine, the rest is for the page cache and for partitions of a lost machine.
_MEMORY_SHARE = 2 / 3
# The log goes to the leader, to the other brokers, and to the standby.
_LOG_TRANSFERS = _COPIES_OF_LOG + 1
# Brokers keep the log back to the second-newest snapshot.
_INTERVALS_KEPT = 2


def cluster_sizes(number: Callable[[str], float]) -> dict[str, str]:
    """Return what clusters of three sizes need, by the name of the figure.

    Parameters
    ----------
    number
        Function that returns a measured figure.
    """
    memory_per_page = number("scale.1e8.memory_gigabytes_max") * 1e9 / 1e8
    snapshot_per_page = number("scale.1e8.snapshot_bytes_per_page")
    disk_per_page = number("scale.1e8.store_bytes_per_page") + 2 * snapshot_per_page
    # What it costs that half of the rows are forwarded.
    times_worker, times_broker = (
        number(f"cluster_costs.small_12_two.{cost}") / number(f"cluster_costs.small_12.{cost}")
        for cost in ("worker_ms", "broker_ms")
    )
    fetches_per_page = 1 / (3_600 * number("said.sizing_page_hours"))
    worker_bytes = number("said.sizing_worker_gigabytes") * 1e9
    machine_cores = number("said.sizing_machine_cores") * _BUSY_SHARE
    machine_bytes = number("said.sizing_machine_gigabytes") * 1e9 * _MEMORY_SHARE
    every = SnapshotsConfig().every
    fetcher = CrawlSettings()
    fetches_per_fetcher = fetcher.orders_max / number("said.sizing_answer_seconds")
    rows_per_call = number("said.costs_rows_per_call")
    found = {
        "memory_bytes_per_page": f"{memory_per_page:.0f}",
        "disk_bytes_per_page": f"{disk_per_page:.0f}",
        "forwarding_worker": f"{times_worker:.2f}",
        "forwarding_broker": f"{times_broker:.2f}",
        "machine_cores_used": f"{machine_cores:.0f}",
        "machine_gigabytes_used": f"{machine_bytes / 1e9:.0f}",
        "snapshot_seconds": f"{every:.0f}",
        "fetcher_pages_per_call": str(fetcher.batch_max),
        "fetcher_pages_at_once": str(fetcher.orders_max),
        "fetcher_calls_more": f"{rows_per_call / fetcher.batch_max:.0f}",
    }
    for name, (pages, row) in _SIZES.items():
        fetches = pages * fetches_per_page
        cores = fetches * times_worker * number(f"cluster_costs.{row}.worker_ms") / 1e6
        broker_cores = fetches * times_broker * number(f"cluster_costs.{row}.broker_ms") / 1e6
        log_bytes = fetches * number(f"cluster_costs.{row}.log_bytes")
        memory = 2 * pages * memory_per_page
        n_workers = math.ceil(max(cores / _BUSY_SHARE, memory / worker_bytes, _WORKERS_MIN))
        n_by_memory = math.ceil(memory / machine_bytes)
        n_by_cores = math.ceil(cores / machine_cores)
        n_machines = max(max(n_by_memory, n_by_cores) + 1, _WORKERS_MIN)
        snapshot = pages * snapshot_per_page
        found |= {
            f"size_{name}_pages": f"{pages:.0f}",
            f"size_{name}_fetches": _rounded(fetches),
            f"size_{name}_memory": _rounded(memory / 1e9),
            f"size_{name}_worker_cores": _rounded(cores),
            f"size_{name}_workers": f"{n_workers}",
            f"size_{name}_machines": f"{n_machines}",
            f"size_{name}_workers_each": f"{math.ceil(n_workers / n_machines)}",
            f"size_{name}_disk": _rounded(2 * pages * disk_per_page / 1e9),
            f"size_{name}_broker_cores": _rounded(_COPIES_OF_LOG * broker_cores),
            f"size_{name}_log": _rounded(log_bytes / 1e6),
            f"size_{name}_log_kept": _rounded(_INTERVALS_KEPT * every * log_bytes / 1e9),
            f"size_{name}_log_network": _rounded(_LOG_TRANSFERS * log_bytes / 1e6),
            f"size_{name}_snapshot": _rounded(snapshot / 1e9),
            f"size_{name}_snapshot_network": _rounded(2 * snapshot / every / 1e6),
            f"size_{name}_partitions": f"{_partitions(pages)}",
            f"size_{name}_fetchers": f"{math.ceil(fetches / fetches_per_fetcher)}",
        }
        if name == _EXAMPLE:
            found |= {
                "example_by_memory": f"{n_by_memory}",
                "example_by_cores": f"{n_by_cores}",
            }
    return found


def _partitions(pages: float) -> int:
    return max(_PARTITIONS_MIN, 1 << math.ceil(math.log2(pages / _PARTITION_PAGES)))


def _rounded(amount: float) -> str:
    """Return an amount with two digits."""
    digits = 1 - math.floor(math.log10(amount))
    return f"{round(amount, digits):.{max(digits, 0)}f}"
