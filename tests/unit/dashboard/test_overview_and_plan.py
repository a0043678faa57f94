"""The overview and the plan: what they show, also in a real browser."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

from recrawl.charts import Series
from recrawl.corpus import Corpus, Outcome, read_overview_part
from recrawl.dashboard import attach_dashboard
from recrawl.dashboard.pages import overview_charts
from recrawl.dashboard.pages.overview_charts import time_axis
from recrawl.dashboard.pages.plan import PLACES, budget_at, slider_place
from recrawl.dashboard.pages.problems import PageProblem, find_problems
from recrawl.messages.samples import RESULTS, Sample, Samples
from recrawl.store import ContentCounts
from tests.manual_clock import ManualClock
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.dashboard.conftest import URLS
from tests.unit.dashboard.real_browser import launch_browser, new_page
from tests.unit.service.running_server import RunningServer

HOSTILE = '<img src=x onerror="window.isAttacked=1">'


def test_the_overview_shows_changes_and_problems(
    open_server: RunningServer, corpus: Corpus
) -> None:
    orders = corpus.lease(5)
    corpus.report([Outcome(handle=order.handle, status=200, digest=b"a") for order in orders])
    corpus.set_host("site1.example", is_closed=True)
    html = BrowserClient(open_server).get("/ui/news/").data.decode()
    assert "Hosts closed: site1.example" in html, html[-900:]
    assert "<code>recrawl set --host HOST --open</code>" in html
    assert orders[0].url in html
    for span in ("month", "years"):
        assert BrowserClient(open_server).get(f"/ui/news/?span={span}").status == 200
    assert BrowserClient(open_server).get("/ui/news/?span=none").status == 422


def test_the_overview_counts_one_fetch(open_server: RunningServer, corpus: Corpus) -> None:
    (order,) = corpus.lease(1)
    corpus.report(Outcome(handle=order.handle, status=200, digest=b"a"))
    html = BrowserClient(open_server).get("/ui/news/").data.decode()
    assert "1 fetch spent so far" in html


def test_the_plan_answers_for_any_budget_and_target(open_server: RunningServer) -> None:
    browser = BrowserClient(open_server)
    assert browser.get("/ui/news/plan").status == 200
    page = browser.get("/ui/news/plan?at=120&targets=95+%25%0A80+%25+of+site1.example")
    assert page.status == 200
    assert b"80 % of site1.example" in page.data
    wrong = browser.get("/ui/news/plan?targets=%3Cscript%3Ealert(1)%3C/script%3E")
    assert wrong.status == 200
    assert b"is not understood" in wrong.data
    assert b"<script>alert" not in wrong.data
    assert browser.get("/ui/news/plan?at=201").status == 422


def test_a_budget_that_a_client_sets_shows_at_once_and_a_second_view_makes_no_plan(
    open_server: RunningServer, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []
    plan_targets = Corpus.plan_targets

    def count(self: Corpus, *args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return plan_targets(self, *args, **kwargs)

    monkeypatch.setattr(Corpus, "plan_targets", count)
    browser = BrowserClient(open_server)
    for rate, shown in (("30/h", b">30 "), ("70/h", b">70 ")):
        body = json.dumps({"rate": rate}).encode()
        headers = {"Content-Type": "application/json"}
        assert browser.request("PUT", "/v1/corpora/news/budget", body, headers).status == 200
        calls.clear()
        for _ in range(2):
            page = browser.get("/ui/news/plan").data
            assert shown in page, page.decode()[1500:3500]
        assert len(calls) == 1


def test_places_of_the_slider_are_budgets() -> None:
    ends = (2.0, 5_000.0)
    assert [slider_place(budget_at(i, ends), ends) for i in range(PLACES + 1)] == list(
        range(PLACES + 1)
    )


def test_in_a_browser_the_pages_are_live_and_run_no_foreign_code(
    open_server: RunningServer, corpus: Corpus
) -> None:
    corpus.add([f"https://site9.example/?q={HOSTILE}"])
    orders = corpus.lease(100)
    corpus.report([Outcome(handle=order.handle, status=200, digest=b"a") for order in orders])
    address = f"http://localhost:{open_server.port}/ui/news/"
    with sync_playwright() as playwright:
        browser = launch_browser(playwright)
        page = new_page(browser)
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(address)
        with page.expect_response(lambda answer: "/live" in answer.url) as live:
            pass
        assert live.value.status == 200
        assert page.evaluate("window.isAttacked") is None
        page.goto(f"{address}plan")
        before = page.inner_text("#answer .cards")
        page.focus("#at")
        page.keyboard.press("PageUp")
        changed = "before => document.querySelector('#answer .cards').innerText !== before"
        page.wait_for_function(changed, arg=before)
        assert page.evaluate("window.isAttacked") is None
        browser.close()
    assert said == []


def test_freshness_is_not_known_until_pages_were_fetched_three_times(
    open_server: RunningServer, corpus: Corpus, clock: ManualClock
) -> None:
    browser = BrowserClient(open_server)

    def texts() -> list[str]:
        paths = ("", "hosts", "hosts/site1.example", "kinds")
        return [browser.get(f"/ui/news/{path}").data.decode() for path in paths]

    for text in texts():
        assert "not known yet" in text
    for _ in range(3):
        clock.pass_seconds(3_600)
        corpus.report([Outcome(url=url, status=200, digest=b"a") for url in URLS])
    # An action drops what pages have kept.
    form = {"action": "delay", "delay": "1"}
    assert browser.post("/ui/news/hosts/site0.example", form).status == 303
    for text in texts():
        assert "not known yet" not in text


def _problems_of(corpus: Corpus, sample: Sample) -> list[PageProblem]:
    return find_problems(read_overview_part(corpus, 0, sample.total.n_due), sample)


def test_the_overview_says_that_no_fetcher_asks_for_pages(
    corpus: Corpus, clock: ManualClock
) -> None:
    def problems() -> list[str]:
        return [one.what for one in _problems_of(corpus, corpus.sample()) if "asked" in one.what]

    corpus.set_budget("1000/h")
    assert problems() == []  # nothing was ever fetched, which is another problem
    corpus.report([Outcome(url=URLS[0], status=200, digest=b"a")])
    clock.pass_seconds(200)
    assert problems() == []
    clock.pass_seconds(3_400)
    (what,) = problems()
    assert what.startswith("No fetcher has asked for pages since 20")
    assert "(60 min ago), and 20 pages are due" in what
    corpus.lease(1)
    assert problems() == []


def test_the_overview_says_what_audits_and_wrong_answers_show(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Corpus, "stats")  # it holds all locks while it looks at all pages
    sample = corpus.sample()
    before = _problems_of(corpus, sample)
    (node,) = corpus.nodes
    tables = node.shard.tables
    for name, value in (
        *(("n_audited", 400), ("n_audited_fresh", 100)),
        *(("audited_modelled", 360.0), ("audited_variance", 36.0)),
    ):
        getattr(tables.registers, name)[0] = value
        getattr(tables.priors, name)[0] = value
    n_wrong = (0, 0, 60, *ContentCounts().n_wrong_answers[3:])
    counts = ContentCounts(n_observed=100, n_wrong_answers=n_wrong)
    monkeypatch.setattr(type(node.store), "content_counts", counts)
    found = [one for one in _problems_of(corpus, sample) if one not in before]
    assert [(one.what, one.target) for one in found if "kind" not in one.what] == [
        (
            "Audits of all pages: 25 % of 400 audited copies were fresh, the model expected 90 %",
            "proof",
        ),
        ("60 % of 100 answers were not the page: 60 block pages", "hosts"),
    ]


def test_the_model_beside_audits_counts_each_page_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, list[Series]] = {}

    def keep(lines: list[Series], *, title: str, **options: Any) -> str:
        drawn[title] = lines
        return ""

    monkeypatch.setattr(overview_charts, "line_chart", keep)
    n = np.full(3, 1.0)
    columns: dict[str, Any] = dict.fromkeys(Samples.__slots__, n)
    columns |= {
        "step": "minute",
        "first_ms": None,
        "at_ms": np.arange(3) * 60_000,
        "n_modelled": 10 * n,
        "fresh_pages": 8 * n,
        "weight": 10 * n,
        "fresh_weight": 3 * n,
        "results": dict.fromkeys(RESULTS, n),
    }
    overview_charts.overview_charts(Samples(**columns), "fetches", 180_000)
    shares = {line.name: np.asarray(line.y)[-1] for line in drawn["Fresh copies"]}
    assert shares == {"model": 0.8, "by importance": 0.3, "audits": 1.0}


def test_the_card_of_audits_has_those_of_the_chosen_time(
    open_corpus: Callable[..., Corpus], folder: Path, clock: ManualClock
) -> None:
    corpus = open_corpus(audit={"share": 0.5})
    corpus.add(URLS)

    def audit() -> int:
        for node in corpus.nodes:
            node.tick(corpus.time)
        orders = corpus.lease(20)
        corpus.report([Outcome(handle=order.handle, digest=b"same") for order in orders])
        clock.pass_seconds(61)
        for node in corpus.nodes:
            node.tick(corpus.time)
        return corpus.sample().total.n_audited

    audit()
    clock.pass_seconds(86_400)
    n_before = audit()
    clock.pass_seconds(2 * 86_400)
    n_day = audit() - n_before
    assert n_before > 0 < n_day
    with RunningServer(
        {"news": corpus}, folders={"news": folder}, dashboard=attach_dashboard
    ) as server:
        browser = BrowserClient(server)
        day = browser.get("/ui/news/").data.decode()
        month = browser.get("/ui/news/?span=month").data.decode()
    assert f"{n_day} audits in the last day" in day
    assert f"{n_before + n_day} audits in the last 30 days" in month


def test_charts_end_now() -> None:
    at_ms = np.array([0, 60_000])
    columns: dict[str, Any] = dict.fromkeys(Samples.__slots__, at_ms)
    series = Samples(**columns | {"step": "minute"})
    assert time_axis(series, 3_600_000).high == 3_600_000
    assert time_axis(series, 90_000).high == 120_000  # the end of the last sample's minute
