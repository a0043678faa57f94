"""Tests of ``recrawl receivers``."""

from tests.unit.cli.conftest import Recrawl


def test_a_receiver_is_added_listed_rotated_and_removed(in_corpus: Recrawl) -> None:
    assert "No receivers yet" in in_corpus("receivers", "list", "--no-json").out
    added = in_corpus("receivers", "add", "blog", "--host", "b.example", "--host", "*.b.example")
    secret = added.row["secret"]
    assert secret.startswith("whsec_")
    listed = in_corpus("receivers", "list")
    assert (listed.row["name"], listed.row["hosts"]) == ("blog", ["b.example", "*.b.example"])
    assert secret not in listed.out
    assert "*.b.example" in in_corpus("receivers", "list", "--no-json").out
    rotated = in_corpus("receivers", "rotate", "blog", "--overlap", "2h", "--no-json")
    assert rotated.out.startswith("whsec_")
    assert rotated.out.strip() != secret
    assert in_corpus("receivers", "remove", "blog").row["removed"]
    assert in_corpus("receivers", "remove", "blog").code == 1
    actions = [row["what"] for row in in_corpus("audit").rows]
    assert actions == ["receivers add", "receivers rotate", "receivers remove"]


def test_wrong_receivers(in_corpus: Recrawl) -> None:
    assert in_corpus("receivers", "add", "blog").code == 2
    wrong = in_corpus("receivers", "add", "blog", "--host", "https://b.example/")
    assert (wrong.code, "is not a host" in wrong.err) == (2, True)
    assert in_corpus("receivers", "rotate", "blog").code == 2
