"""``recrawl completion``: print the script with which a shell completes recrawl commands."""

import click

from recrawl.cli.support.examples import CommandExample, example_command

__all__ = ["command"]


@example_command(
    "completion",
    examples=(
        CommandExample("recrawl completion bash > ~/.recrawl-complete.bash", is_run=False),
        CommandExample("recrawl completion zsh", needs_corpus=False),
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script with which your shell completes recrawl commands and options.

    For bash, write it to a file and add `source ~/.recrawl-complete.bash` to ~/.bashrc; for zsh,
    likewise in ~/.zshrc.  For fish, write it to ~/.config/fish/completions/recrawl.fish.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    from recrawl.cli import main  # noqa: PLC0415

    complete_class = get_completion_class(shell)
    assert complete_class is not None, shell
    complete = complete_class(main, {}, "recrawl", "_RECRAWL_COMPLETE")
    # The method `source` would also run bash to check its version, and bash may be missing.
    click.echo(complete.source_template % complete.source_vars())
