"""Print each installed package with its licence and size; fail if one is under the GPL.

Run it with the Python of an environment in which only recrawl is installed.
"""

import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

# Wheels may contain run-time libraries of GCC, whose licence has an exception for this use.
_FINE = re.compile(r"L?GPL-[\d.]+(-only|-or-later)?[- ]WITH[- ]GCC-exception[-\d.]*", re.IGNORECASE)
_TOOLS = {"pip", "setuptools", "wheel"}


def licence_of(found: Distribution) -> str:
    """Return the licence of a package, from its metadata."""
    metadata = found.metadata
    expression = (metadata.get_all("License-Expression") or [""])[0]
    classified = [c for c in metadata.get_all("Classifier") or [] if c.startswith("License ::")]
    text = (metadata.get_all("License") or ["not stated"])[0].splitlines()
    return expression or "; ".join(c.rpartition(":: ")[2] for c in classified) or text[0]


def size_of(found: Distribution) -> int:
    """Return the size of a package's files in bytes, without bytecode."""
    files = [Path(str(file.locate())) for file in found.files or () if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files if path.is_file())


def main() -> int:
    """Print a line for each package; return the number of packages under the GPL."""
    n_wrong = n_bytes = 0
    for found in sorted(distributions(), key=lambda each: each.name.lower()):
        if found.name.lower() in _TOOLS:
            continue
        licence, size = licence_of(found), size_of(found)
        is_wrong = "GPL" in _FINE.sub("", licence)
        n_wrong += is_wrong
        n_bytes += size
        mark = "  <- not allowed" if is_wrong else ""
        print(f"{found.name:20} {size / 1e6:7.1f} MB  {licence[:90]}{mark}")
    print(f"{'total':20} {n_bytes / 1e6:7.1f} MB")
    return n_wrong


if __name__ == "__main__":
    sys.exit(main())
