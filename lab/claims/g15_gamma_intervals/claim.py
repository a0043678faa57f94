"""How far the estimators go wrong on pages whose changes come in bursts, or like clockwork."""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.special import gammaincc

from lab.claim import Check, Claim, Kind, Scale, Tables
from lab.drawing import COLOURS, OURS, panels
from lab.paired import standard_error
from lab.tables import Table
from recrawl.core.arrays import FloatArray
from recrawl.papers.change_rate import naive_change_rate, regular_change_rate
from recrawl.sim import change_times

__all__ = ["CLAIM"]

_CROSSING = 1.88


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Pages that change once a second on average, polled every second."""

    shapes: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
    n_polls: int = 2_000
    n_pages: int = 400
    seed: int = 15


SETTINGS = {Scale.QUICK: Settings(n_pages=60), Scale.FULL: Settings()}


def _unchanged_share(shape: FloatArray | float) -> FloatArray:
    """Return the share of polls that find no change, however many are made."""
    # Seen from a poll, the time to the next change has the equilibrium distribution of Gamma(α, α)
    # intervals:  P₀ = ∫₁^∞ P(T > t) dt = E[(T-1)⁺] = Q(α+1, α) - Q(α, α).
    share: FloatArray = gammaincc(np.add(shape, 1.0), shape) - gammaincc(shape, shape)
    return share


def _crossing() -> float:
    """Return the shape at which both estimators are equally wrong."""

    def excess(shape: float) -> float:
        unchanged = float(_unchanged_share(shape))
        return -math.log(unchanged) - 1 - unchanged

    return float(brentq(excess, 1.1, 3.0, xtol=1e-10))


def measure(scale: Scale) -> dict[str, Table]:
    """Return biases in the limit of many polls, and simulated ones with their standard errors."""
    settings = SETTINGS[scale]
    n_polls, n_pages = settings.n_polls, settings.n_pages
    rows: list[dict[str, float]] = []
    for number, shape in enumerate(settings.shapes):
        times = change_times(
            settings.seed + number,
            np.ones(n_pages),
            float(n_polls),
            interval_shape=np.full(n_pages, shape),
        )
        second = np.minimum(times.at.astype(np.int64), n_polls - 1)
        seen = np.unique(times.pages() * n_polls + second)
        n_changed = np.bincount(seen // n_polls, minlength=n_pages)
        naive = naive_change_rate(n_changed, float(n_polls)) - 1
        improved = regular_change_rate(n_polls, n_changed, 1.0) - 1
        limit = float(_unchanged_share(shape))
        rows.append(
            {
                "shape": shape,
                "naive": -limit,
                "improved": -math.log(limit) - 1,
                "naive_simulated": float(naive.mean()),
                "naive_error": standard_error(naive),
                "improved_simulated": float(improved.mean()),
                "improved_error": standard_error(improved),
            }
        )
    curve = np.linspace(0.1, 3.0, 59)
    unchanged = _unchanged_share(curve)
    return {
        "bias": Table.of(rows),
        "curve": Table.of_columns(
            {"shape": curve, "naive": -unchanged, "improved": -np.log(unchanged) - 1}
        ),
        "crossing": Table.of([{"shape": _crossing()}]),
    }


def judge(tables: Tables) -> tuple[Check, ...]:
    """Compare simulation and limit, the numbers at 1 and 2, and the order on both sides of 1.88."""
    bias, curve = tables["bias"], tables["curve"]
    checks = []
    for kind in ("naive", "improved"):
        off = bias.floats(f"{kind}_simulated") - bias.floats(kind)
        worst = float(np.abs(off / bias.floats(f"{kind}_error")).max())
        what = f"{kind}: simulated against the limit, worst shape"
        found = f"{worst:.1f} standard errors"
        checks.append(Check(what=what, found=found, wanted="≤ 4", holds=worst <= 4))
    for shape, kind, wanted, within in (
        (1.0, "naive", -0.37, 0.005),
        (1.0, "improved", 0.0, 0.0005),
        (2.0, "naive", -0.271, 0.0005),
        (2.0, "improved", 0.307, 0.0005),
    ):
        found_bias = bias.value(kind, shape=shape)
        checks.append(
            Check(
                what=f"{kind}: bias at shape {shape:g}",
                found=f"{found_bias:+.4f}",
                wanted=f"{wanted:+.4g} ± {within:g}",
                holds=abs(found_bias - wanted) <= within,
            )
        )
    crossing = tables["crossing"].value("shape")
    checks.append(
        Check(
            what="shape at which both are equally biased",
            found=f"{crossing:.4f}",
            wanted=f"{_CROSSING} ± .005",
            holds=abs(crossing - _CROSSING) <= 0.005,
        )
    )
    is_less = np.abs(curve.floats("improved")) < np.abs(curve.floats("naive"))
    below = curve.floats("shape") < _CROSSING
    as_wanted = bool(np.array_equal(is_less, below))
    checks.append(
        Check(
            what="improved less biased below 1.88, more above",
            found="yes" if as_wanted else "no",
            wanted="yes",
            holds=as_wanted,
        )
    )
    return tuple(checks)


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw both biases by the shape of the intervals."""
    bias, curve = tables["bias"], tables["curve"]
    figure, (panel,) = panels()
    panel.axhline(0.0, color="#888888", lw=1.0)
    for kind, colour in (("naive", COLOURS[0]), ("improved", OURS)):
        panel.plot(curve.floats("shape"), curve.floats(kind), color=colour, label=kind)
        panel.errorbar(
            bias.floats("shape"),
            bias.floats(f"{kind}_simulated"),
            2 * bias.floats(f"{kind}_error"),
            fmt="o",
            color=colour,
            label=f"{kind}, simulated",
        )
    crossing = tables["crossing"].value("shape")
    panel.axvline(crossing, color="#888888", lw=1.0, ls=":")
    panel.text(crossing - 0.03, 0.62, f"equally wrong at {crossing:.2f}", ha="right")
    panel.set_xlabel("shape α of the intervals (1 = Poisson, below: bursts, above: regular)")
    panel.set_ylabel("bias, as a share of the rate")
    panel.set_ylim(-0.9, 0.75)
    panel.legend(loc="lower right")
    return {"": figure}


CLAIM = Claim(
    id="G-15",
    kind=Kind.EQUAL,
    paper="CGM",
    figures="fig. 15",
    title="pages whose intervals are gamma distributed",
    says=(
        "A page that changes once a second on average, with gamma distributed intervals, is polled "
        "every second.  The improved estimator has no bias at shape 1, where the naive one has "
        "37 %, and a consistently smaller one at other shapes."
    ),
    tolerance=(
        "Simulated biases within 4 standard errors of the limit of many polls (20 comparisons: a "
        "false alarm in 800 runs); 37 % and 0 at shape 1; the improved one less biased at every "
        "shape below 1.88, where the two are equal in size, and more above (at 2: +.307 against "
        "-.271)."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    captions={
        "": (
            "Bias by the shape of the intervals: lines in the limit of many polls, dots simulated "
            "with the changes of `recrawl.sim`, 2000 polls of each page, bars of 2 standard errors."
        )
    },
    corrected=(
        'The improved estimator is less biased "consistently" in the paper; it is judged so '
        "up to a shape of 1.88 only, and as more biased above."
    ),
    remark=(
        '"Consistently" holds up to a shape of 1.88 only.  On recorded histories shapes are '
        "mostly below 1, where it holds."
    ),
)
