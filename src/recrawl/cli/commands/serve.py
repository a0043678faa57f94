"""``recrawl serve``: share a corpus with fetchers on other machines, over HTTP."""

import importlib.util
import re
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from recrawl.cli.support.corpus_access import (
    check_folder,
    check_server_packages,
    corpus_option,
    open_to_change,
    prepare_kernels,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import duration_option
from recrawl.cli.support.output import Output, output_option, print_log_times
from recrawl.cli.support.serving import (
    SERVER_PACKAGES,
    listening_options,
    read_dashboard_option,
)
from recrawl.corpus import is_compiled, is_log_remote
from recrawl.folder_lock import note_address

__all__ = ["command"]

_KEY_FILE_BYTES_MAX: Final = 4_096
_FEED_BYTES_MAX: Final = 4 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DEFAULT_NAME: Final = "corpus"
_SHORT_SECONDS: Final = 120.0


@example_command(
    "serve",
    examples=(
        CommandExample("recrawl serve", "until Ctrl-C or SIGTERM", is_run=False),
        CommandExample("recrawl serve --host 0.0.0.0", "with API keys", is_run=False),
        CommandExample("recrawl serve news=corpora/news shop=corpora/shop", is_run=False),
        CommandExample("recrawl serve --port 0 --for 1s", "on a free port"),
    ),
)
@click.argument("corpora", nargs=-1, metavar="[NAME=FOLDER...]")
@listening_options
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="NETWORK",
    help="Address or network of a proxy in front of the server, such as 10.1.0.0/16.  Only such a "
    "proxy is believed where a request comes from (X-Forwarded-For, X-Forwarded-Proto).  Can be "
    "repeated.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Number of processes; only 1, because one process owns a corpus.",
)
@click.option(
    "--request-log",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True),
    metavar="FILE",
    help="Append a JSON line for each request to FILE; - for standard error.",
)
@click.option(
    "--opentelemetry",
    "is_traced",
    is_flag=True,
    help="Record each request as a span of OpenTelemetry and send it by OTLP, where "
    "OTEL_EXPORTER_OTLP_ENDPOINT says.",
)
@click.option(
    "--indexnow",
    "contact",
    metavar="CONTACT",
    help="Let sites announce changed pages by IndexNow.  CONTACT is your URL or e-mail address, "
    "which requests for their key files carry.",
)
@click.option(
    "--websub",
    "websub_url",
    metavar="URL",
    help="Subscribe to the feeds of `recrawl websub` at their hubs, which then push changes.  URL "
    "is the address at which hubs reach this server, such as https://recrawl.example/.",
)
@click.option(
    "--for",
    "for_seconds",
    metavar="TIME",
    callback=duration_option,
    help="End after TIME: 10m, 1h.  Default: serve until Ctrl-C or SIGTERM.",
)
@click.option(
    "--allow-network",
    "allow_networks",
    multiple=True,
    metavar="NETWORK",
    help="Network that webhooks may be sent to, and hubs be asked in, although it is not public, "
    "such as 10.1.0.0/16.  Can be repeated.",
)
@corpus_option
@output_option
def command(
    corpora: tuple[str, ...],
    host: str,
    workers: int,
    contact: str | None,
    websub_url: str | None,
    for_seconds: float | None,
    allow_networks: tuple[str, ...],
    folder: Path,
    out: Output,
    **serving: Any,
) -> None:
    """Serve a corpus over HTTP, so that fetchers on other machines can lease and report pages.

    Its name in paths is that of its folder, or the one that you give: /v1/corpora/NAME/orders.
    /v1/openapi.json describes all paths.  Without API keys the server can be reached from this
    machine only.
    """
    if workers > 1:
        raise click.UsageError(
            "--workers must be 1: one process owns a corpus, and serves many clients at a time."
        )
    print_log_times()
    check_server_packages(SERVER_PACKAGES)
    if serving["is_traced"] and importlib.util.find_spec("opentelemetry") is None:
        raise click.ClickException(
            '--opentelemetry needs its packages.\nRun `pip install "recrawl[opentelemetry]"`.'
        )
    folders = _folders_by_name(corpora, folder)
    for one in folders.values():
        if is_log_remote(one):
            check_folder(one)
    _check_address(host, serving["port"])
    is_short = for_seconds is not None and for_seconds <= _SHORT_SECONDS
    n_bytes_input = 0 if is_short and not is_compiled("serve") else None
    if n_bytes_input is None and not is_compiled("serve"):
        out.note("The server listens when this is done; with --for 2m or less it starts at once.")
    for one in folders.values():
        prepare_kernels(one, n_bytes_input=n_bytes_input, compiles_first=True)
    with ExitStack() as closing, value_errors_as_usage():
        opened = {name: closing.enter_context(open_to_change(one)) for name, one in folders.items()}
        # Imported after the corpora were opened, which chooses the kernels.
        from recrawl.service import (  # noqa: PLC0415
            is_loopback,
            list_keys,
            needs_key,
            serve_corpora,
        )
        from recrawl.service.webhooks import DeliverySettings  # noqa: PLC0415

        open_to_all = [name for name, one in folders.items() if not needs_key(one)]
        closed = [name for name, one in folders.items() if needs_key(one) and not list_keys(one)]

        has_dashboard = serving["has_dashboard"]
        read_dashboard_option(serving)

        def say_ready(url: str) -> None:
            for name in opened:
                note_address(folders[name], f"{url}v1/corpora/{name}")
                out.row({"corpus": name, "url": f"{url}v1/corpora/{name}"})
                out.say(f"Serving {url}v1/corpora/{name}")
            if has_dashboard:
                out.note(f"The dashboard is at {url}")
            for name in opened:
                key = "" if name in open_to_all else "RECRAWL_KEY=KEY "
                out.note(
                    "The server does not fetch.  To fetch what is due, run beside it: "
                    f"{key}recrawl run -C {url}v1/corpora/{name}"
                )
            if open_to_all and is_loopback(host):
                out.note(
                    "Without API keys, only programs on this machine can use "
                    f"{', '.join(open_to_all)}.  `recrawl keys create` makes a key."
                )
            if closed:
                out.note(
                    f"The API keys of {', '.join(closed)} were all revoked: nobody can use it.  "
                    "`recrawl keys create` makes a key, `recrawl keys open` opens it to programs "
                    "on this machine."
                )

        serve_corpora(
            opened,
            folders=folders,
            host=host,
            webhooks=DeliverySettings(allow_networks=allow_networks),
            for_seconds=for_seconds,
            fetch_text=None if contact is None else _key_file_fetcher(contact),
            websub=None
            if websub_url is None
            else _websub_settings(websub_url, contact or websub_url, allow_networks),
            on_ready=say_ready,
            **serving,
        )
    out.note("Stopped.  Everything that was answered is saved.")


