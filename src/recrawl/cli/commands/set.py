"""``recrawl set``: change settings of pages, hosts and the budget."""

from typing import TYPE_CHECKING, Any

import click

from recrawl.atomic_files import replace_file
from recrawl.cli.support.corpus_access import (
    CorpusPlace,
    corpus_or_service_option,
    open_to_change,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.input_files import (
    Inputs,
    input_pages,
    inputs_argument,
    key_option,
    split_inputs,
)
from recrawl.cli.support.instants import checked_duration_option, money_option, rate_option
from recrawl.cli.support.output import (
    Output,
    check_none_unavailable,
    count_unavailable,
    output_option,
)
from recrawl.errors import RecrawlError
from recrawl.units import count_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus

__all__ = ["command"]


@example_command(
    "set",
    examples=(
        CommandExample("recrawl set --budget 40/h"),
        CommandExample("recrawl set --pattern '/product/*' --importance 5 --max-age 1d"),
        CommandExample("recrawl set https://example.com/ --kind home"),
        CommandExample("recrawl set --host example.com --delay 5s --in-flight-max 2"),
    ),
)
@inputs_argument
@key_option
@click.option(
    "--pattern", metavar="PATTERN", help="Change all pages whose URL matches, such as '/product/*'."
)
@click.option(
    "--importance",
    type=click.FloatRange(0),
    metavar="X",
    help="Importance of a page, relative to others.",
)
@click.option(
    "--cost", type=click.FloatRange(0), metavar="X", help="Cost of a fetch, relative to others."
)
@click.option(
    "--kind",
    metavar="NAME",
    help="Kind of page.  recrawl learns a typical change rate for each kind.",
)
@click.option(
    "--min-age",
    metavar="TIME",
    callback=checked_duration_option,
    help="Minimum time between two fetches of a page: 10m, 6h, 2d.",
)
@click.option(
    "--max-age",
    metavar="TIME",
    callback=checked_duration_option,
    help="Maximum time between two fetches, as far as the budget allows.",
)
@click.option(
    "--stale-for",
    metavar="TIME",
    callback=checked_duration_option,
    help="Time for which a copy may be outdated (staleness limit).  Needs --stale-probability.",
)
@click.option(
    "--stale-probability",
    type=click.FloatRange(0, 1, max_open=True),
    metavar="P",
    help="Maximum probability that a copy is outdated for longer than --stale-for.",
)
@click.option(
    "--budget",
    metavar="RATE",
    callback=rate_option,
    help="Budget of the corpus: 30/h, 20000/day, 100/run (for each named run) or unlimited.",
)
@click.option(
    "--cost-per-fetch",
    metavar="MONEY",
    callback=money_option,
    help="Price of one fetch, such as '0.0005 EUR', for a --budget in money: '50 EUR/month'.  Both "
    "are written into recrawl.toml.",
)
@click.option(
    "--host",
    metavar="HOST",
    help="Host (or key, if pages are grouped by key) to change with --delay, --in-flight-max, "
    "--burst, --closed, --open, --unlimited or --limited.",
)
@click.option(
    "--delay", metavar="TIME", callback=checked_duration_option, help="Pause between two fetches."
)
@click.option(
    "--in-flight-max",
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of fetches at the same time.",
)
@click.option(
    "--burst",
    type=click.IntRange(1),
    metavar="N",
    help="Number of fetches that may start without a pause.",
)
@click.option(
    "--closed/--open",
    "is_closed",
    default=None,
    help="Fetch nothing from the host, or fetch from it again.",
)
@click.option(
    "--unlimited/--limited",
    "is_unlimited",
    default=None,
    help="Never limit the share of pages that are added to the host, or limit it again.",
)
@corpus_or_service_option
@output_option
def command(
    inputs: tuple[str, ...],
    folder: CorpusPlace,
    out: Output,
    **options: Any,
) -> None:
    """Change settings of pages, of a host, or the budget.

    Name pages by URL, by files of URLs, or by --pattern.  The settings apply to pages that are
    tracked now; for pages added later, write a [[pattern]] into recrawl.toml.  `recrawl explain
    URL` shows the settings of a page and its host.
    """
    given = {name: value for name, value in options.items() if value is not None}
    budget, host = given.pop("budget", None), given.pop("host", None)
    pattern, key = given.pop("pattern", None), given.pop("key", None)
    cost_per_fetch = given.pop("cost_per_fetch", None)
    for_host = {name: given.pop(name) for name in _FOR_HOST if name in given}
    _check_options(inputs, pattern, given, host, for_host, budget)
    if cost_per_fetch is not None:
        if budget is None:
            raise click.UsageError("--cost-per-fetch goes with --budget, such as '50 EUR/month'.")
        _write_money(folder, budget, cost_per_fetch)
    pages = split_inputs(inputs) if given and pattern is None else Inputs([], [])
    with open_to_change(folder, n_bytes_input=pages.n_bytes) as corpus, value_errors_as_usage():
        if budget is not None:
            _set_budget(corpus, folder, budget, out)
        if host is not None:
            _set_host(corpus, host, for_host, out)
        if given:
            n_unavailable = 0
            if pattern is not None:
                n_set = int(corpus.set(pattern=pattern, key=key, **given))
            else:
                n_set = 0
                for urls, keys in input_pages(corpus, pages, key, out):
                    found = corpus.set(urls, **keys, **given)
                    n_set += found
                    n_unavailable += count_unavailable(found.rows)
            out.row({"n_set": n_set, "n_unavailable": n_unavailable, **given})
            out.say(f"Set for {count_text(n_set, 'page')}.")
            check_none_unavailable(
                n_unavailable,
                f"{count_text(n_unavailable, 'page was', 'pages were')} not changed",
                "pages that were changed stay so",
            )


_HOSTS_NAMED_MAX = 3
_FOR_HOST = ("delay", "in_flight_max", "burst", "is_closed", "is_unlimited")


def _check_options(
    inputs: tuple[str, ...],
    pattern: str | None,
    given: dict[str, Any],
    host: str | None,
    for_host: dict[str, Any],
    budget: str | None,
) -> None:
    """Raise a usage error if options are missing that belong together."""
    if (inputs or pattern) and not given:
        pages = ", ".join(inputs[:3]) or pattern
        hint = "  Write a budget without spaces, such as --budget 30/h." if budget else ""
        raise click.UsageError(
            f"nothing to set for {pages}; give --importance, --max-age or another setting.{hint}"
        )
    if given and not (inputs or pattern):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"name the pages that {names} applies to: URLs, or --pattern.")
    if ("stale_for" in given) != ("stale_probability" in given):
        raise click.UsageError("give --stale-for together with --stale-probability.")
    if (host is None) != (not for_host):
        raise click.UsageError(
            "--host goes with --delay, --in-flight-max, --burst, --closed, --open, --unlimited "
            "or --limited."
        )
    if not (given or host or budget):
        raise click.UsageError("nothing to set; give an option, such as --budget 30/h.")


