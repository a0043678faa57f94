"""An outbox sends changes of a page in order, waits longer and longer, and loses nothing."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from recrawl.service.webhooks.limits import WebhookLimits
from recrawl.service.webhooks.outbox import Letter, Outbox

LIMITS = WebhookLimits(
    attempts_max=3, backoff_seconds=10, backoff_factor=2, failures_max=100, requests_max=2
)


def letter(i: int, page: str = "") -> Letter:
    return Letter(id=f"{i:04}", page=(None, page or f"page {i}"), event=json.dumps({"i": i}))


def fill(outbox: Outbox, *pages: str) -> None:
    for i, page in enumerate(pages, 1):
        outbox.add(f"c{i}", letter(i, page) if page else None)


def ids(request: list[Letter]) -> list[int]:
    return [int(one.id) for one in request]


def fail(outbox: Outbox, request: list[Letter], now: float, **more: Any) -> None:
    outbox.fail(request, now, **{"problem": "no", "jitter": 1.0, **more})


def test_pages_do_not_wait_for_each_other_but_changes_of_one_do() -> None:
    outbox = Outbox(LIMITS)
    fill(outbox, "a", "a", "b", "c")
    first, second = outbox.next_request(0), outbox.next_request(0)
    assert (ids(first), ids(second), outbox.next_request(0)) == ([1], [3], [])
    outbox.deliver(second)
    assert ids(outbox.next_request(0)) == [4]
    outbox.deliver(first)
    assert ids(outbox.next_request(0)) == [2]


def test_the_place_moves_over_what_is_delivered_or_not_wanted() -> None:
    outbox = Outbox(LIMITS)
    fill(outbox, "", "", "a", "", "b", "")
    assert outbox.checkpoint() == (None, "c2")
    assert not outbox.has_changed
    first, second = outbox.next_request(0), outbox.next_request(0)
    outbox.deliver(second)
    assert not outbox.has_changed  # the first one is still on its way
    outbox.deliver(first)
    assert outbox.checkpoint() == (None, "c6")
    assert outbox.is_all_stored


def test_the_place_moves_over_a_failure_once_it_is_stored() -> None:
    outbox = Outbox(LIMITS)
    fill(outbox, "a", "a", "b")
    first = outbox.next_request(0)
    fail(outbox, first, 100)
    stored, cursor = outbox.checkpoint()
    # The second change of the page waits behind the first, so it is stored too.
    assert [row["id"] for row in stored or ()] == ["0001", "0002"]
    assert cursor == "c2"
    fill_later = letter(4, "a")
    outbox.add("c4", fill_later)
    assert fill_later.is_stored
    outbox.deliver(outbox.next_request(100))
    assert outbox.checkpoint().cursor == "c4"


def test_waits_grow_and_end_with_a_dead_letter() -> None:
    outbox = Outbox(LIMITS)
    fill(outbox, "a", "a")
    now, waits = 1_000.0, []
    while request := outbox.next_request(now):
        fail(outbox, request, now)
        if request[0].is_dead:
            break
        wait = outbox.seconds_to_next(now)
        assert wait is not None
        assert outbox.next_request(now + wait - 0.001) == []
        waits.append(wait)
        now += wait
    assert waits == [10, 20]
    assert outbox.n_dead == 1
    assert outbox.next_request(now + 1e9) == []  # the later change is held back
    assert outbox.seconds_to_next(now) is None


@pytest.mark.parametrize(("jitter", "wait"), [(0.0, 5.0), (0.5, 7.5), (1.0, 10.0)])
def test_jitter_spreads_waits_between_half_and_whole(jitter: float, wait: float) -> None:
    outbox = Outbox(LIMITS)
    fill(outbox, "a")
    fail(outbox, outbox.next_request(0), 0, jitter=jitter)
    assert outbox.seconds_to_next(0) == wait


def test_a_receiver_may_ask_for_a_wait() -> None:
    outbox = Outbox(WebhookLimits(retry_after_seconds_max=500))
    fill(outbox, "a", "b", "c")
    first, second = outbox.next_request(0), outbox.next_request(0)
    fail(outbox, first, 0, retry_after_seconds=120)
    outbox.deliver(second)  # does not end the wait
    assert outbox.next_request(119) == []
    assert outbox.seconds_to_next(0) == 120
    assert ids(outbox.next_request(120)) == [1]
    other = outbox.next_request(120)
    fail(outbox, other, 120, retry_after_seconds=1e9)
    assert outbox.waits_until == 620  # not longer than the limit


def test_a_receiver_that_is_down_gets_one_request_at_a_time() -> None:
    limits = WebhookLimits(
        failures_max=2, backoff_seconds=10, backoff_factor=2, down_seconds_max=30
    )
    outbox = Outbox(limits, events_max=5)
    fill(outbox, *"abcdefghijkl")
    assert [ids(outbox.next_request(0)) for _ in range(4)] == [
        [1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10],
        [11, 12],
        [],
    ]
    outbox = Outbox(limits, events_max=5)
    fill(outbox, *"abcdefghijkl")
    for at in (0, 0):
        fail(outbox, outbox.next_request(at), at)
    assert outbox.is_down
    assert outbox.next_request(9.9) == []
    probe = outbox.next_request(10)
    assert (len(probe), outbox.next_request(10)) == (1, [])
    fail(outbox, probe, 10)
    assert outbox.waits_until == 30
    fail(outbox, outbox.next_request(30), 30)
    assert outbox.waits_until == 60  # the longest wait
    outbox.deliver(outbox.next_request(60))
    assert outbox.n_failures == 0
    assert len(outbox.next_request(60)) == 1  # what has failed is sent alone
    assert len(outbox.next_request(60)) == 1


def test_a_batch_keeps_the_order_of_a_page_and_the_limits() -> None:
    outbox = Outbox(WebhookLimits(request_bytes_max=40), events_max=3)
    fill(outbox, "a", "b", "a", "c", "a", "a")
    assert ids(outbox.next_request(0)) == [1, 3, 5]
    assert ids(outbox.next_request(0)) == [2, 4]
    assert outbox.next_request(0) == []
    outbox = Outbox(WebhookLimits(request_bytes_max=20), events_max=3)
    fill(outbox, "a", "b", "a")
    assert ids(outbox.next_request(0)) == [1, 3]  # by size
    assert ids(outbox.next_request(0)) == [2]
    outbox = Outbox(WebhookLimits(request_bytes_max=1), events_max=3)
    fill(outbox, "a", "b")
    assert ids(outbox.next_request(0)) == [1]  # a single event may be larger


def test_after_a_failed_batch_each_event_is_sent_alone() -> None:
    outbox = Outbox(LIMITS, events_max=10)
    fill(outbox, "a", "a", "b")
    fail(outbox, outbox.next_request(0), 0)
    first, second = outbox.next_request(10), outbox.next_request(10)
    assert (ids(first), ids(second)) == ([1], [3])
    outbox.deliver(first)
    assert ids(outbox.next_request(10)) == [2]


def die(outbox: Outbox, now: float = 0.0) -> None:
    while (request := outbox.next_request(now)) or outbox.seconds_to_next(now) is not None:
        if request:
            fail(outbox, request, now)
        now += outbox.seconds_to_next(now) or 0.0


def test_dead_letters_are_sent_again_or_given_up() -> None:
    outbox = Outbox(LIMITS)
    fill(outbox, "a", "a", "b")
    die(outbox)
    assert [(one.id, one.is_dead) for one in outbox.letters] == [
        ("0001", True),
        ("0002", False),
        ("0003", True),
    ]
    assert outbox.send_again(["0002", "none"], 0) == 0  # not dead
    assert outbox.send_again(["0001"], 500) == 1
    request = outbox.next_request(500)
    assert ids(request) == [1]
    assert request[0].n_attempts == 0
    outbox.deliver(request)
    assert ids(outbox.next_request(500)) == [2]
    assert outbox.drop(None) == 1
    assert ids(outbox.letters) == [2]


def test_dropping_a_dead_letter_lets_the_later_changes_go_on() -> None:
    outbox = Outbox(LIMITS)
    fill(outbox, "a", "a")
    die(outbox)
    assert outbox.drop(["0001"]) == 1
    assert ids(outbox.next_request(0)) == [2]


def test_dead_letters_hold_nothing_back_if_so_configured() -> None:
    outbox = Outbox(LIMITS, holds_back=False)
    fill(outbox, "a", "a")
    die(outbox)
    assert outbox.n_dead == 2
    assert outbox.checkpoint().cursor == "c2"
    assert outbox.send_again(None, 7) == 2
    assert ids(outbox.next_request(7)) == [1]
    held = Outbox(LIMITS)
    fill(held, "a", "a")
    die(held)
    held.set_holding_back(False)
    assert ids(held.next_request(0)) == [2]


def stored(outbox: Outbox) -> list[Letter]:
    rows = outbox.checkpoint().letters
    return [Letter.from_json(json.loads(json.dumps(row))) for row in rows or ()]


def test_stored_letters_continue_after_a_restart() -> None:
    outbox = Outbox(LIMITS)
    fill(outbox, "a", "a", "b")
    fail(outbox, outbox.next_request(0), 0)
    again = Outbox(LIMITS, stored(outbox))
    # The place was not stored any more, so the feed is read again from before.
    fill(again, "a", "a", "b")
    assert again.n_letters == 3
    assert ids(again.next_request(0)) == [3]
    assert ids(again.next_request(10)) == [1]
    assert again.checkpoint().cursor == "c2"


def test_a_change_that_is_read_again_goes_before_later_ones() -> None:
    outbox = Outbox(LIMITS, [letter(5, "a")])
    outbox.add("c4", letter(4, "a"))
    assert ids(outbox.next_request(1)) == [4]


def test_letters_that_are_not_sent_are_stored_so_that_the_place_can_move() -> None:
    outbox = Outbox(LIMITS, events_max=10)
    fill(outbox, "a", "b", "a")
    outbox.store_all()
    assert outbox.checkpoint().cursor == "c3"
    assert ids(outbox.next_request(0)) == [1, 3, 2]


def test_requests_that_we_cut_off_do_not_count() -> None:
    outbox = Outbox(LIMITS)
    fill(outbox, "a")
    request = outbox.next_request(0)
    outbox.put_back(request)
    assert (request[0].n_attempts, outbox.n_failures) == (0, 0)
    assert ids(outbox.next_request(0)) == [1]


def test_a_checkpoint_that_failed_is_made_again() -> None:
    outbox = Outbox(LIMITS)
    fill(outbox, "a", "")
    fail(outbox, outbox.next_request(0), 0)
    first = outbox.checkpoint()
    assert not outbox.has_changed
    outbox.restore(first)
    assert outbox.checkpoint() == first


def test_no_more_is_read_than_there_is_room_for() -> None:
    outbox = Outbox(WebhookLimits(letters_max=3, letters_bytes_max=1_000))
    assert (outbox.room(10), outbox.room(400)) == (3, 2)
    fill(outbox, "a", "b", "", "c")
    assert outbox.room(10) == 0
    outbox.deliver(outbox.next_request(0))
    assert outbox.room(10) == 1


class OutboxMachine(RuleBasedStateMachine):
    """Any order of changes, answers and kills: all arrive, and changes of a page in order."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = WebhookLimits(
            attempts_max=3, backoff_seconds=1, failures_max=3, requests_max=3, letters_max=8
        )
        self.now = 0.0
        self.feed: list[Letter | None] = []
        self.place = 0  # what was committed
        self.letters: list[dict[str, Any]] = []  # what was stored
        self.seen: list[str] = []
        self.open()

    def open(self, **more: Any) -> None:
        letters = [Letter.from_json(json.loads(json.dumps(row))) for row in self.letters]
        self.outbox = Outbox(self.limits, letters, events_max=2)
        self.n_read = self.place
        self.in_flight: list[list[Letter]] = []

    @rule(page=st.sampled_from(["a", "b", "c", ""]))
    def change(self, page: str) -> None:
        i = len(self.feed) + 1
        self.feed.append(letter(i, page) if page else None)

    @precondition(lambda self: self.outbox.room(100) and self.n_read < len(self.feed))
    @rule()
    def read(self) -> None:
        found = self.feed[self.n_read]
        self.n_read += 1
        copy = None if found is None else Letter(id=found.id, page=found.page, event=found.event)
        self.outbox.add(str(self.n_read), copy)

    @rule()
    def send(self) -> None:
        if request := self.outbox.next_request(self.now):
            pages = {one.page for other in self.in_flight for one in other}
            assert not pages & {one.page for one in request}
            self.in_flight.append(request)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), is_lost=st.booleans(), jitter=st.floats(0, 1))
    def answer(self, data: st.DataObject, is_lost: bool, jitter: float) -> None:
        i = data.draw(st.integers(0, len(self.in_flight) - 1))
        request = self.in_flight.pop(i)
        if is_lost and data.draw(st.booleans()):
            self.receive(request)  # the answer got lost, not the request
        if is_lost:
            fail(self.outbox, request, self.now, jitter=jitter)
        else:
            self.receive(request)
            self.outbox.deliver(request)

    def receive(self, request: list[Letter]) -> None:
        for one in request:
            earlier = [
                other.id
                for other in self.feed
                if other is not None and other.page == one.page and other.id < one.id
            ]
            assert {*earlier} <= {*self.seen}, f"{one.id} came before {earlier}"
            self.seen.append(one.id)

    @rule()
    def store(self) -> None:
        checkpoint = self.outbox.checkpoint()
        if checkpoint.letters is not None:
            self.letters = checkpoint.letters
        if checkpoint.cursor is not None:
            self.place = int(checkpoint.cursor)

    @rule()
    def kill(self) -> None:
        self.open()

    @rule()
    def kill_while_storing(self) -> None:
        checkpoint = self.outbox.checkpoint()
        if checkpoint.letters is not None:
            self.letters = checkpoint.letters
        self.open()

    @rule()
    def store_all(self) -> None:
        self.outbox.store_all()

    @rule()
    def send_again(self) -> None:
        self.outbox.send_again(None, self.now)

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def nothing_is_lost(self) -> None:
        stored = {row["id"] for row in self.letters}
        passed = {one.id for one in self.feed[: self.place] if one is not None}
        assert passed <= {*self.seen} | stored

    @invariant()
    def limits_hold(self) -> None:
        assert self.outbox.n_letters <= self.limits.letters_max
        assert self.outbox.n_in_flight == len(self.in_flight) <= self.limits.requests_max

    def teardown(self) -> None:
        """In the end the receiver works, and everything arrives."""
        for request in self.in_flight:
            self.outbox.put_back(request)
        self.in_flight = []
        for _ in range(10 * len(self.feed) + 10):
            self.outbox.send_again(None, self.now)
            while self.outbox.room(100) and self.n_read < len(self.feed):
                self.read()
            while request := self.outbox.next_request(self.now):
                self.receive(request)
                self.outbox.deliver(request)
            self.now += self.outbox.seconds_to_next(self.now) or 0.0
        assert {one.id for one in self.feed if one is not None} <= {*self.seen}
        self.store()
        assert (self.place, self.letters) == (len(self.feed), [])


TestOutbox: Callable[[], Any] = OutboxMachine.TestCase
TestOutbox.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)  # type: ignore[attr-defined]
