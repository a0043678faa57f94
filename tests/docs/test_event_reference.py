"""Every event is said what it is, who it is from, and what each of its columns means."""

import pytest

from scripts import event_reference


def test_every_event_is_described_and_the_page_up_to_date(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = event_reference.main(["--check"])
    assert status == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ("Pages to forget.  From users.", ("Pages to forget.", "users")),
        ("It.  One row.\n\n    From a `Shard.tick`.\n    ", ("It. One row.", "a `Shard.tick`")),
        ("From here on.  From users.", ("From here on.", "users")),
        ("Nobody says this.", ("Nobody says this.", "")),
    ],
)
def test_a_docstring_ends_with_who_says_it(doc: str, expected: tuple[str, str]) -> None:
    assert event_reference.meaning_and_speaker(doc) == expected


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("at_ms", "ms since 1970"),
        ("blocked_until_ms", "ms since 1970"),
        ("delay_ms", "ms"),
        ("interval_seconds_min", "s"),
        ("page", ""),
    ],
)
def test_a_unit_is_how_a_name_ends(column: str, unit: str) -> None:
    assert event_reference.unit_of(column) == unit
