"""What commands that answer HTTP requests have in common: packages and options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

__all__ = ["SERVER_PACKAGES", "listening_options", "read_dashboard_option"]

SERVER_PACKAGES: Final = (
    "aiohttp",
    "brotli",
    "fastapi",
    "httptools",
    "jinja2",
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
    click.option(
        "--dashboard/--no-dashboard",
        "has_dashboard",
        default=True,
        show_default=True,
        help="Show the dashboard at / in a browser.",
    ),
)


def listening_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``--host``, ``--port``, ``--tls`` and ``--dashboard``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_dashboard_option(serving: dict[str, Any]) -> None:
    """Replace ``has_dashboard`` in the arguments of a server by what attaches the dashboard.

    Parameters
    ----------
    serving
        Options of a command.
    """
    if serving.pop("has_dashboard"):
        from recrawl.dashboard import attach_dashboard  # noqa: PLC0415

        serving["dashboard"] = attach_dashboard
