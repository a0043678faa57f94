"""Which pages have changed by their signals, so that nobody need ask whether they have."""

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray
from recrawl.core.kernel import table_kernel
from recrawl.core.quick_calls import quick_call
from recrawl.shard.apply.pages import page_slot_of
from recrawl.shard.state.codes import link_row_of
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.tables import I64, Links, Pages, Sources, Tables
from recrawl.shard.state.trust import false_chance_of, is_tested
from recrawl.shard.state.words import number_of

__all__ = ["find_announced"]

FALSE_CHANCE_MAX = 0.5
"""Largest chance that all signals of a page are false with which its change counts as announced."""


@table_kernel
def _find_announced(
    pages: Pages,
    links: Links,
    sources: Sources,
    rules: Rules,
    n_slots: int,
    page: I64,
    is_announced: FlagArray,
) -> None:
    for i in range(page.size):
        slot = page_slot_of(pages, page[i], n_slots)
        if slot < 0:
            continue
        false_chance = 1.0
        is_all_tested = True
        for k in range(number_of(pages.n_sources[slot])):
            row = link_row_of(links, slot, k) if k > 0 else 0
            n = number_of(links.n_signals[row]) if k > 0 else number_of(pages.n_signals[slot])
            if n > 0:
                source = number_of(links.source[row]) if k > 0 else number_of(pages.source[slot])
                false_chance *= false_chance_of(sources, source, rules, n)
                is_all_tested &= is_tested(sources, source, rules)
        is_announced[i] = false_chance <= FALSE_CHANCE_MAX or not is_all_tested


_find_announced_pages = quick_call(_find_announced)


def find_announced(tables: Tables, rules: Rules, page: NDArray[np.int64]) -> FlagArray:
    """Return which pages have changed since their fetch, more likely than not, by their signals.

    Only signals count: a page that changes often may well have changed without any.  Pages with
    signals of a source that is still tested are among them, so that the test is fair: a server that
    notices changes late would make a right source look wrong, for ever.

    Parameters
    ----------
    tables, rules
        State and rules of a shard.
    page
        Numbers of pages.
    """
    is_announced = np.zeros(page.size, np.bool_)
    if page.size and int(tables.registers.n_signals[0]) > 0:
        _find_announced_pages(
            tables.pages,
            tables.links,
            tables.sources,
            rules,
            int(tables.registers.n_slots[0]),
            page,
            is_announced,
        )
    return is_announced
