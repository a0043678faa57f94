"""What a worker does, a few times a second, so that all partitions have one price."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from recrawl.cluster.budget.price import Agreement
from recrawl.cluster.budget.quotas import BUDGET_KEY, DEMAND_KEY, QUOTAS_KEY
from recrawl.cluster.control_topic import BEGINS_ANEW
from recrawl.messages.budgets import Budget, Demand, Quota, QuotaInUse

__all__ = ["OwnedQuotas", "WorkerQuotas"]

_KEYS: Final = (BUDGET_KEY, DEMAND_KEY, QUOTAS_KEY, BEGINS_ANEW)


class OwnedQuotas(Protocol):
    """What is needed of a `recrawl.corpus.leasing.quotas.PartitionQuotas`."""

    @property
    def configured(self) -> Budget | None:
        """The configured budget of the whole corpus."""
        ...

    def follow(self, budget: Callable[[], Budget], set_budget: Callable[[Budget], object]) -> None:
        """Use only quotas that are given from now on."""
        ...

    def in_use(self) -> dict[int, QuotaInUse]:
        """Return the quota of each owned partition."""
        ...

    def demands(self) -> dict[int, Demand]:
        """Return the demand of each owned partition."""
        ...

    def set(self, quotas: Mapping[int, Quota], budget: Budget) -> None:
        """Log quotas of partitions."""
        ...


class WorkerQuotas:
    """One worker's part in the budget of a cluster.

    Parameters
    ----------
    quotas
        Quotas of the partitions that are open in this process.
    n_partitions
        Number of partitions of the corpus.
    publish
        Function that sends a message with a key to the control topic.
    monotonic
        Clock that never jumps, in seconds.
    """

    def __init__(
        self,
        quotas: OwnedQuotas,
        n_partitions: int,
        publish: Callable[[str, bytes], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quotas = quotas
        self._publish = publish
        self._monotonic = monotonic
        self._lock = threading.Lock()
        # As many as come while a step waits for a log, which is at most the time limit of appends.
        # None may be dropped: an agreement that has not read a record could exceed the budget.
        self._heard: deque[tuple[str, bytes]] = deque()
        self.agreement = Agreement(n_partitions, quotas.configured)
        quotas.follow(lambda: self.agreement.budget, self._set_budget)

    def _set_budget(self, budget: Budget) -> None:
        with self._lock:
            self.agreement.set_budget(budget)

    def hear(self, key: str, message: bytes) -> bool:
        """Take a message of the control topic; return whether it is about budgets.

        It is read with the next step, because a step may wait for the log of a partition, and
        whoever reads the control topic must not.
        """
        if not key.startswith(_KEYS):
            return False
        self._heard.append((key, message))
        return True

    def step(self) -> None:
        """Read what was heard, log the quotas of own partitions, and say what they use."""
        with self._lock:
            while self._heard:
                key, message = self._heard.popleft()
                if key == BEGINS_ANEW:
                    self.agreement.say_again()
                else:
                    self.agreement.hear(key, message)
            quotas, budget = self.agreement.quotas(), self.agreement.budget
        self._quotas.set(quotas, budget)
        in_use = self._quotas.in_use()
        with self._lock:
            messages = self.agreement.step(self._monotonic(), in_use, self._quotas.demands)
        for key, message in messages:
            self._publish(key, message)
