"""Subscriptions are checked, stored for their owner alone, and survive damage nearby."""

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from recrawl.errors import StorageError
from recrawl.service.webhooks import (
    WebhookLimits,
    add_webhook,
    change_webhook,
    list_letters,
    list_webhooks,
    remove_webhook,
    rotate_webhook_secret,
    send_letters_again,
)
from recrawl.service.webhooks.files import LetterRequests, WebhookFiles

URL = "https://receiver.example/hook"


def add(folder: Path, name: str = "hook", url: str = URL, **settings: Any) -> str:
    return add_webhook(folder, name, url, now_ms=1_000, **settings)[1]


def test_a_webhook_is_stored_as_it_was_given(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "what": ("new",),
        "patterns": ("/a/*", "shop.example/*"),
        "kinds": ("goods",),
        "divergence_min": 0.5,
        "with_passages": True,
        "events_max": 7,
        "holds_back": False,
        "start": "oldest",
    }
    webhook, secret = add_webhook(tmp_path, "hook", URL, now_ms=1_000, **settings)
    assert list_webhooks(tmp_path) == [webhook]
    assert webhook.secrets[0].secret == secret
    assert (webhook.created_at_ms, webhook.disabled) == (1_000, None)
    for name, value in settings.items():
        assert getattr(webhook, name) == value
    assert secret not in json.dumps(webhook.as_public())
    assert secret not in repr(webhook)


