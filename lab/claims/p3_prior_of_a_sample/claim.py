"""Prior §4.2 to §4.4: rates of a sample, a prior made of them, and two polls that stand for it."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from lab.change_days import TRACES
from lab.claim import Claim, Kind, Scale, Tables
from lab.claims.p3_prior_of_a_sample.sample import sampled_periods
from lab.drawing import COLOURS, OURS, panels
from lab.tables import Cell, Table
from recrawl.core.arrays import FloatArray
from recrawl.core.belief import rate_likelihoods
from recrawl.papers.change_rate import PseudoObservations, fit_pseudo_observations

__all__ = ["CLAIM", "SETTINGS", "Settings", "draw", "measure"]

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of the figures; the interval is Prior's best first one."""

    n_pages: int = 10_000
    interval_days: float = 11.0
    n_unchanged: tuple[int, ...] = (1, 2, 5, 10)
    bin_days: int = 5
    days_max: int = 160


SETTINGS = {Scale.QUICK: Settings(n_pages=2_000), Scale.FULL: Settings()}


def _histogram(periods: FloatArray, settings: Settings) -> Table:
    edges = np.arange(0, settings.days_max + 1, settings.bin_days)
    counts = np.histogram(periods, edges)[0]
    logs = np.histogram(np.log10(periods), np.arange(-1.0, 3.01, 0.1))[0]
    rows: list[dict[str, Cell]] = [
        {"axis": "days", "from": float(start), "n_pages": int(n), "share": n / periods.size}
        for start, n in zip(edges[:-1], counts, strict=True)
    ]
    rows += [
        {"axis": "log10 days", "from": float(start), "n_pages": int(n), "share": n / periods.size}
        for start, n in zip(np.arange(-1.0, 2.99, 0.1), logs, strict=True)
    ]
    return Table.of(rows)


