"""Tests of ``recrawl audit``."""

from tests.unit.cli.conftest import Recrawl


def test_commands_about_keys_and_webhooks_are_listed(in_corpus: Recrawl) -> None:
    assert in_corpus("audit", "--no-json").out == "No actions yet.\n"
    first = in_corpus("keys", "create", "--scope", "read", "--name", "grafana").row
    new = in_corpus("keys", "rotate", "grafana").row
    in_corpus("keys", "revoke", first["id"])
    in_corpus("keys", "revoke", "nothing")
    in_corpus("webhooks", "add", "search", "https://receiver.example/hook")
    for action in ("set --disable", "rotate", "send-again", "drop --all", "remove"):
        verb, *options = action.split()
        assert in_corpus("webhooks", verb, "search", *options).code == 0
    rows = in_corpus("audit").rows
    assert [(row["what"], row["target"]) for row in rows] == [
        ("keys create", f"{first['id']} grafana"),
        ("keys rotate", f"{first['id']} to {new['id']} grafana"),
        ("keys revoke", first["id"]),
        ("webhooks add", "search"),
        ("webhooks set", "search"),
        ("webhooks rotate", "search"),
        ("webhooks send-again", "search"),
        ("webhooks drop", "search"),
        ("webhooks remove", "search"),
    ]
    assert all(row["who"] and row["client"] is None for row in rows)
    assert new["key"] not in str(rows)
    assert in_corpus("audit", "--limit", "1").row["what"] == "webhooks remove"
    assert len(in_corpus("audit", "--since", "1 hour ago").rows) == len(rows)
    assert not in_corpus("audit", "--since", "2100-01-01").rows
    text = " ".join(in_corpus("audit", "--no-json").out.split())
    assert "keys create" in text
    assert "command line" in text


def test_it_needs_a_corpus(recrawl: Recrawl) -> None:
    assert "recrawl init" in recrawl("audit").err
