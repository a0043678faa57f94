"""Change one value in the text of a TOML file, and keep its comments and layout."""

import re

__all__ = ["put_value", "replace_value"]

_HEADING = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]+\s*(#.*)?$")


def put_value(text: str, section: str, key: str, value: str) -> str:
    r"""Return the text with a value for a key, in a new line if the key has none yet.

    Parameters
    ----------
    text
        TOML text with one line for each section heading and key.
    section, key
        Names of the section and the key.
    value
        New value in TOML notation, on one line.

    Examples
    --------
    >>> put_value('[budget]\n# rate = …\n', "budget", "rate", '"40/h"')
    '[budget]\nrate = "40/h"\n# rate = …\n'
    >>> put_value("", "budget", "rate", '"40/h"')
    '[budget]\nrate = "40/h"\n'
    """
    replaced = replace_value(text, section, key, value)
    if replaced is not None:
        return replaced
    lines = text.split("\n")
    for i, line in enumerate(lines):
        heading = _HEADING.match(line)
        if heading and heading[1] == section:
            end = "\r" if line.endswith("\r") else ""
            lines.insert(i + 1, f"{key} = {value}{end}")
            return "\n".join(lines)
    before = f"{text.rstrip()}\n\n" if text.strip() else ""
    return f"{before}[{section}]\n{key} = {value}\n"


def replace_value(text: str, section: str, key: str, value: str) -> str | None:
    r"""Return the text with a new value for a key; None if the line of the key is not found.

    Parameters
    ----------
    text
        TOML text with one line for each section heading and key.
    section, key
        Names of the section and the key.
    value
        New value in TOML notation, on one line.

    Examples
    --------
    >>> replace_value('[budget]\nrate = "30/h"  # at night\n', "budget", "rate", '"40/h"')
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
