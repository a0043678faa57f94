"""Make a corpus with a simulated month of history, to look at the dashboard with.

The clock of the corpus starts a month ago and ends at the present, so `recrawl serve` shows the
month as if it had happened.  Hosts are of very unequal size; some fail, one is closed, one is
blocked and some are slow.  A sitemap, a feed and pings signal changes, and one source mostly lies.
"""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import recrawl
from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.corpus import Corpus, CorpusConfig, Outcome
from recrawl.sim.web.signals import SignalSource
from recrawl.sim.web.webs import Web, make_web

__all__ = ["MonthPages", "fill_month", "read_names"]

_HOUR: Final = 3_600.0
_DAY: Final = 86_400.0
_PAGES_PER_CALL: Final = 1 << 17
_HOSTS_MAX: Final = 2_000
_STORIES_MAX: Final = 200
_SHARE_PER_DAY: Final = 0.2
_PARTITIONS: Final = 12
_SOURCES: Final = ("sitemap", "feed", "ping", "partner")
# Share of the pages, changes per day of the median page, and folder of the URLs.
_KINDS: Final = (
    (0.08, 1.0, "news"),
    (0.40, 0.05, "product"),
    (0.12, 0.2, "category"),
    (0.20, 0.02, "article"),
    (0.05, 0.005, "help"),
    (0.15, 0.05, "pages"),
)
_PATTERNS: Final = [
    {"match": "/news/*", "kind": "news", "stale_for": "1d", "stale_probability": 0.5},
    {"match": "/product/*", "kind": "product"},
    {"match": "/category/*", "kind": "category"},
    {"match": "/article/*", "kind": "article"},
    {"match": "/help/*", "kind": "help", "max_age": "30d"},
]
_WORDS: Final = ("green", "quiet", "early", "new", "large", "round", "last", "bright")


class _MonthClock:
    """A clock that a simulation moves."""

    def __init__(self, wall_ms: int) -> None:
        self.at_ms = wall_ms

    def wall_ms(self) -> int:
        return self.at_ms

    def running_ms(self) -> int:
        return self.at_ms

    def sleep(self, seconds: float) -> None:
        self.at_ms += round(1_000 * seconds)


class MonthPages(NamedTuple):
    """Names in the corpus, for whoever opens its pages."""

    host: str
    """Host with the most pages."""
    story: str
    """URL of a page with texts, which has changed."""
    product: str
    """URL of a page without texts."""
    source: str
    n_fetches: int


