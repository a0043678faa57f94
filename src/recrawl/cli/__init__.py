"""The ``recrawl`` command: a thin face that starts fast.

Importing numba takes a second, so nothing here imports `recrawl.core` at the top of a module: a
command imports what it needs when it runs.
"""

import click

from recrawl import __version__

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="recrawl", message="%(prog)s %(version)s")
def main() -> None:
    """Keep copies of web pages fresh on a fixed budget of fetches."""
