"""What a check finds: how bad it is, in words, and what to do."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from recrawl.errors import RecrawlError

__all__ = ["Check", "Finding", "Level", "bad", "found_by", "ok", "warn"]


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    """Works, and is perhaps not what its owner wants."""
    BAD = "bad"
    """Broken, or promised and impossible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """What was looked at, in a word or two."""
    level: Level
    what: str
    """What was found."""
    todo: str = ""
    """What to do about it; nothing where all is well."""


def ok(check: str, what: str) -> Finding:
    """Return that something is well."""
    return Finding(check=check, level=Level.OK, what=what)


def warn(check: str, what: str, todo: str) -> Finding:
    """Return that something may not be what its owner wants."""
    return Finding(check=check, level=Level.WARN, what=what, todo=todo)


def bad(check: str, what: str, todo: str) -> Finding:
    """Return that something is broken."""
    return Finding(check=check, level=Level.BAD, what=what, todo=todo)


Check: TypeAlias = Callable[[], Iterable[Finding]]


def found_by(name: str, check: Check) -> Iterator[Finding]:
    """Yield what a check finds; one that fails is a finding, too, and ends nothing else.

    Parameters
    ----------
    name
        Of the check, should it fail.
    check
        To run.
    """
    try:
        yield from check()
    except RecrawlError as error:
        yield bad(name, _first_line(error), "Look at the other findings, then at the folder.")
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        # Files that are broken in ways nobody has thought of; the engine even panics at some.
        what = f"could not be checked: {type(error).__name__}: {_first_line(error)}"
        yield bad(name, what, "Please report this with what was done to the folder before.")


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
