"""Texts of hostile sites are shown as they are, and none runs, even without the security policy."""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser, Page

from recrawl.corpus import Corpus, Outcome
from recrawl.dashboard import attach_dashboard
from tests.manual_clock import ManualClock
from tests.unit.dashboard.pages.xss_payloads import PAYLOADS, in_groups
from tests.unit.service.running_server import RunningServer

URL = "https://hostile.example/page"
# So that a page shows each of them in full.
METADATA_PARTS = 10
# Runs before each page: records what must not happen.
WATCH = """
window.fired = [];
for (const name of ["alert", "confirm", "prompt", "print", "open"])
  window[name] = (...given) => { window.fired.push(name); };
document.addEventListener("securitypolicyviolation", (e) => window.fired.push(e.violatedDirective));
"""
# Elements and attributes that our own pages never have.
FOREIGN = """
() => [...document.querySelectorAll("*")].filter((one) =>
  ["IFRAME", "OBJECT", "EMBED", "MARQUEE", "VIDEO", "AUDIO", "IMG", "MATH", "BASE", "TEMPLATE",
   "STYLE"].includes(one.tagName.toUpperCase())
  || (one.tagName === "SCRIPT" && !one.src.startsWith(location.origin + "/assets/"))
  || [...one.attributes].some((a) => a.name.startsWith("on")
      || /^\\s*(javascript|data):/i.test(["href", "src", "action", "xlink:href"].includes(a.name)
         ? a.value : ""))
).map((one) => one.outerHTML.slice(0, 200))
"""


@pytest.fixture
def hostile_corpus(open_corpus: Callable[..., Corpus], clock: ManualClock) -> Corpus:
    """A corpus in which every text that others can choose is hostile."""
    patterns = [{"match": f"/kind{i}/*", "kind": text} for i, text in enumerate(PAYLOADS[:100])]
    corpus = open_corpus(content={"keep_text": True}, corpus={"group_by": "key"}, pattern=patterns)
    urls = [f"https://h.example/?q={text}" for text in PAYLOADS]
    added = corpus.add(urls, key=PAYLOADS, doc_id=PAYLOADS)
    assert added.n_added >= 100
    corpus.add([f"https://h.example/kind{i}/" for i in range(100)], key="kinds")
    parts = [PAYLOADS[i::METADATA_PARTS] for i in range(METADATA_PARTS)]
    for i, texts in enumerate(parts):
        added = corpus.add([f"{URL}/{i}"], key="m", metadata=[{text: text for text in texts}])
        assert added.n_added == 1
    assert corpus.add([URL], key="k").n_added == 1
    for texts in (["Nothing of interest yet on this page."], PAYLOADS):
        clock.pass_seconds(60)
        # Passages with the same words, whatever their case and punctuation, would be one.
        passages = [f"<p>Text{i} {_escape(one)} of a passage</p>" for i, one in enumerate(texts)]
        body = "".join(passages).encode()
        corpus.report([Outcome(url=URL, key="k", body=body, content_type="text/html")])
    clock.pass_seconds(60)
    for text in PAYLOADS:
        corpus.signal([URL], source="".join(c for c in text if c.isprintable()), key="k")
    return corpus


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@pytest.fixture
def server(hostile_corpus: Corpus, folder: Path) -> Iterator[RunningServer]:
    with RunningServer(
        {"news": hostile_corpus}, folders={"news": folder}, dashboard=attach_dashboard
    ) as running:
        yield running


def _check(page: Page, address: str) -> None:
    answer = page.goto(address)
    assert answer is not None
    assert answer.status < 500, page.inner_text("main")
    page.keyboard.press("Tab")
    assert page.evaluate("window.fired") == [], address
    assert page.evaluate(FOREIGN) == [], address


@pytest.mark.parametrize("has_policy", [False, True])
def test_no_text_of_others_runs(browser: Browser, server: RunningServer, has_policy: bool) -> None:
    assert len(set(PAYLOADS)) >= 100
    context = browser.new_context(bypass_csp=not has_policy)
    context.add_init_script(WATCH)
    page = context.new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
    page.on("pageerror", lambda error: pytest.fail(f"a script failed: {error}"))
    base = f"http://127.0.0.1:{server.port}/ui/news"
    stored = f"page?{urlencode({'url': URL, 'key': 'k'})}"
    for path in ("", "hosts", "hosts/k", "hosts/m", "hosts/kinds", "sources", "kinds", stored):
        _check(page, f"{base}/{path}")
    # The passages are shown as they are.
    shown = page.inner_text("main")
    assert sum(f"Text{i} {text} of" in shown for i, text in enumerate(PAYLOADS)) >= 100
    for i in range(METADATA_PARTS):
        _check(page, f"{base}/page?{urlencode({'url': f'{URL}/{i}', 'key': 'm'})}")
    if not has_policy:
        _check_given_texts(page, base)
    context.close()


def _check_given_texts(page: Page, base: str) -> None:
    """Open pages with hostile texts in their addresses."""
    for text in in_groups(PAYLOADS, 280):
        for path, names in (
            ("hosts", ("find", "sort")),
            (f"hosts/{quote(text[:120], safe='')}", ("prefix",)),
            ("hosts/k", ("cursor", "done")),
            ("page", ("url", "key", "done")),
            ("sources", ("source",)),
        ):
            lengths = {"done": 20, "sort": 20, "cursor": 100}
            given = {name: text[: lengths.get(name, 280)] for name in names}
            _check(page, f"{base}/{path}?{urlencode(given)}")


def test_a_host_or_key_of_others_is_linked_and_opened(
    browser: Browser, server: RunningServer, hostile_corpus: Corpus
) -> None:
    context = browser.new_context(bypass_csp=True)
    context.add_init_script(WATCH)
    page = context.new_page()
    base = f"http://127.0.0.1:{server.port}/ui/news"
    keys = [row.host for row in hostile_corpus.hosts().rows if row.host in PAYLOADS]
    assert len(keys) >= 100
    for key in keys[:10]:
        _check(page, f"{base}/hosts/{quote(key, safe='')}")
    for key in keys[:100]:
        query = {"url": f"https://h.example/?q={key}", "key": key}
        _check(page, f"{base}/page/live?{urlencode(query)}")
        assert key.strip() in page.inner_text("body")
    context.close()
