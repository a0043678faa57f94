"""A corpus on a server, for commands that are given an address instead of a folder."""

from functools import cached_property
from typing import TYPE_CHECKING

import click

from recrawl.client import AsyncClient, Client
from recrawl.errors import AccessDenied
from recrawl.kernel_mode import use_kernels

if TYPE_CHECKING:
    from recrawl.corpus import CorpusConfig

__all__ = ["ALLOW_HTTP", "ServiceCorpus", "open_service", "turn_client"]

ALLOW_HTTP = "recrawl.allow_http"
"""Where the context of a command keeps whether a key may be sent without encryption."""
_RETRY_SECONDS = 10.0
# A partition whose worker has failed gets another owner within seconds; a server of its own that is
# away, or a wrong address, should be noticed sooner.
_ROW_RETRY_SECONDS = 60.0
# A worker repeats the calls about its turns itself, and cannot wait for long.
_TURN_SECONDS = 5.0


class ServiceCorpus(Client):
    """A client with the other attributes of a corpus that commands use."""

    @cached_property
    def config(self) -> "CorpusConfig":
        """The configuration; the defaults if the key does not allow to read it."""
        from recrawl.corpus import CorpusConfig  # noqa: PLC0415

        try:
            return CorpusConfig.from_dict(self.configuration())
        except AccessDenied:
            return CorpusConfig()

    @property
    def is_budget_per_run(self) -> bool:
        """Whether the budget is per named run; assumed if the key does not allow to read it."""
        try:
            return self.stats().run_budget is not None
        except AccessDenied:
            return True

    def similar_hosts(self, host: str) -> dict[str, int]:
        """Return nothing: the service does not search the names of hosts."""
        del host
        return {}

    def similar_urls(self, url: str) -> list[str]:
        """Return nothing: the client does not keep the suggestions of the service."""
        del url
        return []

    def newcomers(self) -> dict[str, int]:
        """Return nothing: the service does not list newcomers."""
        return {}

    def last_scrub(self) -> None:
        """Return None: the service does not show the state of its files."""

    def refresh(self) -> None:
        """Do nothing: every answer is up to date."""


def open_service(
    url: str, *, retry_seconds: float | None = None, row_retry_seconds: float | None = None
) -> ServiceCorpus:
    """Return a client of the corpus at an address, with the key in ``RECRAWL_KEY``.

    Parameters
    ----------
    url
        Address of the corpus.
    retry_seconds
        Longest time for which a request is repeated.
    row_retry_seconds
        Longest time for which rows are sent again whose partition cannot be reached.
    """
    retry_seconds = _RETRY_SECONDS if retry_seconds is None else retry_seconds
    row_retry_seconds = _ROW_RETRY_SECONDS if row_retry_seconds is None else row_retry_seconds
    # Names of the configuration load kernels, which no command on a server runs.
    if not _has_kernels():
        use_kernels("interpreted")
    try:
        return ServiceCorpus(
            url,
            retry_seconds=retry_seconds,
            row_retry_seconds=row_retry_seconds,
            allow_http=_allows_http(),
        )
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from error
    except ImportError as error:
        raise click.ClickException(str(error)) from error


def turn_client(url: str) -> AsyncClient:
    """Return a client for the turns of a worker at hosts."""
    return AsyncClient(
        url, timeout_seconds=_TURN_SECONDS, retry_seconds=0.0, allow_http=_allows_http()
    )


def _allows_http() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(ALLOW_HTTP))


def _has_kernels() -> bool:
    from recrawl.cli.support.kernels import kernels_exist  # noqa: PLC0415

    return kernels_exist()
