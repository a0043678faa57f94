"""What a corpus acknowledged to programs that died, and whether it still has all of it.

A program says before each operation what it will do, and afterwards what the corpus answered.  An
operation without an answer is *in doubt*: the corpus may have done it or not, in each partition
completely or not at all.  `Acknowledged.check` opens every doubt, and the next check is exact.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import recrawl
from recrawl.corpus import Corpus
from recrawl.node.orders import handle_of, partition_of
from recrawl.node.routing import partitions_of
from recrawl.shard.state.status import LeaseStage

__all__ = ["Acknowledged", "outcome_of"]

# Importance is stored in steps of a few percent.
_IMPORTANCE_STEP = 0.1
_REPORTED_AGAIN_MAX = 300


def outcome_of(handle: int) -> recrawl.Outcome:
    """Return the outcome that every program reports for an order: its content names the order."""
    return recrawl.Outcome(handle=handle, digest=b"%8d" % handle, etag=_etag_of(handle))


def _etag_of(handle: int) -> bytes:
    return b'"e%d"' % handle


def _partition(handle: int) -> int:
    return int(partition_of(np.array([handle]))[0])


def _partition_counts(urls: Sequence[str], n_partitions: int) -> list[int]:
    partition = partitions_of(pa.array(urls, pa.string()), n_partitions, "host")
    return [int(n) for n in np.bincount(partition, minlength=n_partitions)]


@dataclass
class Acknowledged:
    """What a corpus acknowledged so far, and what is in doubt.

    Parameters
    ----------
    n_partitions
        Number of partitions of the corpus.
    """

    n_partitions: int
    n_operations: int = 0
    """Number of operations that were acknowledged."""
    n_in_doubt: int = 0
    """Number of operations that a death left in doubt."""
    n_done_in_doubt: int = 0
    """Number of parts (of a partition) of doubtful adds, reports and signals that were done."""
    pages: dict[str, set[bool]] = field(default_factory=dict)
    """Whether each URL may be tracked, and may not be tracked."""
    importance: dict[str, set[float]] = field(default_factory=dict)
    etags: dict[str, set[bytes | None]] = field(default_factory=dict)
    held: dict[int, str] = field(default_factory=dict)
    """URL of each order that was handed out and is not known to have ended."""
    leased: set[int] = field(default_factory=set)
    """Handle of every order that was ever handed out."""
    counted: list[int] = field(default_factory=list)
    """Handles whose outcome counted."""
    n_signals: list[int] = field(default_factory=list)
    n_lost_orders_max: list[int] = field(default_factory=list)
    """Most orders of each partition that may be in flight and that nobody knows."""
    _holder: dict[str, int] = field(default_factory=dict)
    _ending: set[int] = field(default_factory=set)
    """Handles whose report or release is under way or in doubt."""
    _under_way: dict[str, dict[str, Any]] = field(default_factory=dict)
    _doubts: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.n_signals = [0] * self.n_partitions
        self.n_lost_orders_max = [0] * self.n_partitions

    # ------------------------------------------------------------------ what programs say

    def record(self, line: dict[str, Any]) -> None:
        """Record a line of a program: ``{"will": id, "op": …}`` or ``{"done": id, …}``.

        Raises
        ------
        AssertionError
            If the corpus handed out a page that somebody holds, or an order twice.
        """
        if "will" in line:
            self._under_way[line["will"]] = line
            if line["op"] in ("report", "release"):
                self._ending |= set(line["handles"])
            return
        operation = self._under_way.pop(line["done"])
        self.n_operations += 1
        match operation["op"]:
            case "add":
                self._set_pages(operation["urls"], {True})
            case "remove":
                self._set_pages(operation["urls"], {False})
            case "set":
                for url in operation["urls"]:
                    self.importance[url] = {operation["importance"]}
            case "lease":
                self._record_orders(line["orders"])
            case "report":
                assert all(line["counted"]), "an outcome of an order in flight did not count"
                for handle in operation["handles"]:
                    self._end(handle, is_counted=True)
            case "release":
                for handle in operation["handles"]:
                    self._end(handle, is_counted=False)
            case "signal":
                assert line["n"] == len(operation["urls"]), "a signal of a tracked page was ignored"
                for i, n in enumerate(_partition_counts(operation["urls"], self.n_partitions)):
                    self.n_signals[i] += n

    def _set_pages(self, urls: Iterable[str], states: set[bool]) -> None:
        for url in urls:
            self.pages[url] = set(states)

    def _record_orders(self, orders: Iterable[tuple[int, str]]) -> None:
        for handle, url in orders:
            assert handle not in self.leased, f"order {handle} was handed out twice"
            holder = self._holder.get(url)
            assert holder is None or holder in self._ending, (
                f"{url} is held by two: by order {holder} and by order {handle}"
            )
            self.leased.add(handle)
            self.held[handle] = url
            self._holder[url] = handle

    def _end(self, handle: int, *, is_counted: bool) -> None:
        url = self.held.pop(handle)
        if self._holder.get(url) == handle:
            del self._holder[url]
        self._ending.discard(handle)
        if is_counted:
            self.counted.append(handle)
            self.etags[url] = {_etag_of(handle)}

    def died(self) -> None:
        """Record that the programs died: what was under way is in doubt."""
        for operation in self._under_way.values():
            self._doubts.append(operation)
            self.n_in_doubt += 1
            match operation["op"]:
                case "add":
                    for url in operation["urls"]:
                        self.pages.setdefault(url, {False}).add(True)
                case "remove":
                    for url in operation["urls"]:
                        self.pages[url].add(False)
                case "set":
                    for url in operation["urls"]:
                        known = self.importance.setdefault(url, {1.0})
                        known.add(operation["importance"])
                case "lease":
                    for i in range(self.n_partitions):
                        self.n_lost_orders_max[i] += operation["n"]
                case "report":
                    for handle in operation["handles"]:
                        known_etags = self.etags.setdefault(self.held[handle], {None})
                        known_etags.add(_etag_of(handle))
        self._under_way.clear()

    # ------------------------------------------------------------------ what the corpus has

    def check(self, corpus: Corpus) -> None:
        """Compare a corpus with everything it acknowledged, and settle what was in doubt.

        Outcomes in doubt are reported again, as a program would do.

        Raises
        ------
        AssertionError
            If something is missing, is there twice, or is half done.
        """
        self._check_pages(corpus)
        self._check_orders(corpus)
        self._check_outcomes(corpus)
        self._check_signals(corpus)
        self._doubts.clear()

    def _check_pages(self, corpus: Corpus) -> None:
        found: dict[str, tuple[float, bytes | None]] = {}
        for batch in corpus.pages(["url", "importance", "etag"]):
            for row in batch.to_pylist():
                assert row["url"] not in found, f"{row['url']} is there twice"
                found[row["url"]] = (row["importance"], row["etag"])
        assert corpus.n_pages == len(found), f"{corpus.n_pages} pages, {len(found)} URLs"
        unknown = found.keys() - self.pages.keys()
        assert not unknown, f"nobody added {sorted(unknown)[:9]}"
        wrong = [url for url, states in self.pages.items() if (url in found) not in states]
        lost = [url for url in wrong if url not in found]
        assert not lost, f"lost {len(lost)} pages: {lost[:9]}"
        assert not wrong, f"{len(wrong)} removed pages are back: {wrong[:9]}"
        for operation in self._doubts:
            if operation["op"] in ("add", "remove"):
                for part in self._parts(operation["urls"]):
                    states = {url in found for url in part}
                    assert len(states) == 1, f"a doubtful {operation['op']} is half done: {part}"
                    self.n_done_in_doubt += states == {operation["op"] == "add"}
        for url, (importance, etag) in found.items():
            known = self.importance.get(url, {1.0})
            is_known = any(abs(math.log2(importance / one)) < _IMPORTANCE_STEP for one in known)
            assert is_known, f"{url} has importance {importance}, not {known}"
            etags = self.etags.get(url, {None})
            assert etag in etags, f"{url} has the ETag {etag!r}, not {etags}"
            if url in self.importance:
                self.importance[url] = {importance}
            self.etags[url] = {etag}
        self.pages = {url: {url in found} for url in self.pages}

    def _parts(self, urls: Sequence[str]) -> Iterator[list[str]]:
        partition = partitions_of(pa.array(urls, pa.string()), self.n_partitions, "host")
        for i in np.unique(partition):
            yield [url for url, at in zip(urls, partition, strict=True) if at == i]

    def _check_orders(self, corpus: Corpus) -> None:
        for i, node in enumerate(corpus.nodes):
            registers, leases = node.shard.tables.registers, node.shard.tables.leases
            order = np.arange(int(registers.first_order[0]), int(registers.next_order[0]))
            row = order & (leases.page.size - 1)
            is_held = leases.stage[row] == LeaseStage.IN_FLIGHT
            page = leases.page[row][is_held]
            assert np.unique(page).size == page.size, "a page is held by two orders"
            assert int(registers.in_flight[0]) == page.size, "the number in flight is wrong"
            urls = node.store.urls_of(page).to_pylist()
            in_flight = dict(zip(handle_of(order[is_held], i).tolist(), urls, strict=True))
            own = {h: url for h, url in self.held.items() if _partition(h) == i}
            for handle, url in own.items():
                if handle not in self._ending:
                    assert in_flight.get(handle) == url, (
                        f"order {handle} of {url} was lost: the corpus has {in_flight.get(handle)}"
                    )
            n_unknown = len(in_flight.keys() - own.keys())
            most = self.n_lost_orders_max[i]
            assert n_unknown <= most, f"{n_unknown} orders in flight are unknown, at most {most}"

    def _check_outcomes(self, corpus: Corpus) -> None:
        n_outcomes = sum(int(node.shard.tables.registers.n_outcomes[0]) for node in corpus.nodes)
        expected = len(self.counted)
        for operation in self._doubts:
            if operation["op"] != "report":
                continue
            handles = operation["handles"]
            is_new = corpus.report([outcome_of(handle) for handle in handles]).counted.tolist()
            for i in range(self.n_partitions):
                part = {new for h, new in zip(handles, is_new, strict=True) if _partition(h) == i}
                assert len(part) <= 1, f"a doubtful report is half done in partition {i}"
                self.n_done_in_doubt += part == {False}
            expected += is_new.count(False)
            for handle in handles:
                self._end(handle, is_counted=True)
        assert n_outcomes == expected, f"{n_outcomes} outcomes counted, {expected} were reported"
        again = [outcome_of(handle) for handle in self.counted[-_REPORTED_AGAIN_MAX:]]
        if again:
            assert not corpus.report(again).counted.any(), "an outcome counted twice"

    def _check_signals(self, corpus: Corpus) -> None:
        doubtful = [
            _partition_counts(operation["urls"], self.n_partitions)
            for operation in self._doubts
            if operation["op"] == "signal"
        ]
        for i, node in enumerate(corpus.nodes):
            found = int(node.shard.tables.registers.n_signals[0]) - self.n_signals[i]
            possible = {0}
            for counts in doubtful:
                possible |= {n + counts[i] for n in possible}
            assert found in possible, f"{found} more signals than acknowledged, not {possible}"
            self.n_done_in_doubt += found > 0
            self.n_signals[i] += found
