"""Calculate what clusters of several sizes need, from what was measured of smaller ones."""

import math
from collections.abc import Callable

__all__ = ["cluster_sizes"]

# Pages, and what was measured with at least as many partitions.
_SIZES = {"a": (1e8, "small_12"), "b": (1e9, "small_64"), "c": (1e10, "small_256")}
# Pages of a partition, at most; and partitions of a small cluster.
_PARTITION_PAGES = 4e7
_PARTITIONS_MIN = 12
# A worker process is to be busy for half of the time of the one core that it can fill.
_BUSY_SHARE = 0.5
_COPIES_OF_LOG = 3
_WORKERS_MIN = 3


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
    found = {"memory_bytes_per_page": f"{memory_per_page:.0f}"}
    for name, (pages, row) in _SIZES.items():
        fetches = pages * fetches_per_page
        cores = fetches * times_worker * number(f"cluster_costs.{row}.worker_ms") / 1e6
        broker_cores = fetches * times_broker * number(f"cluster_costs.{row}.broker_ms") / 1e6
        log_bytes = fetches * number(f"cluster_costs.{row}.log_bytes")
        memory = 2 * pages * memory_per_page
        workers = max(cores / _BUSY_SHARE, memory / worker_bytes, _WORKERS_MIN)
        found |= {
            f"size_{name}_pages": f"{pages:.0f}",
            f"size_{name}_fetches": _rounded(fetches),
            f"size_{name}_memory": _rounded(memory / 1e9),
            f"size_{name}_worker_cores": _rounded(cores),
            f"size_{name}_workers": f"{math.ceil(workers)}",
            f"size_{name}_disk": _rounded(2 * pages * disk_per_page / 1e9),
            f"size_{name}_broker_cores": _rounded(_COPIES_OF_LOG * broker_cores),
            f"size_{name}_log": _rounded(log_bytes / 1e6),
            f"size_{name}_snapshot": _rounded(pages * snapshot_per_page / 1e9),
            f"size_{name}_partitions": f"{_partitions(pages)}",
        }
    return found


def _partitions(pages: float) -> int:
    return max(_PARTITIONS_MIN, 1 << math.ceil(math.log2(pages / _PARTITION_PAGES)))


def _rounded(amount: float) -> str:
    """Return an amount with two digits."""
    digits = 1 - math.floor(math.log10(amount))
    return f"{round(amount, digits):.{max(digits, 0)}f}"
