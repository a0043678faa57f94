"""The account of what a corpus acknowledged notices what is missing, doubled or half done."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recrawl
from benchmarks.acknowledged import Acknowledged, outcome_of
from benchmarks.workload import CONFIG
from recrawl.corpus import Corpus, CorpusConfig

URLS = [f"https://h{i}.example/" for i in range(12)]
N_PARTITIONS = 2


@pytest.fixture
def account() -> Acknowledged:
    return Acknowledged(N_PARTITIONS)


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    tables = {**CONFIG, "corpus": {"partitions": N_PARTITIONS}}
    with recrawl.open(tmp_path, CorpusConfig.from_dict(tables)) as corpus:
        yield corpus


def do(account: Acknowledged, op: str, answer: dict[str, Any], **facts: Any) -> None:
    account.record({"will": op, "op": op, **facts})
    account.record({"done": op, **answer})


def add_and_lease(account: Acknowledged, corpus: Corpus) -> list[int]:
    corpus.add(URLS)
    do(account, "add", {}, urls=URLS)
    orders = corpus.lease(20, seconds=3600)
    do(account, "lease", {"orders": [(order.handle, order.url) for order in orders]}, n=20)
    return [order.handle for order in orders]


def test_a_corpus_that_did_everything_passes(account: Acknowledged, corpus: Corpus) -> None:
    handles = add_and_lease(account, corpus)
    counted = corpus.report([outcome_of(handle) for handle in handles[:5]]).counted.tolist()
    do(account, "report", {"counted": counted}, handles=handles[:5])
    corpus.set(URLS[:3], importance=4.0)
    do(account, "set", {}, urls=URLS[:3], importance=4.0)
    corpus.release(handles[5:7])
    do(account, "release", {}, handles=handles[5:7])
    account.check(corpus)
    assert account.n_operations == 5


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda corpus: corpus.remove([URLS[4]]), "lost 1 pages"),
        (lambda corpus: corpus.add(["https://other.example/"]), "nobody added"),
        (lambda corpus: corpus.set([URLS[4]], importance=8.0), "has importance"),
        (lambda corpus: corpus.signal([URLS[4]], source="feed"), "more signals than"),
        (lambda corpus: corpus.release([account_handle(corpus)]), "was lost"),
        (lambda corpus: corpus.report([outcome_of(account_handle(corpus))]), "has the ETag"),
    ],
)
def test_differences_are_found(
    change: Callable[[Corpus], object], found: str, account: Acknowledged, corpus: Corpus
) -> None:
    add_and_lease(account, corpus)
    account.check(corpus)
    change(corpus)
    with pytest.raises(AssertionError, match=found):
        account.check(corpus)


def account_handle(corpus: Corpus) -> int:
    """Return the handle of the first order of the first partition."""
    first = int(corpus.nodes[0].shard.tables.registers.first_order[0])
    return first << 12


def test_a_page_that_two_hold_is_found(account: Acknowledged) -> None:
    do(account, "lease", {"orders": [(4096, URLS[0])]}, n=1)
    with pytest.raises(AssertionError, match="is held by two"):
        do(account, "lease", {"orders": [(8192, URLS[0])]}, n=1)


def test_an_order_that_is_handed_out_twice_is_found(account: Acknowledged) -> None:
    do(account, "lease", {"orders": [(4096, URLS[0])]}, n=1)
    with pytest.raises(AssertionError, match="handed out twice"):
        do(account, "lease", {"orders": [(4096, URLS[1])]}, n=1)


def test_a_doubtful_operation_may_be_done_or_not_but_not_by_half(
    account: Acknowledged, corpus: Corpus
) -> None:
    account.record({"will": 1, "op": "add", "urls": URLS})
    account.died()
    account.check(corpus)  # not done
    assert account.n_done_in_doubt == 0
    corpus.add(URLS)
    with pytest.raises(AssertionError, match="are back"):
        account.check(corpus)  # after the first check there is no doubt any more
    account.record({"will": 2, "op": "add", "urls": URLS})
    account.died()
    account.check(corpus)
    assert account.n_done_in_doubt == N_PARTITIONS
    corpus.remove(URLS[:3])
    account.record({"will": 3, "op": "remove", "urls": URLS})
    account.died()
    with pytest.raises(AssertionError, match="half done"):
        account.check(corpus)


def test_doubtful_outcomes_are_settled_exactly(account: Acknowledged, corpus: Corpus) -> None:
    handles = add_and_lease(account, corpus)
    corpus.report([outcome_of(handle) for handle in handles])
    account.record({"will": 1, "op": "report", "handles": handles})
    account.died()
    account.check(corpus)
    assert sorted(account.counted) == sorted(handles)
    account.check(corpus)
