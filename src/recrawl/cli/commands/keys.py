"""``recrawl keys``: create, list, rotate and revoke the API keys of a corpus."""

import time
from pathlib import Path
from typing import Any

import click

from recrawl.cli.support.corpus_access import check_is_corpus, corpus_option, value_errors_as_usage
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import duration_option
from recrawl.cli.support.output import Output, output_option, relative_time_text

__all__ = ["command"]

_SCOPES = ("read", "lease", "report", "signal", "admin")


@click.group("keys")
def command() -> None:
    """Create, list, rotate and revoke the API keys of a corpus, for `recrawl serve`."""


@example_command(
    "create",
    examples=(
        CommandExample("recrawl keys create --scope lease --scope report --name fetcher-1"),
        CommandExample("recrawl keys create --scope read --expires 90d --name grafana"),
        CommandExample("recrawl keys create --scope signal --requests-per-second 5 --name cms"),
    ),
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(_SCOPES),
    help="What the key allows; can be repeated.  read: look at everything.  lease: get pages to "
    "fetch.  report: report outcomes, and add pages.  signal: signal changes.  admin: everything.",
)
@click.option("--name", default="", help="Note on what the key is for.")
@click.option(
    "--expires",
    metavar="TIME",
    callback=duration_option,
    help="Time after which the key is no longer valid: 30d, 12h.  Default: never.",
)
@click.option(
    "--requests-per-second",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Limit of the key's requests.  Default: that of the server.",
)
@click.option(
    "--rows-per-second",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Limit of the rows that the key sends and gets.  Default: that of the server.",
)
@corpus_option
@output_option
def create(
    scopes: tuple[str, ...],
    name: str,
    expires: float | None,
    folder: Path,
    out: Output,
    **rates: Any,
) -> None:
    """Create an API key and print it.  It is shown once: only its hash is stored.

    A running server accepts it at once.
    """
    from recrawl.service import audit_command, create_key  # noqa: PLC0415

    check_is_corpus(folder)
    now_ms = time.time_ns() // 1_000_000
    expires_at_ms = None if expires is None else now_ms + round(expires * 1000)
    with value_errors_as_usage():
        key, stored = create_key(
            folder, scopes, name=name, now_ms=now_ms, expires_at_ms=expires_at_ms, **rates
        )
    audit_command(folder, "keys create", f"{stored.id} {name}".strip())
    out.row({"key": key, **_row_of(stored)})
    out.say(key, wrap=False)
    out.note("Keep it secret; it is not shown again.  Send it as Authorization: Bearer KEY.")


@example_command("list", examples=(CommandExample("recrawl keys list"),))
@corpus_option
@output_option
def list_all(folder: Path, out: Output) -> None:
    """List the API keys, without the keys themselves, and when each was last used.

    A running server writes the last use every five minutes, and when it stops.
    """
    from recrawl.service import list_keys, needs_key, read_key_uses  # noqa: PLC0415

    check_is_corpus(folder)
    keys, uses = list_keys(folder), read_key_uses(folder)
    now_ms = time.time_ns() // 1_000_000
    for key in keys:
        used = uses.get(key.id)
        out.row(
            {
                **_row_of(key),
                "used_at_ms": None if used is None else used.at_ms,
                "used_from": None if used is None else used.client,
            }
        )
    if not keys:
        is_closed = needs_key(folder)
        what = "No keys left: the corpus is closed." if is_closed else "No keys yet."
        out.say(f"{what}  `recrawl keys create` makes one.")
        return
    out.table(
        ("id", "name", "scopes", "created", "expires", "last used"),
        [
            (
                key.id,
                key.name,
                ", ".join(key.scopes),
                relative_time_text(key.created_at_ms, now_ms),
                relative_time_text(key.expires_at_ms, now_ms),
                relative_time_text(uses[key.id].at_ms if key.id in uses else None, now_ms),
            )
            for key in keys
        ],
    )


