"""Time, chance and the order of events of one simulated run.

Everything happens in one thread, and every choice is drawn from one generator: the same seed is the
same run.  Two things that happen at the same time are simulated by nesting: while an actor is in
the middle of a call, the events of the others go on.
"""

import heapq
import random
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

__all__ = ["Actor", "Killed", "PropertyViolatedError", "World"]

_DEPTH_MAX: Final = 3


class Killed(BaseException):
    """Raised inside a call of an actor whose process ends here."""


class PropertyViolatedError(AssertionError):
    """Raised when a run does not have a property that every run must have."""


class Actor(Protocol):
    """A process that can stand still, and end."""

    is_dead: bool

    def die(self) -> None:
        """End without any goodbye."""
        ...


class _Event(NamedTuple):
    at_ms: int
    number: int
    actor: Actor | None
    kind: str
    act: Callable[[], None]


class World:
    """One simulated run.

    Parameters
    ----------
    seed
        Seed of all choices.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 0
        self.n_steps = 0
        self.n_names = 0
        """Number of names that are random otherwise."""
        self.has_faults = True
        self.violation: PropertyViolatedError | None = None
        self._queue: list[_Event] = []
        self._n_events = 0
        self._depth = 0
        self._n_holds = 0
        # Actors that stand still, each with the kinds of events that go on all the same.
        self._held: dict[Actor, Collection[str]] = {}
        self._deferred: dict[Actor, list[_Event]] = {}

    # ------------------------------------------------------------------ chance

    def happens(self, probability: float) -> bool:
        """Return whether something happens; faults and other rare things."""
        return self.rng.random() < probability

    def fault(self, probability: float) -> bool:
        """Return whether a fault happens; never after faults have ended."""
        return self.has_faults and self.rng.random() < probability

    # ------------------------------------------------------------------ events

    def after(
        self, ms: float, act: Callable[[], None], actor: Actor | None = None, kind: str = ""
    ) -> None:
        """Let something happen later.

        Parameters
        ----------
        ms
            Milliseconds from now.
        act
            What happens.
        actor
            Process that does it; it does not happen if that has ended.
        kind
            What it is, see `hold`.
        """
        self._n_events += 1
        at_ms = self.now_ms + max(round(ms), 0)
        heapq.heappush(self._queue, _Event(at_ms, self._n_events, actor, kind, act))

    def run(self, ms: float) -> None:
        """Let everything happen that is due within some milliseconds."""
        until_ms = self.now_ms + round(ms)
        self._depth += 1
        try:
            while self._queue and self._queue[0].at_ms <= until_ms and self.violation is None:
                event = heapq.heappop(self._queue)
                self.now_ms = max(self.now_ms, event.at_ms)
                self._do(event)
            self.now_ms = max(self.now_ms, until_ms)
        finally:
            self._depth -= 1

    def _do(self, event: _Event) -> None:
        actor = event.actor
        if actor is not None:
            if actor.is_dead:
                return
            if actor in self._held and event.kind not in self._held[actor]:
                self._deferred[actor].append(event)
                return
        self.n_steps += 1
        try:
            event.act()
        except Killed:
            assert actor is not None
            actor.die()
        except PropertyViolatedError as error:
            self.violation = self.violation or error

    def check(self, holds: bool, what: str) -> None:
        """End the run if a property does not hold."""
        if not holds and self.violation is None:
            self.violation = PropertyViolatedError(f"at {self.now_ms / 1000:.3f} s: {what}")

    # ------------------------------------------------------------------ standing still

    def is_held(self, actor: Actor) -> bool:
        """Return whether an actor stands still, or is in the middle of a call."""
        return actor in self._held

    def hold(self, actor: Actor, kinds: Collection[str] = ()) -> None:
        """Let an actor stand still; only events of some kinds go on."""
        assert actor not in self._held
        self._held[actor] = kinds
        self._deferred[actor] = []

    def release(self, actor: Actor) -> None:
        """Let an actor go on, first with what it has missed."""
        del self._held[actor]
        for event in self._deferred.pop(actor):
            self.after(0, event.act, actor, event.kind)

    def interleave(self, actor: Actor, ms: float, kinds: Collection[str] = ()) -> None:
        """Let the others go on while an actor is in the middle of a call.

        Does nothing if too many calls are under way already, or after the run, when checks look at
        a world that stands still.

        Parameters
        ----------
        actor
            Actor whose call it is.
        ms
            Duration in milliseconds.
        kinds
            Kinds of events of the actor that go on as well, as they have threads of their own.
        """
        if not 0 < self._depth < _DEPTH_MAX or actor in self._held:
            return
        self.hold(actor, kinds)
        try:
            self.run(ms)
        finally:
            self.release(actor)
        if self.violation is not None:
            raise self.violation
