"""``recrawl receivers``: let programs of sites announce changed pages by signed requests."""

import time
from pathlib import Path

import click

from recrawl.cli.support.corpus_access import (
    check_is_corpus,
    check_server_packages,
    corpus_option,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import duration_option
from recrawl.cli.support.output import Output, output_option, relative_time_text
from recrawl.units import seconds_text

__all__ = ["command"]

_NEEDED = ("aiohttp", "brotli", "fastapi", "msgspec", "protego")


@click.group("receivers")
def command() -> None:
    """Let sites announce changed pages to `recrawl serve` by signed requests.

    A plugin of a content management system sends them.  A running server notices within a second
    what these commands do.
    """


def _prepare(folder: Path) -> None:
    check_server_packages(_NEEDED)
    check_is_corpus(folder)


@example_command(
    "add",
    examples=(
        CommandExample("recrawl receivers add blog --host blog.example --host '*.blog.example'"),
    ),
)
@click.argument("name")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    required=True,
    metavar="HOST",
    help="Host whose pages it may announce, such as shop.example or '*.shop.example'.  Can be "
    "repeated.",
)
@corpus_option
@output_option
def add_one(name: str, hosts: tuple[str, ...], folder: Path, out: Output) -> None:
    """Add a receiver, and print the secret that signs requests to it.

    The site sends POST /v1/corpora/CORPUS/receivers/NAME with {"urls": […]}, signed as
    standardwebhooks.com says.
    """
    _prepare(folder)
    from recrawl.service import add_receiver, audit_command  # noqa: PLC0415

    with value_errors_as_usage():
        receiver, secret = add_receiver(folder, name, hosts, now_ms=time.time_ns() // 1_000_000)
    audit_command(folder, "receivers add", name)
    out.row({"secret": secret, **receiver.as_public()})
    out.say(secret, wrap=False)
    out.note("The site needs this secret to sign its requests (standardwebhooks.com).")


@example_command("list", examples=(CommandExample("recrawl receivers list"),))
@corpus_option
@output_option
def list_them(folder: Path, out: Output) -> None:
    """List the receivers and their hosts."""
    _prepare(folder)
    from recrawl.service import list_receivers  # noqa: PLC0415

    found = list_receivers(folder)
    for one in found:
        out.row(one.as_public())
    if not found:
        out.say("No receivers yet.  `recrawl receivers add` adds one.")
        return
    now_ms = time.time_ns() // 1_000_000
    rows = [
        (one.name, ", ".join(one.hosts), relative_time_text(one.created_at_ms, now_ms))
        for one in found
    ]
    out.table(("receiver", "hosts", "added"), rows)


@example_command(
    "rotate",
    examples=(CommandExample("recrawl receivers rotate blog --overlap 2d", exit_code=2),),
)
@click.argument("name")
@click.option(
    "--overlap",
    metavar="TIME",
    default="1d",
    show_default=True,
    callback=duration_option,
    help="Time for which the old secret stays valid.",
)
@corpus_option
@output_option
def rotate_secret(name: str, overlap: float, folder: Path, out: Output) -> None:
    """Give a receiver a new secret, and print it."""
    _prepare(folder)
    from recrawl.service import audit_command, rotate_receiver_secret  # noqa: PLC0415

    now_ms = time.time_ns() // 1_000_000
    with value_errors_as_usage():
        secret = rotate_receiver_secret(folder, name, now_ms=now_ms, overlap_seconds=overlap)
    audit_command(folder, "receivers rotate", name)
    out.row({"name": name, "secret": secret, "overlap_seconds": overlap})
    out.say(secret, wrap=False)
    out.note(f"The old secret stays valid for {seconds_text(overlap)}.")


@example_command("remove", examples=(CommandExample("recrawl receivers remove blog", exit_code=1),))
@click.argument("name")
@corpus_option
@output_option
def remove_one(name: str, folder: Path, out: Output) -> None:
    """Remove a receiver; its requests are refused from then on."""
    _prepare(folder)
    from recrawl.service import audit_command, remove_receiver  # noqa: PLC0415

    if not remove_receiver(folder, name):
        raise click.ClickException(
            f"there is no receiver {name}; `recrawl receivers list` shows them."
        )
    audit_command(folder, "receivers remove", name)
    out.row({"name": name, "removed": True})
    out.say(f"Removed {name}.")


for _subcommand in (add_one, list_them, rotate_secret, remove_one):
    command.add_command(_subcommand)