@example_command(
    "revoke",
    examples=(
        CommandExample("recrawl keys revoke k3x9w2m1q8", "an id that keys list shows", exit_code=1),
    ),
)
@click.argument("key_id", metavar="ID")
@corpus_option
@output_option
def revoke(key_id: str, folder: Path, out: Output) -> None:
    """Revoke an API key, given by its id.  A running server refuses it within a second.

    After the last key, the corpus stays closed: `recrawl keys open` opens it on this machine.
    """
    from recrawl.service import audit_command, list_keys, revoke_key  # noqa: PLC0415

    check_is_corpus(folder)
    if not revoke_key(folder, key_id):
        raise click.ClickException(f"there is no key {key_id}; `recrawl keys list` shows them.")
    audit_command(folder, "keys revoke", key_id)
    is_last = not list_keys(folder)
    out.row({"id": key_id, "revoked": True, "was_last": is_last})
    out.say(f"Revoked {key_id}.")
    if is_last:
        out.note(
            "It was the last key: a server now refuses all requests to this corpus.  "
            "`recrawl keys create` makes a new key; `recrawl keys open` lets all programs on this "
            "machine use the corpus without one."
        )


@example_command("open", examples=(CommandExample("recrawl keys open"),))
@corpus_option
@output_option
def open_keyless(folder: Path, out: Output) -> None:
    """Let all programs on this machine use a corpus that has no API keys left.

    A corpus that never had a key is open already.  The next key closes it again.
    """
    from recrawl.service import audit_command, open_without_keys  # noqa: PLC0415

    check_is_corpus(folder)
    with value_errors_as_usage():
        open_without_keys(folder)
    audit_command(folder, "keys open")
    out.row({"is_open": True})
    out.say("All programs on this machine can now use the corpus without an API key.")


@example_command(
    "rotate",
    examples=(
        CommandExample("recrawl keys rotate grafana --overlap 1h", "by its name", exit_code=2),
        CommandExample("recrawl keys rotate k3x9w2m1q8 --overlap 0", "by its id", exit_code=2),
    ),
)
@click.argument("name", metavar="NAME")
@click.option(
    "--overlap",
    metavar="TIME",
    default="1h",
    show_default=True,
    callback=duration_option,
    help="Time for which the old key stays valid: 15m, 1h.  0 for not at all.",
)
@click.option(
    "--expires",
    metavar="TIME",
    callback=duration_option,
    help="Time after which the new key is no longer valid.  Default: as long as the old one had.",
)
@corpus_option
@output_option
def rotate_one(name: str, overlap: float, expires: float | None, folder: Path, out: Output) -> None:
    """Replace an API key, given by its name or id, and print the new one.

    The new key allows the same.  The old one stays valid for the time of --overlap, so that you
    can change over all its users without a gap.
    """
    from recrawl.service import audit_command, rotate_key  # noqa: PLC0415

    check_is_corpus(folder)
    now_ms = time.time_ns() // 1_000_000
    expires_at_ms = None if expires is None else now_ms + round(expires * 1000)
    with value_errors_as_usage():
        key, stored, old = rotate_key(
            folder, name, overlap_seconds=overlap, now_ms=now_ms, expires_at_ms=expires_at_ms
        )
    audit_command(folder, "keys rotate", f"{old.id} to {stored.id} {stored.name}".strip())
    replaced = {"replaces": old.id, "replaced_expires_at_ms": old.expires_at_ms}
    out.row({"key": key, **_row_of(stored), **replaced})
    out.say(key, wrap=False)
    when = relative_time_text(old.expires_at_ms, now_ms) if overlap else "at once"
    out.note(f"Keep it secret; it is not shown again.  The old key {old.id} ends {when}.")


def _row_of(key: Any) -> dict[str, Any]:
    row: dict[str, Any] = key._asdict()
    del row["hash"]
    return row


for _subcommand in (create, list_all, rotate_one, revoke, open_keyless):
    command.add_command(_subcommand)
