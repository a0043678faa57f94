"""Measure the rows per second and core of the kernels, and of plain numpy or scipy code."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from benchmarks.timing import cpu_seconds
from recrawl.core.belief import BeliefCodes, GammaBelief, encode_beliefs
from recrawl.core.belief import gamma as gamma_belief
from recrawl.core.belief.codes import observe_stored_polls_of
from recrawl.core.kernel import kernel
from recrawl.core.price import DueCodes, build_due_table
from recrawl.core.price import due as due_module
from recrawl.core.price.due_table import DueTable, due_periods_of
from recrawl.core.signal_quality import SignalRates, from_recall
from recrawl.core.value import RenewalLine, no_signals, noisy
from recrawl.core.value import averaged as averaged_module
from recrawl.core.value.renewal_line import renewal_values, several_terms_values
from recrawl.papers.change_rate import PollHistories, irregular_change_rate
from recrawl.papers.price import continuous_optimum

Floats = NDArray[np.float64]

# Speed of the first drafts of these kernels, in million rows per second and core.
SKETCH = {
    "value, no signals": 96.0,
    "value, noisy, renewal line": 83.0,
    "value, noisy, 8 exact terms": 9.0,
    "belief update, stored in 4 bytes": 11.0,
    "change rate, irregular MLE of 10 polls": 1.4,
}


class Measurement(NamedTuple):
    """The seconds of one kernel, and those of plain numpy or scipy code for the same rows."""

    name: str
    n_rows: int
    seconds: float
    plain_seconds: float | None
    bytes_per_row: int | None


def measure(scale: float = 1.0) -> dict[str, object]:
    """Run all measurements with ``scale`` times the default number of rows."""
    bandwidth = memory_bandwidth(int(32e6 * min(scale, 1.0)))
    results = []
    for case in _cases(scale):
        rows_per_second = case.n_rows / case.seconds
        entry: dict[str, object] = {
            "name": case.name,
            "million_rows_per_second": round(rows_per_second / 1e6, 3),
        }
        if case.plain_seconds is not None:
            entry["times_plain"] = round(case.plain_seconds / case.seconds, 2)
        if case.name in SKETCH:
            entry["times_sketch"] = round(rows_per_second / 1e6 / SKETCH[case.name], 2)
        if case.bytes_per_row is not None:
            entry["gigabytes_per_second"] = round(rows_per_second * case.bytes_per_row / 1e9, 2)
        results.append(entry)
    return {"memory_bandwidth_gigabytes_per_second": bandwidth, "kernels": results}


def memory_bandwidth(n_words: int) -> dict[str, float]:
    """Return the speed at which one thread reads and copies an array too large for the caches."""
    words = np.ones(n_words)
    copy = np.empty_like(words)
    return {
        "read": round(words.nbytes / cpu_seconds(words.sum) / 1e9, 2),
        "copy": round(2 * words.nbytes / cpu_seconds(lambda: np.copyto(copy, words)) / 1e9, 2),
    }


def _cases(scale: float) -> Iterator[Measurement]:
    n_rows = int(1_000_000 * scale)
    rng = np.random.default_rng(1)
    yield from _value_cases(n_rows, rng)
    yield from _averaged_value_cases(n_rows, rng)
    yield from _belief_cases(n_rows, rng)
    yield from _due_time_cases(n_rows, rng)
    yield from _estimate_cases(int(400_000 * scale), rng)
    yield _optimum_case(int(1_000_000 * scale), rng)


def _value_cases(n_rows: int, rng: np.random.Generator) -> Iterator[Measurement]:
    change_rate = rng.uniform(0.001, 1, n_rows)
    elapsed = rng.exponential(10, n_rows)
    out = np.empty(n_rows)

    def plain() -> None:
        x = change_rate * elapsed
        np.divide(1 - (1 + x) * np.exp(-x), change_rate, out=out)

    yield Measurement(
        "value, no signals",
        n_rows,
        cpu_seconds(lambda: no_signals._crawl_values(change_rate, elapsed, out)),
        cpu_seconds(plain),
        24,
    )

    # The mixture of the Signals paper's figure 4.
    recall = rng.beta(0.25, 0.25, n_rows).clip(1e-6, 1 - 1e-6)
    rates = from_recall(change_rate, recall, rng.uniform(0.1, 0.6, n_rows))
    alpha, gamma, precision = rates
    line = RenewalLine(*(column.copy() for column in RenewalLine.of(*rates)))
    effective = elapsed + rng.poisson(gamma * elapsed) * line.signal_age

    def plain_line() -> None:
        fresh = np.exp(-alpha * effective)
        first = -np.expm1(-(alpha + gamma) * effective) / (alpha + gamma)
        first += fresh * np.expm1(-gamma * effective) / gamma
        beyond = line.limit - fresh * (line.intercept + line.slope * effective)
        np.copyto(out, np.where(effective < line.signal_age, first, beyond))

    yield Measurement(
        "value, noisy, renewal line",
        n_rows,
        cpu_seconds(lambda: renewal_values(alpha, gamma, effective, line, out)),
        cpu_seconds(plain_line),
        64,
    )
    few = slice(0, n_rows // 10)
    columns = [c[few].copy() for c in (alpha, gamma, precision, effective)]
    few_line = RenewalLine(*(column[few].copy() for column in line))

    def plain_terms() -> None:
        a, g, p, x = columns
        nu, age = (1 - p) * g, few_line.signal_age
        total = np.zeros(x.size)
        for i in range(8):
            y = np.maximum(x - i * age, 0)
            total += nu**i / (a + g) ** (i + 1) * gammainc(i + 1, (a + g) * y)
            total -= np.exp(-a * x) / g * gammainc(i + 1, g * y)

    yield Measurement(
        "value, noisy, 8 exact terms",
        columns[0].size,
        cpu_seconds(
            lambda: several_terms_values(
                columns[0], columns[1], columns[3], few_line, 8, out[: columns[0].size]
            )
        ),
        cpu_seconds(plain_terms, 2),
        None,
    )
    none = np.zeros(columns[0].size)
    three = np.empty((3, columns[0].size))
    yield Measurement(
        "value, noisy, exact to 1e-9",
        columns[0].size,
        cpu_seconds(
            lambda: noisy._evaluate_rows(
                columns[0], columns[1], columns[2], columns[3], none, three
            )
        ),
        None,
        None,
    )


def _averaged_value_cases(n_rows: int, rng: np.random.Generator) -> Iterator[Measurement]:
    shape = np.exp(rng.normal(0, 1, n_rows))
    seconds = shape * np.exp(rng.normal(13, 1.5, n_rows))
    elapsed = seconds / shape * rng.exponential(1, n_rows)
    out = np.empty(n_rows)

    def plain() -> None:
        keep = seconds / (seconds + elapsed)
        fresh = keep**shape
        np.copyto(out, seconds / (shape - 1) * (1 - fresh / keep) - elapsed * fresh)

    yield Measurement(
        "value, averaged over belief",
        n_rows,
        cpu_seconds(lambda: averaged_module._averaged_values(shape, seconds, elapsed, out)),
        cpu_seconds(plain),
        32,
    )
    few = slice(0, max(n_rows // 100, 1))
    signal_rate = shape / seconds
    belief = GammaBelief(shape[few], seconds[few])
    yield Measurement(
        "value, averaged, with signals",
        belief.shape.size,
        cpu_seconds(
            lambda: averaged_module.averaged_noisy_value(
                belief, signal_rate[few], 0.6, elapsed[few]
            )
        ),
        None,
        None,
    )


def _belief_cases(n_rows: int, rng: np.random.Generator) -> Iterator[Measurement]:
    shape = np.exp(rng.normal(0, 1, n_rows))
    seconds = shape * np.exp(rng.normal(13, 1.5, n_rows))
    elapsed = seconds / shape * rng.exponential(0.7, n_rows)
    changed = rng.random(n_rows) < 1 - (seconds / (seconds + elapsed)) ** shape
    ones = np.ones(n_rows)
    out = np.empty((2, n_rows))

    def plain() -> None:
        keep = seconds / (seconds + elapsed)
        e0, e1, e2 = (1 - keep ** (shape + k) for k in range(3))
        first = shape / seconds * e1 / e0
        second = shape * (shape + 1) / seconds**2 * e2 / e0
        variance = second - first**2
        np.copyto(out[0], np.where(changed, first**2 / variance, shape))
        np.copyto(out[1], np.where(changed, first / variance, seconds + elapsed))

    is_changed = changed.astype(np.float64)
    yield Measurement(
        "belief update, float64",
        n_rows,
        cpu_seconds(
            lambda: gamma_belief._observe_polls(shape, seconds, elapsed, is_changed, ones, out)
        ),
        cpu_seconds(plain),
        56,
    )
    rows = rng.permutation(n_rows)
    at = np.full(n_rows, 1_700_000_000)
    start = encode_beliefs(GammaBelief(shape, seconds), np.arange(n_rows), 0)
    codes = BeliefCodes(start.shape.copy(), start.seconds.copy())
    yield Measurement(
        "belief update, stored in 4 bytes",
        n_rows,
        cpu_seconds(lambda: observe_stored_polls_of(codes, rows, elapsed, changed, ones, at)),
        None,
        None,
    )


@kernel
def _look_up_all(
    table: DueTable,
    shape_code: NDArray[np.uint8],
    class_code: NDArray[np.uint16],
    target: Floats,
    out: Floats,
) -> None:
    for row in range(out.size):
        out[row] = due_periods_of(table, shape_code[row], class_code[row], target[row])


def _due_time_cases(n_rows: int, rng: np.random.Generator) -> Iterator[Measurement]:
    codes = DueCodes()
    table = build_due_table(codes, classes=np.arange(0, codes.n_classes, 20))
    shape_code = rng.integers(0, codes.n_shapes, n_rows).astype(np.uint8)
    class_code = (20 * rng.integers(0, codes.n_classes // 20, n_rows)).astype(np.uint16)
    class_code[rng.random(n_rows) < 0.9] = 0
    target = rng.uniform(-16, 0, n_rows)
    out = np.empty(n_rows)
    yield Measurement(
        "due time, table",
        n_rows,
        cpu_seconds(lambda: _look_up_all(table, shape_code, class_code, target, out)),
        None,
        19,
    )
    n_few = max(n_rows // 10, 1)
    change_rate = rng.uniform(0.001, 1, n_few)
    price = rng.uniform(0, 1, n_few) / change_rate
    yield Measurement(
        "due time, change rate known",
        n_few,
        cpu_seconds(lambda: due_module._due_elapsed(change_rate, price, out[:n_few])),
        None,
        None,
    )
    shape = codes.shapes()[shape_code[:n_few]]
    price = np.exp2(target[:n_few]) * 1e6
    seconds = shape * 1e6
    yield Measurement(
        "due time, averaged over belief",
        n_few,
        cpu_seconds(lambda: due_module._averaged_due_elapsed(shape, seconds, price, out[:n_few])),
        None,
        None,
    )


def _estimate_cases(n_pages: int, rng: np.random.Generator) -> Iterator[Measurement]:
    n_polls = 10
    rate = np.exp(rng.uniform(np.log(1 / 2000), np.log(1 / 3), n_pages))
    elapsed = rng.lognormal(0, 0.8, (n_pages, n_polls)) / rate[:, None] * 0.7
    changed = rng.random((n_pages, n_polls)) < -np.expm1(-rate[:, None] * elapsed)
    polls = PollHistories.from_rows(
        np.repeat(np.arange(n_pages), n_polls), elapsed.ravel(), changed.ravel(), n_pages=n_pages
    )
    yield Measurement(
        "change rate, irregular MLE of 10 polls",
        n_pages,
        cpu_seconds(lambda: irregular_change_rate(polls, tolerance=1e-4), 3),
        None,
        None,
    )


def _optimum_case(n_pages: int, rng: np.random.Generator) -> Measurement:
    change_rate = rng.uniform(0.001, 1, n_pages)
    rates = from_recall(change_rate, rng.beta(0.25, 0.25, n_pages), rng.uniform(0.1, 0.6, n_pages))
    rates = SignalRates.of(
        np.maximum(rates.unsignalled_change_rate, 1e-9), rates.signal_rate, rates.precision
    )
    importance = rng.uniform(0, 1, n_pages)

    def run() -> Callable[[], object] | object:
        return continuous_optimum(rates, n_pages / 10, importance=importance)

    return Measurement("continuous optimum, pages", n_pages, cpu_seconds(run, 1), None, None)
