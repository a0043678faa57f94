"""The page of proof: audits by kind and host, and hosts held out."""

from collections.abc import Callable
from pathlib import Path

from recrawl.corpus import Corpus, Outcome
from recrawl.dashboard import attach_dashboard
from tests.manual_clock import ManualClock
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.service.running_server import RunningServer


def read_proof_page(corpus: Corpus, folder: Path) -> str:
    served = {"news": corpus}
    with RunningServer(served, folders={"news": folder}, dashboard=attach_dashboard) as server:
        page = BrowserClient(server).get("/ui/news/proof")
        assert page.status == 200
        return page.data.decode()


def test_without_audits_the_page_says_how_to_begin(corpus: Corpus, folder: Path) -> None:
    html = read_proof_page(corpus, folder)
    assert "No audits yet" in html
    assert "No hosts are held out" in html


def test_audits_and_arms_are_shown(
    open_corpus: Callable[..., Corpus], folder: Path, clock: ManualClock
) -> None:
    corpus = open_corpus(audit={"share": 0.5}, holdout={"share": 0.5, "interval": "1d"})
    corpus.add([f"https://site{i}.example/{j}" for i in range(6) for j in range(4)])
    for _ in range(5):
        clock.pass_seconds(86_400)
        orders = corpus.lease(24)
        corpus.report([Outcome(handle=order.handle, digest=b"same") for order in orders])
    html = read_proof_page(corpus, folder)
    assert "Audits confirm the model" in html or "Audits and model disagree" in html
    assert 'href="/ui/news/hosts/site0.example"' in html
    assert "held out" in html
    assert "each arm needs about 20" in html
