"""Signals fig. 4: every greedy policy when signals miss changes and are often false."""

import math

from lab.claim import Check, Claim, Figures, Kind, Scale, Tables
from lab.drawing import panels
from lab.greedy import Rule
from lab.signal_webs import (
    OPTIMUM,
    OPTIMUM_WITH_SIGNALS,
    Experiment,
    accuracies,
    difference,
    draw_accuracies,
)

SETTINGS = {
    Scale.QUICK: Experiment(n_pages=(100, 500), n_webs=(3, 3), horizon=300.0),
    Scale.FULL: Experiment(
        n_pages=(100, 200, 500, 750, 1000, 10_000), n_webs=(24, 24, 16, 16, 16, 8)
    ),
}
RULES = (Rule.GREEDY, Rule.CIS, Rule.NCIS, Rule.APPROX_1, Rule.APPROX_2)
POLICIES = ("GREEDY", "GREEDY-CIS", "GREEDY-NCIS", "approx-1", "approx-2")

# Accuracy in an independent implementation of the paper, with the same settings and other webs.
REFERENCE = {
    100: (0.8317, 0.9110, 0.8314, 0.9025, 0.9091, 0.9089, 0.9091),
    200: (0.7150, 0.7956, 0.7147, 0.7572, 0.7938, 0.7911, 0.7935),
    500: (0.5065, 0.5431, 0.5063, 0.4372, 0.5430, 0.5283, 0.5399),
    1000: (0.3656, 0.3840, 0.3652, 0.2693, 0.3836, 0.3623, 0.3778),
    10_000: (0.1154, 0.1178, 0.1155, 0.0390, 0.1179, 0.0905, 0.1051),
}
REFERENCE_POLICIES = (OPTIMUM_WITH_SIGNALS, *POLICIES)
REFERENCE_ERROR = 0.002
N_ERRORS = 4.0
# What "close" means for the truncated values up to 500 pages: the paper's lines touch there.
CLOSE = 0.02
# From here on what signals buy is larger than what differs from web to web.
MANY = 500


def measure(scale: Scale) -> Tables:
    """Run all on the same webs."""
    return {"accuracy": accuracies(SETTINGS[scale], RULES)}


def judge(tables: Tables) -> tuple[Check, ...]:
    """Compare with the reference, then the policies with each other."""
    table = tables["accuracy"]
    sizes = [int(m) for m in table.distinct("m")]
    checks = []
    for m in sizes:
        if m not in REFERENCE:
            continue
        none, *others = REFERENCE[m]
        for policy, accuracy in zip(REFERENCE_POLICIES, others, strict=True):
            found = difference(table, m, policy)
            tolerance = N_ERRORS * math.hypot(found.standard_error, REFERENCE_ERROR)
            checks.append(
                Check(
                    what=f"{policy} less optimum without signals, m = {m}",
                    found=f"{found.mean:+.4f} ± {found.standard_error:.4f}",
                    wanted=f"{accuracy - none:+.4f} ± {tolerance:.4f}",
                    holds=abs(found.mean - (accuracy - none)) <= tolerance,
                )
            )
    for m in sizes:
        better = difference(table, m, "GREEDY-NCIS", "GREEDY")
        checks.append(
            Check(
                what=f"GREEDY-NCIS less GREEDY, m = {m}",
                found=f"{better.mean:+.4f} ± {better.standard_error:.4f}",
                wanted="not below 0",
                holds=better.mean >= 0,
            )
        )
        if m >= MANY:
            checks.append(
                Check(
                    what=f"GREEDY-NCIS less GREEDY where pages are many, m = {m}",
                    found=f"{better.mean:+.4f} ± {better.standard_error:.4f}",
                    wanted=f"above 0 by {N_ERRORS:g} standard errors",
                    holds=better.mean > N_ERRORS * better.standard_error,
                )
            )
        exact = difference(table, m, "GREEDY-NCIS", "approx-1")
        checks.append(
            Check(
                what=f"GREEDY-NCIS less approx-1, m = {m}",
                found=f"{exact.mean:+.4f} ± {exact.standard_error:.4f}",
                wanted="not below 0 by more than a standard error",
                holds=exact.mean >= -exact.standard_error,
            )
        )
    believed = [difference(table, m, "GREEDY-CIS", "GREEDY").mean for m in sizes]
    checks.append(
        Check(
            what=f"GREEDY-CIS less GREEDY, from m = {sizes[0]} to {sizes[-1]}",
            found=f"{believed[0]:+.4f} to {believed[-1]:+.4f}",
            wanted="positive to negative",
            holds=believed[0] > 0 > believed[-1],
        )
    )
    for policy in ("approx-1", "approx-2"):
        for m in sizes:
            short = difference(table, m, policy, "GREEDY-NCIS")
            is_few = m <= 500
            checks.append(
                Check(
                    what=f"{policy} less GREEDY-NCIS, m = {m}",
                    found=f"{short.mean:+.4f} ± {short.standard_error:.4f}",
                    wanted=f"0 ± {CLOSE}" if is_few else "below 0",
                    holds=abs(short.mean) <= CLOSE if is_few else short.mean < 0,
                )
            )
    return tuple(checks)


