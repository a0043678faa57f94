"""What robots.txt files say, as fetchers that have read them tell a corpus."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

__all__ = [
    "ROBOTS_CLOSES",
    "ROBOTS_LINES_MAX",
    "ROBOTS_LINE_CHARACTERS_MAX",
    "ROBOTS_RESULTS",
    "RobotsNote",
]

ROBOTS_RESULTS: Final = ("found", "missing", "unreachable")
"""Results of an attempt to read a file."""
ROBOTS_CLOSES: Final = ("nothing", "parts", "everything")
"""How much of a site a file closes to a fetcher."""
ROBOTS_LINES_MAX: Final = 8
"""Number of lines of a file that a note has."""
ROBOTS_LINE_CHARACTERS_MAX: Final = 120
"""Characters of each of these lines."""

_ORIGIN_CHARACTERS_MAX: Final = 300
_AGENT_CHARACTERS_MAX: Final = 100
_SECONDS_MAX: Final = 1e7


class RobotsNote(NamedTuple):
    """What the robots.txt file of a site says to one fetcher."""

    origin: str
    """Scheme, host and port of the site, such as ``https://example.com``."""
    result: str
    """Result of the latest attempt to read it: one of `ROBOTS_RESULTS`."""
    closes: str
    """How much it closes to the fetcher: one of `ROBOTS_CLOSES`.  A file that is unreachable, and
    of which there is no earlier copy, closes everything."""
    asked_at_ms: int
    """Time of the latest attempt, in milliseconds since 1970."""
    read_at_ms: int | None = None
    """Time of the latest answer that was not an error; None if there was none."""
    next_ask_ms: int | None = None
    """Time from which on the fetcher reads it again."""
    crawl_delay_seconds: float | None = None
    """Least seconds between two requests that it asks for; None if it does not."""
    agent: str = ""
    """Name by which the file addresses the fetcher."""
    lines: tuple[str, ...] = ()
    """First lines that hold for the fetcher, such as ``Disallow: /private``."""
    n_lines: int = 0
    """Number of all such lines."""

    @classmethod
    def of_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return the note that `_asdict` has written; other members are ignored.

        Texts are cut at their limits.

        Raises
        ------
        ValueError
            If something is missing, or not what it should be.
        """
        try:
            note = cls(
                origin=_text(found["origin"], _ORIGIN_CHARACTERS_MAX),
                result=_one_of(found["result"], ROBOTS_RESULTS),
                closes=_one_of(found["closes"], ROBOTS_CLOSES),
                asked_at_ms=int(found["asked_at_ms"]),
                read_at_ms=_whole(found.get("read_at_ms")),
                next_ask_ms=_whole(found.get("next_ask_ms")),
                crawl_delay_seconds=_seconds(found.get("crawl_delay_seconds")),
                agent=_text(found.get("agent", ""), _AGENT_CHARACTERS_MAX),
                lines=tuple(
                    _text(one, ROBOTS_LINE_CHARACTERS_MAX)
                    for one in list(found.get("lines", ()))[:ROBOTS_LINES_MAX]
                ),
                n_lines=int(found.get("n_lines", 0)),
            )
        except (KeyError, TypeError, OverflowError, AttributeError) as error:
            raise ValueError(f"this is not what a robots.txt file says: {error}") from None
        return note


def _text(found: Any, n_characters_max: int) -> str:
    if not isinstance(found, str):
        raise TypeError(f"a text is needed, got {found!r}")
    # Half a surrogate pair cannot be written to a file.
    return found.encode("utf-8", "replace").decode()[:n_characters_max]


def _one_of(found: Any, known: tuple[str, ...]) -> str:
    if found not in known:
        raise ValueError(f"one of {', '.join(known)} is needed, got {str(found)[:100]!r}")
    return str(found)


def _whole(found: Any) -> int | None:
    return None if found is None else int(found)


def _seconds(found: Any) -> float | None:
    seconds = None if found is None else float(found)
    if seconds is not None and not 0 <= seconds <= _SECONDS_MAX:
        raise ValueError(f"crawl_delay_seconds must be 0 to {_SECONDS_MAX:g}, got {seconds}")
    return seconds
