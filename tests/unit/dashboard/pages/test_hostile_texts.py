"""Texts of hostile sites are shown as they are, and none runs, even without the security policy.

A browser takes long to open a page, and little to read one.  So the pages of many hostile addresses
are fetched without it, and it reads them as one page that has each in a section of its own.
"""

import re
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route

import recrawl
from recrawl.corpus import Corpus, CorpusConfig, Outcome
from recrawl.dashboard import attach_dashboard
from recrawl.dashboard.limits import DashboardLimits
from recrawl.messages.robots import ROBOTS_LINE_CHARACTERS_MAX, RobotsNote
from recrawl.service import create_key
from recrawl.service.keys import KeyRing
from tests.manual_clock import ManualClock
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.dashboard.pages.xss_payloads import PAYLOADS, in_groups
from tests.unit.dashboard.real_browser import WAIT_MS
from tests.unit.service.running_server import Answer, RunningServer

URL = "https://hostile.example/page"
# So that a page shows each of them in full.
METADATA_PARTS = 10
PAGES_TOGETHER = 50
KEY_NAME_MAX = 100
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
# The script of our own pages, which must not run once for each section.
OWN_SCRIPT = re.compile(r'<script src="/assets/dashboard\.js\?v=[0-9a-f]+" defer></script>')
FAST = DashboardLimits(
    pages_per_second=1e6,
    address_pages_per_second=1e6,
    logins_per_second=1e6,
)


class Served(NamedTuple):
    """A server with a corpus whose texts are hostile, and one whose API keys have such names."""

    server: RunningServer
    hostile: Corpus
    keys: dict[str, str]
    """API keys by their names."""

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def get(self, path: str) -> Answer:
        return self.server.request("GET", path)


def _fill(corpus: Corpus, clock: ManualClock) -> None:
    """Give a corpus hostile texts everywhere where others can choose a text."""
    urls = [f"https://h.example/?q={text}" for text in PAYLOADS]
    added = corpus.add(urls, key=PAYLOADS, doc_id=PAYLOADS)
    assert added.n_added >= 100
    # Their servers choose where they redirect to.
    moved = zip(urls, PAYLOADS, strict=True)
    corpus.report([Outcome(url=url, key=to, status=301, moved_to=to) for url, to in moved])
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
        corpus.signal([URL], source=_printable(text), key="k")


def _note_robots(corpus: Corpus) -> None:
    """Give hosts a robots.txt with hostile lines and names."""
    for i, text in enumerate(PAYLOADS):
        corpus.add([f"https://r{i}.example/"])
        note = RobotsNote(f"https://r{i}.example", "found", "parts", 1)
        lines = (f"Disallow: /{text}"[:ROBOTS_LINE_CHARACTERS_MAX], "Disallow: /end")
        corpus.note_robots([note._replace(agent=text[:100], lines=lines, n_lines=3)])


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())