def _set_host(corpus: "Corpus", host: str, settings: dict[str, Any], out: Output) -> None:
    from recrawl.node.config.corpus_config import duration  # noqa: PLC0415

    own = corpus.config.hosts.get(host)
    if own is not None and (
        settings.keys() - {"is_closed", "is_unlimited"}
        or ("is_unlimited" in settings and own.unlimited is not None)
    ):
        raise RecrawlError(
            f'recrawl.toml has a section [hosts."{host}"], which overrides this.\nChange it there.'
        )
    values = dict(settings)
    if "delay" in values:
        values["delay"] = duration(values["delay"])
    corpus.set_host(host, **values)
    n_pages = corpus.n_pages_of_host(host)
    out.row({"host": host, "n_pages": n_pages, **values})
    limited = settings.get("is_unlimited")
    if limited is not None:
        share = "no longer limited" if limited else "limited again"
        out.say(f"The share of the budget for new pages of {host} is {share} ([protection]).")
    if n_pages and settings.keys() != {"is_unlimited"}:
        out.say(f"Set for {host}, {count_text(n_pages, 'page')}.")
    if not n_pages:
        # Searching all host names is slow, so it is done only for an unknown host.
        found = corpus.similar_hosts(host)
        alike = sorted(found, key=lambda name: -found[name])[:_HOSTS_NAMED_MAX]
        meant = f"  Did you mean {' or '.join(alike)}?" if alike else ""
        out.note(f"Set for {host}, which has no pages in this corpus yet.{meant}")


def _write_money(folder: CorpusPlace, rate: str, cost_per_fetch: str) -> None:
    """Write a budget in money into recrawl.toml, from where the corpus reads it."""
    from recrawl.cli.support.corpus_access import is_corpus  # noqa: PLC0415
    from recrawl.cli.support.toml_lines import put_value  # noqa: PLC0415
    from recrawl.node.config.corpus_config import CorpusConfig  # noqa: PLC0415

    if isinstance(folder, str):
        raise click.UsageError("a budget in money is set in recrawl.toml, on the server.")
    if not is_corpus(folder):
        return  # opening it fails with a message
    toml = folder / "recrawl.toml"
    # As bytes, which keeps the line ends of the file.
    text = toml.read_bytes().decode("utf-8") if toml.exists() else ""
    text = put_value(text, "budget", "cost_per_fetch", f'"{cost_per_fetch}"')
    text = put_value(text, "budget", "rate", f'"{rate}"')
    CorpusConfig.from_toml(text)
    with replace_file(toml) as file:
        file.write(text.encode("utf-8"))


def _set_budget(corpus: "Corpus", folder: CorpusPlace, rate: str, out: Output) -> None:
    """Set the budget, and change it in recrawl.toml too if the file sets one."""
    from recrawl.cli.support.toml_lines import replace_value  # noqa: PLC0415
    from recrawl.node.config.corpus_config import CorpusConfig, Rate  # noqa: PLC0415

    wanted = Rate.of(rate)
    toml = None if isinstance(folder, str) else folder / "recrawl.toml"
    where = None
    if toml is not None and toml.exists() and corpus.config.budget.rate is not None:
        # As bytes, which keeps the line ends of the file.
        text = replace_value(toml.read_bytes().decode("utf-8"), "budget", "rate", f'"{rate}"')
        if text is None or CorpusConfig.from_toml(text).budget.rate != wanted:
            raise RecrawlError(f"{toml} sets the budget, which overrides this.\nChange it there.")
        with replace_file(toml) as file:
            file.write(text.encode("utf-8"))
        where = str(toml)
    corpus.set_budget(rate)
    out.row({"budget": str(wanted), "config": where})
    nothing = ": nothing will be fetched" if wanted.amount == 0 else ""
    out.say(
        f"The budget is {wanted.text}{f' (changed in {where}, too)' if where else ''}{nothing}."
    )
