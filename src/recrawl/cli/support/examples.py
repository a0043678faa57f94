"""Commands with examples, which the help shows and a test runs.

Each example runs in a folder with the files of ``tests/docs/example_files`` and a small corpus.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

__all__ = ["CommandExample", "ExampleCommand", "example_command"]


class CommandExample(NamedTuple):
    """One example of a command."""

    line: str
    """Command line for a shell; it may have pipes and ``>``."""
    about: str = ""
    """Explanation, if the line needs one."""
    exit_code: int = 0
    """Expected exit code of the last command in the line."""
    needs_corpus: bool = True
    """Whether it runs in the folder of a corpus; otherwise in a folder without one."""
    is_run: bool = True
    """Whether the test runs it; False if it never ends or needs what the test does not have."""


class ExampleCommand(click.Command):
    """A command whose help ends with examples.

    Parameters
    ----------
    examples
        Examples, at least one.
    """

    def __init__(self, *args: Any, examples: Sequence[CommandExample] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not examples:
            raise ValueError(f"examples must be given for {self.name}")
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each on a line that can be copied."""
        with formatter.section("Examples"):
            for example in self.examples:
                if example.about:
                    formatter.write(f"{'':{formatter.current_indent}}# {example.about}\n")
                formatter.write(f"{'':{formatter.current_indent}}{example.line}\n")
        super().format_epilog(ctx, formatter)


def example_command(
    name: str, *, examples: Sequence[CommandExample], **settings: Any
) -> Callable[[Callable[..., Any]], ExampleCommand]:
    """Return a decorator like `click.command`, for a command with examples."""
    return click.command(name, cls=ExampleCommand, examples=examples, **settings)