def _check_address(host: str, port: int) -> None:
    """Raise if the server could not listen, before anything that takes long."""
    from recrawl.service import ListenError, bind_socket  # noqa: PLC0415

    try:
        bind_socket(host, port).close()
    except ListenError as error:
        raise click.ClickException(
            f"{error}.\nChoose another port with --port, or end the program that has it."
        ) from error


def _key_file_fetcher(
    contact: str, **settings: Any
) -> Callable[[str], Coroutine[Any, Any, bytes | None]]:
    """Return a function that fetches a small file from a public address."""
    from recrawl.fetch import FetchRequest, FetchSettings, HttpFetcher  # noqa: PLC0415

    chosen = FetchSettings(
        contact=contact,
        body_bytes_max=_KEY_FILE_BYTES_MAX,
        total_seconds_max=10.0,
        # The site asks for this request itself.
        obey_robots=False,
        redirects_max=1,
        **settings,
    )

    async def fetch_text(url: str) -> bytes | None:
        fetcher = HttpFetcher(chosen)
        try:
            answer = await fetcher.fetch(FetchRequest(url=url))
        finally:
            await fetcher.close()
        # A file elsewhere would prove nothing.
        is_found = answer.status == 200 and answer.problem is None and not answer.redirects
        return answer.body if is_found else None

    return fetch_text


def _websub_settings(
    url: str, contact: str, allow_networks: tuple[str, ...], **settings: Any
) -> Any:
    """Return the settings of subscriptions to feeds, with a fetcher of the feeds."""
    from recrawl.fetch import FetchRequest, FetchSettings, HttpFetcher  # noqa: PLC0415
    from recrawl.service import FetchedFeed, WebSubSettings  # noqa: PLC0415

    chosen = FetchSettings(
        contact=contact,
        body_bytes_max=_FEED_BYTES_MAX,
        total_seconds_max=30.0,
        allow_networks=allow_networks,
        **settings,
    )

    async def fetch_feed(feed: str) -> FetchedFeed | None:
        fetcher = HttpFetcher(chosen)
        try:
            answer = await fetcher.fetch(FetchRequest(url=feed))
        finally:
            await fetcher.close()
        if answer.status != 200 or answer.problem is not None:
            return None
        return FetchedFeed(answer.final_url, answer.headers, answer.body)

    return WebSubSettings(url=url, fetch_feed=fetch_feed, allow_networks=allow_networks)


def _folders_by_name(corpora: tuple[str, ...], folder: Path) -> dict[str, Path]:
    """Return the folders to serve, by the names that paths use."""
    if not corpora:
        name = folder.resolve().name
        return {name if _NAME.fullmatch(name) else _DEFAULT_NAME: folder}
    folders: dict[str, Path] = {}
    for text in corpora:
        name, equals, place = text.partition("=")
        if not equals or not place:
            raise click.UsageError(f"write NAME=FOLDER, such as news=corpora/news, not {text!r}.")
        if not _NAME.fullmatch(name):
            raise click.UsageError(
                "a name must be up to 64 letters, digits, '.', '_' and '-', and begin with a "
                f"letter or digit, got {name!r}."
            )
        if name in folders:
            raise click.UsageError(f"the name {name!r} is given twice.")
        folders[name] = Path(place)
    return folders
