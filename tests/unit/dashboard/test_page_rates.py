"""Opening pages very fast is refused for a while, each person and each address by itself."""

from functools import partial
from pathlib import Path

import pytest
from starlette.requests import Request

from recrawl.corpus import Corpus
from recrawl.dashboard import attach_dashboard
from recrawl.dashboard.frame.page_rates import PageRates
from recrawl.dashboard.limits import DashboardLimits
from recrawl.dashboard.login.sessions import Session
from recrawl.dashboard.login.visitors import Visitor
from recrawl.service.keys import KeyRing
from recrawl.service.problems import Problem
from recrawl.service.protection.audit import read_audit_log
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.dashboard.test_login import make_key
from tests.unit.service.running_server import RunningServer

LIMITS = DashboardLimits(pages_per_second=2.0, address_pages_per_second=1.0)


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def visitor(session: Session | None = None) -> Visitor:
    return Visitor(session, None, "browser", False, "token")


def request(client: str) -> Request:
    return Request({"type": "http", "headers": [], "client": (client, 1)})


def n_taken(rates: PageRates, client: str, who: Visitor) -> int:
    """Return how many pages may be opened one after the other."""
    for n in range(1_000):
        try:
            rates.take(request(client), who)
        except Problem:
            return n
    raise AssertionError("there is no limit")


def test_people_and_addresses_have_rates_of_their_own() -> None:
    clock = Clock()
    rates = PageRates(LIMITS, clock)
    ada, bob = (visitor(Session({"news": "k"}, 0.0, 0.0)) for _ in range(2))
    assert n_taken(rates, "192.0.2.1", ada) == 10
    assert n_taken(rates, "192.0.2.1", bob) == 10
    assert n_taken(rates, "192.0.2.9", ada) == 0
    assert n_taken(rates, "192.0.2.1", visitor()) == 5
    assert n_taken(rates, "192.0.2.2", visitor()) == 5
    # One client may have all addresses of a network of IPv6.
    assert n_taken(rates, "2001:db8::1", visitor()) == 5
    assert n_taken(rates, "2001:db8::2", visitor()) == 0
    clock.now += 1.0
    assert n_taken(rates, "192.0.2.1", ada) == 2
    assert n_taken(rates, "192.0.2.1", visitor()) == 1


@pytest.mark.parametrize("path", ["/ui/news/kinds", "/", "/login", "/ui/news/page/live?url=x"])
def test_a_page_says_how_long_to_wait(corpus: Corpus, folder: Path, path: str) -> None:
    limits = DashboardLimits(address_pages_per_second=1e-5)
    with RunningServer(
        {"news": corpus},
        folders={"news": folder},
        dashboard=partial(attach_dashboard, limits=limits),
    ) as server:
        browser = BrowserClient(server)
        assert browser.get(path).status != 429
        answer = browser.get(path)
        assert answer.status == 429
        seconds = answer.headers["retry-after"]
        assert 1 <= int(seconds) <= 100_000
        assert f"too many pages; wait {seconds} s" in answer.data.decode()
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_forms_count_as_pages_and_leave_no_trace_when_they_are_too_many(
    corpus: Corpus, folder: Path
) -> None:
    key, _ = make_key(folder, "admin")
    limits = DashboardLimits(pages_per_second=1e-5)
    with RunningServer(
        {"news": corpus},
        folders={"news": folder},
        keys={"news": KeyRing(folder)},
        is_local=False,
        dashboard=partial(attach_dashboard, limits=limits),
    ) as server:
        browser = BrowserClient(server)
        browser.log_in(key)
        token = browser.token("/ui/news/page")
        fields = {"url": "https://site0.example/1", "action": "fetch"}
        assert browser.post("/ui/news/page", fields, token=token).status == 429
    assert [entry.what for entry in read_audit_log(folder)] == ["dashboard: log in"]
