"""Crawler traps are recognised by the patterns of their URLs, and bounded."""

import pytest

from recrawl.run.discovery.traps import (
    COMBINATIONS_MAX,
    NUMBERED_MAX,
    TrapCounts,
    family_of,
    remove_session,
    why_trapped,
)

SITE = "https://a.example"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/a?sid=77", "/a"),
        ("/a?x=1&PHPSESSID=77&y=2", "/a?x=1&y=2"),
        ("/a?sessionid=1&sid=2&x=3", "/a?x=3"),
        ("/a;jsessionid=8A7B/b?x=1", "/a/b?x=1"),
        ("/a?inside=7&president=1", "/a?inside=7&president=1"),
        ("/session/7?x=sid", "/session/7?x=sid"),
    ],
)
def test_session_ids_are_removed(url: str, expected: str) -> None:
    assert remove_session(SITE + url) == SITE + expected


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("/", None),
        ("/2026/11/16/tea", None),
        ("/a/b/a/b", None),
        ("/a/b/a/b/a/b", "repeated_parts"),
        ("/x" + "/y" * 30, "too_long"),
        ("/x?" + "&".join(f"p{i}=1" for i in range(12)), "too_long"),
    ],
)
def test_single_urls_that_are_traps(url: str, reason: str | None) -> None:
    assert why_trapped(SITE + url) == reason


def test_months_and_days_of_a_calendar_are_one_family() -> None:
    month, day = f"{SITE}/calendar/2026/1", f"{SITE}/calendar/1999/12/14"
    assert family_of(month) == family_of(day) == ("/calendar/#", True)


def test_pages_that_link_to_each_other_by_numbers_are_bounded() -> None:
    traps = TrapCounts()
    reasons = [
        traps.admit(f"{SITE}/list/{i + 1}", f"{SITE}/list/{i}", n_linked_max=10_000)
        for i in range(3 * NUMBERED_MAX)
    ]
    assert reasons.count(None) == NUMBERED_MAX
    assert traps.refused == {"endless_numbers": 2 * NUMBERED_MAX}


def test_products_that_a_category_links_to_are_not_bounded_so() -> None:
    traps = TrapCounts()
    for i in range(3 * NUMBERED_MAX):
        assert traps.admit(f"{SITE}/p/{i}", f"{SITE}/tea", n_linked_max=10_000) is None
    assert traps.admit(f"{SITE}/p/x", f"{SITE}/tea", n_linked_max=3 * NUMBERED_MAX) == (
        "too_many_pages"
    )


def test_combinations_of_filters_are_bounded() -> None:
    traps = TrapCounts()
    names = "abcdefg"
    urls = [
        f"{SITE}/shop?" + "&".join(f"{name}=x" for i, name in enumerate(names) if mask >> i & 1)
        for mask in range(1, 128)
    ]
    reasons = [traps.admit(url, f"{SITE}/shop", n_linked_max=10_000) for url in urls]
    assert reasons.count(None) == COMBINATIONS_MAX
    # Another value of parameters that were followed is fine.
    assert traps.admit(f"{SITE}/shop?a=y", f"{SITE}/shop", n_linked_max=10_000) is None


def test_counts_survive_as_plain_values() -> None:
    traps = TrapCounts()
    traps.admit(f"{SITE}/list/2?a=1", f"{SITE}/list/1", n_linked_max=10)
    traps.admit(f"{SITE}/a/a/a", SITE, n_linked_max=10)
    assert TrapCounts.of_dict(traps.as_dict()) == traps
