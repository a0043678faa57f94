"""Keep copies of web pages fresh on a fixed budget of fetches."""

import os as _os
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable as _Iterable

    from recrawl.client import AsyncClient, Client
    from recrawl.corpus import AsyncCorpus, Clock, Corpus, CorpusConfig, Order, Outcome

__all__ = [
    "AsyncClient",
    "AsyncCorpus",
    "Client",
    "Corpus",
    "CorpusConfig",
    "Order",
    "Outcome",
    "__version__",
    "open",
]

__version__ = _version("recrawl")


def open(
    path: "str | _os.PathLike[str]",
    config: "CorpusConfig | None" = None,
    *,
    read_only: bool = False,
    clock: "Clock | None" = None,
    accept_clock: bool = False,
    key: str | None = None,
    partitions: "_Iterable[int] | None" = None,
) -> "Corpus":
    """Open the corpus in a folder, or on a server.

    A folder that holds no corpus becomes one.  An address such as
    ``https://example.com/v1/corpora/news`` gives a `Client`, which has the methods of a `Corpus`
    that the service offers.

    Parameters
    ----------
    path
        Folder of the corpus, or its address on a server, as `recrawl serve` prints it.
    config
        Configuration; the default is ``recrawl.toml`` in the folder, or without that file the
        configuration that the corpus was last opened with.
    read_only
        Whether to open the corpus for reading only; another process may write to it meanwhile.
    clock
        Time source; the system clock unless given.
    accept_clock
        Whether to open a corpus whose last change is longer ago than ``clock.gap_max``.
    key
        API key for a server; the environment variable ``RECRAWL_KEY`` by default.
    partitions
        Numbers of the partitions to open, if the log is on Kafka; other processes, each with a
        folder of its own, may open the others.  All by default.

    Examples
    --------
    >>> import recrawl, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with recrawl.open(folder.name) as corpus:
    ...     added = corpus.add(["https://example.com/a", "https://example.com/b"])
    ...     (order,) = corpus.lease(10)  # by default one at a time from each host
    ...     reported = corpus.report(recrawl.Outcome(handle=order.handle, digest=b"version 1"))
    >>> added.n_added, reported.counted
    (2, array([ True]))
    >>> folder.cleanup()
    """
    if isinstance(path, str) and path.lower().startswith(("http://", "https://")):
        local = (config, clock, partitions)
        if any(one is not None for one in local) or read_only or accept_clock:
            raise ValueError("a corpus on a server is opened with its address and a key alone")
        from recrawl.client import Client  # noqa: PLC0415

        # Typed as a corpus, whose methods it has, so that programs change one line only.
        return cast("Corpus", Client(path, key))
    if key is not None:
        raise ValueError(f"key is for a corpus on a server, not for the folder {path}")
    # Imported here: compiled code takes a second to load, and `--version` needs none of it.
    from recrawl.corpus import open_corpus  # noqa: PLC0415

    return open_corpus(
        path,
        config,
        read_only=read_only,
        clock=clock,
        accept_clock=accept_clock,
        partitions=partitions,
    )


def __getattr__(name: str) -> Any:
    """Return a public name, whose package is imported at the first access."""
    if name in ("AsyncClient", "Client"):
        import recrawl.client  # noqa: PLC0415

        return getattr(recrawl.client, name)
    if name in __all__:
        import recrawl.corpus  # noqa: PLC0415

        return getattr(recrawl.corpus, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
