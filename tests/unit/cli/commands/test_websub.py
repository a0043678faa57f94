"""Tests of ``recrawl websub``."""

from tests.unit.cli.conftest import Recrawl

FEED = "https://blog.example/feed"


def test_a_feed_is_added_listed_and_removed(in_corpus: Recrawl) -> None:
    assert "No subscriptions yet" in in_corpus("websub", "list", "--no-json").out
    added = in_corpus("websub", "add", FEED).row
    assert (added["feed"], added["state"], added["hosts"]) == (FEED, "waiting", ["blog.example"])
    assert in_corpus("websub", "add", "https://f.example/", "--host", "*.b.example").code == 0
    rows = in_corpus("websub", "list").rows
    assert [row["hosts"] for row in rows] == [["blog.example"], ["*.b.example"]]
    assert not {"secret", "token"} & set(rows[0])
    assert "waiting" in in_corpus("websub", "list", "--no-json").out
    assert in_corpus("websub", "remove", FEED).row["removed"]
    assert in_corpus("websub", "remove", FEED).code == 1
    assert [row["state"] for row in in_corpus("websub", "list").rows] == ["ending", "waiting"]
    actions = [row["what"] for row in in_corpus("audit").rows]
    assert actions == ["websub add", "websub add", "websub remove"]


def test_wrong_feeds(in_corpus: Recrawl) -> None:
    for wrong in (("feed",), (FEED, "--host", "https://b/")):
        assert in_corpus("websub", "add", *wrong).code == 2
    in_corpus("websub", "add", FEED)
    again = in_corpus("websub", "add", FEED)
    assert (again.code, "already" in again.err) == (2, True)
