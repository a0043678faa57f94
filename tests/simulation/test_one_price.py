"""The sum of all quotas never exceeds the budget, whatever happens to messages and workers."""

import pytest

from benchmarks.price_faults import OverspentError, PriceWorld
from recrawl.cluster.budget.price import Agreement
from recrawl.cluster.budget.quotas import KEEP, RecordId
from recrawl.core.arrays import FloatArray

FAULT_SHARES = (0.005, 0.02, 0.05)


class HastyAgreement(Agreement):
    """A planted bug: it publishes increases before decreases are acknowledged."""

    def _most_in_use(self) -> FloatArray:
        most = super()._most_in_use()
        if self._term is not None:
            for i, quota in enumerate(self._term.record.per_second):
                most[i] = most[i] if quota == KEEP else quota
        return most


class ForgetfulAgreement(Agreement):
    """A planted bug: whoever goes on with partition 0 after a wait begins with number 0 again."""

    def _first_id(self, epoch: int) -> RecordId:
        return RecordId(epoch, 0)


def run_world(seed: int, agreement: type[Agreement] = Agreement) -> PriceWorld:
    world = PriceWorld(seed, agreement=agreement)
    world.run(1_500, fault_share=FAULT_SHARES[seed % len(FAULT_SHARES)])
    return world


@pytest.mark.parametrize("number", range(12))
def test_quotas_never_exceed_the_budget_and_become_those_of_one_price(
    number: int, seed: int
) -> None:
    world = run_world(1_000 * seed + number)
    assert world.calm_down(1_000) < 1e-3
    # So it is with another budget, and the new one is not exceeded either.
    for budget in (250.0, 30.0):
        world.delay_append(0)
        world.set_budget(budget)
        assert world.calm_down(1_000) < 1e-3
        assert world.agreed_budget() == budget
        assert sum(log.per_second for log in world.logs) == pytest.approx(budget)


def test_increases_before_decreases_are_found() -> None:
    def is_found(number: int) -> bool:
        try:
            run_world(number, HastyAgreement)
        except OverspentError:
            return True
        return False

    assert sum(is_found(number) for number in range(12)) >= 2


def test_a_budget_that_nobody_can_change_any_more_is_found() -> None:
    world = run_world(0, ForgetfulAgreement)
    assert world.calm_down(1_000) < 1e-3
    world.delay_append(0)
    world.set_budget(250.0)
    world.calm_down(1_000)
    assert world.agreed_budget() == 100.0


def test_a_new_owner_with_an_old_bound_is_not_given_more_first() -> None:
    """Found by `python -m benchmarks price`: it may use little, though for all that is known much.

    Then a quota in between is more than it uses, before others have given up as much.
    """
    PriceWorld(95).run(2_000)
