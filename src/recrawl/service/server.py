"""Run the application: bind, serve, and stop without losing a request."""

import asyncio
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from recrawl.service.access import is_loopback_name
from recrawl.service.app import create_app
from recrawl.service.calls import Service
from recrawl.service.connections import limited_protocol
from recrawl.service.forwarded import WorkerGate
from recrawl.service.keys import KeyRing
from recrawl.service.limits import ServiceLimits
from recrawl.service.listening import bind_socket
from recrawl.service.operations.tracing import start_tracing
from recrawl.service.receivers.indexnow import FetchText
from recrawl.service.receivers.websub.worker import WebSubSettings
from recrawl.service.webhooks import DeliverySettings

__all__ = ["is_loopback", "serve_corpora", "server_config"]

_KEEP_ALIVE_SECONDS = 30
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return is_loopback_name(host)


def server_config(
    app: FastAPI, limits: ServiceLimits, tls: tuple[Path, Path] | None = None
) -> uvicorn.Config:
    """Return the configuration of the HTTP server.

    Parameters
    ----------
    app
        Application to serve.
    limits
        Limits of the server.
    tls
        Files of a certificate and its private key, for https.
    """
    return uvicorn.Config(
        app,
        http=limited_protocol(limits),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections_max,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=round(limits.drain_seconds_max),
        ssl_certfile=None if tls is None else str(tls[0]),
        ssl_keyfile=None if tls is None else str(tls[1]),
    )


class _Server(uvicorn.Server):
    """A server that answers requests that wait before it waits for all to end.

    Parameters
    ----------
    config
        Configuration of the server.
    before_stop
        Function that is called in a thread after the first signal; the server stops after it.
    """

    def __init__(self, config: uvicorn.Config, before_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._before_stop = before_stop
        self._preparing: threading.Thread | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: after what must be done before, or at once after a second signal."""
        if self._preparing is not None:
            super().handle_exit(sig, frame)
            return
        self._preparing = threading.Thread(target=self._prepare, args=(sig, frame), daemon=True)
        self._preparing.start()

    def _prepare(self, sig: int, frame: FrameType | None) -> None:
        try:
            self._before_stop()
        finally:
            if not self.should_exit:
                super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM and Ctrl-C; the process goes on after that, and so ends with 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in _STOP_SIGNALS}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app: FastAPI = self.config.app  # type: ignore[assignment]
        app.state.is_stopping = True
        service: Service = app.state.service
        await service.corpora.stop_waiting()
        await super().shutdown(sockets)


def serve_corpora(  # noqa: PLR0913 (all but one are keywords)
    corpora: Mapping[str, Any],
    *,
    folders: Mapping[str, Path],
    host: str = "127.0.0.1",
    port: int = 8377,
    limits: ServiceLimits | None = None,
    tls: tuple[Path, Path] | None = None,
    webhooks: DeliverySettings | None = None,
    for_seconds: float | None = None,
    request_log: str | None = None,
    fetch_text: FetchText | None = None,
    trusted_proxies: Sequence[str] = (),
    websub: WebSubSettings | None = None,
    is_traced: bool = False,
    on_ready: Callable[[str], None] = lambda _: None,
    before_stop: Callable[[], None] = lambda: None,
    local_corpora: Mapping[str, Any] | None = None,
    workers: WorkerGate | None = None,
    dashboard: Callable[[FastAPI], None] | None = None,
) -> None:
    """Serve corpora until the process is told to stop (SIGTERM, Ctrl-C), then close them.

    Parameters
    ----------
    corpora
        Open corpora by the names that paths use.
    folders
        Folder of each corpus, which has its API keys and its webhooks.
    host
        Address to listen on.
    port
        Port to listen on; 0 for any that is free.
    limits
        Limits of the server; the defaults unless given.
    tls
        Files of a certificate and its private key, for https.
    webhooks
        Settings of the delivery to webhooks; the defaults unless given.
    for_seconds
        Time after which the server stops; None for never.
    request_log
        File with a line for each request, ``-`` for standard error; None for none.
    fetch_text
        Function that fetches the key files of sites, for notices of IndexNow; None to take none.
    trusted_proxies
        Networks of proxies that are believed where a request comes from.
    websub
        How hubs are reached that push the changes of feeds; None to subscribe to none.
    is_traced
        Whether each request is recorded as a span of OpenTelemetry.
    on_ready
        Function that is called with the URL of the server when it listens.
    before_stop
        Function that is called in a thread when the process is told to stop.  The server answers
        until it returns, or a second signal comes.
    local_corpora, workers
        Arguments of `recrawl.service.app.create_app` for a worker of a cluster.
    dashboard
        Function that adds pages for people to the application; None for none.

    Raises
    ------
    ListenError
        If the port is taken, or the address is not one of this machine.
    ValueError
        If the address can be reached from elsewhere, also through a proxy, and a corpus has no
        keys; or if a network is not one.
    """
    limits = limits or ServiceLimits()
    rings = {name: KeyRing(folder) for name, folder in folders.items()}
    is_local = is_loopback(host) and not trusted_proxies
    without = sorted(name for name in corpora if not len(rings.get(name, ())))
    if without and not is_local:
        raise ValueError(
            f"{', '.join(without)} has no API keys, so it can only be served on 127.0.0.1, and not "
            "behind a proxy; create a key with `recrawl keys create`"
        )
    app = create_app(
        corpora,
        keys=rings,
        is_local=is_local,
        limits=limits,
        folders=folders,
        webhooks=webhooks,
        request_log=request_log,
        fetch_text=fetch_text,
        trusted_proxies=trusted_proxies,
        websub=websub,
        tracing=start_tracing() if is_traced else None,
        local_corpora=local_corpora,
        workers=workers,
        dashboard=dashboard,
    )
    bound = bind_socket(host, port)
    config = server_config(app, limits, tls)
    scheme = "http" if tls is None else "https"
    name = f"[{host.strip('[]')}]" if ":" in host else host
    with bound:
        on_ready(f"{scheme}://{name}:{bound.getsockname()[1]}/")
        asyncio.run(_serve(_Server(config, before_stop), bound, for_seconds))


async def _serve(server: _Server, bound: socket.socket, for_seconds: float | None) -> None:
    if for_seconds is not None:
        loop = asyncio.get_running_loop()
        loop.call_later(for_seconds, server.handle_exit, signal.SIGTERM, None)
    await server.serve(sockets=[bound])
