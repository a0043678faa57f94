"""Load policies that users wrote, named on the command line as ``module:Class``."""

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from recrawl.errors import RecrawlError

if TYPE_CHECKING:
    from recrawl.sim import Policy

__all__ = ["METHODS", "check_methods", "load_policies", "make_policy"]

METHODS = ("start", "on_signals", "pick", "learn")
# Name of `on_signals` in recrawl 0.1.0.
_OLD_SIGNALS = "hear"


def load_policies(names: Sequence[str]) -> "list[tuple[str, Callable[[float], Policy]]]":
    """Return, for each name, a function that makes the policy for a budget in fetches per second.

    The class is called with ``budget=`` if it has such a parameter, and without arguments
    otherwise.  Modules are searched in the current folder, too.
    """
    return [(name, _maker(name)) for name in names]


def _maker(name: str) -> "Callable[[float], Policy]":
    """Return a function that makes the policy ``name`` for a budget."""
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
    policy_class: Any = getattr(module, class_name, None)
    if policy_class is None:
        raise click.BadParameter(f"{module_name} has no {class_name}", param_hint="--policy")
    check_methods(policy_class, name, "--policy")

    def make(budget: float) -> "Policy":
        try:
            policy = make_policy(policy_class, budget)
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}"
            raise RecrawlError(f"policy {name} cannot be created: {reason}") from error
        return _CheckedPolicy(name, policy)

    return make


def check_methods(made: Any, name: str, hint: str) -> None:
    """Raise `click.BadParameter` for the argument ``hint`` if the class ``made`` lacks a method.

    A class with the old name of `on_signals` only causes a warning.
    """
    missing = [method for method in METHODS if not hasattr(made, method)]
    if missing == ["on_signals"] and hasattr(made, _OLD_SIGNALS):
        warnings.warn(
            f"{name}: {_OLD_SIGNALS} is deprecated; rename the method to on_signals",
            DeprecationWarning,
            stacklevel=2,
        )
        return
    if missing:
        raise click.BadParameter(
            f"{name} must have {', '.join(METHODS)}; {', '.join(missing)} is missing",
            param_hint=hint,
        )


def make_policy(made: Any, budget: float) -> "Policy":
    """Make a policy of the class ``made``, which gets the budget per second if it takes one."""
    takes_budget = "budget" in inspect.signature(made).parameters
    policy: Policy = made(budget=budget) if takes_budget else made()
    return policy


class _CheckedPolicy:
    """A user's policy whose errors become messages instead of tracebacks."""

    def __init__(self, name: str, policy: Any) -> None:
        self._name = name
        self._policy = policy

    def start(self, pages: Any, at: float) -> None:
        """Call the policy's ``start``."""
        self._n_pages = pages.importance.size
        self._call("start", (pages, at))

    def on_signals(self, *arguments: Any) -> None:
        """Call the policy's ``on_signals``, or the method of that purpose with the old name."""
        has_new_name = hasattr(self._policy, "on_signals")
        self._call("on_signals" if has_new_name else _OLD_SIGNALS, arguments)

    def pick(self, at: float, n: int) -> Any:
        """Return the policy's picks, checked."""
        from recrawl.sim.driver import check_pick  # noqa: PLC0415 (commands start fast)

        picked = self._call("pick", (at, n))
        try:
            return check_pick(picked, self._n_pages, n)
        except ValueError as error:
            raise RecrawlError(f"policy {self._name}: {error}") from error

    def learn(self, *arguments: Any) -> None:
        """Call the policy's ``learn``."""
        self._call("learn", arguments)

    def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return getattr(self._policy, method)(*arguments)
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}"
            raise RecrawlError(f"policy {self._name} failed in {method}: {reason}") from error
