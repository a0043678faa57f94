"""A Python function as a sink."""

from collections.abc import Callable, Sequence

from recrawl.fetch.sinks.contract import DEFAULT_BATCH, BatchSettings, check_sink_name
from recrawl.fetch.sinks.version import PageVersion

__all__ = ["CallableSink"]


class CallableSink:
    """Calls a function with new versions.

    Parameters
    ----------
    function
        Function that takes a list of versions, and returns when it has stored them; any exception
        means that they are sent again.  It is called from another thread, once at a time.
    name
        Name of the sink.
    wants_unchanged
        Whether the function also gets fetches that found nothing new.
    batch
        Number of versions per call.
    """

    def __init__(
        self,
        function: Callable[[list[PageVersion]], object],
        *,
        name: str = "callable",
        wants_unchanged: bool = False,
        batch: BatchSettings = DEFAULT_BATCH,
    ) -> None:
        self.name = check_sink_name(name)
        self.wants_unchanged = wants_unchanged
        self.batch = batch
        self._function = function

    def write(self, versions: Sequence[PageVersion]) -> None:
        """Call the function; see `Sink.write`."""
        self._function(list(versions))

    def close(self) -> None:
        """Release nothing."""
