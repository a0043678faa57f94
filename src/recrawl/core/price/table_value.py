"""The value of a page by look-up: the due table read backwards."""

import math

from recrawl.core.kernel import kernel
from recrawl.core.price.due_table import LOG2_NEVER, DueTable

__all__ = ["log2_target_of"]


@kernel
def log2_target_of(table: DueTable, shape_code: int, class_code: int, age_periods: float) -> float:
    """Return the log2 target at which a page of this effective age, in mean periods, is just due.

    It is log2 of value / (weight × mean period), and the inverse of `due_periods_of`: a page is
    worth at least a price exactly where it is due at it.
    """
    if age_periods <= 0.0:
        return -math.inf
    row = table.due[shape_code, class_code]
    # Stay below the age that stands for never.
    age_periods = min(age_periods, 2.0 ** (LOG2_NEVER - 1.0))
    log2_age = math.log2(age_periods)
    if log2_age < float(row[0]):
        return table.log2_target_min + 2.0 * (log2_age - float(row[0]))
    low = 0
    high = row.size
    while high - low > 1:
        middle = (low + high) // 2
        if float(row[middle]) <= log2_age:
            low = middle
        else:
            high = middle
    target = table.log2_target_min + low * table.log2_target_step
    if high < row.size and row[high] < LOG2_NEVER:
        rise = float(row[high]) - float(row[low])
        return target + table.log2_target_step * (log2_age - float(row[low])) / rise
    limit = table.limit[shape_code, class_code]
    if high == row.size or math.isinf(limit):
        return target
    # Within the last step before the limit L: what the value falls short of it shrinks as
    # `due_periods_of` has it.
    last = math.exp2(target)
    shape = float(table.shapes[shape_code])
    age = math.exp2(float(row[low]))
    growth = math.log1p((age_periods - age) / (shape + age)) * max(shape - 1.0, 0.5 * shape)
    return math.log2(limit - (limit - last) * math.exp(-growth))
