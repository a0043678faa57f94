"""Fetchers take turns at hosts: one after the other, with the delay of the host in between."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recrawl.corpus import Corpus
from recrawl.messages.turns import TurnEnd
from recrawl.service.hosting.host_turns import HostTurns
from recrawl.service.limits import ServiceLimits
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer

TURN_SECONDS = ServiceLimits().turn_seconds_max


class SteppedTime:
    def __init__(self) -> None:
        self.at_ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    async def sleep(self, seconds: float) -> None:
        self.pass_seconds(seconds)

    def pass_seconds(self, seconds: float) -> None:
        self.at_ms += round(seconds * 1000)


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus]) -> Corpus:
    return open_corpus(politeness={})


@pytest.fixture
def time() -> SteppedTime:
    return SteppedTime()


@pytest.fixture
def open_turns(tmp_path: Path, time: SteppedTime) -> Callable[..., HostTurns]:
    def make(n_at_once_max: int = 1) -> HostTurns:
        return HostTurns(delay_seconds=2.0, n_at_once_max=n_at_once_max, folder=tmp_path, time=time)

    return make


def test_a_host_has_one_turn_at_a_time_and_a_delay_after_it(
    open_turns: Callable[..., HostTurns], time: SteppedTime
) -> None:
    turns = open_turns()
    assert turns.begin("a", "x.example").is_granted
    assert turns.begin("b", "y.example").is_granted
    time.pass_seconds(10)
    refused = turns.begin("c", "x.example")
    assert not refused.is_granted
    assert refused.seconds > 0
    turns.end(TurnEnd("a", "x.example"))
    assert turns.begin("c", "x.example").seconds == pytest.approx(2.0)
    time.pass_seconds(1.9)
    assert not turns.begin("c", "x.example").is_granted
    time.pass_seconds(0.1)
    assert turns.begin("c", "x.example").is_granted


def test_a_repeated_begin_is_the_same_turn(
    open_turns: Callable[..., HostTurns], time: SteppedTime
) -> None:
    turns = open_turns()
    assert turns.begin("a", "x.example").seconds == TURN_SECONDS
    time.pass_seconds(5)
    again = turns.begin("a", "x.example")
    assert again.is_granted
    assert again.seconds == TURN_SECONDS - 5
    assert len(turns) == 1


def test_what_one_fetcher_learns_holds_for_all(
    open_turns: Callable[..., HostTurns], time: SteppedTime
) -> None:
    turns = open_turns()
    turns.begin("a", "x.example")
    turns.end(TurnEnd("a", "x.example", 60.0, crawl_delay_seconds=7.0, n_failures=1))
    time.pass_seconds(59)
    assert turns.begin("b", "x.example").seconds == pytest.approx(1.0)
    time.pass_seconds(1)
    begun = turns.begin("b", "x.example")
    assert (begun.crawl_delay_seconds, begun.n_failures) == (7.0, 1)
    # A fetcher that says less than the crawl delay does not shorten it.
    turns.end(TurnEnd("b", "x.example", 0.0, crawl_delay_seconds=7.0))
    assert turns.begin("c", "x.example").seconds == pytest.approx(7.0)


def test_a_turn_that_is_not_renewed_ends(
    open_turns: Callable[..., HostTurns], time: SteppedTime
) -> None:
    turns = open_turns()
    turns.begin("a", "x.example")
    turns.begin("b", "y.example")
    time.pass_seconds(TURN_SECONDS - 1)
    assert turns.renew("a", "x.example") == TURN_SECONDS
    time.pass_seconds(1)
    assert turns.begin("c", "y.example").seconds == pytest.approx(2.0)
    assert not turns.begin("d", "x.example").is_granted
    time.pass_seconds(2)
    assert turns.begin("c", "y.example").is_granted
    assert turns.renew("b", "y.example") is None, "another fetcher has the host"
    # A late end changes nothing for the other turn.
    turns.end(TurnEnd("b", "y.example"))
    time.pass_seconds(2)
    assert not turns.begin("e", "y.example").is_granted


def test_delays_and_open_turns_survive_a_crash_of_the_server(
    open_turns: Callable[..., HostTurns], time: SteppedTime
) -> None:
    turns = open_turns()
    for name in "ab":
        turns.begin(name, f"{name}.example")
    turns.end(TurnEnd("a", "a.example", 100.0))
    turns = open_turns()
    assert turns.begin("c", "a.example").seconds == pytest.approx(100.0)
    # The request to b may be under way, and its fetcher can go on.
    assert turns.begin("d", "b.example").seconds == pytest.approx(TURN_SECONDS + 2.0)
    assert turns.renew("b", "b.example") == TURN_SECONDS
    time.pass_seconds(TURN_SECONDS)
    assert turns.renew("b", "b.example") == TURN_SECONDS
    time.pass_seconds(2)
    assert not turns.begin("d", "b.example").is_granted
    turns.end(TurnEnd("b", "b.example"))
    time.pass_seconds(2)
    assert turns.begin("d", "b.example").is_granted


def test_the_number_of_turns_is_limited(time: SteppedTime) -> None:
    limits = ServiceLimits(turns_max=2, turn_seconds_max=5.0)
    turns = HostTurns(delay_seconds=1.0, n_at_once_max=1, time=time, limits=limits)
    assert all(turns.begin(name, f"{name}.example").is_granted for name in "ab")
    assert turns.begin("c", "c.example").seconds == 1.0
    assert turns.renew("d", "d.example") is None
    time.pass_seconds(5)
    assert turns.begin("c", "c.example").seconds == 5.0


def test_a_host_may_have_several_turns(
    open_turns: Callable[..., HostTurns], time: SteppedTime
) -> None:
    turns = open_turns(2)
    assert turns.begin("a", "x.example").is_granted
    assert turns.begin("b", "x.example").seconds == pytest.approx(2.0)
    time.pass_seconds(2)
    assert turns.begin("b", "x.example").is_granted
    time.pass_seconds(2)
    assert not turns.begin("c", "x.example").is_granted


def test_turns_over_http(server: RunningServer, corpus: Corpus) -> None:
    corpus.add(URLS)
    wanted = {"begin": [{"turn": "a", "host": "Site0.example"}]}
    begun = server.post("/turns", wanted).json["begun"]["a"]
    assert begun["is_granted"]
    assert begun["seconds"] == TURN_SECONDS
    body = {
        "begin": [{"turn": "b", "host": "site0.example"}],
        "renew": [{"turn": "a", "host": "site0.example"}, {"turn": "z", "host": "site0.example"}],
    }
    found = server.post("/turns", body).json
    assert not found["begun"]["b"]["is_granted"]
    assert found["renewed"] == {"a": TURN_SECONDS}
    assert server.post("/turns", {}).json == {"begun": {}, "renewed": {}}
    wrong_ones: list[dict[str, Any]] = [
        {"begin": [{"turn": "", "host": "x"}]},
        {"end": [{"turn": "a", "host": "x", "wait_seconds": -1}]},
        {"rest": [{"host": "x", "seconds": 1e300}]},
        {"other": []},
    ]
    for wrong in wrong_ones:
        assert server.post("/turns", wrong).problem == "invalid-value"


def test_a_host_that_rests_is_not_leased_from(server: RunningServer, corpus: Corpus) -> None:
    corpus.add(URLS)
    rest = [{"host": "site0.example", "seconds": 600}, {"host": "unknown.example", "seconds": 600}]
    assert server.post("/turns", {"rest": rest}).status == 200
    assert (corpus.host("site0.example").blocked_until_ms or 0) > corpus.now_ms() + 500_000
    assert {urls.split("/")[2] for urls in (order.url for order in corpus.lease(100))} == {
        f"site{i}.example" for i in (1, 2, 3)
    }
    # A shorter rest does not end a longer one.
    server.post("/turns", {"rest": [{"host": "site0.example", "seconds": 1}]})
    assert (corpus.host("site0.example").blocked_until_ms or 0) > corpus.now_ms() + 500_000


def test_a_full_disk_does_not_block_a_host_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = HostTurns(delay_seconds=0.0, n_at_once_max=1, folder=tmp_path)

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        for take in (turns.begin, turns.renew):
            with pytest.raises(OSError, match="no space"):
                take("a", "site.example")
    assert turns.begin("b", "site.example").is_granted
    turns.close()


def test_invented_hosts_do_not_fill_the_table(open_turns: Callable[..., HostTurns]) -> None:
    turns = open_turns()
    for i in range(100):
        turns.end(TurnEnd(f"made-up-{i}", f"host-{i}.example", wait_seconds=1e6))
        assert turns.begin(f"first-{i}", f"host-{i}.example").is_granted
