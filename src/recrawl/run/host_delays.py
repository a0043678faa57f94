"""Tell the corpus of the delays that a fetcher keeps, so that it leases what can be fetched.

The fetcher's `HostGate` knows when a host may be contacted.  A corpus that does not know it would
lease pages which then wait at the gate, or have to be given back after they were paid for.
"""

import math
from collections import OrderedDict
from typing import Final
from urllib.parse import urlsplit

from recrawl.corpus import Corpus, Order
from recrawl.fetch import FetchTime, HostGate

__all__ = ["HOSTS_TOLD_MAX", "HostDelays"]

HOSTS_TOLD_MAX: Final = 100_000
"""Number of hosts whose delays in the corpus are remembered."""
# Shorter waits are spent at the gate: each change of a host is a record in the log.
_PAUSE_SECONDS_MIN: Final = 2.0
_SECONDS_MAX: Final = 8 * 86_400.0


class HostDelays:
    """Sets the delays and pauses of hosts in a corpus.

    It works for corpora that are grouped by host; in others a host shares its delay with others.

    Parameters
    ----------
    corpus
        Corpus to set delays in.
    gate
        Delays that the fetcher keeps; None if they are not known.
    time
        Clock of the gate, which may differ from that of the corpus.
    """

    def __init__(self, corpus: Corpus, gate: HostGate | None, time: FetchTime) -> None:
        self._corpus = corpus
        self._time = time
        self._gate = gate
        self._is_by_host = corpus.config.corpus.group_by == "host"
        # Delay of each host in the corpus, as far as this crawl has raised it.
        self._told: OrderedDict[str, float] = OrderedDict()

    def pause(self, order: Order, seconds: float) -> bool:
        """Let nothing of a page's host be leased for some seconds; return whether that worked.

        Parameters
        ----------
        order
            Order of a page of the host.
        seconds
            Length of the pause.
        """
        if not self._is_by_host:
            return False
        until_ms = self._corpus.now_ms() + math.ceil(min(seconds, _SECONDS_MAX) * 1000)
        self._corpus.set_host(_host_of(order), blocked_until_ms=until_ms)
        return True

    def follow(self, order: Order) -> float:
        """Bring the delay of a page's host in the corpus up to that of the gate.

        Returns the seconds for which the corpus leases nothing of the host.

        Parameters
        ----------
        order
            Order that was fetched.
        """
        host = _host_of(order)
        own = self._corpus.config.politeness_of(host).delay
        if self._gate is None or not self._is_by_host:
            return own
        name = urlsplit(order.fetch_url).hostname or ""
        delay = self._gate.delay_seconds(name)
        told = self._told.get(host, own)
        # A power of two below the delay: an average of answers changes a little with each.
        wanted = max(own, 2.0 ** math.floor(math.log2(delay)) if delay > 0 else 0.0)
        if wanted > told or (wanted < told and host in self._told):
            self._corpus.set_host(host, delay=wanted)
            self._told[host] = wanted
            self._told.move_to_end(host)
            if len(self._told) > HOSTS_TOLD_MAX:
                self._told.popitem(last=False)
        wait = (self._gate.next_start_ms(name) - self._time.now_ms()) / 1000
        if wait > max(wanted, delay) + _PAUSE_SECONDS_MIN:
            self.pause(order, wait)
        return max(wait, wanted)


def _host_of(order: Order) -> str:
    """Return the host of a page as the corpus groups pages: with its port."""
    return urlsplit(order.url).netloc.rpartition("@")[2]
