"""Commands that show how they are used: examples are data, shown in the help and run by a test.

Each example runs in a folder with the files of ``tests/docs/example_files`` and a small corpus.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

__all__ = ["Example", "ExampleCommand", "example_command"]


class Example(NamedTuple):
    """One line as it is typed."""

    line: str
    """Of a shell: pipes and ``>`` are fine."""
    about: str = ""
    """What it does, where the line does not say it."""
    exit_code: int = 0
    """Of the last command."""
    needs_corpus: bool = True
    """False: it runs in a folder without one."""
    is_run: bool = True
    """False: shown only, because it never ends or needs what a test has not."""


class ExampleCommand(click.Command):
    """A command whose help ends with examples.

    Parameters
    ----------
    examples
        At least one.
    """

    def __init__(self, *args: Any, examples: Sequence[Example] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not examples:
            raise ValueError(f"examples must be given for {self.name}")
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, each on a line of its own that can be copied."""
        with formatter.section("Examples"):
            for example in self.examples:
                if example.about:
                    formatter.write(f"{'':{formatter.current_indent}}# {example.about}\n")
                formatter.write(f"{'':{formatter.current_indent}}{example.line}\n")
        super().format_epilog(ctx, formatter)


def example_command(
    name: str, *, examples: Sequence[Example], **settings: Any
) -> Callable[[Callable[..., Any]], ExampleCommand]:
    """Make a function a command with examples; otherwise as `click.command`."""
    return click.command(name, cls=ExampleCommand, examples=examples, **settings)
