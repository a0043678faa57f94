"""Pages of hosts say in plain words what robots.txt says, and that it is not known."""

import re

import pytest

from recrawl.corpus import Corpus, Outcome
from recrawl.messages.robots import RobotsNote
from tests.manual_clock import ManualClock
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.service.running_server import RunningServer

HOST = "site1.example"


def note(result: str, closes: str, now_ms: int) -> RobotsNote:
    read_at_ms = None if result == "unreachable" else now_ms - 300_000
    return RobotsNote(
        f"https://{HOST}",
        result,
        closes,
        now_ms - 300_000,
        read_at_ms,
        now_ms + 86_100_000,
        agent="example-bot",
    )


def text_of(server: RunningServer, path: str) -> str:
    answer = BrowserClient(server).get(f"/ui/news/{path}")
    assert answer.status == 200
    return " ".join(re.sub("<[^>]*>", " ", answer.data.decode()).split())


@pytest.mark.parametrize(
    ("result", "closes", "word", "sentence"),
    [
        ("found", "nothing", "closes nothing", "It closes nothing to example-bot ."),
        ("found", "parts", "closes parts", "It closes parts of the site to example-bot ."),
        ("found", "everything", "closes all", "It closes the whole site to example-bot ."),
        ("missing", "nothing", "no file", "The site has no such file, so everything may be"),
        ("unreachable", "everything", "unreachable", "so nothing is fetched from the site for now"),
    ],
)
def test_a_host_says_what_its_robots_file_says(
    open_server: RunningServer,
    corpus: Corpus,
    clock: ManualClock,
    result: str,
    closes: str,
    word: str,
    sentence: str,
) -> None:
    corpus.note_robots([note(result, closes, clock.wall_ms())])
    html = BrowserClient(open_server).get("/ui/news/hosts?sort=robots").data.decode()
    assert html.count(word) == 1
    assert html.count('<span class="quiet">not known</span>') == 3
    shown = text_of(open_server, f"hosts/{HOST}")
    assert sentence in shown
    assert "5 min ago" in shown
    assert f"https://{HOST}/robots.txt" in shown


def test_an_earlier_copy_and_its_rules_are_shown(
    open_server: RunningServer, corpus: Corpus, clock: ManualClock
) -> None:
    now_ms = clock.wall_ms()
    given = note("unreachable", "parts", now_ms)._replace(
        read_at_ms=now_ms - 7_200_000,
        next_ask_ms=now_ms - 1,
        crawl_delay_seconds=10.0,
        lines=("Disallow: /private", "Allow: /private/open"),
        n_lines=12,
    )
    corpus.note_robots([given, given._replace(origin=f"http://{HOST}", result="missing")])
    shown = text_of(open_server, f"hosts/{HOST}")
    assert "It could not be reached; an earlier copy still holds. It closes parts" in shown
    assert "Last attempt 5 min ago Last read 2 h ago Read again before the next fetch" in shown
    assert "Delay it asks for 10 s Lines that hold for example-bot Disallow: /private" in shown
    assert "Allow: /private/open and 10 more lines" in shown
    assert "The site has no such file" in shown
    assert "differs by site" in text_of(open_server, "hosts")


def test_what_closes_most_comes_first(
    open_server: RunningServer, corpus: Corpus, clock: ManualClock
) -> None:
    for i, closes in ((3, "everything"), (2, "parts"), (0, "nothing")):
        given = note("found", closes, clock.wall_ms())
        corpus.note_robots([given._replace(origin=f"https://site{i}.example")])
    html = BrowserClient(open_server).get("/ui/news/hosts?sort=robots").data.decode()
    names = re.findall(r"hosts/(site\d)", html)
    assert names == ["site3", "site2", "site0", "site1"]


def test_a_host_says_that_its_robots_file_is_not_known(
    open_server: RunningServer, corpus: Corpus
) -> None:
    corpus.report([Outcome(url=f"https://{HOST}/{i}", disallowed=True) for i in range(2)])
    shown = text_of(open_server, f"hosts/{HOST}")
    assert "robots.txt Not known. recrawl run tells the corpus what the file says" in shown
    assert "Fetchers have reported 2 pages as disallowed by robots.txt so far" in shown
    assert "disallowed by robots.txt so far" not in text_of(open_server, "hosts/site2.example")
