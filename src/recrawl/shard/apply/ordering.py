"""Apply orders: everything that the log's record of a lease changes, in one kernel.

A lease of one page spends more time on entering a kernel than in it, so there is one to enter.
"""

from recrawl.core.arrays import FlagArray
from recrawl.core.kernel import table_kernel
from recrawl.shard.apply.leases import forget_leases, order_pages
from recrawl.shard.apply.newcomers import charge_newcomers
from recrawl.shard.events import Ordered
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.tables import Groups, Leases, Pages, Registers

__all__ = ["apply_orders"]


@table_kernel
def apply_orders(
    pages: Pages,
    groups: Groups,
    leases: Leases,
    registers: Registers,
    rules: Rules,
    grace_ms: int,
    event: Ordered,
    valid: FlagArray,
) -> None:
    """Forget leases that ended long ago, start those of the ordered pages, charge newcomers.

    The ring of leases must have room for the orders.
    """
    forget_leases(leases, registers, grace_ms)
    order_pages(pages, groups, leases, registers, event, valid)
    charge_newcomers(pages, groups, registers, rules, event, valid)
