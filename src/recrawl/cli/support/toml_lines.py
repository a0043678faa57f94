"""One value changed in the text of a TOML file; comments and everything else stay."""

import re

__all__ = ["replaced"]

_HEADING = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]+\s*(#.*)?$")


def replaced(text: str, section: str, key: str, value: str) -> str | None:
    r"""Return a text with another value for a key; None where its line is not found.

    Parameters
    ----------
    text
        TOML, written with a line for each section and key.
    section, key
        Which.
    value
        As TOML has it, on one line.

    Examples
    --------
    >>> replaced('[budget]\nrate = "30/h"  # at night\n', "budget", "rate", '"40/h"')
    '[budget]\nrate = "40/h"  # at night\n'
    """
    line_of_key = re.compile(
        rf"""(\s*{re.escape(key)}\s*=\s*)("[^"\n]*"|'[^'\n]*'|[^\s#]+)(\s*(?:#.*)?)$"""
    )
    lines = text.split("\n")
    within = False
    for i, line in enumerate(lines):
        heading = _HEADING.match(line)
        if heading:
            within = heading[1] == section
        elif within and (found := line_of_key.match(line)):
            lines[i] = f"{found[1]}{value}{found[3]}"
            return "\n".join(lines)
    return None
