"""Tests of ``recrawl keys``."""

import time

from tests.unit.cli.conftest import Recrawl


def test_a_key_is_created_rotated_listed_and_revoked(in_corpus: Recrawl) -> None:
    first = in_corpus("keys", "create", "--scope", "read", "--name", "grafana").row
    assert first["key"].startswith(f"rk_{first['id']}_")
    new = in_corpus("keys", "rotate", "grafana", "--overlap", "1h").row
    assert (new["name"], new["scopes"], new["replaces"]) == ("grafana", ["read"], first["id"])
    left_ms = new["replaced_expires_at_ms"] - time.time() * 1000
    assert 3_500_000 < left_ms <= 3_600_000
    listed = in_corpus("keys", "list")
    assert [row["replaced_by"] for row in listed.rows] == [new["id"], None]
    assert {row["used_at_ms"] for row in listed.rows} == {None}
    assert not {first["key"], new["key"]} & set(listed.out.split('"'))
    text = " ".join(in_corpus("keys", "list", "--no-json").out.split())
    assert "last used" in text
    assert "in 60 min" in text or "in 1 h" in text
    assert in_corpus("keys", "revoke", first["id"]).row["revoked"]
    assert len(in_corpus("keys", "list").rows) == 1


def test_without_its_last_key_a_corpus_stays_closed_until_it_is_opened(in_corpus: Recrawl) -> None:
    assert "No keys yet" in in_corpus("keys", "list", "--no-json").out
    ids = [in_corpus("keys", "create", "--scope", "read").row["id"] for _ in range(2)]
    refused = in_corpus("keys", "open")
    assert (refused.code, "recrawl keys revoke" in refused.err) == (2, True)
    first = in_corpus("keys", "revoke", ids[0], "--no-json")
    assert "last key" not in first.err
    last = in_corpus("keys", "revoke", ids[1], "--no-json")
    assert "refuses all requests" in " ".join(last.err.split())
    assert "closed" in in_corpus("keys", "list", "--no-json").out
    assert in_corpus("keys", "open").row["is_open"]
    assert "No keys yet" in in_corpus("keys", "list", "--no-json").out
    assert in_corpus("audit", "--limit", "1").row["what"] == "keys open"


def test_the_new_key_alone_is_on_the_screen(in_corpus: Recrawl) -> None:
    in_corpus("keys", "create", "--scope", "read", "--name", "grafana")
    ran = in_corpus("keys", "rotate", "grafana", "--overlap", "0", "--no-json")
    assert ran.out.startswith("rk_")
    assert len(ran.out.splitlines()) == 1
    assert "ends at once" in ran.err
    wrong = in_corpus("keys", "rotate", "other")
    assert (wrong.code, "no valid key 'other'" in wrong.err) == (2, True)
