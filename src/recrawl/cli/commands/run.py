"""``recrawl run``: fetch pages, and keep them fresh."""

import asyncio
import importlib.util
import ipaddress
import itertools
import logging
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from recrawl.cli.commands.init import CONFIG_FILE, create_corpus
from recrawl.cli.support.corpus_access import (
    CorpusPlace,
    corpus_or_service_option,
    is_corpus,
    open_to_change,
    open_to_read,
    prepare_kernels,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.instants import duration_option
from recrawl.cli.support.output import (
    CHECK_FAILED,
    Output,
    output_option,
    print_log_messages,
    print_log_times,
)
from recrawl.corpus import is_compiled
from recrawl.errors import RecrawlError
from recrawl.units import seconds_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus, CorpusConfig, Stats
    from recrawl.fetch import FetchSettings
    from recrawl.fetch.sinks import Sink
    from recrawl.run import CrawlProgress, CrawlSettings, CrawlSummary
    from recrawl.run.discovery import DiscoverySettings
    from recrawl.run.session import CrawlSession

__all__ = ["command"]

DEFAULT_BUDGET: Final = "1000/h"
"""Budget of a corpus that ``recrawl run`` creates."""
SHORT_SECONDS: Final = 120.0
"""Length of a run for which kernels are not compiled first."""
DEFAULT_MIN_AGE: Final = "10m"
"""Minimum time between two fetches of a page in such a corpus: the site is somebody else's."""
_DEFAULT_CONTACT: Final = "https://github.com/recrawl/recrawl"
_SERVER_SECONDS: Final = 2.0
_NEEDED: Final = ("aiohttp", "brotli", "protego")
_VIEW_SECONDS: Final = 0.5
_STATS_EVERY: Final = 4
_LINE_SECONDS: Final = 60.0
# The first lines come sooner, so that nobody wonders whether anything happens.
_FIRST_LINES_SECONDS: Final = (10.0, 30.0)
_SHOWN_MAX: Final = 20
_DOCUMENT_KIND: Final = "sitemap or feed"
_FOLDER_KINDS: Final = ("folder", "json-lines", "warc", "parquet")


@example_command(
    "run",
    examples=(
        CommandExample("recrawl run https://example.com/", "until Ctrl-C", is_run=False),
        CommandExample("recrawl run", "goes on with the corpus of this folder", is_run=False),
        CommandExample("recrawl run --once", "one pass, for cron", is_run=False),
        CommandExample("recrawl run --for 1h --to json-lines:versions", is_run=False),
        CommandExample(
            "recrawl run -C https://recrawl.example/v1/corpora/news",
            "a worker of a shared corpus",
            is_run=False,
        ),
        CommandExample("recrawl run --dry-run"),
    ),
)
@click.argument("urls", nargs=-1, metavar="[URL...]")
@click.option("--once", "is_once", is_flag=True, help="Fetch what is due now, then end; for cron.")
@click.option(
    "--for",
    "for_seconds",
    metavar="TIME",
    callback=duration_option,
    help="End after TIME: 10m, 1h.  Default: run until Ctrl-C.",
)
@click.option(
    "--dry-run", "is_dry", is_flag=True, help="Print what would be fetched; contact no site."
)
@click.option(
    "--discover",
    "is_discovering",
    is_flag=True,
    help="Follow links to other pages of the same sites.  Sitemaps and feeds are always read.",
)
@click.option(
    "--to",
    "targets",
    multiple=True,
    metavar="KIND:TARGET",
    help="Where new versions of pages go: folder:pages (Markdown files), json-lines:FOLDER, "
    "warc:FOLDER, webhook:URL and others.  Can be repeated.  Default: the folder pages of the "
    "corpus.",
)
@click.option(
    "--budget",
    metavar="RATE",
    help=f"Budget of a new corpus, such as 200/h or 20000/day.  Default: {DEFAULT_BUDGET}.",
)
@click.option(
    "--min-age",
    metavar="TIME",
    callback=duration_option,
    help="Minimum time between two fetches of a page, in a new corpus.  Default: "
    f"{DEFAULT_MIN_AGE}.",
)
@click.option(
    "--contact",
    metavar="URL",
    help="URL or e-mail address that requests carry, so that sites can write to you.",
)
@click.option(
    "--user-agent",
    "name",
    metavar="NAME",
    help="Name of the fetcher, by which robots.txt files address it.  Default: recrawl.",
)
@click.option(
    "--allow-network",
    "networks",
    multiple=True,
    metavar="NETWORK",
    help="Network that may be fetched from although it is not public, such as 127.0.0.0/8.",
)
@click.option(
    "--browser",
    "has_browser",
    is_flag=True,
    help="Render pages that are empty without scripts in Chromium; needs recrawl[browser].",
)
@click.option(
    "--worker-folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="With -C https://…: folder for what this worker keeps between two runs.  Default: one "
    "of its own in ~/.local/state/recrawl.",
)
@corpus_or_service_option
@output_option
def command(
    urls: tuple[str, ...],
    folder: CorpusPlace,
    out: Output,
    **options: Any,
) -> None:
    """Fetch URLs and what their sitemaps and feeds name, and keep the copies fresh.

    In an empty folder it creates a corpus; elsewhere in a folder named after the first host.  The
    pages are written as Markdown files, or where --to says.  Ctrl-C stops it within seconds, and
    `recrawl run` in the folder of the corpus goes on.

    With -C https://… it is a worker of a corpus that `recrawl serve` shares: it fetches what the
    server leases, and reports it.  Run as many workers on as many machines as you like; they take
    turns at each host.  A worker writes pages only where --to says, and only those that it
    fetched itself.

    Options for a new corpus are saved in its recrawl.toml.  Exit codes: 0 if the run ended as you
    asked, also by Ctrl-C, or if nothing was due; 1 if it failed; 2 for wrong usage; 3 if every
    fetch of --once failed.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise RecrawlError(
            f'`recrawl run` needs {missing[0]}. Install it with: pip install "recrawl[run]"'
        )
    given = [_complete_url(url) for url in urls]
    print_log_times()
    if isinstance(folder, str):
        _work(folder, given, options, out)
        return
    if options["worker_folder"] is not None:
        raise click.UsageError("--worker-folder goes with the address of a server: -C https://…")
    folder = _choose_folder(folder, given)
    if options["is_dry"]:
        _print_dry_run(folder, given, out)
        return
    n_bytes_input = _expected_input(options)
    prepare_kernels(folder, n_bytes_input=n_bytes_input, compiles_first=True)
    if not is_corpus(folder):
        if given:
            out.note("Creating a corpus …")
        _create(folder, given, options, out)
    elif options["budget"] is not None:
        raise click.UsageError(
            f"there is already a corpus in {folder}, so --budget has no effect.  Change it with "
            "`recrawl set --budget RATE`."
        )
    elif options["min_age"] is not None:
        raise click.UsageError(
            f"there is already a corpus in {folder}, so --min-age has no effect.  Change it in "
            f"{CONFIG_FILE}."
        )
    else:
        out.note("Opening the corpus …")
        _say_what_is_not_saved(options, out)
    with open_to_change(folder, n_bytes_input=n_bytes_input) as corpus:
        if not given and corpus.n_pages == 0:
            raise RecrawlError(
                "the corpus has no pages yet. Name a site: `recrawl run https://example.com/`"
            )
        session = _make_session(corpus, options, out)
        summary = _run(session, given, options, out)
        _print_summary(folder, session, summary, out)
    _exit_if_all_failed(summary, options)


def _work(url: str, given: Sequence[str], options: dict[str, Any], out: Output) -> None:
    """Fetch what a server leases."""
    from recrawl.cli.support.service_corpus import open_service, turn_client  # noqa: PLC0415

    for name in ("is_dry", "budget", "min_age"):
        if options[name]:
            option = "--dry-run" if name == "is_dry" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} needs the folder of a corpus, not its address")
    from recrawl.run.shared import (  # noqa: PLC0415
        SharedCorpus,
        WorkerSession,
        lock_worker_folder,
    )

    print_log_messages()
    progress = _make_progress(out)
    folder, lock = lock_worker_folder(url, options["worker_folder"])
    # The crawl itself says that the server is away, and repeats its calls and their rows.
    logging.getLogger("recrawl.client").setLevel(logging.ERROR)
    with lock, open_service(url, retry_seconds=_SERVER_SECONDS, row_retry_seconds=0.0) as client:
        corpus = SharedCorpus(client, folder, _make_progress(out, at_terminal=True).set_pause)
        # One question before anything is fetched, so that a wrong address or key is noticed.
        corpus.stats()
        corpus.on_pause = progress.set_pause
        out.note(f"Working for {url}; this worker's folder is {folder}.")
        if not options["targets"]:
            out.note("Pages are reported to the server and not stored here; --to stores them.")
        fetch_settings = _fetch_settings(corpus.config, options)

        session = WorkerSession(
            corpus,
            turn_client(url),
            fetch_settings,
            _open_sinks(corpus.folder, options["targets"], ()) if options["targets"] else [],
            discovery_settings=_discovery_settings(corpus.config, options),
            has_browser=options["has_browser"] or corpus.config.run.browser,
            progress=progress,
        )
        _say_who_fetches(fetch_settings, out)
        summary = _run(session, given, options, out)
        _print_summary(url, session, summary, out)
    _exit_if_all_failed(summary, options)


def _exit_if_all_failed(summary: "CrawlSummary", options: dict[str, Any]) -> None:
    from recrawl.run import FetchResult  # noqa: PLC0415

    results = summary.progress.results
    bad = (FetchResult.FAILED, FetchResult.DISALLOWED, FetchResult.GIVEN_BACK)
    n_bad = sum(results[one] for one in bad)
    if options["is_once"] and n_bad and n_bad == results.total():
        click.get_current_context().exit(CHECK_FAILED)


def _expected_input(options: dict[str, Any]) -> int | None:
    """Return the size of the input if it is small, so that nothing need be compiled for it."""
    for_seconds = options["for_seconds"]
    is_short = options["is_once"] or (for_seconds is not None and for_seconds <= SHORT_SECONDS)
    return 0 if is_short and not is_compiled("run") else None


def _require_public(urls: Sequence[str], networks: Sequence[str]) -> None:
    """Say which option is missing before a corpus is created for a host that is refused."""
    from recrawl.fetch import address_refusal, parse_networks  # noqa: PLC0415

    with value_errors_as_usage():
        allowed = parse_networks(networks)
    for url in urls:
        name = urlsplit(url).hostname or ""
        address = "127.0.0.1" if name == "localhost" else name
        with suppress(ValueError):
            length = ipaddress.ip_address(address).max_prefixlen
            if reason := address_refusal(address, allowed):
                raise RecrawlError(
                    f"{reason}, and `recrawl run` fetches from public addresses alone. Allow it "
                    f"with: --allow-network {address}/{length}"
                )


def _complete_url(text: str) -> str:
    """Return a URL with its scheme."""
    url = text if "://" in text else f"https://{text}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError(f"{text!r} is not the URL of a site, such as https://example.com/")
    return url


def _choose_folder(folder: Path, urls: Sequence[str]) -> Path:
    """Return the folder of the corpus: the given one, or one that suits the URLs."""
    source = click.get_current_context().get_parameter_source("folder")
    is_given = source is not None and source.name != "DEFAULT"
    if is_given or is_corpus(folder) or (folder / CONFIG_FILE).exists():
        return folder
    if not urls:
        raise RecrawlError(
            "the current folder is not a corpus. Name a site to start with: "
            "`recrawl run https://example.com/`"
        )
    if not any(folder.iterdir()):
        return folder
    return folder / (urlsplit(urls[0]).netloc.rpartition("@")[2].replace(":", "-").lower())


def _create(folder: Path, urls: Sequence[str], options: dict[str, Any], out: Output) -> None:
    if not urls:
        raise RecrawlError(
            f"{folder} is not a corpus. Name a site to start with: "
            f"`recrawl run -C {folder} https://example.com/`"
        )
    run = _run_section(options)
    toml = folder / CONFIG_FILE
    is_ours = not toml.exists()
    if is_ours:
        _require_public(urls, options["networks"])
    else:
        _require_complete(toml, bool(run or options["budget"] or options["min_age"] is not None))
    rate = options["budget"] or DEFAULT_BUDGET
    amounts = {"rate": rate, "cost_per_fetch": None}
    seconds = options["min_age"]
    min_age = DEFAULT_MIN_AGE if seconds is None else f"{seconds:g}s"
    own_rate = create_corpus(folder, toml, amounts, "rocksdb", {}, False, run, min_age)
    rate = own_rate or rate
    where = "the current folder" if folder == Path() else str(folder)
    out.note(
        f"Created a corpus in {where}, with a budget of {rate.replace('/', ' fetches/', 1)} "
        f"(`recrawl set{_option_text(folder)} --budget RATE` changes it)."
    )
    if is_ours:
        out.note(f"A page is fetched at most every {min_age}; min_age in {CONFIG_FILE} changes it.")


def _run_section(options: dict[str, Any]) -> dict[str, str]:
    """Return the settings of the section ``run`` that options give, in TOML notation."""
    run: dict[str, str] = {}
    if options["targets"]:
        run["to"] = _toml_texts([_absolute_target(one) for one in options["targets"]])
    if options["networks"]:
        run["allow_networks"] = _toml_texts(options["networks"])
    for option, key in (("contact", "contact"), ("name", "name")):
        if options[option] is not None:
            run[key] = _toml_text(options[option])
    for option, key in (("is_discovering", "discover"), ("has_browser", "browser")):
        if options[option]:
            run[key] = "true"
    return run


def _say_what_is_not_saved(options: dict[str, Any], out: Output) -> None:
    """Say how to keep options that hold for this run of an existing corpus alone."""
    run = _run_section(options)
    if run:
        lines = "\n".join(f"    {key} = {value}" for key, value in run.items())
        out.note(
            f"These options hold for this run. To keep them, write them in the section [run] of "
            f"{CONFIG_FILE} (add the section if it is missing):\n{lines}"
        )


def _require_complete(toml: Path, has_options: bool) -> None:
    """Refuse a configuration file that is there already if it and the options do not fit."""
    from recrawl.corpus import CorpusConfig  # noqa: PLC0415

    if has_options:
        raise click.UsageError(
            f"there is already a {toml}, so options for a new corpus have no effect.  Write them "
            "into the file, or remove it."
        )
    if CorpusConfig.from_toml(toml).budget.rate is None:
        raise RecrawlError(
            f"{toml} sets no budget, so this would fetch without a limit. Add "
            f'`[budget]` with `rate = "{DEFAULT_BUDGET}"`, or remove the file.'
        )


def _toml_text(text: str) -> str:
    import json  # noqa: PLC0415

    return json.dumps(text, ensure_ascii=False)


def _toml_texts(texts: Sequence[str]) -> str:
    return "[" + ", ".join(map(_toml_text, texts)) + "]"


def _option_text(folder: CorpusPlace) -> str:
    return "" if folder == Path() else f" -C {folder}"


def _absolute_target(text: str) -> str:
    """Return the text of a sink with an absolute folder, as it means the present folder here."""
    kind, colon, target = text.partition(":")
    return f"{kind}{colon}{Path(target).absolute()}" if kind in _FOLDER_KINDS and target else text


def _open_sinks(folder: Path, targets: Sequence[str], configured: Sequence[str]) -> "list[Sink]":
    """Return the sinks of a run; their folders are relative to that of the corpus."""
    from recrawl.fetch.sinks import open_sink, parse_sink  # noqa: PLC0415

    texts = [_absolute_target(one) for one in targets] or list(configured)
    sinks: list[Sink] = []
    names: set[str] = set()
    for text in texts or ["folder:pages"]:
        kind, settings = parse_sink(text)
        if "folder" in settings:
            settings["folder"] = str(folder / settings["folder"])
        name = kind
        while name in names:
            name = f"{kind}-{len(names) + 1}"
        names.add(name)
        sinks.append(open_sink(kind, settings | ({} if name == kind else {"name": name})))
    return sinks


def _fetch_settings(config: "CorpusConfig", options: dict[str, Any]) -> "FetchSettings":
    from recrawl.fetch import FetchSettings  # noqa: PLC0415

    return FetchSettings(
        contact=options["contact"] or config.run.contact or _DEFAULT_CONTACT,
        name=options["name"] or config.run.name,
        delay_seconds=config.politeness.delay,
        connections_per_host=config.politeness.in_flight_max,
        allow_networks=(*config.run.allow_networks, *options["networks"]),
    )


def _discovery_settings(config: "CorpusConfig", options: dict[str, Any]) -> "DiscoverySettings":
    from recrawl.run.discovery import DiscoverySettings  # noqa: PLC0415

    return DiscoverySettings(follows_links=options["is_discovering"] or config.run.discover)


def _crawl_settings(options: dict[str, Any]) -> "CrawlSettings":
    from recrawl.run import CrawlSettings  # noqa: PLC0415

    if options["for_seconds"] is None:
        return CrawlSettings(is_single_pass=options["is_once"])
    return CrawlSettings(is_single_pass=options["is_once"], for_seconds=options["for_seconds"])


def _make_progress(out: Output, *, at_terminal: bool = False) -> "CrawlProgress":
    from recrawl.run import CrawlProgress  # noqa: PLC0415

    # At a terminal the view says why a run pauses.
    is_seen = sys.stderr.isatty() and not at_terminal
    return CrawlProgress() if is_seen else CrawlProgress(on_note=out.note)


def _make_session(corpus: "Corpus", options: dict[str, Any], out: Output) -> "CrawlSession":
    from recrawl.run.session import CrawlSession  # noqa: PLC0415

    config = corpus.config
    fetch_settings = _fetch_settings(config, options)
    session = CrawlSession(
        corpus,
        fetch_settings,
        _open_sinks(corpus.folder, options["targets"], config.run.to),
        discovery_settings=_discovery_settings(config, options),
        has_browser=options["has_browser"] or config.run.browser,
        progress=_make_progress(out),
    )
    _say_who_fetches(fetch_settings, out)
    return session


def _say_who_fetches(fetch_settings: "FetchSettings", out: Output) -> None:
    out.note(f"Fetching as {fetch_settings.user_agent}.")
    if fetch_settings.contact == _DEFAULT_CONTACT:
        out.note(
            "Sites cannot reach you yet: give --contact with your URL or e-mail address, or set "
            f"contact in the section [run] of {CONFIG_FILE} (add the section if it is missing)."
        )


def _run(
    session: "CrawlSession", urls: Sequence[str], options: dict[str, Any], out: Output
) -> "CrawlSummary":
    return asyncio.run(_crawl(session, urls, _crawl_settings(options), out))


async def _crawl(
    session: "CrawlSession", urls: Sequence[str], settings: "CrawlSettings", out: Output
) -> "CrawlSummary":
    """Crawl, and show how it goes; signals end it."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        if stopping.is_set():
            return
        stopping.set()
        if not sys.stderr.isatty():  # at a terminal the view says it
            out.note("Stopping: fetches that have begun get a few seconds …")
        # The second Ctrl-C ends the process at once, as usual.
        if number == signal.SIGINT:
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, stop, number)
    watching = asyncio.create_task(_show(session, stopping, out))
    try:
        return await session.run(urls, settings, stopping)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _show(session: "CrawlSession", stopping: asyncio.Event, out: Output) -> None:
    """Show the state of a crawl: at a terminal in place, elsewhere a line per minute."""
    from recrawl.run.live_text import FetchRate, live_lines, progress_sentence  # noqa: PLC0415

    started = time.monotonic()
    if not sys.stderr.isatty():
        for at in itertools.chain(
            _FIRST_LINES_SECONDS, itertools.count(_LINE_SECONDS, _LINE_SECONDS)
        ):
            await asyncio.sleep(max(started + at - time.monotonic(), 0.0))
            out.note(progress_sentence(session, time.monotonic() - started))
    rate, n, stats = FetchRate(), 0, None
    with out.live() as show:
        while True:
            if n % _STATS_EVERY == 0:
                stats = await asyncio.to_thread(session.corpus.stats)
            n += 1
            seconds = time.monotonic() - started
            per_second = rate.update(seconds, session.progress.n_fetches)
            lines = live_lines(
                session,
                stats,
                per_second=per_second,
                seconds=seconds,
                is_stopping=stopping.is_set(),
            )
            show(lines)
            await asyncio.sleep(_VIEW_SECONDS)


