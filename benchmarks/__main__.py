"""Run a measurement by name and print it as JSON: ``python -m benchmarks kernels``."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import get_args

from benchmarks import (
    attacks,
    audit_coverage,
    backtests,
    browser,
    calls,
    cdx_stream,
    cluster,
    cluster_costs,
    cluster_restores,
    cluster_simulation,
    content,
    crash,
    dashboard,
    dashboard_pictures,
    exactness,
    fetch,
    first_minute,
    fragments,
    histories,
    holdout_arms,
    holdout_errors,
    html,
    kernels,
    learning,
    local_web,
    month,
    mutated_bodies,
    mutated_signals,
    node_fragments,
    observe,
    oracle_knowledge,
    partitions,
    peers,
    power,
    price,
    reading,
    resize,
    run_kills,
    samples,
    scale,
    scrapy_days,
    scrapy_rate,
    service,
    shadow_errors,
    shard,
    shard_learning,
    siblings,
    signal_quality,
    soak,
    starts,
    texts,
    throughput,
    worker_kills,
)
from recrawl.sim.faults import run as faults
from recrawl.sim.pages import KINDS


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("kernels", help=kernels.__doc__)
    command.add_argument("--scale", type=float, default=1.0, help="factor for the number of rows")
    command = commands.add_parser("learning", help=learning.__doc__)
    command.add_argument("--webs", type=int, default=3, help="number of webs per setting")
    command.add_argument(
        "--horizon", type=float, default=1.0, help="factor for the length of the runs"
    )
    command = commands.add_parser("fragments", help=fragments.__doc__)
    command.add_argument("--webs", type=int, default=3, help="number of simulated webs")
    command.add_argument("--pages", type=int, default=300, help="number of pages of each web")
    command = commands.add_parser("node-fragments", help=node_fragments.__doc__)
    command.add_argument("--pages", type=int, help="number of pages; default: all")
    command = commands.add_parser("html", help=html.__doc__)
    command.add_argument("collections", nargs="*", default=["genai-eu", "sante-numerique-france"])
    command.add_argument(
        "--changes", type=int, default=100, help="number of text changes of each collection"
    )
    command.add_argument("--whole", action="store_true", help="judge whole histories")
    command.add_argument(
        "--minutes", type=float, default=30.0, help="time after which no other run is begun"
    )
    command.add_argument(
        "--markdown", action="store_true", help="print the tables of the documentation"
    )
    command = commands.add_parser("shard", help=shard.__doc__)
    command.add_argument("--pages", type=float, default=1e6)
    command.add_argument("--groups", type=float, help="number of groups; default: pages / 53")
    command.add_argument("--rate", type=float, help="orders per second; default: pages / 10^5")
    command.add_argument("--ticks", type=int, default=120, help="seconds of virtual time")
    command.add_argument(
        "--mapped", action="store_true", help="keep rarely used columns in mapped files"
    )
    command = commands.add_parser("signal-quality", help=signal_quality.__doc__)
    command.add_argument("--webs", type=int, default=6, help="number of webs per budget")
    command.add_argument("--hosts", type=int, default=40, help="number of hosts per web")
    command.add_argument("--days", type=float, default=400.0, help="length of a run")
    command = commands.add_parser("siblings", help=siblings.__doc__)
    command.add_argument("tracks", nargs="*", default=list(siblings.TRACKS))
    command = commands.add_parser("shard-learning", help=shard_learning.__doc__)
    command.add_argument("--webs", type=int, default=8, help="number of webs per setting")
    command.add_argument("--hours", type=float, default=2_000.0)
    command = commands.add_parser("audit-coverage", help=audit_coverage.__doc__)
    command.add_argument("--webs", type=int, default=2_000, help="number of simulated webs")
    command.add_argument("--seed", type=int, default=0, help="random seed of the first web")
    command = commands.add_parser("attacks", help=attacks.__doc__)
    command.add_argument("--pages", type=int, default=2_000, help="number of pages of the corpus")
    command.add_argument("--webs", type=int, default=1, help="number of webs per attack")
    command = commands.add_parser("exactness", help=exactness.__doc__)
    command.add_argument("--webs", type=int, default=4, help="number of webs per setting")
    command.add_argument(
        "--scale", type=float, default=1.0, help="factor for the length of the runs"
    )
    command = commands.add_parser("faults", help=faults.__doc__)
    command.add_argument("--events", type=int, default=1_000_000)
    command.add_argument("--seed", type=int, default=0)
    command = commands.add_parser("cluster-simulation", help=cluster_simulation.__doc__)
    command.add_argument("--steps", type=int, default=1_000_000)
    command.add_argument("--seed", type=int, default=0, help="seed of the first run")
    command = commands.add_parser("crash", help=crash.__doc__)
    command.add_argument("--kills", type=int, default=200)
    command.add_argument("--ledger", choices=["rocksdb", "kafka"], default="rocksdb")
    command.add_argument(
        "--bootstrap", help="address of a Kafka broker, as scripts/kafka prints it"
    )
    command.add_argument("--seed", type=int, default=0)
    command = commands.add_parser("cluster", help=cluster.__doc__)
    command.add_argument("--faults", type=int, default=30, help="number of faults of each kind")
    command.add_argument("--pages", type=int, default=10_000_000)
    command.add_argument("--partitions", type=int, default=12)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--kinds", nargs="+", choices=cluster.KINDS, default=cluster.KINDS)
    command.add_argument(
        "--explain-above",
        type=float,
        default=cluster.GAP_SECONDS_MAX,
        help="seconds without an owner above which it prints what happened",
    )
    command = commands.add_parser("cluster-costs", help=cluster_costs.__doc__)
    command.add_argument("--pages", type=float, nargs="+", default=[1e6])
    command.add_argument("--partitions", type=int, nargs="+", default=[1, 12, 64, 256])
    command.add_argument("--workers", type=int, nargs="+", default=[1])
    command.add_argument("--outcomes", type=int, default=100_000)
    command = commands.add_parser("cluster-restores", help=cluster_restores.__doc__)
    command.add_argument("--pages", type=float, nargs="+", default=[1e6, 1e7])
    command.add_argument("--partitions", type=int, default=12)
    command = commands.add_parser("run-kills", help=run_kills.__doc__)
    command.add_argument("--kills", type=int, default=50)
    command.add_argument("--seed", type=int, default=0)
    command = commands.add_parser("worker-kills", help=worker_kills.__doc__)
    command.add_argument("--kills", type=int, default=100)
    command.add_argument("--workers", type=int, default=4)
    command.add_argument("--seed", type=int, default=0)
    command = commands.add_parser("power", help=power.__doc__)
    command.add_argument("--cuts", type=int, default=1_000)
    command.add_argument("--seed", type=int, default=0)
    command = commands.add_parser("price", help=price.__doc__)
    command.add_argument("--webs", type=int, default=3, help="number of simulated webs")
    command.add_argument("--pages", type=int, default=6_000, help="number of pages of each web")
    command.add_argument("--days", type=float, default=60.0, help="length of a run")
    command.add_argument(
        "--steps", type=float, default=1e6, help="steps of the cluster that has faults"
    )
    command = commands.add_parser("samples", help=samples.__doc__)
    command.add_argument("--pages", type=int, default=1_000_000)
    command.add_argument("--hosts", type=int, default=20_000)
    command = commands.add_parser("soak", help=soak.__doc__)
    command.add_argument("--minutes", type=float, default=20.0)
    command.add_argument("--pages", type=float, default=5e4)
    command = commands.add_parser("backtests", help=backtests.__doc__)
    command.add_argument("--runs", type=int, default=100, help="number of webs; each has one log")
    command = commands.add_parser("holdout-errors", help=holdout_errors.__doc__)
    command.add_argument("--runs", type=int, default=500, help="number of experiments of a design")
    command = commands.add_parser("holdout-arms", help=holdout_arms.__doc__)
    command.add_argument("--runs", type=int, default=10, help="number of webs of a design")
    command = commands.add_parser("shadow-errors", help=shadow_errors.__doc__)
    command.add_argument("--runs", type=int, default=20, help="number of webs; each has two logs")
    command = commands.add_parser("histories", help=histories.__doc__)
    command.add_argument("--folder", help="folder for the HTML reports")
    command = commands.add_parser("cdx-stream", help=cdx_stream.__doc__)
    command.add_argument("--bytes", type=float, default=1e9, help="size of the file")
    command.add_argument("--odd-share", type=float, default=0.001, help="share of irregular lines")
    command = commands.add_parser("content", help=content.__doc__)
    command.add_argument("--polls", type=float, default=1e5, help="number of polls of all kinds")
    command.add_argument("--kinds", help="names of kinds, separated by commas; default: all")
    command.add_argument("--processes", type=int, default=2, help="number of processes")
    command.add_argument(
        "--markdown", action="store_true", help="print the tables of the documentation"
    )
    command = commands.add_parser("observe", help=observe.__doc__)
    command.add_argument("--pages", type=int, default=10, help="number of pages of each size")
    command = commands.add_parser("fetch", help=fetch.__doc__)
    command.add_argument("--pages", type=int, default=2_000, help="number of pages of each turn")
    command.add_argument("--rounds", type=int, default=5, help="number of turns of each client")
    command.add_argument("--hosts", type=float, default=1e4, help="number of hosts")
    command = commands.add_parser("browser", help=browser.__doc__)
    command.add_argument("--pages", type=int, default=50, help="number of pages of each part")
    command = commands.add_parser("local-web", help=local_web.__doc__)
    command.add_argument("--hosts", type=int, default=200, help="number of hosts")
    command.add_argument("--pages", type=int, default=20_000, help="number of pages")
    command.add_argument("--fetches", type=int, default=5_000, help="number of fetches of the day")
    command = commands.add_parser("month", help=month.__doc__)
    command.add_argument("--hosts", type=int, default=45, help="number of hosts")
    command.add_argument("--pages", type=int, default=1_350, help="number of pages")
    command.add_argument("--days", type=float, default=30.0, help="length of each crawl")
    command.add_argument(
        "--parts", type=int, default=1, help="parts of each crawl that have rows of their own"
    )
    command.add_argument(
        "--days-per-fetch",
        default="10,4,1.5",
        help="budgets: days in which each page can be fetched once, separated by commas",
    )
    command.add_argument(
        "--off", help="parts to switch off at the middle budget, separated by commas; default: all"
    )
    command.add_argument("--seed", type=int, default=0)
    command.add_argument(
        "--without-huge-sitemaps",
        action="store_true",
        help="leave out sitemaps that name 60,000 pages that do not exist",
    )
    command = commands.add_parser("oracle-knowledge", help=oracle_knowledge.__doc__)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument(
        "--days-per-fetch",
        type=float,
        default=4.0,
        help="budget: days in which each page can be fetched once",
    )
    command = commands.add_parser("mutated-bodies", help=mutated_bodies.__doc__)
    command.add_argument("--bodies", type=float, default=1e6, help="number of bodies")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--first", type=int, default=0, help="number of the first body")
    command = commands.add_parser("mutated-signals", help=mutated_signals.__doc__)
    command.add_argument("--inputs", type=float, default=1e6, help="number of inputs")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--first", type=int, default=0, help="number of the first input")
    command = commands.add_parser("scale", help=scale.__doc__)
    command.add_argument("--pages", type=float, default=1e7)
    command.add_argument("--hosts", type=float, help="number of hosts; default: pages / 50")
    command.add_argument(
        "--calls", type=int, default=300, help="number of timed calls for 100 orders"
    )
    command.add_argument("--folder", help="folder of the corpus, which is not deleted")
    command = commands.add_parser("first-minute", help=first_minute.__doc__)
    command.add_argument("--pages", type=float, default=1e7)
    command.add_argument("--hosts", type=float, help="number of hosts; default: pages / 50")
    command.add_argument("--case", choices=get_args(first_minute.Case), default="new")
    command.add_argument(
        "--seconds", type=float, default=60.0, help="time from the opening to the first snapshot"
    )
    command.add_argument("--snapshots", type=int, default=3, help="number of snapshots")
    command.add_argument("--folder", help="folder of the corpus; made if missing, never deleted")
    command = commands.add_parser("scrapy-days", help=scrapy_days.__doc__)
    command.add_argument("--items", type=int, default=2_000, help="item pages at the start")
    command.add_argument("--days", type=int, default=60, help="number of daily crawls")
    command.add_argument(
        "--plain-days",
        type=int,
        default=5,
        help="daily crawls without the add-on; the others follow from the truth",
    )
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--markdown", action="store_true", help="print a table")
    command = commands.add_parser("scrapy-rate", help=scrapy_rate.__doc__)
    command.add_argument("--pages", type=int, default=2_000, help="number of pages of each crawl")
    command.add_argument("--rounds", type=int, default=5, help="number of crawls of each variant")
    command.add_argument(
        "--known", type=float, default=1e6, help="known pages for the memory; 0: no memory"
    )
    command.add_argument(
        "--listing", action="store_true", help="let the first page lead to all others"
    )
    command.add_argument("--profile", action="store_true", help="also profile a crawl")
    command = commands.add_parser("reading", help=reading.__doc__)
    command.add_argument("--pages", type=float, default=1e7)
    command.add_argument("--hosts", type=float, help="number of hosts; default: pages / 2000")
    command.add_argument(
        "--rows", type=float, default=2e5, help="number of outcomes after the snapshot"
    )
    command.add_argument("--folder", help="folder of the corpus; made if missing, never deleted")
    command = commands.add_parser("dashboard", help=dashboard.__doc__)
    command.add_argument("--pages", type=float, default=1e7)
    command.add_argument("--seconds", type=float, default=20.0, help="length of each period")
    command.add_argument("--periods", type=int, default=8)
    command.add_argument("--viewers", type=int, default=3)
    command = commands.add_parser("dashboard-pictures", help=dashboard_pictures.__doc__)
    command.add_argument("output", type=Path, help="folder for the pictures")
    command.add_argument("--pages", type=float, default=1e6)
    command.add_argument("--days", type=float, default=30.0, help="length of the simulated past")
    command.add_argument(
        "--minutes", type=float, default=1_440.0, help="part of it that is simulated by the minute"
    )
    command.add_argument(
        "--folder", type=Path, help="folder of the corpus; made if missing, never deleted"
    )
    command.add_argument("--axe", type=Path, help="axe.min.js of the npm package axe-core")
    command = commands.add_parser("service", help=service.__doc__)
    command.add_argument("--pages", type=float, default=1e6)
    command.add_argument("--bodies", type=float, default=1e5, help="number of mutated bodies")
    command.add_argument("--output", type=Path, help="CSV file for the figures that we quote")
    command = commands.add_parser("calls", help=calls.__doc__)
    command.add_argument("--pages", type=float, default=1e6)
    command = commands.add_parser("starts", help=starts.__doc__)
    command.add_argument("commands", nargs="*", help="names of commands; default: all")
    command.add_argument("--pages", type=int, default=1_000, help="number of pages of the corpus")
    command.add_argument("--warm", type=int, default=3, help="number of warm starts")
    command.add_argument("--compiled", action="store_true", help="compile the kernels")
    command = commands.add_parser("texts", help=texts.__doc__)
    command.add_argument("--pages", type=float, default=1e5, help="pages with made observations")
    command.add_argument(
        "--polls", type=float, default=5e3, help="simulated bodies; 0: only pages with observations"
    )
    command.add_argument("--rounds", type=int, default=4, help="reports of each page")
    command.add_argument("--folder", help="folder that holds the corpora meanwhile")
    command.add_argument(
        "--minutes", type=float, default=float("inf"), help="report no more pages after this time"
    )
    command = commands.add_parser("partitions", help=partitions.__doc__)
    command.add_argument(
        "--bootstrap", required=True, help="address of a Kafka broker, as scripts/kafka prints it"
    )
    command.add_argument(
        "--partitions", default="1,16,256", help="numbers of partitions, with commas between"
    )
    command.add_argument("--pages", type=float, default=1e5, help="number of pages")
    command = commands.add_parser("resize", help=resize.__doc__)
    command.add_argument("--pages", type=float, default=1e6)
    command.add_argument("--partitions", type=int, nargs=2, default=(12, 16))
    command.add_argument("--fetched", type=float, default=0.9, help="share of pages with a fetch")
    command.add_argument(
        "--rate", type=float, default=200.0, help="reports per second meanwhile; 0: none"
    )
    command = commands.add_parser("peers", help=peers.__doc__)
    command.add_argument("--pages", type=float, default=1e6)
    command.add_argument("--rounds", type=int, default=3, help="number of runs of each case")
    command.add_argument("--seconds", type=float, default=3.0, help="length of a run")
    command = commands.add_parser("throughput", help=throughput.__doc__)
    command.add_argument("--rows", type=float, default=2e5)
    command.add_argument("--batch", type=int, default=1_000)
    command.add_argument("--ledger", choices=["rocksdb", "kafka"], default="rocksdb")
    command.add_argument(
        "--bootstrap", help="address of a Kafka broker, as scripts/kafka prints it"
    )
    return parser


def _run_measurement(arguments: argparse.Namespace) -> object:  # noqa: PLR0911 (one return per command)
    match arguments.command:
        case "kernels":
            return kernels.measure(arguments.scale)
        case "learning":
            return learning.measure(arguments.webs, arguments.horizon)
        case "fragments":
            return fragments.measure(arguments.webs, arguments.pages)
        case "node-fragments":
            return node_fragments.measure(arguments.pages)
        case "html":
            found = html.measure(
                arguments.collections,
                arguments.changes,
                whole=arguments.whole,
                minutes=arguments.minutes,
            )
            is_table = arguments.markdown and not isinstance(found, str)
            return html.as_markdown(found) if is_table else found
        case "shard":
            return shard.measure(
                int(arguments.pages),
                int(arguments.groups or max(arguments.pages / 53, 1)),
                arguments.rate or arguments.pages / 1e5,
                ticks=arguments.ticks,
                mapped=arguments.mapped,
            )
        case "signal-quality":
            return signal_quality.measure(arguments.webs, arguments.hosts, days=arguments.days)
        case "siblings":
            return siblings.measure(tuple(arguments.tracks))
        case "shard-learning":
            return shard_learning.measure(arguments.webs, arguments.hours)
        case "audit-coverage":
            return audit_coverage.measure(arguments.webs, arguments.seed)
        case "attacks":
            return attacks.measure(arguments.pages, arguments.webs)
        case "exactness":
            return exactness.measure(arguments.webs, arguments.scale)
        case "crash":
            return crash.measure(
                arguments.kills,
                arguments.ledger,
                bootstrap=arguments.bootstrap,
                seed=arguments.seed,
            )
        case "cluster":
            return cluster.measure(
                n_faults=arguments.faults,
                n_pages=arguments.pages,
                n_partitions=arguments.partitions,
                seed=arguments.seed,
                kinds=arguments.kinds,
                explain_above=arguments.explain_above,
            )
        case "cluster-costs":
            return cluster_costs.measure(
                pages=[int(n) for n in arguments.pages],
                partitions=arguments.partitions,
                workers=arguments.workers,
                n_outcomes=arguments.outcomes,
            )
        case "cluster-restores":
            return cluster_restores.measure(
                pages=[int(n) for n in arguments.pages], n_partitions=arguments.partitions
            )
        case "cluster-simulation":
            return cluster_simulation.measure(arguments.steps, seed=arguments.seed)
        case "run-kills":
            return run_kills.measure(arguments.kills, seed=arguments.seed)
        case "worker-kills":
            return worker_kills.measure(
                arguments.kills, n_workers=arguments.workers, seed=arguments.seed
            )
        case "power":
            return power.measure(arguments.cuts, seed=arguments.seed)
        case "samples":
            return samples.measure(arguments.pages, arguments.hosts)
        case "price":
            return price.measure(
                arguments.webs,
                n_pages=arguments.pages,
                days=arguments.days,
                n_steps=int(arguments.steps),
            )
        case "soak":
            return soak.measure(arguments.minutes, n_pages=int(arguments.pages))
        case "backtests":
            return backtests.measure(arguments.runs)
        case "holdout-errors":
            return holdout_errors.measure(arguments.runs)
        case "holdout-arms":
            return holdout_arms.measure(arguments.runs)
        case "shadow-errors":
            return shadow_errors.measure(arguments.runs)
        case "histories":
            return histories.measure(arguments.folder)
        case "cdx-stream":
            return cdx_stream.measure(int(arguments.bytes), arguments.odd_share)
        case "content":
            found = content.measure(
                arguments.polls,
                kinds=arguments.kinds.split(",") if arguments.kinds else tuple(KINDS),
                n_processes=arguments.processes,
            )
            return content.as_markdown(found) if arguments.markdown else found
        case "observe":
            return observe.measure(arguments.pages)
        case "fetch":
            return fetch.measure(arguments.pages, arguments.rounds, int(arguments.hosts))
        case "local-web":
            return local_web.measure(arguments.hosts, arguments.pages, arguments.fetches)
        case "month":
            return month.measure(
                arguments.hosts,
                arguments.pages,
                arguments.days,
                [float(days) for days in arguments.days_per_fetch.split(",")],
                month.SWITCHES if arguments.off is None else month.parse_switches(arguments.off),
                arguments.seed,
                n_parts=arguments.parts,
                has_huge_sitemaps=not arguments.without_huge_sitemaps,
                on_row=lambda row: print(json.dumps(row), file=sys.stderr, flush=True),
            )
        case "oracle-knowledge":
            return oracle_knowledge.measure(
                days_per_fetch=arguments.days_per_fetch, seed=arguments.seed
            )
        case "mutated-bodies":
            return mutated_bodies.measure(
                int(arguments.bodies), seed=arguments.seed, first=arguments.first
            )
        case "browser":
            return browser.measure(arguments.pages)
        case "mutated-signals":
            return mutated_signals.measure(
                int(arguments.inputs), seed=arguments.seed, first=arguments.first
            )
        case "scale":
            return scale.measure(
                int(arguments.pages),
                int(arguments.hosts or max(arguments.pages / 50, 1)),
                n_calls=arguments.calls,
                folder=arguments.folder,
            )
        case "first-minute":
            return first_minute.measure(
                int(arguments.pages),
                int(arguments.hosts or max(arguments.pages / 50, 1)),
                case=arguments.case,
                seconds=arguments.seconds,
                n_snapshots=arguments.snapshots,
                folder=arguments.folder,
            )
        case "scrapy-days":
            rows = scrapy_days.measure(
                arguments.items,
                arguments.days,
                n_plain_days=arguments.plain_days,
                seed=arguments.seed,
                on_row=lambda row: print(json.dumps(row), file=sys.stderr, flush=True),
            )
            return scrapy_days.as_markdown(rows) if arguments.markdown else rows
        case "scrapy-rate":
            return scrapy_rate.measure(
                arguments.pages,
                arguments.rounds,
                n_known=int(arguments.known),
                has_listing=arguments.listing,
                is_profiled=arguments.profile,
            )
        case "reading":
            return reading.measure(
                int(arguments.pages),
                int(arguments.hosts or max(arguments.pages / 2000, 1)),
                n_rows=int(arguments.rows),
                folder=arguments.folder,
            )
        case "dashboard":
            return dashboard.measure(
                int(arguments.pages),
                seconds=arguments.seconds,
                n_periods=arguments.periods,
                n_viewers=arguments.viewers,
            )
        case "dashboard-pictures":
            return dashboard_pictures.measure(
                int(arguments.pages),
                arguments.output,
                days=arguments.days,
                minutes=arguments.minutes,
                folder=arguments.folder,
                axe=arguments.axe,
            )
        case "service":
            return service.measure(int(arguments.pages), int(arguments.bodies), arguments.output)
        case "calls":
            return calls.measure(int(arguments.pages))
        case "starts":
            return starts.measure(
                arguments.commands,
                n_pages=arguments.pages,
                n_warm=arguments.warm,
                is_compiled=arguments.compiled,
            )
        case "texts":
            return texts.measure(
                int(arguments.pages),
                int(arguments.polls),
                n_rounds=arguments.rounds,
                inside=arguments.folder,
                minutes_max=arguments.minutes,
            )
        case "partitions":
            return partitions.measure(
                arguments.bootstrap,
                [int(n) for n in arguments.partitions.split(",")],
                int(arguments.pages),
            )
        case "resize":
            return resize.measure(
                n_pages=int(arguments.pages),
                partitions=tuple(arguments.partitions),
                fetched=arguments.fetched,
                rate=arguments.rate,
            )
        case "peers":
            n_pages = int(arguments.pages)
            compared = peers.measure(n_pages, n_rounds=arguments.rounds, seconds=arguments.seconds)
            return compared | {"slow_sync": peers.measure_slow_sync(n_pages)}
        case "throughput":
            return throughput.measure(
                int(arguments.rows),
                arguments.batch,
                arguments.ledger,
                bootstrap=arguments.bootstrap,
            )
        case _:
            return dataclasses.asdict(faults.run_faults(arguments.seed, arguments.events))


def main() -> None:
    """Run the measurement that the command line names, and print it as JSON."""
    result = _run_measurement(_argument_parser().parse_args())
    if isinstance(result, str):
        print(result)
    else:
        print(json.dumps(result, indent=2, default=dataclasses.asdict))


if __name__ == "__main__":
    main()
