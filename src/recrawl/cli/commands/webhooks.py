"""``recrawl webhooks``: subscribe other programs to changes, and look after what fails."""

import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpus_access import (
    check_is_corpus,
    corpus_option,
    prepare_kernels,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import duration_option
from recrawl.cli.support.output import Output, output_option, relative_time_text
from recrawl.errors import RecrawlError
from recrawl.units import count_text, seconds_text

if TYPE_CHECKING:
    from recrawl.service.webhooks import Webhook

__all__ = ["command"]

_WHAT = ("new", "changed", "reverted", "gone", "moved", "returned", "retired")
_NEEDED = ("aiohttp", "brotli", "protego")
_DAY_SECONDS = 86_400.0
# Exit code of examples about a webhook, because the corpus that tests run them on has none.
_WITHOUT_WEBHOOK = 2


@click.group("webhooks")
def command() -> None:
    """Send changes to other programs as signed requests.

    A service that has the corpus open delivers; it notices what these commands do within a second.
    """


def _prepare(folder: Path) -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise RecrawlError(
            f'`recrawl webhooks` needs {missing[0]}. Install it with: pip install "recrawl[run]"'
        )
    check_is_corpus(folder)
    prepare_kernels(folder)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _audit(folder: Path, action: str, name: str) -> None:
    from recrawl.service import audit_command  # noqa: PLC0415

    audit_command(folder, f"webhooks {action}", name)


@example_command(
    "add",
    examples=(
        CommandExample("recrawl webhooks add search https://search.example/hooks/recrawl"),
        CommandExample(
            "recrawl webhooks add prices https://example.com/prices --what changed "
            "--pattern 'shop.example/*' --batch 100"
        ),
    ),
)
@click.argument("name")
@click.argument("url")
@click.option(
    "--what",
    type=click.Choice(_WHAT),
    multiple=True,
    help="Send only these changes.  May be repeated.",
)
@click.option(
    "--pattern",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    help="Send only changes of pages whose URL matches, such as '/product/*'.  May be repeated.",
)
@click.option(
    "--kind",
    "kinds",
    metavar="KIND",
    multiple=True,
    help="Send only changes of pages of this kind.  May be repeated.",
)
@click.option(
    "--min-divergence",
    "divergence_min",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="SHARE",
    help="Send only changes in which at least this share of the passages differs, 0 to 1.",
)
@click.option("--passages", "with_passages", is_flag=True, help="Send the passages of pages, too.")
@click.option(
    "--batch",
    "events_max",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Send up to N changes in one request.",
)
@click.option(
    "--from",
    "start",
    type=click.Choice(["newest", "oldest"]),
    default="newest",
    show_default=True,
    help="Begin with the next change, or with the oldest one in the feed.",
)
@click.option(
    "--skip-dead",
    is_flag=True,
    help="Go on with the later changes of a page if one could not be delivered.",
)
@corpus_option
@output_option
def add(name: str, url: str, skip_dead: bool, folder: Path, out: Output, **settings: Any) -> None:
    """Subscribe the address URL to changes, and print the secret that signs the requests."""
    _prepare(folder)
    from recrawl.service.webhooks import add_webhook, private_address_warning  # noqa: PLC0415

    with value_errors_as_usage():
        webhook, secret = add_webhook(
            folder, name, url, now_ms=_now_ms(), holds_back=not skip_dead, **settings
        )
    _audit(folder, "add", name)
    out.row({"secret": secret, **webhook.as_public()})
    out.say(secret, wrap=False)
    out.note("The receiver needs this secret to check signatures (standardwebhooks.com).")
    if warning := private_address_warning(url):
        out.note(f"{warning}.")


@example_command("list", examples=(CommandExample("recrawl webhooks list"),))
@corpus_option
@output_option
def list_subscriptions(folder: Path, out: Output) -> None:
    """List the webhooks, and how many changes wait or could not be delivered."""
    _prepare(folder)
    from recrawl.service.webhooks import list_letters, list_webhooks  # noqa: PLC0415

    rows = []
    for webhook in list_webhooks(folder):
        letters = list_letters(folder, webhook.name)
        n_dead = sum(letter.is_dead for letter in letters)
        counts = {"n_waiting": len(letters) - n_dead, "n_dead": n_dead}
        out.row({**webhook.as_public(), **counts})
        state = "disabled" if webhook.disabled else "enabled"
        rows.append((webhook.name, webhook.url, state, *counts.values(), _filters(webhook)))
        if webhook.disabled:
            out.note(f"{webhook.name}: {webhook.disabled}.")
    if rows:
        out.table(("webhook", "address", "state", "waiting", "dead", "sends"), rows)
    else:
        out.say("No webhooks yet.  `recrawl webhooks add` adds one.")


def _filters(webhook: "Webhook") -> str:
    parts = [*webhook.what, *webhook.patterns, *webhook.kinds]
    if webhook.divergence_min:
        parts.append(f"divergence ≥ {webhook.divergence_min:g}")
    return ", ".join(parts) or "all changes"


@example_command(
    "set",
    examples=(
        CommandExample("recrawl webhooks set search --enable", exit_code=_WITHOUT_WEBHOOK),
        CommandExample(
            "recrawl webhooks set search --url https://new.example/", exit_code=_WITHOUT_WEBHOOK
        ),
    ),
)
@click.argument("name")
@click.option("--url", metavar="URL", help="New address.")
@click.option("--enable", is_flag=True, help="Send again after the receiver has ended it (410).")
@click.option("--disable", is_flag=True, help="Send nothing until it is enabled again.")
@corpus_option
@output_option
def change(
    name: str, url: str | None, enable: bool, disable: bool, folder: Path, out: Output
) -> None:
    """Change the address of a webhook, disable or enable it."""
    settings: dict[str, Any] = {}
    if enable and disable:
        raise click.UsageError("use either --enable or --disable.")
    if enable or disable:
        settings["disabled"] = "disabled by `recrawl webhooks set`" if disable else None
    if url is not None:
        settings["url"] = url
    if not settings:
        raise click.UsageError("give --url, --enable or --disable.")
    _prepare(folder)
    from recrawl.service.webhooks import change_webhook  # noqa: PLC0415

    with value_errors_as_usage():
        webhook = change_webhook(folder, name, **settings)
    _audit(folder, "set", name)
    out.row(webhook.as_public())
    out.say(f"{name} is {'disabled' if webhook.disabled else 'enabled'}: {webhook.url}")


@example_command(
    "rotate",
    examples=(
        CommandExample("recrawl webhooks rotate search --overlap 2d", exit_code=_WITHOUT_WEBHOOK),
    ),
)
@click.argument("name")
@click.option(
    "--overlap",
    metavar="TIME",
    callback=duration_option,
    help="Time for which requests are signed with the old secret, too.  Default: 1d.",
)
@corpus_option
@output_option
def rotate(name: str, overlap: float | None, folder: Path, out: Output) -> None:
    """Give a webhook a new secret, and print it."""
    _prepare(folder)
    from recrawl.service.webhooks import rotate_webhook_secret  # noqa: PLC0415

    seconds = _DAY_SECONDS if overlap is None else overlap
    with value_errors_as_usage():
        secret = rotate_webhook_secret(folder, name, now_ms=_now_ms(), overlap_seconds=seconds)
    _audit(folder, "rotate", name)
    out.row({"name": name, "secret": secret, "overlap_seconds": seconds})
    out.say(secret, wrap=False)
    out.note(f"The old secret signs requests, too, for {seconds_text(seconds)}.")


@example_command(
    "remove", examples=(CommandExample("recrawl webhooks remove search", exit_code=1),)
)
@click.argument("name")
@corpus_option
@output_option
def remove(name: str, folder: Path, out: Output) -> None:
    """Remove a webhook and the changes that wait for it."""
    _prepare(folder)
    from recrawl.service.webhooks import remove_webhook  # noqa: PLC0415

    if not remove_webhook(folder, name):
        raise click.ClickException(
            f"there is no webhook {name}; `recrawl webhooks list` shows them."
        )
    _audit(folder, "remove", name)
    out.row({"name": name, "removed": True})
    out.say(f"Removed {name}.")


@example_command(
    "letters",
    examples=(
        CommandExample("recrawl webhooks letters search --dead", exit_code=_WITHOUT_WEBHOOK),
    ),
)
@click.argument("name")
@click.option("--dead", is_flag=True, help="List only changes whose attempts are used up.")
@corpus_option
@output_option
def letters(name: str, dead: bool, folder: Path, out: Output) -> None:
    """List the changes that wait for another attempt, or could not be delivered."""
    _prepare(folder)
    from recrawl.service.webhooks import list_letters  # noqa: PLC0415

    with value_errors_as_usage():
        found = [one for one in list_letters(folder, name) if one.is_dead or not dead]
    now_ms = _now_ms()
    for one in found:
        out.row(one.as_public())
    if not found:
        out.say("Nothing waits.")
        return
    rows = [
        (
            one.id,
            one.page[1],
            one.n_attempts,
            "never" if one.is_dead else relative_time_text(round(one.next_at * 1000), now_ms),
            one.problem,
        )
        for one in found
    ]
    out.table(("id", "page", "attempts", "next", "problem"), rows)


@example_command(
    "send-again",
    examples=(
        CommandExample(
            "recrawl webhooks send-again search", "all of them", exit_code=_WITHOUT_WEBHOOK
        ),
        CommandExample("recrawl webhooks send-again search ID", exit_code=_WITHOUT_WEBHOOK),
    ),
)
@click.argument("name")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@corpus_option
@output_option
def send_again(name: str, ids: tuple[str, ...], folder: Path, out: Output) -> None:
    """Send changes again that could not be delivered: those given, or all."""
    _prepare(folder)
    from recrawl.service.webhooks import send_letters_again  # noqa: PLC0415

    with value_errors_as_usage():
        send_letters_again(folder, name, ids or None)
    _audit(folder, "send-again", name)
    out.row({"name": name, "send_again": list(ids) or None})
    out.say(f"{_count(ids)} of {name} will be sent again.")


@example_command(
    "drop",
    examples=(CommandExample("recrawl webhooks drop search ID", exit_code=_WITHOUT_WEBHOOK),),
)
@click.argument("name")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--all", "is_all", is_flag=True, help="Give up all of them.")
@corpus_option
@output_option
def drop(name: str, ids: tuple[str, ...], is_all: bool, folder: Path, out: Output) -> None:
    """Give up changes that could not be delivered; the later ones of their pages go on."""
    if bool(ids) == is_all:
        raise click.UsageError("give the ids that `recrawl webhooks letters` shows, or --all.")
    _prepare(folder)
    from recrawl.service.webhooks import drop_letters  # noqa: PLC0415

    with value_errors_as_usage():
        drop_letters(folder, name, ids or None)
    _audit(folder, "drop", name)
    out.row({"name": name, "drop": list(ids) or None})
    out.say(f"{_count(ids)} of {name} will not be sent any more.")


def _count(ids: tuple[str, ...]) -> str:
    return count_text(len(ids), "dead letter") if ids else "All dead letters"


for _subcommand in (add, list_subscriptions, change, rotate, remove, letters, send_again, drop):
    command.add_command(_subcommand)
