"""Make ``python -m recrawl`` the same as the ``recrawl`` command."""

from recrawl.cli import main

if __name__ == "__main__":
    main(prog_name="recrawl")