def _name_keys(folder: Path) -> dict[str, str]:
    names = in_groups([_printable(text) for text in PAYLOADS], KEY_NAME_MAX)
    now_ms = time.time_ns() // 1_000_000
    return {name: create_key(folder, ["read"], name=name, now_ms=now_ms)[0] for name in names}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests of this module, none of which changes a corpus."""
    clock, folder = ManualClock(), tmp_path_factory.mktemp("hostile")
    patterns = [{"match": f"/kind{i}/*", "kind": text} for i, text in enumerate(PAYLOADS[:100])]
    sections = {
        "content": {"keep_text": True},
        "corpus": {"group_by": "key"},
        "pattern": patterns,
    }
    folders = {name: folder / name for name in ("news", "keyed", "robots")}
    corpora = {
        "robots": recrawl.open(folders["robots"], clock=clock),
        "news": recrawl.open(folders["news"], CorpusConfig.from_dict(sections), clock=clock),
        "keyed": recrawl.open(folders["keyed"], clock=clock),
    }
    _fill(corpora["news"], clock)
    _note_robots(corpora["robots"])
    keys = _name_keys(folders["keyed"])
    with RunningServer(
        corpora,
        folders=folders,
        keys={name: KeyRing(one) for name, one in folders.items()},
        dashboard=partial(attach_dashboard, limits=FAST),
    ) as server:
        yield Served(server, corpora["news"], keys)


def _open_context(browser: Browser, *, has_policy: bool) -> tuple[BrowserContext, Page]:
    context = browser.new_context(bypass_csp=not has_policy)
    context.add_init_script(WATCH)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
    page.on("pageerror", lambda error: pytest.fail(f"a script failed: {error}"))
    return context, page


def _check(page: Page, address: str) -> None:
    answer = page.goto(address)
    assert answer is not None
    assert answer.status < 500, page.inner_text("main")
    _check_nothing_ran(page, address)


def _check_nothing_ran(page: Page, what: str) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("window.fired") == [], what
    assert page.evaluate(FOREIGN) == [], what


def _answer_with(html: str, headers: dict[str, str], route: Route) -> None:
    route.fulfill(body=html, headers=headers)


def _check_together(page: Page, served: Served, answers: Sequence[tuple[str, Answer]]) -> list[str]:
    """Let the browser read many answers as one page; return the text that it shows of each.

    Parameters
    ----------
    page
        Page of the browser.
    served
        Server of the answers.
    answers
        Path of each answer, and the answer.
    """
    shown: list[str] = []
    for first in range(0, len(answers), PAGES_TOGETHER):
        part = answers[first : first + PAGES_TOGETHER]
        html = "<!doctype html><body>"
        for path, answer in part:
            assert answer.status < 500, path
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            own = OWN_SCRIPT.sub("", answer.data.decode())
            html += f"<section data-one>{own}</section>"
        headers = {
            "content-type": "text/html; charset=utf-8",
            "content-security-policy": part[0][1].headers["content-security-policy"],
        }
        address = f"{served.base}/together"
        page.route(address, partial(_answer_with, html, headers))
        page.goto(address)
        _check_nothing_ran(page, "; ".join(path for path, _ in part))
        texts = page.evaluate(
            "() => [...document.querySelectorAll('body > [data-one]')].map((one) => one.innerText)"
        )
        # A text that got out of its place would have swallowed what follows it.
        assert len(texts) == len(part), part[0][0]
        shown += texts
        page.unroute(address)
    return shown


@pytest.mark.parametrize("has_policy", [False, True])
def test_no_text_of_others_runs(browser: Browser, served: Served, has_policy: bool) -> None:
    assert len(set(PAYLOADS)) >= 100
    context, page = _open_context(browser, has_policy=has_policy)
    stored = f"page?{urlencode({'url': URL, 'key': 'k'})}"
    for path in ("", "hosts", "hosts/k", "hosts/m", "hosts/kinds", "sources", "kinds", stored):
        _check(page, f"{served.base}/ui/news/{path}")
    # The passages are shown as they are.
    shown = page.inner_text("main")
    assert sum(f"Text{i} {text} of" in shown for i, text in enumerate(PAYLOADS)) >= 100
    queries = [urlencode({"url": f"{URL}/{i}", "key": "m"}) for i in range(METADATA_PARTS)]
    _check(page, f"{served.base}/ui/news/page?{queries[0]}")
    paths = [f"/ui/news/page?{query}" for query in queries]
    _check_together(page, served, [(path, served.get(path)) for path in paths])
    context.close()


def test_no_text_of_a_robots_file_runs(browser: Browser, served: Served) -> None:
    context, page = _open_context(browser, has_policy=False)
    paths = [f"/ui/robots/hosts/r{i}.example" for i in range(len(PAYLOADS))]
    _check(page, served.base + "/ui/robots/hosts")
    assert "closes parts" in page.inner_text("main")
    _check(page, served.base + paths[0])
    texts = _check_together(page, served, [(path, served.get(path)) for path in paths])
    n_shown = 0
    for text, shown in zip(PAYLOADS, texts, strict=True):
        words = " ".join(shown.split())
        assert "Disallow: /end and 1 more line" in words
        line = f"Disallow: /{text}"[:ROBOTS_LINE_CHARACTERS_MAX]
        n_shown += " ".join(line.split()) in words
    assert n_shown >= 100
    context.close()


def test_no_text_of_an_address_runs(browser: Browser, served: Served) -> None:
    context, page = _open_context(browser, has_policy=False)
    paths = list(_hostile_paths())
    _check(page, served.base + paths[0])
    _check_together(page, served, [(path, served.get(path)) for path in paths])
    context.close()


def _hostile_paths() -> Iterator[str]:
    """Yield paths of pages with hostile texts in them."""
    lengths = {"done": 20, "sort": 20, "cursor": 100}
    for text in in_groups(PAYLOADS, 280):
        for path, names in (
            ("hosts", ("find", "sort")),
            (f"hosts/{quote(text[:120], safe='')}", ("prefix",)),
            ("hosts/k", ("cursor", "done")),
            ("page", ("url", "key", "done")),
            ("sources", ("source",)),
        ):
            given = {name: text[: lengths.get(name, 280)] for name in names}
            yield f"/ui/news/{path}?{urlencode(given)}"


def test_a_host_or_key_of_others_is_linked_and_opened(browser: Browser, served: Served) -> None:
    context, page = _open_context(browser, has_policy=False)
    keys = [row.host for row in served.hostile.hosts().rows if row.host in PAYLOADS]
    assert len(keys) >= 100
    hosts = [f"/ui/news/hosts/{quote(key, safe='')}" for key in keys[:10]]
    _check_together(page, served, [(path, served.get(path)) for path in hosts])
    queries = [{"url": f"https://h.example/?q={key}", "key": key} for key in keys[:100]]
    paths = [f"/ui/news/page/live?{urlencode(query)}" for query in queries]
    texts = _check_together(page, served, [(path, served.get(path)) for path in paths])
    for key, text in zip(keys, texts, strict=False):
        assert key.strip() in text
        words, shown = " ".join(text.split()), " ".join(key.split())
        assert f"moved to {shown}." in words
        if "<" in key and " " not in key:
            # Escaped in the URL of the page, but not in the one that is fetched.
            assert f"fetched as https://h.example/?q={shown}" in words
    context.close()


def test_no_name_of_an_api_key_runs(browser: Browser, served: Served) -> None:
    """Pages show the name of the key of a person; no page shows those of webhooks."""
    context, page = _open_context(browser, has_policy=False)
    answers = []
    for key in served.keys.values():
        person = BrowserClient(served.server)
        assert person.log_in(key).status == 303
        answers.append(("/ui/keyed/page", person.get("/ui/keyed/page")))
    texts = _check_together(page, served, answers)
    for name, text in zip(served.keys, texts, strict=True):
        assert " ".join(name.split()) in " ".join(text.split())
    context.close()