def _print_summary(
    folder: CorpusPlace, session: "CrawlSession", summary: "CrawlSummary", out: Output
) -> None:
    from recrawl.run.live_text import freshness_sentence, summary_sentences  # noqa: PLC0415

    stats: Stats = session.corpus.stats()
    progress = summary.progress
    out.row(
        {
            "end": summary.end,
            "seconds": summary.seconds,
            "n_fetches": progress.n_fetches,
            "n_bytes": progress.n_bytes,
            "results": {str(name): n for name, n in progress.results.items()},
            "problems": dict(progress.problems),
            "n_found": progress.n_found,
            "n_signals": progress.n_signals,
            "n_versions": progress.n_versions,
            "n_pages": stats.n_pages - session.n_documents,
            "n_documents": session.n_documents,
            "freshness_modelled": stats.freshness_modelled,
        }
    )
    sentences = summary_sentences(session, summary)
    sentences.append(freshness_sentence(session, stats))
    if not out.is_json:
        for sentence in sentences:
            out.say(sentence)
        where = _option_text(folder)
        out.say("Next:")
        steps = [
            (f"recrawl run{where}", "go on"),
            (f"recrawl changes{where}", "new, changed and gone pages"),
            (f"recrawl explain{where} URL", "when a page is fetched next, and why"),
        ]
        width = max(len(line) for line, _ in steps) + 2
        for line, about in steps:
            out.say(f"  {line:{width}}{about}")
    elif not sys.stderr.isatty():
        out.note(" ".join(sentences))


