"""Policies of one's own, named on the command line: ``module:Class``."""

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from recrawl.errors import RecrawlError

if TYPE_CHECKING:
    from recrawl.sim import Policy

__all__ = ["METHODS", "check_methods", "made_for", "named_policies"]

METHODS = ("start", "hear", "pick", "learn")


def named_policies(names: Sequence[str]) -> "list[tuple[str, Callable[[float], Policy]]]":
    """Return what makes each policy for a budget in fetches per second.

    A class is called with ``budget=``, if it takes one, and with nothing otherwise.  Modules are
    looked for in the folder one is in, too.
    """
    return [(name, _maker(name)) for name in names]


def _maker(name: str) -> "Callable[[float], Policy]":
    module_name, colon, class_name = name.partition(":")
    if not (module_name and colon and class_name):
        raise click.BadParameter(f"must be MODULE:CLASS, got {name!r}", param_hint="--policy")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name.removesuffix(".py"))
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise click.BadParameter(
            f"{module_name} cannot be imported: {reason}", param_hint="--policy"
        ) from error
    made: Any = getattr(module, class_name, None)
    if made is None:
        raise click.BadParameter(f"{module_name} has no {class_name}", param_hint="--policy")
    check_methods(made, name, "--policy")

    def make(budget: float) -> "Policy":
        try:
            policy = made_for(made, budget)
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}"
            raise RecrawlError(f"policy {name} cannot be made: {reason}") from error
        return _Guarded(name, policy)

    return make


def check_methods(made: Any, name: str, hint: str) -> None:
    """Refuse, as the argument ``hint``, what is no policy."""
    missing = [method for method in METHODS if not hasattr(made, method)]
    if missing:
        raise click.BadParameter(
            f"{name} must have {', '.join(METHODS)}; {', '.join(missing)} is missing",
            param_hint=hint,
        )


def made_for(made: Any, budget: float) -> "Policy":
    """Return a policy: of a class that takes one, for a budget in fetches per second."""
    takes_budget = "budget" in inspect.signature(made).parameters
    policy: Policy = made(budget=budget) if takes_budget else made()
    return policy


class _Guarded:
    """A policy of somebody else's: what goes wrong in it is said in a sentence."""

    def __init__(self, name: str, policy: Any) -> None:
        self._name = name
        self._policy = policy

    def start(self, pages: Any, at: float) -> None:
        """Begin."""
        self._n_pages = pages.importance.size
        self._call("start", (pages, at))

    def hear(self, *arguments: Any) -> None:
        """Take note of signals."""
        self._call("hear", arguments)

    def pick(self, at: float, n: int) -> Any:
        """Return what it picks."""
        from recrawl.sim.driver import checked_pick  # noqa: PLC0415 (commands start fast)

        picked = self._call("pick", (at, n))
        try:
            return checked_pick(picked, self._n_pages, n)
        except ValueError as error:
            raise RecrawlError(f"policy {self._name}: {error}") from error

    def learn(self, *arguments: Any) -> None:
        """Take note of fetches."""
        self._call("learn", arguments)

    def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return getattr(self._policy, method)(*arguments)
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}"
            raise RecrawlError(f"policy {self._name} failed in {method}: {reason}") from error
