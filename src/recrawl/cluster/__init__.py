"""Workers that share the partitions of a corpus on Kafka.

Each worker tells the others every second that it lives, in a topic beside the log.  From what they
read there, all of them compute the same placement: which worker owns which partition, and which one
stands by.  Nothing that must not go wrong depends on it: a worker owns a partition by a claim in
the log of that partition, and if two claim it, the last claim decides.

Needs the extras ``recrawl[kafka]`` and ``recrawl[server]``.  Names are imported when they are first
used, so that a command can say what is missing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recrawl.cluster.api.credentials import rotate_cluster_keys
    from recrawl.cluster.resizing import resize_cluster
    from recrawl.cluster.running import check_worker_start, run_worker
    from recrawl.cluster.status import ClusterStatus, PartitionStatus
    from recrawl.cluster.view import ClusterView, open_view

__all__ = [
    "ClusterStatus",
    "ClusterView",
    "PartitionStatus",
    "check_worker_start",
    "open_view",
    "resize_cluster",
    "rotate_cluster_keys",
    "run_worker",
]

_MODULES = {
    "recrawl.cluster.api.credentials": ("rotate_cluster_keys",),
    "recrawl.cluster.resizing": ("resize_cluster",),
    "recrawl.cluster.running": ("check_worker_start", "run_worker"),
    "recrawl.cluster.status": ("ClusterStatus", "PartitionStatus"),
    "recrawl.cluster.view": ("ClusterView", "open_view"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name, and return the name's value."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, so that they can be completed before they are imported."""
    return sorted({*globals(), *__all__})
