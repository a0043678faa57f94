"""A person reads what was not done if a partition cannot be reached, as while it moves."""

from typing import Any

import numpy as np
import pytest

from recrawl.corpus import Corpus, CountedRows, RowStatus
from recrawl.errors import PartitionAway, ServiceUnavailable
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.service.running_server import Answer, RunningServer

URL = "https://site0.example/1"
HOST = "/ui/news/hosts/site0.example"
REPEAT = "again in a few seconds, and repeat this if nothing has changed."


def check(answer: Answer, words: str) -> None:
    html = answer.data.decode()
    assert answer.status == 503, html
    assert answer.headers["retry-after"] == "5"
    assert words in html
    assert REPEAT in html


@pytest.mark.parametrize(
    ("action", "method", "words"),
    [
        ("fetch", "fetch_now", "recrawl could not have the page fetched now"),
        ("importance", "set", "recrawl could not set the importance of the page"),
        ("stop", "remove", "recrawl could not stop tracking the page"),
    ],
)
@pytest.mark.parametrize("raises", [False, True])
def test_a_page_that_cannot_be_reached(
    open_server: RunningServer,
    corpus: Corpus,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    method: str,
    words: str,
    raises: bool,
) -> None:
    def leave_out(*_: Any, **__: Any) -> CountedRows:
        if raises:
            raise PartitionAway(3)
        return CountedRows(0, rows=np.array([RowStatus.UNAVAILABLE], np.uint8))

    monkeypatch.setattr(corpus, method, leave_out)
    form = {"action": action, "url": URL, "importance": "2"}
    answer = BrowserClient(open_server).post("/ui/news/page", form)
    check(answer, f"{words}, because the partition of the page cannot be reached now.")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"action": "delay", "delay": "5"}, "set the delay of the host"),
        ({"action": "unblock"}, "take back that the host is blocked"),
        ({"action": "close"}, "close the host"),
        ({"action": "open"}, "open the host again"),
    ],
)
def test_a_host_that_cannot_be_reached(
    open_server: RunningServer,
    corpus: Corpus,
    monkeypatch: pytest.MonkeyPatch,
    form: dict[str, str],
    words: str,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ServiceUnavailable("the partitions 3 cannot be reached now")

    monkeypatch.setattr(corpus, "set_host", fail)
    check(BrowserClient(open_server).post(HOST, form), f"recrawl could not {words}, because")
