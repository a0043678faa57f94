"""What a shard that learns is compared with: itself with one part of its learning left out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.belief.population import refit_from_beliefs
from recrawl.node.shipped_due_table import shipped_due_table
from recrawl.shard import ShardSettings, SourcesSet, event_of
from recrawl.sim import (
    Drift,
    KnownPages,
    Oracle,
    Policy,
    ShardPolicy,
    SignalSource,
    Times,
    Web,
    WebSignals,
    emit_signals,
    make_web,
    papers_web,
    signals_web,
    unlimited_settings,
)

__all__ = ["LEVELS", "WEBS", "Level", "WebKind"]

HOUR = 3_600.0
DAY = 86_400.0
# Share of the time after which sources turn, in the webs whose sources do.
_TURNS_AFTER = 0.25
# How many false signals a source that lies tells for each one it told before.
_LIES_PER_SIGNAL = 10.0
# As `recrawl.sim.ShardPolicy` numbers the sources of a group.
_SOURCES_PER_GROUP = 8


# ---- webs


@dataclass(frozen=True, slots=True, kw_only=True)
class WebKind:
    """A kind of webs, of which there is one for each seed; ``make`` takes it and the horizon."""

    title: str
    make: Callable[[int, float], Web]
    oracle_knows: str
    """What the oracle knows of it; empty where it would be misled."""


def _plain(seed: int, horizon: float) -> Web:
    return papers_web(seed, horizon=horizon)


def _drifting(seed: int, horizon: float) -> Web:
    like = papers_web(seed, horizon=horizon)
    return make_web(
        seed, horizon, like.change_rate, importance=like.importance, modulations=[Drift()]
    )


def _bursty(seed: int, horizon: float) -> Web:
    like = papers_web(seed, horizon=horizon)
    bursts = Drift(sigma=1.5, seconds=3 * DAY)
    return make_web(
        seed, horizon, like.change_rate, importance=like.importance, modulations=[bursts]
    )


def _signalled(seed: int, horizon: float) -> Web:
    return signals_web(seed, horizon=horizon)


def _turns(web: Web) -> FlagArray:
    """Return which signals are of a source that turns, after it did."""
    page = web.signals.pages()
    is_late = web.signals.at >= _TURNS_AFTER * web.horizon
    return np.asarray((web.group[page] % 2 == 0) & is_late)


def _silenced(seed: int, horizon: float) -> Web:
    web = signals_web(seed, horizon=horizon)
    return web._replace(signals=_sorted_signals(web, ~_turns(web), None))


def _lying(seed: int, horizon: float) -> Web:
    web = signals_web(seed, horizon=horizon)
    rate = (web.recall * web.change_rate[:, np.newaxis] + web.false_rate)[:, 0]
    # Another seed than the web's, whose false signals these would repeat otherwise.
    lies = emit_signals(
        seed + 1_000,
        Times.none(web.n_pages),
        [SignalSource(recall=0.0, false_rate=_LIES_PER_SIGNAL * rate)],
        horizon,
    )
    lying = web._replace(signals=lies)
    lies = _sorted_signals(lying, _turns(lying), None)
    return web._replace(signals=_sorted_signals(web, np.ones(web.signals.at.size, np.bool_), lies))


def _sorted_signals(web: Web, kept: FlagArray, more: WebSignals | None) -> WebSignals:
    """Return some of a web's signals, and more, page by page in order of time."""
    parts = [(web.signals.pages()[kept], web.signals.at[kept], web.signals.claimed_at[kept])]
    if more is not None:
        parts.append((more.pages(), more.at, more.claimed_at))
    page, at, claimed_at = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((at, page))
    counts = np.bincount(page, minlength=web.n_pages)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return WebSignals(offsets, at[order], claimed_at[order], np.zeros(page.size, np.int64))


WEBS = {
    "plain": WebKind(title="no signals", make=_plain, oracle_knows="every rate"),
    "drifting": WebKind(
        title="no signals, rates drift", make=_drifting, oracle_knows="every page's mean rate"
    ),
    "bursty": WebKind(title="no signals, changes come in bursts", make=_bursty, oracle_knows=""),
    "signalled": WebKind(
        title="signals", make=_signalled, oracle_knows="every rate, recall and precision"
    ),
    "silenced": WebKind(
        title="signals, of which half fall silent", make=_silenced, oracle_knows=""
    ),
    "lying": WebKind(title="signals, of which half begin to lie", make=_lying, oracle_knows=""),
}
"""Kinds of webs by the name they have in tables."""


# ---- policies


