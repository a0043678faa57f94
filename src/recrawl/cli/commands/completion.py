"""``recrawl completion``: the lines by which a shell completes our commands."""

import click

from recrawl.cli.support.examples import Example, example_command

__all__ = ["command"]


@example_command(
    "completion",
    examples=(
        Example("recrawl completion bash > ~/.recrawl-complete.bash", is_run=False),
        Example("recrawl completion zsh", needs_corpus=False),
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the lines by which a shell completes commands and options.

    Source them from ~/.bashrc or ~/.zshrc; for fish, put them into
    ~/.config/fish/completions/recrawl.fish.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    from recrawl.cli import main  # noqa: PLC0415

    found = get_completion_class(shell)
    assert found is not None, shell
    complete = found(main, {}, "recrawl", "_RECRAWL_COMPLETE")
    # What `source` does beside, asking bash for its version, needs a bash.
    click.echo(complete.source_template % complete.source_vars())
