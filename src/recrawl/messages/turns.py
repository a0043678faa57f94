"""Turns: the right of one fetcher to send a request to a host, while others wait."""

from typing import NamedTuple

__all__ = ["TurnEnd", "TurnStart", "TurnsAnswer"]


class TurnEnd(NamedTuple):
    """A request to a host that has ended."""

    turn: str
    """Name that the fetcher gave the turn."""
    host: str
    """Name or address of the host."""
    wait_seconds: float = 0.0
    """Time for which nobody may contact the host: its delay, or what it asked for."""
    crawl_delay_seconds: float = 0.0
    """Delay that its robots.txt file asks for."""
    answer_seconds: float = 0.0
    """Average time that it takes to answer."""
    n_failures: int = 0
    """Number of failures in a row."""


class TurnStart(NamedTuple):
    """Whether a request to a host may be sent now, and what is known of the host."""

    is_granted: bool
    seconds: float
    """Time until the turn ends unless it is renewed; if it is not granted, time to wait."""
    crawl_delay_seconds: float = 0.0
    answer_seconds: float = 0.0
    n_failures: int = 0


class TurnsAnswer(NamedTuple):
    """What became of turns."""

    begun: dict[str, TurnStart]
    """Answers to the turns that were asked for, by name."""
    renewed: dict[str, float]
    """Seconds until each renewed turn ends; a turn that is lost is missing."""
