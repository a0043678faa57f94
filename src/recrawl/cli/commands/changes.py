"""``recrawl changes``: print new, changed and gone pages, oldest first, from a cursor on."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from recrawl.cli.support.corpus_access import (
    CorpusPlace,
    corpus_or_service_option,
    open_to_read,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.output import Output, output_option, relative_time_text
from recrawl.errors import ServiceUnavailable, SinkError
from recrawl.units import count_text, instant_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus, PageChange, PassageChanges
    from recrawl.service import ChangeTopic

__all__ = ["command"]

_CHANGES_PER_READ = 1_000
_FOLLOW_SECONDS = 1.0
_AWAY_SECONDS = 1.0
_T = TypeVar("_T")


@example_command(
    "changes",
    examples=(
        CommandExample("recrawl changes"),
        CommandExample("recrawl changes --limit 2 | tail -n 1"),
        CommandExample("recrawl changes --consumer nightly", about="Only what is new since."),
        CommandExample("recrawl changes --consumers"),
        CommandExample("recrawl changes --after $CURSOR --follow", is_run=False),
        CommandExample(
            "recrawl changes --consumer search --follow --kafka kafka-1:9092 --topic pages",
            about="Write all further changes to a topic of Kafka.",
            is_run=False,
        ),
    ),
)
@click.option("--after", metavar="CURSOR", help="Start after the change with this cursor.")
@click.option(
    "--consumer",
    metavar="NAME",
    help="Start where the last run with this name ended, and remember where this one ends.",
)
@click.option("--no-commit", is_flag=True, help="Print only; the consumer stays where it is.")
@click.option(
    "--commit",
    metavar="CURSOR",
    help="Print nothing, and let the consumer continue after this cursor; also `oldest` or "
    "`newest`.",
)
@click.option("--rewind", is_flag=True, help="Let --commit move the consumer back.")
@click.option("--remove", is_flag=True, help="Remove the consumer.")
@click.option(
    "--consumers", "is_list", is_flag=True, help="List all consumers and how far behind they are."
)
@click.option(
    "--passages",
    is_flag=True,
    help="Also print the passages that are new or gone: their texts if content.keep_text is set, "
    "else their hashes.",
)
@click.option("--follow", is_flag=True, help="Wait for further changes, until Ctrl-C.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N changes.")
@click.option(
    "--what",
    type=click.Choice(["new", "changed", "reverted", "gone", "moved", "returned", "retired"]),
    multiple=True,
    help="Print only changes of this kind.  May be repeated.  With --consumer, the others count as "
    "read, too.",
)
@click.option(
    "--kafka",
    "brokers",
    metavar="HOST:PORT",
    help="Write the changes to a topic of these brokers instead of printing them, as events of "
    "CloudEvents; needs --topic and --consumer.  Several brokers are separated by commas.",
)
@click.option("--topic", metavar="NAME", help="Topic of --kafka.")
@click.option(
    "--kafka-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Further settings of the Kafka client, as lines of name=value: TLS, user, password.",
)
@corpus_or_service_option
@output_option
def command(
    after: str | None,
    consumer: str | None,
    follow: bool,
    limit: int | None,
    what: tuple[str, ...],
    folder: CorpusPlace,
    out: Output,
    **options: Any,
) -> None:
    """Print new, changed and gone pages, oldest first.

    With --consumer NAME, each run prints only what happened since the last run with this name.
    recrawl remembers the place after all output was written: if the command is stopped, or the
    program that reads its output ends early, the next run prints these changes again.

    To decide yourself when changes are done, use --no-commit, and afterwards --commit with the
    cursor of the last change.  Each JSON line (--json) has a cursor.  Without --consumer, keep
    the last cursor yourself and pass it to --after.

    If you report bodies or texts of pages, --passages shows which passages are new or gone.

    With --kafka and --topic, changes are written to Kafka.  The consumer moves on once the brokers
    have stored them, so every change is in the topic at least once.  The key of a message is the
    URL: the changes of a page are in one partition, in their order.

    A page is new at its first fetch, reverted if it is back to an earlier version, gone if it was
    not found, returned if it is there again, and retired if it was gone so often that recrawl no
    longer fetches it.
    """
    _check_options(consumer, after, options)
    with open_to_read(folder) as corpus:
        if options["is_list"]:
            _list_consumers(corpus, out)
        elif consumer is not None and options["remove"]:
            _remove_consumer(corpus, consumer, out)
        elif consumer is not None and options["commit"]:
            _commit(corpus, consumer, options["commit"], options["rewind"], out)
        else:
            feed = _Feed(corpus, after, consumer, is_committed=not options["no_commit"])
            with_passages = options["passages"]
            if options["brokers"] is not None:
                with _open_topic(folder, options) as topic:
                    _send_changes(feed, topic, out, follow, what, with_passages)
                return
            _print_changes(
                feed, out, follow=follow, limit=limit, what=what, with_passages=with_passages
            )


def _check_options(consumer: str | None, after: str | None, options: dict[str, Any]) -> None:
    names = ("commit", "no_commit", "rewind", "remove")
    if consumer is None and any(options[name] not in (None, False) for name in names):
        raise click.UsageError("--commit, --no-commit, --rewind and --remove need --consumer NAME")
    if consumer is not None and after is not None:
        raise click.UsageError(
            "use either --after or --consumer: a consumer starts where its last run ended"
        )
    if options["rewind"] and options["commit"] is None:
        raise click.UsageError("--rewind needs --commit: it lets --commit move the consumer back")
    if (options["brokers"] is None) != (options["topic"] is None):
        raise click.UsageError("--kafka and --topic need each other")
    if options["kafka_config"] is not None and options["brokers"] is None:
        raise click.UsageError("--kafka-config needs --kafka and --topic")
    if options["brokers"] is not None and (consumer is None or options["no_commit"]):
        raise click.UsageError(
            "--kafka needs --consumer NAME, whose place says which changes are in the topic"
        )
    if options["commit"] == "":
        # A script whose variable is empty must not print and commit instead.
        raise click.UsageError("--commit needs a cursor, or `oldest` or `newest`")


class _Feed:
    """The changes of a corpus after a cursor or the place of a consumer, read in parts.

    Parameters
    ----------
    corpus
        Corpus open for reading.
    after
        Cursor to start after.
    consumer
        Name of a consumer to start from instead.
    is_committed
        Whether `commit` moves the consumer.
    """

    def __init__(
        self, corpus: "Corpus", after: str | None, consumer: str | None, *, is_committed: bool
    ) -> None:
        self.corpus = corpus
        self.after = after
        self.first_cursor = after
        self.consumer = consumer
        self.is_committed = is_committed and consumer is not None
        self._committed_at: str | None = None

    def read(self) -> "list[PageChange]":
        """Return the next changes; none if there are no more."""
        name = self.consumer if self.after is None else None
        try:
            return self.corpus.changes(self.after, consumer=name, limit=_CHANGES_PER_READ)
        except ValueError as error:
            if name is not None:
                raise click.UsageError(f"--consumer: {error}") from error
            raise click.UsageError(
                f"--after: {error}.  Take it from the last line of `recrawl changes --json`."
            ) from error

    def commit(self, out: Output) -> None:
        """Remember the place of the consumer, after everything that was printed is written."""
        if self.is_committed and self.consumer is not None and self.after != self._committed_at:
            out.flush_to_disk()
            if self.after is not None:
                self.corpus.commit_changes(self.consumer, self.after)
                self._committed_at = self.after


def _print_changes(
    feed: _Feed,
    out: Output,
    *,
    follow: bool,
    limit: int | None,
    what: tuple[str, ...],
    with_passages: bool,
) -> None:
    ask = partial(_ask, out=out, waits=follow)
    left = limit
    is_any = False
    n_skipped = 0
    while True:
        changes = ask(feed.read)
        for change in changes:
            feed.after = change.cursor
            name = change.what.name.lower()
            if what and name not in what:
                n_skipped += 1
                continue
            out.row(
                {
                    "cursor": change.cursor,
                    "url": change.url,
                    "what": name,
                    "at_ms": change.at_ms,
                    "doc_id": change.doc_id,
                    "metadata": change.metadata,
                    "key": change.key,
                    **_passage_fields(change.passages, with_passages),
                }
            )
            is_any = True
            out.say(f"{instant_text(change.at_ms):<16}  {name:<8}  {change.url}", wrap=False)
            if with_passages and change.passages is not None:
                _print_passages(change.passages, out)
            if left is not None:
                left -= 1
                if left == 0:
                    feed.commit(out)
                    return
        if changes and not follow:
            continue
        ask(partial(feed.commit, out))
        if changes:
            continue
        if not follow:
            if not is_any:
                out.say(_no_changes_text(feed, what))
            if n_skipped and feed.is_committed:
                out.note(
                    f"{count_text(n_skipped, 'change')} of other kinds count as read by the "
                    f"consumer {feed.consumer}, too."
                )
            return
        time.sleep(_FOLLOW_SECONDS)
        feed.corpus.refresh()


def _open_topic(folder: CorpusPlace, options: dict[str, Any]) -> "ChangeTopic":
    """Return the topic that the options name."""
    try:
        import confluent_kafka  # noqa: F401, PLC0415
    except ImportError:
        raise click.UsageError('--kafka needs `pip install "recrawl[kafka]"`') from None
    from recrawl.service import ChangeTopic, read_client_settings  # noqa: PLC0415

    with value_errors_as_usage():
        settings = {}
        if options["kafka_config"] is not None:
            settings = read_client_settings(options["kafka_config"].read_text(encoding="utf-8"))
        name = folder if isinstance(folder, str) else f"urn:recrawl:corpus:{folder.resolve().name}"
        return ChangeTopic(options["brokers"], options["topic"], source=name, settings=settings)


def _send_changes(
    feed: _Feed,
    topic: "ChangeTopic",
    out: Output,
    follow: bool,
    what: tuple[str, ...],
    with_passages: bool,
) -> None:
    """Write changes to a topic, a part at a time; the consumer moves on after each part."""
    ask = partial(_ask, out=out, waits=follow)
    n_sent = 0
    while True:
        changes = ask(feed.read)
        wanted = [one for one in changes if not what or one.what.name.lower() in what]
        ask(partial(topic.write, wanted, with_passages=with_passages))
        n_sent += len(wanted)
        if changes:
            feed.after = changes[-1].cursor
            ask(partial(feed.commit, out))
        elif not follow:
            out.row({"n_sent": n_sent})
            out.say(f"{count_text(n_sent, 'change')} written to the topic.")
            return
        else:
            time.sleep(_FOLLOW_SECONDS)
            feed.corpus.refresh()


def _ask(call: Callable[[], _T], *, out: Output, waits: bool) -> _T:
    """Call a server or a broker; if it is away, wait for it and say so once, or raise.

    Parameters
    ----------
    call
        Function that calls it.
    out
        Output that gets what is said.
    waits
        Whether to wait until it answers.
    """
    if not waits:
        return call()
    away = ""
    while True:
        try:
            found = call()
        except (ServiceUnavailable, SinkError) as error:
            who = "the server" if isinstance(error, ServiceUnavailable) else "Kafka"
            if away != who:
                out.note(f"{error}.  Waiting until {who} is back …")
            away = who
            time.sleep(_AWAY_SECONDS)
            continue
        if away:
            out.note(f"{away[0].upper()}{away[1:]} is back.")
        return found


def _passage_fields(passages: "PassageChanges | None", with_passages: bool) -> dict[str, Any]:
    """Return the passages of a change for JSON; hashes as text of 16 hexadecimal digits."""
    names = ("kept", "added", "removed")
    columns = None if passages is None else dict(zip(names, passages[:3], strict=True))
    fields: dict[str, Any] = {
        f"n_passages_{name}": None if columns is None else len(columns[name]) for name in names
    }
    if with_passages:
        for name in names:
            fields[name] = [f"{one:016x}" for one in (columns or {}).get(name, ())]
        fields["added_text"] = None if passages is None else passages.added_text
    return fields


def _print_passages(passages: "PassageChanges", out: Output) -> None:
    texts = passages.added_text or (None,) * len(passages.added)
    for number, text in zip(passages.added, texts, strict=True):
        out.say(f"    + {f'{number:016x}' if text is None else text}", wrap=False)
    for number in passages.removed:
        out.say(f"    - {number:016x}", wrap=False)


def _no_changes_text(feed: _Feed, what: tuple[str, ...]) -> str:
    kinds = f" of this kind ({', '.join(what)})" if what else ""
    if feed.consumer is not None:
        return f"No changes{kinds} that the consumer {feed.consumer} has not read."
    since = "" if feed.first_cursor is None else f" after {feed.first_cursor}"
    return f"No changes{kinds}{since} yet.  They come from `recrawl report`."


def _commit(corpus: "Corpus", consumer: str, cursor: str, rewind: bool, out: Output) -> None:
    with value_errors_as_usage():
        held = corpus.commit_changes(consumer, cursor, rewind=rewind)
    out.row({"consumer": consumer, "cursor": held})
    out.say(f"Consumer {consumer} continues after {held}.")
    if cursor not in (held, "oldest", "newest"):
        out.note(
            f"Consumer {consumer} was already further than {cursor}.  Use --rewind to move it back."
        )


def _remove_consumer(corpus: "Corpus", consumer: str, out: Output) -> None:
    with value_errors_as_usage():
        is_removed = corpus.remove_consumer(consumer)
    out.row({"consumer": consumer, "removed": is_removed})
    out.say(f"Consumer {consumer} {'is removed' if is_removed else 'does not exist'}.")


def _list_consumers(corpus: "Corpus", out: Output) -> None:
    consumers = corpus.consumers()
    for consumer in consumers:
        out.row(consumer._asdict())
        if consumer.problem is not None:
            out.note(f"{consumer.problem}.")
    now_ms = corpus.now_ms()
    rows = [
        (
            consumer.name,
            consumer.n_behind,
            consumer.n_missed,
            relative_time_text(consumer.committed_at_ms, now_ms),
            consumer.cursor,
        )
        for consumer in consumers
    ]
    if rows:
        out.table(("consumer", "changes to read", "missed", "last commit", "cursor"), rows)
    else:
        out.say("No consumers yet.  `recrawl changes --consumer NAME` creates one.")
