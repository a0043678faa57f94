"""Instants as people type them."""

import pytest

from recrawl.cli.support.instants import instant_of


@pytest.mark.parametrize("text", ["9" * 400 + " days ago", "99999 years ago", "soon", "9999999"])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a time must be as"):
        instant_of(text, 0)
