"""The reference describes every event: its meaning, its origin and its columns."""

import pytest

from scripts import event_reference


def test_every_event_has_a_description_and_the_page_is_up_to_date(
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
        ("No origin here.", ("No origin here.", "")),
    ],
)
def test_the_last_sentence_of_a_docstring_is_the_origin(
    doc: str, expected: tuple[str, str]
) -> None:
    assert event_reference.meaning_and_origin(doc) == expected


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
def test_the_ending_of_a_name_determines_the_unit(column: str, unit: str) -> None:
    assert event_reference.unit_of(column) == unit
