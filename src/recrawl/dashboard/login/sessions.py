"""Sessions: who is logged in, kept in memory, limited in number and time."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from recrawl.dashboard.limits import DashboardLimits

__all__ = ["Session", "Sessions"]


@dataclass(slots=True)
class Session:
    """One person who is logged in."""

    key_ids: dict[str, str]
    """Id of the API key for each corpus."""
    began_at: float
    used_at: float
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """Text that the forms of the person carry."""


class Sessions:
    """All sessions of a server.

    Only the hash of a session's id is kept, so that looking it up tells nothing about it.

    Parameters
    ----------
    limits
        Limits of the dashboard.
    now
        Time source, in seconds.
    """

    def __init__(self, limits: DashboardLimits, now: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._now = now
        self._sessions: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, key_ids: Mapping[str, str], replaced: str | None = None) -> str:
        """Begin a session; return its id, which is new in any case.

        Parameters
        ----------
        key_ids
            Id of the API key for each corpus.
        replaced
            Id of the session that the person had; its keys are added to those of the new one,
            which then ends when the old one would have ended.
        """
        self._drop_old()
        before = None if replaced is None else self._sessions.pop(_hash(replaced), None)
        known = {} if before is None else before.key_ids
        now = self._now()
        # A second key must not lengthen the time for which the first one is believed.
        is_kept = before is not None and not known.keys() <= key_ids.keys()
        began_at = before.began_at if before is not None and is_kept else now
        session = Session({**known, **key_ids}, began_at, now)
        for key_id in session.key_ids.values():
            self._make_room(key_id, self._limits.key_sessions_max)
        self._make_room(None, self._limits.sessions_max)
        session_id = secrets.token_urlsafe(32)
        self._sessions[_hash(session_id)] = session
        return session_id

    def find(self, session_id: str, *, is_used: bool = True) -> Session | None:
        """Return a session; None if there is none, or it has ended.

        Parameters
        ----------
        session_id
            Id from the cookie of the person.
        is_used
            Whether the person did something; a page that brings itself up to date does not count.
        """
        session = self._sessions.get(_hash(session_id))
        if session is None:
            return None
        if self._is_over(session):
            del self._sessions[_hash(session_id)]
            return None
        if is_used:
            session.used_at = self._now()
        return session

    def end(self, session_id: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(_hash(session_id), None)

    def _is_over(self, session: Session) -> bool:
        now, limits = self._now(), self._limits
        is_idle = now - session.used_at >= limits.idle_seconds_max
        return is_idle or now - session.began_at >= limits.session_seconds_max

    def _drop_old(self) -> None:
        over = [one for one, session in self._sessions.items() if self._is_over(session)]
        for one in over:
            del self._sessions[one]

    def _make_room(self, key_id: str | None, n_max: int) -> None:
        """End the sessions that were idle longest, of one key or of all, until one more fits."""
        meant = [
            (session.used_at, one)
            for one, session in self._sessions.items()
            if key_id is None or key_id in session.key_ids.values()
        ]
        for _, one in sorted(meant)[: max(len(meant) - n_max + 1, 0)]:
            del self._sessions[one]


def _hash(session_id: str) -> bytes:
    return sha256(session_id.encode()).digest()
