"""Tests of ``recrawl webhooks``."""

import json
from pathlib import Path

from recrawl.service.webhooks.files import LetterRequests, WebhookFiles
from recrawl.service.webhooks.outbox import Letter
from tests.unit.cli.conftest import Recrawl

URL = "https://receiver.example/hook"


def test_a_webhook_is_added_listed_changed_and_removed(in_corpus: Recrawl) -> None:
    added = in_corpus(
        *("webhooks", "add", "search", URL, "--what", "new", "--what", "gone"),
        *("--pattern", "/a/*", "--kind", "goods", "--min-divergence", "0.5"),
        *("--passages", "--batch", "9", "--from", "oldest", "--skip-dead"),
    ).row
    assert added["secret"].startswith("whsec_")
    wanted = {
        "what": ["new", "gone"],
        "patterns": ["/a/*"],
        "kinds": ["goods"],
        "divergence_min": 0.5,
        "with_passages": True,
        "events_max": 9,
        "start": "oldest",
        "holds_back": False,
    }
    assert wanted.items() <= added.items()
    listed = in_corpus("webhooks", "list")
    assert added["secret"] not in listed.out
    assert wanted.items() <= listed.row.items()
    text = in_corpus("webhooks", "list", "--no-json").out
    assert "new, gone, /a/*" in " ".join(text.split())
    rotated = in_corpus("webhooks", "rotate", "search", "--overlap", "2h").row
    assert rotated["secret"] != added["secret"]
    assert len(in_corpus("webhooks", "list").row["secrets"]) == 2
    assert in_corpus("webhooks", "set", "search", "--disable").row["disabled"]
    assert in_corpus("webhooks", "list").err.startswith("search: disabled by")
    changed = in_corpus("webhooks", "set", "search", "--enable", "--url", URL + "2").row
    assert (changed["disabled"], changed["url"]) == (None, URL + "2")
    assert in_corpus("webhooks", "remove", "search").row["removed"]
    assert "No webhooks yet" in in_corpus("webhooks", "list", "--no-json").out


def test_the_secret_alone_is_on_the_screen(in_corpus: Recrawl) -> None:
    ran = in_corpus("webhooks", "add", "search", URL, "--no-json")
    assert ran.out.startswith("whsec_")
    assert len(ran.out.splitlines()) == 1


def test_a_private_address_needs_an_option_of_the_server(in_corpus: Recrawl) -> None:
    ran = in_corpus("webhooks", "add", "search", "http://10.1.2.3:9000/hook")
    assert ran.code == 0
    assert "--allow-network 10.1.2.3" in " ".join(ran.err.split())
    for public in ("https://93.184.215.14/", "https://search.example/"):
        ran = in_corpus("webhooks", "add", public[8:11], public)
        assert "--allow-network" not in ran.err


def test_letters_are_listed_sent_again_and_given_up(in_corpus: Recrawl, tmp_path: Path) -> None:
    in_corpus("webhooks", "add", "search", URL)
    assert in_corpus("webhooks", "letters", "search", "--no-json").out == "Nothing waits.\n"
    corpus = next(tmp_path.rglob("webhooks")).parent
    files = WebhookFiles(corpus)
    webhook = files.require("search")
    page = (None, "https://a.example/")
    dead = Letter(id="01", page=page, event="{}", n_attempts=9, problem="500", is_dead=True)
    waiting = Letter(id="02", page=page, event="{}", next_at=2e9)
    files.write_letters(webhook.id, [dead.as_json(), waiting.as_json()])
    rows = [
        json.loads(line) for line in in_corpus("webhooks", "letters", "search").out.splitlines()
    ]
    assert [(row["id"], row["is_dead"], row["next_at_ms"]) for row in rows] == [
        ("01", True, None),
        ("02", False, 2_000_000_000_000),
    ]
    assert in_corpus("webhooks", "letters", "search", "--dead").row["problem"] == "500"
    assert in_corpus("webhooks", "list").row["n_dead"] == 1
    assert "01" in in_corpus("webhooks", "letters", "search", "--no-json").out
    in_corpus("webhooks", "send-again", "search", "01")
    in_corpus("webhooks", "drop", "search", "03")
    assert files.take_requests(webhook.id) == LetterRequests(["01"], ["03"])
    in_corpus("webhooks", "drop", "search", "--all")
    in_corpus("webhooks", "send-again", "search")
    assert files.take_requests(webhook.id) == LetterRequests(None, None)


def test_wrong_arguments_are_explained(in_corpus: Recrawl, tmp_path: Path) -> None:
    for arguments, problem in (
        (("add", "Search", URL), "lower-case"),
        (("add", "search", "ftp://x.example/"), "https://"),
        (("add", "search", URL, "--pattern", "shop.example"), "no path"),
        (("set", "search"), "give --url"),
        (("set", "search", "--enable", "--disable"), "either"),
        (("set", "search", "--enable"), "there is no webhook"),
        (("rotate", "search"), "there is no webhook"),
        (("letters", "search"), "there is no webhook"),
        (("send-again", "search"), "there is no webhook"),
        (("drop", "search"), "--all"),
        (("drop", "search", "01", "--all"), "--all"),
    ):
        ran = in_corpus("webhooks", *arguments)
        assert (ran.code, problem in ran.err) == (2, True), ran.err
    assert in_corpus("webhooks", "remove", "search").code == 1
    elsewhere = in_corpus("webhooks", "list", "-C", str(tmp_path / "nowhere"))
    assert elsewhere.code == 1
    assert "is not a corpus" in elsewhere.err
