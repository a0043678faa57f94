"""Prior fig. 1: polls see at most one change each, so slow polls make pages look slow."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from lab.claim import Claim, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.policies.loop_runs import fixed_log
from lab.tables import Cell, Table
from recrawl.papers.change_rate import naive_change_rate, regular_change_rate
from recrawl.sim import make_web

__all__ = ["CLAIM", "SETTINGS", "Settings", "draw", "measure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One page; times are in units of the shortest polling interval, C."""

    change_rate: float = 0.9
    intervals: tuple[float, ...] = (1.0, 2.0, 4.0)
    horizon: float = 24.0
    seed: int = 4


SETTINGS = {Scale.QUICK: Settings(), Scale.FULL: Settings()}


def measure(scale: Scale) -> Tables:
    """Return the changes of one page, what polls saw of them, and what they estimate."""
    settings = SETTINGS[scale]
    web = make_web(settings.seed, settings.horizon, [settings.change_rate])
    instants: list[dict[str, Cell]] = [
        {"every": 0.0, "at": float(at), "saw_a_change": True} for at in web.changes.at
    ]
    estimates: list[dict[str, Cell]] = []
    for interval in settings.intervals:
        log = fixed_log(web, interval)
        polls = log.is_fetch
        instants += [
            {"every": interval, "at": float(at), "saw_a_change": bool(changed)}
            for at, changed in zip(log.ended_at[polls], log.changed[polls], strict=True)
        ]
        n_polls, n_seen = int(polls.sum()), int(log.changed[polls].sum())
        estimates.append(
            {
                "every": interval,
                "n_polls": n_polls,
                "n_seen": n_seen,
                "n_changes": int(web.changes.at.size),
                "naive": float(naive_change_rate(n_seen, n_polls * interval)),
                "improved": float(regular_change_rate(n_polls, n_seen, interval)),
                "complete": web.changes.at.size / settings.horizon,
            }
        )
    return {"instants": Table.of(instants), "estimates": Table.of(estimates)}


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw the history over its polls."""
    figure, (panel,) = panels(width=8.4, height=3.0)
    instants, estimates = tables["instants"], tables["estimates"]
    labels = []
    names = instants.distinct("every")
    for height, every in zip(range(len(names))[::-1], names, strict=True):
        rows = instants.where(every=every)
        at = rows.floats("at")
        panel.axhline(height, color="#bbbbbb", linewidth=0.8, zorder=0)
        if float(every) == 0:
            panel.plot(at, np.full(at.size, height), "o", color=COLOURS[0])
            complete = float(estimates.floats("complete")[0])
            labels.append(f"{at.size} changes\n{complete:.2f} per C")
            continue
        saw = np.array([text == "yes" for text in rows.texts("saw_a_change")])
        panel.plot(at[saw], np.full(int(saw.sum()), height), "D", color=OURS)
        empty = np.full(int((~saw).sum()), height)
        panel.plot(at[~saw], empty, "D", color=OURS, fillstyle="none")
        name = "C" if float(every) == 1 else f"{float(every):g}C"
        naive, improved = (estimates.value(kind, every=every) for kind in ("naive", "improved"))
        labels.append(
            f"every {name}: {int(saw.sum())} seen\nnaive {naive:.2f}, improved {improved:.2f}"
        )
    panel.set_yticks(range(len(names))[::-1], labels)
    panel.set(xlabel="time, in C", ylim=(-0.6, len(names) - 0.4))
    panel.set(title="One history at three polling rates")
    panel.grid(visible=False)
    return {"": figure}


CLAIM = Claim(
    id="P-1",
    kind=Kind.FIGURE,
    paper="Prior",
    figures="fig. 1",
    title="what censoring hides: one history at three polling rates",
    says=(
        "A poll shows whether a page changed since the last one, not how often: the slower the "
        "polls, the fewer of its changes are seen, and the naive estimate (changes seen over "
        "time) falls short."
    ),
    measure=measure,
    draw=draw,
    captions={
        "": (
            "Changes of one page (circles) and polls that found a change (filled) or none. "
            "Beside them the changes per C that polls suggest, naively and by CGM's improved "
            "estimate, which falls less short; where every poll finds a change it can say only "
            "that there are many."
        )
    },
)
