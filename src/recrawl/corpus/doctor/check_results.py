"""The results of checks: how severe each is, what was found, and what to do."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from recrawl.errors import RecrawlError

__all__ = ["Check", "CheckResult", "Severity", "bad", "ok", "run_check", "warn"]


class Severity(StrEnum):
    """Severity of a result."""

    OK = "ok"
    WARN = "warn"
    """Works, but is perhaps not what you want."""
    BAD = "bad"
    """Broken, or a limit that cannot be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check."""

    check: str
    """Name of the check, in a word or two."""
    level: Severity
    what: str
    """Description of what was found."""
    todo: str = ""
    """Advice on what to do; empty if all is well."""


def ok(check: str, what: str) -> CheckResult:
    """Return a result without a problem."""
    return CheckResult(check=check, level=Severity.OK, what=what)


def warn(check: str, what: str, todo: str) -> CheckResult:
    """Return a warning."""
    return CheckResult(check=check, level=Severity.WARN, what=what, todo=todo)


def bad(check: str, what: str, todo: str) -> CheckResult:
    """Return a result for something that is broken."""
    return CheckResult(check=check, level=Severity.BAD, what=what, todo=todo)


Check: TypeAlias = Callable[[], Iterable[CheckResult]]


def run_check(name: str, check: Check) -> Iterator[CheckResult]:
    """Yield the results of a check; an exception becomes a result, so that other checks still run.

    Parameters
    ----------
    name
        Name of the check, for the result of an exception.
    check
        Function to run.
    """
    try:
        yield from check()
    except RecrawlError as error:
        todo = "Fix the other problems first.  If this one remains, check the files of the corpus."
        yield bad(name, _first_line(error), todo)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        # Broken files can raise anything; RocksDB even panics at some.
        what = f"could not be checked: {type(error).__name__}: {_first_line(error)}"
        yield bad(name, what, "Please report this, and say what happened to the folder before.")


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
