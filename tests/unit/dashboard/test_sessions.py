"""Sessions: their number and their age are limited."""

from recrawl.dashboard.limits import DashboardLimits
from recrawl.dashboard.login.sessions import Sessions

LIMITS = DashboardLimits(
    sessions_max=6, key_sessions_max=3, idle_seconds_max=100.0, session_seconds_max=250.0
)


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_sessions_end_when_they_are_idle_or_old() -> None:
    clock = Clock()
    sessions = Sessions(LIMITS, clock)
    idle, used = sessions.begin({"news": "a"}), sessions.begin({"news": "b"})
    for _ in range(4):
        clock.now += 60.0
        # A page that brings itself up to date does not keep a session.
        sessions.find(idle, is_used=False)
        assert sessions.find(used) is not None
    assert sessions.find(idle) is None
    clock.now += 10.0
    assert sessions.find(used) is None
    assert len(sessions) == 0


def test_the_session_that_was_idle_longest_makes_room() -> None:
    clock = Clock()
    sessions = Sessions(LIMITS, clock)
    first = [sessions.begin({"news": "a"}) for _ in range(3)]
    clock.now += 1.0
    for one in first[1:]:
        sessions.find(one)
    clock.now += 1.0
    sessions.begin({"news": "a"})
    assert [sessions.find(one) is not None for one in first] == [False, True, True]
    for key in "bcdefgh":
        sessions.begin({"news": key})
    assert len(sessions) == 6


def test_a_second_key_is_added_to_the_session_of_a_person() -> None:
    sessions = Sessions(LIMITS, Clock())
    first = sessions.begin({"news": "a"})
    second = sessions.begin({"shop": "b"}, first)
    found = sessions.find(second)
    assert found is not None
    assert found.key_ids == {"news": "a", "shop": "b"}
    assert sessions.find(first) is None
    sessions.end(second)
    sessions.end("never begun")
    assert len(sessions) == 0


def test_a_second_key_does_not_lengthen_a_session() -> None:
    clock = Clock()
    sessions = Sessions(LIMITS, clock)
    session_id = sessions.begin({"news": "a"})
    for name in ("shop", "blog"):
        clock.now += 90.0
        session_id = sessions.begin({name: "b"}, session_id)
    clock.now += 69.0
    assert sessions.find(session_id) is not None
    clock.now += 1.0
    assert sessions.find(session_id) is None
    # Who shows all keys again begins anew.
    session_id = sessions.begin({"news": "a"})
    clock.now += 90.0
    session_id = sessions.begin({"news": "c", "shop": "b"}, session_id)
    for _ in range(2):
        clock.now += 99.0
        assert sessions.find(session_id) is not None