def _posteriors(periods: FloatArray, settings: Settings) -> Table:
    """Return likelihood and posterior over periods after polls that found no change."""
    # The discretised prior of the paper: the sample's share of every hour.
    hours = np.arange(1, settings.days_max * 24 + 1)
    mass = np.histogram(periods * 24, np.arange(0.5, hours.size + 1))[0] / periods.size
    cases = (0, *settings.n_unchanged)
    page = np.repeat(np.arange(len(cases)), cases)
    log_likelihood = rate_likelihoods(
        page,
        np.full(page.size, settings.interval_days * DAY),
        np.zeros(page.size, np.bool_),
        len(cases),
        1 / (hours * 3_600.0),
    )
    likelihood = np.exp(log_likelihood)
    posterior = mass * likelihood
    posterior /= posterior.sum(axis=1, keepdims=True)
    per_bin = 24 * settings.bin_days
    binned = posterior.reshape(len(cases), -1, per_bin).sum(axis=2)
    middle = likelihood.reshape(len(cases), -1, per_bin)[:, :, per_bin // 2]
    return Table.of(
        {
            "n_unchanged": n,
            "from_days": k * settings.bin_days,
            "likelihood": float(middle[case, k]),
            "posterior": float(binned[case, k]),
        }
        for case, n in enumerate(cases)
        for k in range(binned.shape[1])
    )


def _density(pseudo: PseudoObservations, days: FloatArray) -> FloatArray:
    """Return the density of the period, per day, that a pair stands for."""
    rate = 1 / (days * DAY)
    # p(Δ) dΔ = p(λ) dλ with λ = 1/Δ:  p(Δ) = p(λ) λ²
    return pseudo.density(rate) * rate**2 * DAY


def measure(scale: Scale) -> Tables:
    """Return the sample, its discretised prior updated, and the pairs fitted to it."""
    settings = SETTINGS[scale]
    periods = sampled_periods()[: settings.n_pages]
    days = np.arange(1.0, settings.days_max + 1, 2.0)
    fits, curves = [], []
    for variable in ("period", "log_rate"):
        fit = fit_pseudo_observations(1 / (periods * DAY), variable=variable)
        fits.append(
            {
                "closest_in": variable,
                "n_pages": int(periods.size),
                "changed_after_days": fit.pseudo.changed_after / DAY,
                "unchanged_after_days": fit.pseudo.unchanged_after / DAY,
                "converged": fit.converged,
            }
        )
        curves += [
            {"closest_in": variable, "days": float(day), "density": float(density)}
            for day, density in zip(days, _density(fit.pseudo, days), strict=True)
        ]
    return {
        "rates": _histogram(periods, settings),
        "posteriors": _posteriors(periods, settings),
        "fits": Table.of(fits),
        "curves": Table.of(curves),
    }


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw Prior's figures 3, 5 and 6."""
    figure, (rates, fitted, likelihood, posterior) = panels(2, 2, width=9.6)
    table = tables["rates"]
    logs = table.where(axis="log10 days")
    x = 10 ** (logs.floats("from") + 0.05)
    rates.stairs(
        100 * logs.floats("share"),
        np.append(x * 10**-0.05, x[-1] * 10**0.05),
        fill=True,
        color="#8fa3b8",
    )
    rates.set(xscale="log", xlabel="estimated period, days", ylabel="% of pages")
    rates.set(title="3: pages seen to change 25 times")

    days = table.where(axis="days")
    width = float(days.floats("from")[1] - days.floats("from")[0])
    middle = days.floats("from") + width / 2
    fitted.plot(middle, 100 * days.floats("share") / width, color="#222222", label="sample")
    fits = tables["fits"]
    for variable, colour, style in (("period", OURS, "-"), ("log_rate", COLOURS[3], "--")):
        curve = tables["curves"].where(closest_in=variable)
        found = fits.where(closest_in=variable)
        c, u = (float(found.floats(f"{name}_after_days")[0]) for name in ("changed", "unchanged"))
        name = variable.replace("_", " ")
        label = f"changed after {c:.0f} d, unchanged after {u:.0f} d\n(closest in the {name})"
        fitted.plot(
            curve.floats("days"), 100 * curve.floats("density"), style, color=colour, label=label
        )
    fitted.set(xlabel="period, days", ylabel="% of pages per day", ylim=(0, None))
    fitted.set(title="6: two polls that stand for it")
    fitted.legend(fontsize=8)

    table = tables["posteriors"]
    shades = ("#222222", *COLOURS)
    for n, colour in zip(table.distinct("n_unchanged"), shades, strict=False):
        rows = table.where(n_unchanged=n)
        x = rows.floats("from_days") + width / 2
        label = "the sample" if n == "0" else f"{n} × 11 d unchanged"
        if n != "0":
            likelihood.plot(x, rows.floats("likelihood"), color=colour, label=label)
        posterior.plot(x, 100 * rows.floats("posterior") / width, color=colour, label=label)
    likelihood.set(xlabel="period, days", ylabel="likelihood", ylim=(0, 1))
    likelihood.set(title="5, left: likelihood without a change")
    likelihood.legend(fontsize=8)
    posterior.set(xlabel="period, days", ylabel="% per day", ylim=(0, None))
    posterior.set(title="5, right: the prior updated")
    posterior.legend(fontsize=8)
    return {"": figure}


CLAIM = Claim(
    id="P-3, P-5, P-6",
    kind=Kind.FIGURE,
    paper="Prior",
    figures="figs 3, 5, 6",
    title="rates of a sample, the prior they make, and two polls in its place",
    says=(
        "10,000 pages, each polled at a fixed interval until 25 changes were seen: the "
        "distribution of their rates, applied as a prior at a resolution of an hour, turns the "
        "likelihood of polls without a change, which has no maximum, into a posterior that has "
        "one; a changed and an unchanged interval can be fitted to it."
    ),
    measure=measure,
    draw=draw,
    captions={
        "": (
            "Prior's figures 3, 6 and 5 on recorded histories of pages, polled daily until 25 "
            "polls had found a change. A likelihood without changes only rises with the period; "
            "the sample bounds it. The pair depends on the variable in which it is closest: the "
            "paper's L2 distance between densities of the period is the solid line."
        )
    },
    remark=(
        "Theirs are pages of the general web chosen by rank; ours are documents, packages, terms "
        "and data files, and slower. Pages with fewer than 25 changes on record are missing in "
        "both, and they are most: real corpora as a whole are far wider than any such pair."
    ),
    needs=(TRACES,),
)
