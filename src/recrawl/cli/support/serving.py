"""What commands that answer HTTP requests have in common: packages and options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

__all__ = ["SERVER_PACKAGES", "listening_options"]

SERVER_PACKAGES: Final = (
    "aiohttp",
    "brotli",
    "fastapi",
    "httptools",
    "msgspec",
    "prometheus_client",
    "protego",
    "uvicorn",
)
"""Packages that a server needs, see `recrawl.cli.support.corpus_access.check_server_packages`."""

_OPTIONS: Final = (
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        metavar="ADDRESS",
        help="Address to listen on.  Others than 127.0.0.1 need API keys, see `recrawl keys`.",
    ),
    click.option(
        "--port",
        type=click.IntRange(0, 65_535),
        default=8377,
        show_default=True,
        help="Port to listen on; 0 for any that is free.",
    ),
    click.option(
        "--tls",
        nargs=2,
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        metavar="CERTIFICATE KEY",
        help="Files of a certificate and its private key, to serve https.",
    ),
)


def listening_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``--host``, ``--port`` and ``--tls``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
