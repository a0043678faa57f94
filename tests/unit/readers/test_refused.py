"""What was left out is counted in full, and shown in part."""

from recrawl.readers.refused import EXAMPLES_MAX, Refused


def test_all_refused_rows_are_counted_and_the_first_few_are_kept() -> None:
    refused = Refused()
    refused.refuse_many(((line, f"cell {line}") for line in range(100)), "no URL")
    refused.refuse(7, "no time")
    assert refused.n_refused == 101
    assert refused.by_reason == {"no URL": 100, "no time": 1}
    assert [row.line for row in refused.examples] == list(range(EXAMPLES_MAX))
    assert str(refused.examples[3]) == "line 3: no URL: cell 3"


def test_an_excerpt_is_short_and_printable() -> None:
    refused = Refused()
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    for got in ("a\x1b[31m\n" + "x" * 500, b"\xff\0abc", 10**5_000, deep, None, 12, {"a": 1}):
        refused.refuse(1, "odd", got)
    for row in refused.examples:
        assert row.excerpt.isprintable()
        assert len(row.excerpt) <= 81
    assert refused.examples[4].excerpt == ""
    assert refused.examples[5].excerpt == "12"


def test_the_first_reason_to_stop_stays_and_notes_are_kept_once() -> None:
    refused = Refused()
    assert not refused.is_cut_short
    refused.cut_short("one")
    refused.cut_short("two")
    for _ in range(100):
        refused.note("old")
    for number in range(100):
        refused.note(f"note {number}")
    assert refused.cut_short_reason == "one"
    assert refused.notes[:2] == ("old", "note 0")
    assert len(refused.notes) == 20
