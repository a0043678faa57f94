"""Say what a bare install pulls in: each package, its licence and its size; fail on a GPL.

Run it with the Python of an environment that has nothing but recrawl.
"""

import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

# Compilers' run-time libraries in wheels are under it with an exception for just that.
_FINE = re.compile(r"L?GPL-[\d.]+(-only|-or-later)?[- ]WITH[- ]GCC-exception[-\d.]*", re.IGNORECASE)
_TOOLS = {"pip", "setuptools", "wheel"}


def licence_of(found: Distribution) -> str:
    """Return a package's licence as its own metadata have it, in short."""
    told = found.metadata
    expression = (told.get_all("License-Expression") or [""])[0]
    classified = [c for c in told.get_all("Classifier") or [] if c.startswith("License ::")]
    text = (told.get_all("License") or ["not said"])[0].splitlines()
    return expression or "; ".join(c.rpartition(":: ")[2] for c in classified) or text[0]


def size_of(found: Distribution) -> int:
    """Return the bytes of a package's files, without compiled bytecode."""
    files = [Path(str(file.locate())) for file in found.files or () if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files if path.is_file())


def main() -> int:
    """Print a line for each package; return how many are under a GPL."""
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
    print(f"{'in all':20} {n_bytes / 1e6:7.1f} MB")
    return n_wrong


if __name__ == "__main__":
    sys.exit(main())
