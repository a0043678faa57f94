"""Relative times are not part of a passage, and dates keep their shape."""

import pytest

from recrawl.content import observe_text, passage_hash
from recrawl.content.extract.relative_times import _BEGINNINGS, DATE_WORDS, drop_relative_times
from recrawl.content.extract.words import _date_words


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ada · 3 hours ago", "Ada · 2 days ago"),
        ("posted an hour ago by Ada", "posted 25 min ago by Ada"),
        ("Ada vor 3 Stunden", "Ada vor einem Tag"),
        ("Ada, il y a 2 jours", "Ada, il y a une heure"),
        ("Ada hace 5 días", "Ada hace 16 horas"),
        ("Ада 5 минут назад", "Ада 3 ч. назад"),
        ("العنوان منذ 3 ساعات", "العنوان منذ 2 يوم"),
        ("כותרת לפני 3 שעות", "כותרת לפני 5 ימים"),
        ("标题 2小时前", "标题 3天前"),
        ("題名 3時間前", "題名 2日前"),
        ("Updated yesterday", "Updated over a week ago"),
        ("Last updated in the last hour by Ada", "Last updated this week by Ada"),
    ],
)
def test_a_relative_time_is_not_part_of_a_passage(first: str, second: str) -> None:
    assert passage_hash(first) == passage_hash(second)
    assert passage_hash(first) != passage_hash("another text")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("opened 50 years ago", "opened 60 years ago"),
        ("opening in 3 hours", "opening in 4 hours"),
        ("Line 7: 10:15", "Line 7: 10:25"),
        ("What happened yesterday", "What happened today"),
    ],
)
def test_other_times_count(first: str, second: str) -> None:
    assert passage_hash(first) != passage_hash(second)


def test_the_size_of_a_text_stays() -> None:
    text = "é 3 hours ago\nvor 3 Stunden\n2小时前 x".encode()
    found = drop_relative_times(text)
    assert len(found) == len(text)
    assert found.count(b"\n") == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Mon 05 Jan 2026 03:30 UTC", "Tue 10 Feb 2026 14:12 UTC"),
        ("Monday, 5 January 2026, 9:05", "Sunday, 12 July 2026, 23:55"),
        ("Stand: Montag, 3. März 2026", "Stand: Freitag, 10. Oktober 2026"),
    ],
)
def test_dates_keep_their_shape(first: str, second: str) -> None:
    one, other = (observe_text(text).shapes.tolist() for text in (first, second))
    assert one == other
    assert passage_hash(first) != passage_hash(second)
    assert one != observe_text("Stand der Dinge 12").shapes.tolist()


def test_every_name_has_its_slot() -> None:
    assert (_date_words()[0] != 0).sum() == len(DATE_WORDS)


def test_markers_differ_in_their_first_two_bytes() -> None:
    assert len({marker[:2] for marker in _BEGINNINGS}) == len(_BEGINNINGS)
    assert min(map(len, _BEGINNINGS)) >= 3
