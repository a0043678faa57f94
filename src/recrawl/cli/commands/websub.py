"""``recrawl websub``: subscribe to feeds whose hubs push changes."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpus_access import (
    check_is_corpus,
    check_server_packages,
    corpus_option,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import Output, output_option, relative_time_text

if TYPE_CHECKING:
    from recrawl.service import FeedSubscription

__all__ = ["command"]

_NEEDED = ("aiohttp", "brotli", "fastapi", "msgspec", "protego")


@click.group("websub")
def command() -> None:
    """Subscribe to feeds whose hubs push changes (WebSub), for `recrawl serve --websub`.

    A running server asks the hubs within a second, and renews the subscriptions in time.
    """


def _prepare(folder: Path) -> None:
    check_server_packages(_NEEDED)
    check_is_corpus(folder)


@example_command(
    "add",
    examples=(
        CommandExample("recrawl websub add https://blog.example/feed"),
        CommandExample("recrawl websub add https://feeds.example/blog --host blog.example"),
    ),
)
@click.argument("feed")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Host whose pages the feed may announce, such as shop.example or '*.shop.example'.  Can "
    "be repeated.  Default: the host of the feed.",
)
@corpus_option
@output_option
def add_feed(feed: str, hosts: tuple[str, ...], folder: Path, out: Output) -> None:
    """Subscribe to the feed at the URL FEED, which must name its hub."""
    _prepare(folder)
    from recrawl.service import audit_command, subscribe_feed  # noqa: PLC0415

    with value_errors_as_usage():
        one = subscribe_feed(folder, feed, hosts=hosts, now_ms=time.time_ns() // 1_000_000)
    audit_command(folder, "websub add", feed)
    out.row(_row_of(one, one.added_at_ms))
    out.say(f"Subscribed to {feed}.")
    out.note("A server with --websub asks the hub; `recrawl websub list` shows what became of it.")


@example_command("list", examples=(CommandExample("recrawl websub list"),))
@corpus_option
@output_option
def list_feeds(folder: Path, out: Output) -> None:
    """List the subscriptions: which are active, until when, and what went wrong."""
    _prepare(folder)
    from recrawl.service import list_feed_subscriptions  # noqa: PLC0415

    found = list_feed_subscriptions(folder)
    now_ms = time.time_ns() // 1_000_000
    for one in found:
        out.row(_row_of(one, now_ms))
    if not found:
        out.say("No subscriptions yet.  `recrawl websub add` adds one.")
        return
    rows = [
        (
            one.feed,
            _state(one, now_ms),
            relative_time_text(one.lease_ends_at_ms or None, now_ms),
            relative_time_text(one.pushed_at_ms or None, now_ms),
            one.problem,
        )
        for one in found
    ]
    out.table(("feed", "state", "lease ends", "last push", "problem"), rows)


def _state(one: "FeedSubscription", now_ms: int) -> str:
    if not one.is_wanted:
        return "ending"
    return "active" if one.is_active(now_ms) else "waiting"


def _row_of(one: "FeedSubscription", now_ms: int) -> dict[str, Any]:
    return {
        "feed": one.feed,
        "state": _state(one, now_ms),
        "hosts": list(one.hosts),
        "hub": one.hub,
        "topic": one.topic,
        "added_at_ms": one.added_at_ms,
        "lease_ends_at_ms": one.lease_ends_at_ms or None,
        "pushed_at_ms": one.pushed_at_ms or None,
        "problem": one.problem,
    }


@example_command(
    "remove",
    examples=(CommandExample("recrawl websub remove https://blog.example/rss", exit_code=1),),
)
@click.argument("feed")
@corpus_option
@output_option
def remove_feed(feed: str, folder: Path, out: Output) -> None:
    """End the subscription to the feed at the URL FEED.

    What its hub still sends is ignored from then on.
    """
    _prepare(folder)
    from recrawl.service import audit_command, unsubscribe_feed  # noqa: PLC0415

    if not unsubscribe_feed(folder, feed, now_ms=time.time_ns() // 1_000_000):
        raise click.ClickException(
            f"there is no subscription to {feed}; `recrawl websub list` shows them."
        )
    audit_command(folder, "websub remove", feed)
    out.row({"feed": feed, "removed": True})
    out.say(f"The subscription to {feed} ends.")


for _subcommand in (add_feed, list_feeds, remove_feed):
    command.add_command(_subcommand)
