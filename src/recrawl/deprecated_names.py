"""Let names of an earlier release work for a while, with a warning that says what to use now."""

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["find_moved_names"]

SINCE = "0.2"
REMOVED_IN = "0.4"


def find_moved_names(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module, which looks deprecated names up where they are now.

    Parameters
    ----------
    module
        Name of the module.
    homes
        Dotted path of each deprecated name in this version.
    """

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is deprecated since {SINCE} and will be removed in {REMOVED_IN}; "
            f"use {home}",
            DeprecationWarning,
            stacklevel=2,
        )
        package, _, now = home.rpartition(".")
        return getattr(importlib.import_module(package), now)

    return find