class _Simulation:
    """A web, and the corpus that tracks it."""

    def __init__(self, corpus: Corpus, clock: _MonthClock, web: Web, urls: pa.StringArray) -> None:
        self.corpus, self.clock, self.web, self.urls = corpus, clock, web, urls
        self.start_ms = clock.at_ms
        self.n_fetches = 0
        self._seen: set[tuple[int, int]] = set()
        self._rng = np.random.default_rng(7)
        self._change_key = web.changes.pages() * web.horizon + web.changes.at
        self._order = np.argsort(web.signals.at, kind="stable")
        self._signal_at = web.signals.at[self._order]
        self._signal_page = web.signals.pages()
        self._n_signalled = 0
        self._is_story = np.zeros(web.n_pages, np.bool_)
        self._is_story[:: max(web.n_pages // _STORIES_MAX, 5)] = True
        # Hosts that fail: one has failed since long, others for some days.
        n_groups = int(web.group.max()) + 1
        self._fails_from = np.full(n_groups, np.inf)
        self._fails_until = np.full(n_groups, np.inf)
        for i, group in enumerate(range(5, n_groups, max(n_groups // 25, 7))):
            self._fails_from[group] = web.horizon * (0.2 + 0.03 * i)
            if i % 4:
                self._fails_until[group] = self._fails_from[group] + 2 * _DAY

    def best_story(self) -> int:
        """Return the page with texts of which the most versions were fetched."""
        pages = Counter(page for page, _ in self._seen)
        return pages.most_common(1)[0][0] if pages else int(np.flatnonzero(self._is_story)[0])

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return (self.clock.at_ms - self.start_ms) / 1_000

    def step(self, seconds: float, n_orders: int) -> None:
        """Let time pass, signal what was announced, and fetch what is due."""
        self.clock.sleep(seconds)
        self._signal()
        table = self.corpus.lease_table(n_orders)
        if table.num_rows:
            self._fetch(table)

    def _signal(self) -> None:
        signals = self.web.signals
        end = int(np.searchsorted(self._signal_at, self.now, side="right"))
        rows = self._order[self._n_signalled : end]
        self._n_signalled = end
        for number, name in enumerate(_SOURCES):
            some = rows[signals.source[rows] == number]
            if some.size:
                self.corpus.signal(
                    self.urls.take(pa.array(self._signal_page[some])),
                    source=name,
                    at_ms=self.start_ms + (1_000 * signals.at[some]).astype(np.int64),
                )

    def _fetch(self, table: pa.Table) -> None:
        number = pc.extract_regex(table["url"], r"-(?P<n>\d+)$").combine_chunks().field("n")
        page: RowArray = np.asarray(number.cast(pa.int64()))
        status, is_forbidden = self._answers(page)
        is_text = self._is_story[page] & (status == 200)
        plain = np.flatnonzero(~is_text)
        handle = np.asarray(table["handle"])
        version = self._versions(page)
        self.n_fetches += page.size
        if plain.size:
            digest = np.column_stack([page[plain], version[plain]]).astype("<i8").tobytes()
            values = [digest[i : i + 16] for i in range(0, len(digest), 16)]
            self.corpus.report(
                pa.table(
                    {
                        "handle": handle[plain],
                        "status": status[plain],
                        "digest": pa.array(values, pa.binary(16)),
                        "disallowed": is_forbidden[plain],
                    }
                )
            )
        if is_text.any():
            self._seen.update(zip(page[is_text].tolist(), version[is_text].tolist(), strict=True))
            self.corpus.report(
                [
                    Outcome(handle=int(handle[i]), text=_story(int(page[i]), int(version[i])))
                    for i in np.flatnonzero(is_text).tolist()
                ]
            )

    def _versions(self, page: RowArray) -> CountArray:
        changes = self.web.changes
        key = page * self.web.horizon + min(self.now, np.nextafter(self.web.horizon, 0.0))
        found: CountArray = np.searchsorted(self._change_key, key) - changes.offsets[page]
        return found

    def _answers(self, page: RowArray) -> tuple[NDArray[np.int16], FlagArray]:
        group, now = self.web.group[page], self.now
        status = np.full(page.size, 200, np.int16)
        status[self._rng.random(page.size) < 0.01] = 503
        is_down = (self._fails_from[group] <= now) & (now < self._fails_until[group])
        status[is_down] = 0
        status[(page % 251 == 3) & (now > self.web.horizon / 2)] = 404
        return status, page % 307 == 5


def _story(page: int, version: int) -> str:
    """Return the text of a page in a version: some passages stay, some change."""
    lines = [
        f"Story {page} about the {_WORDS[page % 8]} harbour, told by the people who live there."
    ]
    for i in range(4):
        edition = version // (i + 1)
        word = _WORDS[(page + edition + i) % 8]
        lines.append(
            f"Passage {i + 1}: in edition {edition} the {word} boats of pier {page % 97} came home "
            f"at {(edition * 7 + i) % 24} o'clock with {100 + edition} boxes of fish."
        )
    return "\n".join(lines)


def _make_web(n_pages: int, horizon: float, seed: int) -> tuple[Web, pa.StringArray]:
    rng = np.random.default_rng(seed)
    n_hosts = max(min(_HOSTS_MAX, n_pages // 20), 2)
    size = 1.0 / np.arange(1, n_hosts + 1)
    group = rng.choice(n_hosts, n_pages, p=size / size.sum())
    kind = rng.choice(len(_KINDS), n_pages, p=[one[0] for one in _KINDS])
    median = np.array([one[1] for one in _KINDS])[kind]
    rate: FloatArray = np.minimum(median * rng.lognormal(0.0, 1.0, n_pages), 24.0) / _DAY
    quality = rng.random((3, n_hosts))
    sources = [
        SignalSource.with_precision(
            change_rate=rate,
            recall=np.where(quality[0] < 0.6, 0.8, 0.0)[group],
            precision=np.where(quality[1] < 0.85, 0.9, 0.05)[group],
            delay_seconds=6 * _HOUR,
        ),
        SignalSource.with_precision(
            change_rate=rate,
            recall=np.where((quality[1] < 0.5)[group] & (kind == 0), 0.9, 0.0),
            precision=np.full(n_pages, 0.97),
            delay_seconds=600.0,
        ),
        SignalSource.with_precision(
            change_rate=rate,
            recall=np.where(quality[2] < 0.2, 0.7, 0.0)[group],
            precision=np.full(n_pages, 0.8),
            delay_seconds=20.0,
        ),
        # Cries all the time, and knows nothing.
        SignalSource(recall=np.zeros(n_pages), false_rate=np.where(group < 12, 0.1 / _DAY, 0.0)),
    ]
    web = make_web(seed, horizon, rate, group=group, kind=kind, sources=sources)
    folders = pa.array([one[2] for one in _KINDS]).take(pa.array(kind))
    names = pa.array(
        [f"www.{_WORDS[i % 8]}{i}.example" if i % 3 else f"site{i}.example" for i in range(n_hosts)]
    ).take(pa.array(group))
    words = pa.array(_WORDS)
    word = [words.take(pa.array(rng.integers(0, 8, n_pages))) for _ in range(2)]
    number = pa.array(np.arange(n_pages)).cast(pa.string())
    paths = pc.binary_join_element_wise(folders, word[0], "/")
    ends = pc.binary_join_element_wise(word[1], number, "-")
    return web, pc.binary_join_element_wise("https:/", names, paths, ends, "/")


def _config_of(n_pages: int, **more: dict[str, Any]) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": _PARTITIONS},
            "budget": {"rate": f"{round(n_pages * _SHARE_PER_DAY)}/day", "burst": "2h"},
            "audit": {"share": 0.02},
            "holdout": {"share": 0.1, "interval": "10d"},
            "content": {"keep_text": True},
            "ledger": {"durability": "os"},
            **more,
            "pattern": _PATTERNS,
        }
    )


def fill_month(
    folder: Path, n_pages: int, *, days: float = 30.0, minutes: float = 1_440.0, seed: int = 1
) -> None:
    """Make a corpus with 12 partitions, and simulate its past.

    Every hour, and at the end every minute, fetches what is due by then.

    Parameters
    ----------
    folder
        Folder of the new corpus.
    n_pages
        Number of tracked pages.
    days
        Length of the past.
    minutes
        Length of its end that is simulated by the minute, which takes most of the time.
    seed
        Random seed of the web.
    """
    clock = _MonthClock(round(1_000 * (time.time() - days * _DAY)))
    web, urls = _make_web(n_pages, days * _DAY + _DAY, seed)
    per_hour = max(round(n_pages * _SHARE_PER_DAY / 24), 1)
    # Much is fetched at one moment of the simulated time.
    hurried = _config_of(
        n_pages,
        politeness={"delay": "1s", "in_flight_max": 10_000, "burst": 3_600},
        snapshots={"every": "10d", "every_records": 10_000_000},
        scrub={"every": "never"},
    )
    with recrawl.open(folder, hurried, clock=clock) as corpus:
        rank = np.random.default_rng(seed).permutation(n_pages) + 1.0
        importance = np.clip((n_pages / rank) ** 0.6 / 20, 0.1, 100.0)
        for first in range(0, n_pages, _PAGES_PER_CALL):
            end = min(first + _PAGES_PER_CALL, n_pages)
            corpus.add(urls[first:end], importance=importance[first:end])
        hosts = [row.host for row in corpus.hosts().rows]
        for name in hosts[2:30:4]:
            corpus.set_host(name, delay=30.0)
        corpus.set_host(hosts[-1], is_closed=True)
        simulation = _Simulation(corpus, clock, web, urls)
        while (left := time.time() - clock.at_ms / 1_000) > 60 * minutes + _HOUR:
            simulation.step(_HOUR, 2 * per_hour)
        corpus.set_host(hosts[-2], blocked_until_ms=clock.at_ms + round(3_000 * _DAY))
        while left > 0:
            simulation.step(60.0, max(per_hour // 30, 1))
            left = time.time() - clock.at_ms / 1_000
    with recrawl.open(folder, _config_of(n_pages)):
        pass  # as somebody would configure it
    product = int(np.flatnonzero(web.kind == 1)[0])
    names = MonthPages(
        hosts[0],
        urls[simulation.best_story()].as_py(),
        urls[product].as_py(),
        _SOURCES[0],
        simulation.n_fetches,
    )
    _names_file(folder).write_text(json.dumps(names._asdict()))


def _names_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-names.json")


def read_names(folder: Path) -> MonthPages:
    """Return what to look for in a corpus that `fill_month` has made.

    Parameters
    ----------
    folder
        Folder of the corpus.
    """
    return MonthPages(**json.loads(_names_file(folder).read_text()))