def test_lists_are_empty_without_webhooks(tmp_path: Path) -> None:
    assert list_webhooks(tmp_path) == []
    assert not remove_webhook(tmp_path, "hook")
    with pytest.raises(ValueError, match="there is no webhook 'hook'"):
        list_letters(tmp_path, "hook")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"name": "Hook"}, "lower-case"),
        ({"name": "../hook"}, "lower-case"),
        ({"name": "x" * 33}, "1 to 32"),
        ({"url": "ftp://receiver.example/"}, "https://"),
        ({"url": "https://"}, "https://"),
        ({"url": "https://me:secret@receiver.example/"}, "no user name"),
        ({"url": "http://receiver.example:25/"}, "port 25"),
        ({"url": "https://receiver.example/" + "x" * 3_000}, "https://"),
        ({"secret": "secret"}, "24 to 64"),
        ({"what": ["changes"]}, "must be among new, changed"),
        ({"what": ["none"]}, "must be among"),
        ({"patterns": ["shop.example"]}, "no path"),
        ({"patterns": [""]}, "patterns must be texts"),
        ({"patterns": ["/*"] * 101}, "at most 100, got 101"),
        ({"kinds": ["x" * 201]}, "200 characters"),
        ({"divergence_min": 1.1}, "from 0 to 1"),
        ({"divergence_min": float("nan")}, "from 0 to 1"),
        ({"events_max": 0}, "from 1 to 100"),
        ({"events_max": 101}, "from 1 to 100"),
        ({"start": "now"}, "newest or oldest"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        add(tmp_path, **settings)
    assert list_webhooks(tmp_path) == []
    if "name" not in settings and "secret" not in settings:
        add(tmp_path)
        with pytest.raises(ValueError, match=problem):
            change_webhook(tmp_path, "hook", **settings)


def test_names_are_unique_and_their_number_is_limited(tmp_path: Path) -> None:
    limits = WebhookLimits(webhooks_max=2)
    add(tmp_path, limits=limits)
    with pytest.raises(ValueError, match="already"):
        add(tmp_path, limits=limits)
    add(tmp_path, "other", limits=limits)
    with pytest.raises(ValueError, match="at most 2 webhooks"):
        add(tmp_path, "third", limits=limits)
    assert remove_webhook(tmp_path, "hook")
    add(tmp_path, "third", limits=limits)


def test_an_id_stays(tmp_path: Path) -> None:
    add(tmp_path)
    with pytest.raises(ValueError, match="id of a webhook cannot be changed"):
        change_webhook(tmp_path, "hook", id="other")
    assert change_webhook(tmp_path, "hook", url=URL + "2").url == URL + "2"


def test_secrets_overlap_and_are_limited(tmp_path: Path) -> None:
    first = add(tmp_path)
    day_ms = 86_400_000
    second = rotate_webhook_secret(tmp_path, "hook", now_ms=2_000)
    (webhook,) = list_webhooks(tmp_path)
    assert webhook.valid_secrets(2_000) == [second, first]
    assert webhook.valid_secrets(2_000 + day_ms) == [second]
    third = rotate_webhook_secret(tmp_path, "hook", now_ms=3_000, overlap_seconds=0)
    (webhook,) = list_webhooks(tmp_path)
    assert webhook.valid_secrets(3_000) == [third]  # at once, also for the first one
    for i in range(3):
        rotate_webhook_secret(tmp_path, "hook", now_ms=4_000 + i)
    with pytest.raises(ValueError, match="4 secrets are still valid"):
        rotate_webhook_secret(tmp_path, "hook", now_ms=5_000)
    rotate_webhook_secret(tmp_path, "hook", now_ms=5_000 + day_ms)
    with pytest.raises(ValueError, match="overlap_seconds"):
        rotate_webhook_secret(tmp_path, "hook", now_ms=0, overlap_seconds=-1)


def test_files_belong_to_their_owner_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        add(tmp_path)
        send_letters_again(tmp_path, "hook")
        rotate_webhook_secret(tmp_path, "hook", now_ms=0)
    finally:
        os.umask(before)
    folder = tmp_path / "webhooks"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert {modes[name] for name in modes if name != ".lock"} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_requests_about_letters_are_joined(tmp_path: Path) -> None:
    add(tmp_path)
    files = WebhookFiles(tmp_path)
    webhook = files.require("hook")
    assert files.take_requests(webhook.id) is None
    files.request("hook", send_again=["2", "1"], drop=[])
    files.request("hook", send_again=["3"], drop=["4"])
    taken = files.take_requests(webhook.id)
    assert taken == LetterRequests(["1", "2", "3"], ["4"])
    files.request("hook", send_again=[], drop=None)
    files.finish_requests(webhook.id, taken)  # others have come since
    taken = files.take_requests(webhook.id)
    assert taken == LetterRequests(["1", "2", "3"], None)
    files.finish_requests(webhook.id, taken)
    assert files.take_requests(webhook.id) is None
    with pytest.raises(ValueError, match="at most 10,000"):
        files.request("hook", send_again=[str(i) for i in range(10_001)], drop=[])


def test_damaged_files_are_said_and_empty_ones_replaced(tmp_path: Path) -> None:
    add(tmp_path)
    path = tmp_path / "webhooks/hook.json"
    text = path.read_text()
    for wrong in ("{", "[]", '{"format": 1}', '{"format": 9, "webhook": {}}'):
        path.write_text(wrong)
        with pytest.raises(StorageError, match="hook"):
            list_webhooks(tmp_path)
    path.write_text("")  # a process was killed before it wrote
    assert list_webhooks(tmp_path) == []
    add(tmp_path)
    path.write_text(text.replace('"kinds"', '"later": 1, "kinds"'))  # by a later version
    assert len(list_webhooks(tmp_path)) == 1
    letters = tmp_path / f"webhooks/{list_webhooks(tmp_path)[0].id}.letters"
    letters.write_text('{"format": 1, "letters": [{}]}')
    with pytest.raises(StorageError, match="letters"):
        list_letters(tmp_path, "hook")


def test_several_threads_add_and_change_at_once(tmp_path: Path) -> None:
    add(tmp_path, "shared")

    def work(i: int) -> None:
        add(tmp_path, f"hook{i}")
        settings: dict[str, Any] = {["divergence_min", "events_max"][i % 2]: 1}
        change_webhook(tmp_path, "shared", **settings)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list_webhooks(tmp_path)) == 9
    shared = list_webhooks(tmp_path)[-1]
    assert (shared.divergence_min, shared.events_max) == (1, 1)