def _print_dry_run(folder: Path, urls: Sequence[str], out: Output) -> None:
    """Print what a run would fetch first, without contacting anything."""
    rows: list[tuple[str, str]] = [(url, "given") for url in urls]
    if is_corpus(folder):
        with open_to_read(folder) as corpus, value_errors_as_usage():
            rows += _due_rows(corpus)
    elif urls:
        out.note(f"{folder} is not a corpus yet; a run creates it.")
    for url, why in rows:
        out.row({"url": url, "why": why})
    if rows:
        out.table(("URL", "why"), rows[:_SHOWN_MAX])
    if len(rows) > _SHOWN_MAX:
        out.say(f"… and {len(rows) - _SHOWN_MAX:,} more.")
    if not rows:
        out.say("Nothing is due now.")
    elif is_corpus(folder):
        out.say(
            "Sitemaps and feeds are read first: they may name further pages and change the order. "
            "Pages of a host wait for one another."
        )
    sites = {urlsplit(url)[:2] for url in urls}
    for scheme, host in sorted(sites):
        out.say(f"Before that, {scheme}://{host}/robots.txt and the sitemaps that it names.")


def _due_rows(corpus: "Corpus") -> list[tuple[str, str]]:
    """Return the pages that are due, those that have waited longest first."""
    now_ms = corpus.now_ms()
    due: list[tuple[int, str, str]] = []
    for batch in corpus.pages(["url", "fetched_at_ms", "due_at_ms", "kind"]):
        for row in batch.to_pylist():
            if row["fetched_at_ms"] is None:
                due.append((1, row["url"], "never fetched"))
            elif row["due_at_ms"] is not None and row["due_at_ms"] > now_ms:
                continue
            elif row["kind"] == _DOCUMENT_KIND:
                due.append((0, row["url"], "sitemap or feed, read first"))
            elif row["due_at_ms"] is not None and row["due_at_ms"] <= now_ms:
                waited = seconds_text((now_ms - row["fetched_at_ms"]) / 1000)
                due.append((row["due_at_ms"], row["url"], f"due; fetched {waited} ago"))
    return [(url, why) for _, url, why in sorted(due)]
