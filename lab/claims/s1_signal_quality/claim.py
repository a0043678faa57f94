"""How good hosts' signals are: what the simulated web does, beside what the shard learned of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lab.claim import Claim, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.tables import Table
from recrawl.shard import Shard
from recrawl.sim import ShardPolicy, Web, realistic_web, signals_web, simulate

__all__ = ["CLAIM", "HostQuality", "learned_quality", "true_quality"]

Floats = NDArray[np.float64]
Row = Mapping[str, str | float]

_HOUR = 3_600.0
_N_BINS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Webs of one kind, on which a page is fetched every so many hours on average."""

    make: Callable[..., Web]
    n_webs: int
    n_pages: int
    hours: float
    hours_between_fetches: float


Settings = Mapping[str, WebSettings]

_REAL, _ALL = "like the real web", "signals of all qualities"

SETTINGS: Mapping[Scale, Settings] = {
    Scale.QUICK: {
        _REAL: WebSettings(
            make=realistic_web, n_webs=1, n_pages=200, hours=1_440.0, hours_between_fetches=168.0
        ),
        _ALL: WebSettings(
            make=signals_web, n_webs=1, n_pages=100, hours=300.0, hours_between_fetches=100.0
        ),
    },
    Scale.FULL: {
        _REAL: WebSettings(
            make=realistic_web, n_webs=5, n_pages=1_000, hours=8_760.0, hours_between_fetches=168.0
        ),
        _ALL: WebSettings(
            make=signals_web, n_webs=5, n_pages=300, hours=2_000.0, hours_between_fetches=100.0
        ),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostQuality:
    """Precision and recall of each host's signals; nan where nothing shows them."""

    precision: Floats
    recall: Floats


def true_quality(web: Web) -> HostQuality:
    """Return which share of each host's signals were true, and of its changes announced.

    A signal is true if its page changed at the instant that it claims.
    """
    n_hosts = int(web.group.max()) + 1
    signal_page, change_page = web.signals.pages(), web.changes.pages()
    # Page and instant in one number, to be looked up; instants differ by more than a microsecond.
    span = web.horizon + 1.0
    change_key = change_page * span + web.changes.at
    signal_key = signal_page * span + web.signals.claimed_at
    row = np.clip(np.searchsorted(change_key, signal_key - 1e-6), 0, change_key.size - 1)
    is_true = np.abs(change_key[row] - signal_key) < 1e-5
    announced = np.zeros(change_key.size, np.bool_)
    announced[row[is_true]] = True

    def share(host: NDArray[np.int64], flags: NDArray[np.bool_]) -> Floats:
        n = np.bincount(host, minlength=n_hosts)
        n_flagged = np.bincount(host[flags], minlength=n_hosts)
        shares: Floats = np.divide(n_flagged, n, out=np.full(n_hosts, np.nan), where=n > 0)
        return shares

    return HostQuality(
        precision=share(web.group[signal_page], is_true),
        recall=share(web.group[change_page], announced),
    )


def learned_quality(web: Web, shard: Shard) -> HostQuality:
    """Return what a shard thinks of each host's signals, whose pages are its first.

    Precision is learned by host, recall by page: its mean by importance.
    """
    n_hosts = int(web.group.max()) + 1
    precision = np.full(n_hosts, np.nan)
    recall, importance = np.zeros(n_hosts), np.zeros(n_hosts)
    for page in range(web.n_pages):
        known = shard.explain(page)
        if known is None or not known.sources:
            continue
        host = int(web.group[page])
        precision[host] = known.sources[0].precision
        importance[host] += web.importance[page]
        recall[host] += web.importance[page] * known.signal_recall
    mean = np.divide(recall, importance, out=np.full(n_hosts, np.nan), where=importance > 0)
    return HostQuality(precision=precision, recall=mean)


def _histogram_rows(name: str, hosts: list[Row]) -> list[Row]:
    edges = np.linspace(0.0, 1.0, _N_BINS + 1)
    weight = np.array([float(row["importance"]) for row in hosts])
    rows: list[Row] = []
    for quantity in ("precision", "recall"):
        for whose in ("true", "learned"):
            values = np.array([float(row[f"{whose}_{quantity}"]) for row in hosts])
            counts = np.histogram(values, edges, weights=weight)[0] / weight.sum()
            rows += [
                {"web": name, "quantity": quantity, "whose": whose, "from": low, "share": share}
                for low, share in zip(edges[:-1].tolist(), counts.tolist(), strict=True)
            ]
    return rows


def _host_rows(name: str, settings: WebSettings, seed: int) -> list[Row]:
    web = settings.make(seed, n_pages=settings.n_pages, horizon=settings.hours * _HOUR)
    budget = web.n_pages / (settings.hours_between_fetches * _HOUR)
    policy = ShardPolicy(budget=budget)
    n_per_pick = max(1, round(web.n_pages / settings.hours_between_fetches))
    simulate(web, policy, budget, n_per_pick=n_per_pick)
    truth, learned = true_quality(web), learned_quality(web, policy.shard)
    signals = np.bincount(web.group[web.signals.pages()], minlength=truth.precision.size)
    importance = np.bincount(web.group, web.importance)
    # A host that never changed has no recall.
    is_shown = np.isfinite(truth.precision + truth.recall + learned.precision + learned.recall)
    return [
        {
            "web": name,
            "importance": float(importance[host] / importance.sum()),
            "n_signals": int(signals[host]),
            "true_precision": float(truth.precision[host]),
            "true_recall": float(truth.recall[host]),
            "learned_precision": float(learned.precision[host]),
            "learned_recall": float(learned.recall[host]),
        }
        for host in np.flatnonzero(is_shown & (signals > 0)).tolist()
    ]


def measure(scale: Scale) -> dict[str, Table]:
    """Return the quality of every host that signals, and its distribution by importance."""
    rows: list[Row] = []
    bins: list[Row] = []
    for name, settings in SETTINGS[scale].items():
        own = [row for seed in range(settings.n_webs) for row in _host_rows(name, settings, seed)]
        rows += own
        bins += _histogram_rows(name, own)
    return {"hosts": Table.of(rows), "histogram": Table.of(bins)}


def _draw_joint(panel: Axes, hosts: Table, title: str) -> None:
    # The hosts with the most signals; all of them are too many to see.
    shown = np.argsort(-hosts.floats("n_signals"))[:30]
    x, y = hosts.floats("true_precision")[shown], hosts.floats("true_recall")[shown]
    learned_x = hosts.floats("learned_precision")[shown]
    learned_y = hosts.floats("learned_recall")[shown]
    # One line with gaps is a smaller file than many lines.
    gap = np.full(x.size, np.nan)
    joined = (np.stack(ends, axis=1).ravel() for ends in ((x, learned_x, gap), (y, learned_y, gap)))
    panel.plot(*joined, color="#bbbbbb", lw=0.7)
    panel.plot(x, y, "o", color=COLOURS[0], mfc="white", label="true")
    panel.plot(learned_x, learned_y, "o", color=OURS, ms=3, label="learned")
    panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="precision", ylabel="recall")
    panel.set_title(title)
    panel.legend(loc="lower left")


def _draw_histogram(panel: Axes, bins: Table, quantity: str) -> None:
    for whose, colour in (("true", COLOURS[0]), ("learned", OURS)):
        rows = bins.where(quantity=quantity, whose=whose)
        left = np.append(rows.floats("from"), 1.0)
        panel.stairs(rows.floats("share"), left, color=colour, lw=1.7)
    panel.set(xlabel=quantity, ylabel="share of importance", xlim=(0.0, 1.0))
    panel.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0])


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw precision against recall of hosts, and the distribution of both by importance."""
    hosts, histogram = tables["hosts"], tables["histogram"]
    figure, axes = panels(3, 2, height=3.2)
    for row, web in enumerate(hosts.distinct("web")):
        joint, precision, recall = axes[3 * row : 3 * row + 3]
        _draw_joint(joint, hosts.where(web=web), web.capitalize())
        _draw_histogram(precision, histogram.where(web=web), "precision")
        _draw_histogram(recall, histogram.where(web=web), "recall")
    return {"": figure}


CLAIM = Claim(
    id="S-1",
    kind=Kind.FIGURE,
    paper="Signals",
    figures="fig. 1",
    title="how good signals are, per host",
    says=(
        "Histograms, weighted by importance, of the precision and recall of sitemaps' signals: "
        "they are noisy, and very few pages have both above .8."
    ),
    measure=measure,
    draw=draw,
    captions={
        "": (
            "Left, hosts by the precision and recall of their signals (the thirty with the most "
            "signals), each joined with what the shipped shard had learned of it at the end; "
            "middle and right, all hosts that signal, weighted by importance, in the same "
            "colours.  Above, a web with "
            "the traits of recorded histories over a year, on which a page is fetched once a week "
            "on average; below, one whose hosts have signals of all qualities, over 2000 hours, "
            "every 100 hours.  Recall is overrated on pages that change faster than they are "
            "fetched, whose signals explain every change that is seen, and underrated on those of "
            "which little has been seen."
        )
    },
    remark=(
        "The paper's hosts are not public, so the shape of its histograms is not compared.  What "
        "is true is counted from all changes, excursions and site-wide ones too, and so differs "
        "from the web's settings.  Of one's own corpus "
        "`recrawl stats --sources` says how far each source is trusted."
    ),
)
