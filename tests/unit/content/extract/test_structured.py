"""JSON, XML and feeds are read by their structure."""

from recrawl.content import ContentKind, observe
from recrawl.content.extract.structured import read_json, read_xml

FEED = """<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>News</title>
<lastBuildDate>{date}</lastBuildDate>{items}</channel></rss>"""
ITEM = (
    "<item><title>Story {0}</title><guid>g{0}</guid>"
    "<description><![CDATA[<p>Text of <b>story</b> {0}</p>]]></description></item>"
)


def test_the_order_of_keys_and_spaces_do_not_count() -> None:
    first = observe(b'{"b": 1, "a": {"x": [1, "two", null]}}', "application/json")
    second = observe(b'{ "a":{"x":[1,"two",null]},\n"b":1 }', "application/json")
    assert first.kind is ContentKind.JSON
    assert first.passages.tolist() == second.passages.tolist()
    assert first.passages.size == 4


def test_json_values_have_their_keys() -> None:
    found = read_json('{"a": {"b": {"c": {"d": "deep"}}}, "n": 1.50}')
    assert found is not None
    assert found.text.split("\n") == ["b c d: deep", "n: 1.50"]


def test_what_is_not_json_is_text() -> None:
    page = observe(b"{not json", "application/json")
    assert (page.kind, page.problems) == (ContentKind.JSON, ("not_parsed",))
    assert page.passages.size == 1


def test_a_feed_is_read_by_entry() -> None:
    items = [ITEM.format(number) for number in range(3)]
    before = observe(FEED.format(date="Mon", items="".join(items)).encode(), with_texts=True)
    after = observe(FEED.format(date="Tue", items="".join(items[::-1])).encode())
    assert before.kind is ContentKind.FEED
    assert set(before.passages.tolist()) == set(after.passages.tolist())
    assert before.texts is not None
    assert before.texts[:2] == ("Story 0", "Text of story 0")
    assert before.texts[-1] == "News"
    assert before.is_main.tolist() == [True] * 6 + [False]


def test_xml_has_attributes_and_texts() -> None:
    found = read_xml(b'<list><item price="5" name="tea">green\nleaf</item></list>')
    assert found is not None
    assert found.text.split("\n") == ["item name tea price 5", "green leaf"]


def test_entities_of_a_file_are_not_expanded() -> None:
    assert read_xml(b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>") is None