def said(tables: Tables) -> dict[str, str]:
    """Return how far the farthest policy is from the reference."""
    table = tables["accuracy"]
    off = [
        abs(difference(table, m, policy).mean - (accuracy - REFERENCE[m][0]))
        for m in (int(text) for text in table.distinct("m"))
        if m in REFERENCE
        for policy, accuracy in zip(REFERENCE_POLICIES, REFERENCE[m][1:], strict=True)
    ]
    return {"worst": f"{max(off):.4f}"}


def draw(tables: Tables) -> Figures:
    """Draw accuracy, and what the signals buy or cost."""
    table = tables["accuracy"]
    figure, (left, right) = panels(2, height=3.8)
    draw_accuracies(left, table, [OPTIMUM, OPTIMUM_WITH_SIGNALS, *POLICIES], main="GREEDY-NCIS")
    left.set_title("Accuracy")
    left.set_ylim(0, 1)
    left.legend(fontsize=8)
    draw_accuracies(
        right, table, [OPTIMUM_WITH_SIGNALS, *POLICIES], main="GREEDY-NCIS", relative=True
    )
    right.axhline(0, color="black", linestyle=":")
    right.set_title("Less the optimum without signals")
    return {"": figure}


CLAIM = Claim(
    id="S-4",
    kind=Kind.EQUAL,
    paper="Signals",
    figures="fig. 4",
    title="Noisy signals help those who know how noisy they are",
    says=(
        "As S-3, with false signals at rates uniform on (.1, .6) beside the true ones, for 100 to "
        "10 000 pages: GREEDY-NCIS is never worse than GREEDY; GREEDY-CIS, which believes every "
        "signal, deteriorates as pages get more; the approximations of one and two terms are close "
        "up to 500 pages and worse above."
    ),
    tolerance=(
        "Differences to the optimum without signals, on the same webs, are those of an "
        f"independent implementation within {N_ERRORS:g} standard errors (of ours, and "
        f"{REFERENCE_ERROR} for the reference). GREEDY-NCIS is not below GREEDY anywhere; "
        "GREEDY-CIS is above it with the fewest pages and below it with the most; the "
        f"approximations are within {CLOSE} of GREEDY-NCIS up to 500 pages and below it above. "
        f"GREEDY-NCIS is above GREEDY by {N_ERRORS:g} standard errors from {MANY} pages on, and "
        "nowhere below approx-1 by more than one."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    captions={
        "": "Left as in the paper. Right what signals buy or cost on the same webs, with twice the "
        "standard error."
    },
    remark=(
        "The tolerance against the reference is wider than some of the effects; in fact all "
        "differences agree with it within {worst}. That GREEDY-NCIS is clearly above GREEDY with "
        "many pages, and not below approx-1, was asked for after a first look."
    ),
    said=said,
)
