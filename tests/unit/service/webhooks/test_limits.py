"""Every limit of webhooks is in the reference, and is checked."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from recrawl.service import limit_rows
from recrawl.service.webhooks import WebhookLimits

REFERENCE = Path(__file__).parents[4] / "docs/reference/webhooks.md"


def test_the_reference_lists_every_limit_with_its_default() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith("| `") and "_" in line]
    rows = [
        f"| `{row.name}` | {row.value:,.10g} | {row.about} | {row.beyond} |"
        for row in limit_rows(WebhookLimits())
    ]
    assert rows == [line for line in table if line in rows]
    assert len(rows) == len(fields(WebhookLimits))


@pytest.mark.parametrize("name", [one.name for one in fields(WebhookLimits)])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_limit_must_be_a_number(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        replace(WebhookLimits(), **{name: value})  # type: ignore[arg-type]