class _FixedPrior(ShardPolicy):
    """A shard whose owner never asks what the corpus shows of itself."""

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin, with priors that stay as they are."""
        super().start(pages, at)
        # Nothing but the owner's asking moves a prior, so there is no setting to leave it out.
        self.shard.learn_priors = lambda: None  # type: ignore[method-assign]


class _Deaf(ShardPolicy):
    """A shard that is told of no signals."""

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Keep them from the shard."""


class _ToldPrecision(ShardPolicy):
    """A shard that is told how far each source can be trusted."""

    def __init__(self, settings: ShardSettings, web: Web) -> None:
        super().__init__(settings, due_table=shipped_due_table())
        true_rate = web.recall[:, 0] * web.change_rate
        rate = true_rate + web.false_rate[:, 0]
        n_groups = int(web.group.max()) + 1
        true = np.bincount(web.group, true_rate, minlength=n_groups)
        total = np.bincount(web.group, rate, minlength=n_groups)
        self._signalling = np.flatnonzero(total > 0)
        self._precision = true[self._signalling] / total[self._signalling]

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin, with every source's precision."""
        super().start(pages, at)
        told = event_of(
            SourcesSet,
            source=self._signalling * _SOURCES_PER_GROUP,
            precision=self._precision,
            delay_seconds=np.nan,
        )
        self.shard.apply(told)


def _shard(settings: ShardSettings, kind: type[ShardPolicy] = ShardPolicy) -> Policy:
    return kind(unlimited_settings(settings), due_table=shipped_due_table())


def _told_prior(web: Web) -> Policy:
    """Return the shard that begins with the Gamma prior nearest to the true rates."""
    certain = GammaBelief(np.full(web.n_pages, 1e6), 1e6 / web.change_rate)
    prior = refit_from_beliefs(certain)
    shape, seconds = float(prior.shape), float(prior.seconds)
    settings = ShardSettings(
        learning="bonus", learning_bonus=0.0, prior_shape=shape, prior_period=seconds / shape
    )
    return _shard(settings, _FixedPrior)


_UNTAUGHT: dict[str, Any] = {"learning": "bonus", "learning_bonus": 0.0}
_FOREVER: dict[str, Any] = {"belief_half_life": np.inf, "memory_changes_max": np.inf}
# Cost's pseudo-observations, changed after 1 h and unchanged after 57 h, are near this Gamma.
_COSTS_PRIOR: dict[str, Any] = {"prior_shape": 2.0, "prior_period": 57.5 * HOUR / 2.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One way to learn, ``title`` in a few words; ``make`` returns its policy for a web."""

    title: str
    make: Callable[[Web], Policy]


def _set(title: str, kind: type[ShardPolicy] = ShardPolicy, **settings: Any) -> Level:
    chosen = ShardSettings(**settings)
    return Level(title=title, make=lambda _: _shard(chosen, kind))


LEVELS = {
    "oracle": Level(title="oracle", make=Oracle),
    "plug-in": _set("plug-in value, fixed prior", _FixedPrior, estimator="plug_in"),
    "plug-in, pooled": _set("plug-in value, pooled prior", estimator="plug_in"),
    "averaged": _set("averaged value, fixed prior", _FixedPrior, **_UNTAUGHT),
    "averaged, Cost's prior": _set(
        "averaged value, Cost's prior, fixed", _FixedPrior, **_UNTAUGHT, **_COSTS_PRIOR
    ),
    "averaged, told prior": Level(title="averaged value, prior told", make=_told_prior),
    "averaged, pooled": _set("averaged value, pooled prior", **_UNTAUGHT),
    "bonus": _set("averaged, pooled, bonus for learning", learning="bonus"),
    "shipped": _set("as shipped"),
    "signals ignored": _set("signals ignored", _Deaf),
    "signals half believed": _set(
        "every source half believed", signal_precision=0.5, signal_precision_weight=1e12
    ),
    "signals told": Level(
        title="precision told", make=lambda web: _ToldPrecision(unlimited_settings(), web)
    ),
    "sources last": _set("sources forget after 4000 signals", signal_evidence_max=4_000.0),
    "never forgets": _set("never forgets", **_FOREVER),
    "half-life 60 d": _set("half-life 60 days", **(_FOREVER | {"belief_half_life": 60 * DAY})),
    "half-life 14 d": _set("half-life 14 days", **(_FOREVER | {"belief_half_life": 14 * DAY})),
    "memory fixed": _set(
        "memory not learned", memory_changes_min=ShardSettings().memory_changes_max
    ),
    "audits 2 %": _set("audits 2 % of fetches", audit_share=0.02),
    "audits 10 %": _set("audits 10 % of fetches", audit_share=0.10),
}
"""Ways to learn by the name they have in tables; those from settings alone are shipped code."""
