"""Tests of ``recrawl resize``."""

from tests.unit.cli.conftest import Recrawl


def test_the_number_of_partitions_is_changed(recrawl: Recrawl) -> None:
    assert recrawl("init", "corpus").code == 0
    urls = [f"https://h{i}.example/" for i in range(20)]
    assert recrawl("add", *urls, "-C", "corpus").code == 0
    row = recrawl("resize", "--partitions", "3", "-C", "corpus").row
    assert (row["partitions"], row["partitions_before"], row["n_pages"]) == (3, 1, 20)
    assert recrawl("stats", "-C", "corpus").row["n_pages"] == 20
    text = recrawl("resize", "--partitions", "2", "-C", "corpus", "--no-json").out
    assert "20 pages moved from 3 to 2 partitions" in text
    again = recrawl("resize", "--partitions", "2", "-C", "corpus", "--no-json").out
    assert "has 2 partitions already" in again


def test_what_is_not_a_corpus_is_refused(recrawl: Recrawl) -> None:
    ran = recrawl("resize", "--partitions", "2", "-C", "nothing")
    assert ran.code != 0
    assert "is not a corpus" in ran.err
