"""Audited freshness of a corpus, its kinds and its largest hosts, beside what the model expected.

Two questions are answered for each row:

How fresh are the copies?
    The share of audited copies that were fresh, with Wilson's 95 % interval.  Pages are chosen at
    random for each audit, so this does not depend on the model (`recrawl.shard.picker`).
Is the model right?
    The model gives each audited copy a probability of being fresh, just before it is fetched.  If
    these are right, the number of fresh copies differs from their sum by a martingale whose
    variance is known.  The interval of the difference is a confidence sequence: it stays valid
    however often it is looked at, and it is corrected for the number of rows (Bonferroni).
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from recrawl.corpus.inspect.hosts import find_largest, largest_groups
from recrawl.corpus.inspect.kinds import kind_names
from recrawl.corpus.inspect.stats import wilson_interval
from recrawl.messages.views import AuditRow, AuditTable
from recrawl.node.node import Node
from recrawl.shard import PageStatus
from recrawl.store import Names

__all__ = [
    "AUDITED_HOSTS_MAX",
    "DIFFERENCE_MIN",
    "audit_table",
    "difference_bound",
    "merge_audit_tables",
]

AUDITED_HOSTS_MAX = 200
"""Number of hosts in an `AuditTable`, those with the most pages."""
DIFFERENCE_MIN = 0.01
"""Smallest difference between modelled and audited freshness that is called a disagreement."""
_ERROR_RATE = 0.05
# Variance at which the bound of the difference is tightest, about 40 to 100 audits.
_MIXTURE_VARIANCE = 4.0
_CORPUS, _KIND, _HOST = "corpus", "kind", "host"


class _Counts(NamedTuple):
    """Sums over pages and audits, which are merged by addition."""

    n_pages: int = 0
    n_audited: int = 0
    n_fresh: int = 0
    modelled_sum: float = 0.0
    variance_sum: float = 0.0

    def plus(self, other: "_Counts") -> "_Counts":
        return _Counts(
            self.n_pages + other.n_pages,
            self.n_audited + other.n_audited,
            self.n_fresh + other.n_fresh,
            self.modelled_sum + other.modelled_sum,
            self.variance_sum + other.variance_sum,
        )


def difference_bound(variance: float, error_rate: float) -> float:
    """Return how far a count may be from its expectation, at any of the times it is looked at.

    The bound is Robbins' mixture of normal distributions: the chance that a martingale is ever
    beyond it is at most ``error_rate``.

    Parameters
    ----------
    variance
        Sum of the variances of its steps so far.
    error_rate
        Largest chance of a false alarm, over all times.

    Examples
    --------
    >>> round(difference_bound(100.0, 0.05), 1)
    31.0

    References
    ----------
    H. Robbins. Statistical methods related to the law of the iterated logarithm. Annals of
    Mathematical Statistics 41, 1970.
    """
    mixed = variance + _MIXTURE_VARIANCE
    return math.sqrt(mixed * (math.log(mixed / _MIXTURE_VARIANCE) - 2.0 * math.log(error_rate)))


def audit_table(nodes: Iterable[Node]) -> AuditTable:
    """Return the audits of some partitions: of all pages, by kind, and of the largest hosts."""
    found: dict[tuple[str, str], _Counts] = {}
    nodes = tuple(nodes)
    groups = [largest_groups(node, AUDITED_HOSTS_MAX) for node in nodes]
    largest = find_largest(nodes, groups, AUDITED_HOSTS_MAX)
    for node, numbers in zip(nodes, largest, strict=True):
        for key, one in _counts_of(node, numbers.tolist()).items():
            found[key] = found.get(key, _Counts()).plus(one)
    return _make_table(found)


def _counts_of(node: Node, hosts: Sequence[int]) -> dict[tuple[str, str], _Counts]:
    """Return the counts of a partition, of its kinds, and of some of its hosts."""
    # Without the node's lock: audits that come in meanwhile may be in some rows and not in others.
    tables = node.shard.tables
    registers, kinds, groups = tables.registers, tables.priors, tables.groups
    n_slots = int(registers.n_slots[0])
    is_page = tables.pages.status[:n_slots] != PageStatus.FREE
    n_by_kind = np.bincount(tables.pages.kind[:n_slots][is_page], minlength=kinds.shape.size)
    found = {
        # Not the counts of the registers: a corpus of recrawl 0.1.0 has audits in them for which
        # nobody wrote down what the model expected.
        (_CORPUS, ""): _Counts(
            int(registers.n_pages[0]),
            int(kinds.n_audited.sum()),
            int(kinds.n_audited_fresh.sum()),
            float(registers.audited_modelled[0]),
            float(registers.audited_variance[0]),
        )
    }
    names = kind_names(node)
    for number in range(kinds.shape.size):
        found[_KIND, names.get(number, "")] = _Counts(
            int(n_by_kind[number]),
            int(kinds.n_audited[number]),
            int(kinds.n_audited_fresh[number]),
            float(kinds.audited_modelled[number]),
            float(kinds.audited_variance[number]),
        )
    for number, host in zip(hosts, node.store.names_of(Names.GROUP, hosts), strict=True):
        found[_HOST, host or str(number)] = _Counts(
            int(groups.n_pages[number]),
            int(groups.n_audited[number]),
            int(groups.n_audited_fresh[number]),
            float(groups.audited_modelled[number]),
            float(groups.audited_variance[number]),
        )
    return found


def merge_audit_tables(tables: Sequence[AuditTable]) -> AuditTable:
    """Return the audits of several parts of a corpus as one table."""
    found: dict[tuple[str, str], _Counts] = {}
    for table in tables:
        for row in table.rows:
            counts = _Counts(
                row.n_pages, row.n_audited, row.n_fresh, row.modelled_sum, row.variance_sum
            )
            key = (row.part, row.name)
            found[key] = found.get(key, _Counts()).plus(counts)
    return _make_table(found)


def _make_table(found: dict[tuple[str, str], _Counts]) -> AuditTable:
    """Return the rows of a table: the corpus, its kinds with pages, its largest hosts."""
    corpus = found.get((_CORPUS, ""), _Counts())
    chosen = [((_CORPUS, ""), corpus)]
    for part, n_max in ((_KIND, None), (_HOST, AUDITED_HOSTS_MAX)):
        some = [(key, one) for key, one in found.items() if key[0] == part and one.n_pages > 0]
        some.sort(key=lambda item: (-item[1].n_pages, item[0]))
        chosen += some[:n_max]
    n_judged = sum(one.n_audited > 0 for _, one in chosen)
    rows = [_make_row(*key, one, n_judged) for key, one in chosen]
    return AuditTable(rows, n_judged)


def _make_row(part: str, name: str, counts: _Counts, n_judged: int) -> AuditRow:
    n = counts.n_audited
    low, high = wilson_interval(counts.n_fresh, n)
    difference = (counts.n_fresh - counts.modelled_sum) / n if n else None
    spread = difference_bound(counts.variance_sum, _ERROR_RATE / max(n_judged, 1)) / max(n, 1)
    return AuditRow(
        part=part,
        name=name,
        n_pages=counts.n_pages,
        n_audited=n,
        n_fresh=counts.n_fresh,
        audited=counts.n_fresh / n if n else None,
        audited_low=low,
        audited_high=high,
        modelled=counts.modelled_sum / n if n else None,
        difference=difference,
        difference_low=-1.0 if difference is None else max(difference - spread, -1.0),
        difference_high=1.0 if difference is None else min(difference + spread, 1.0),
        disagrees=difference is not None and abs(difference) >= max(spread, DIFFERENCE_MIN),
        modelled_sum=counts.modelled_sum,
        variance_sum=counts.variance_sum,
    )
