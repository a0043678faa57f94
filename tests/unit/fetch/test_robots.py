"""robots.txt files as RFC 9309 reads them, also broken and hostile ones."""

import random
import tracemalloc

import pytest

from recrawl.fetch import RobotsFile, RobotsRules, RobotsState, product_token
from recrawl.fetch.robots import (
    CRAWL_DELAY_SECONDS_MAX,
    ROBOTS_BYTES_MAX,
    ROBOTS_SECONDS,
    UNREACHABLE_SECONDS_MAX,
)

AGENT = "example-bot"
SITE = "https://a.example"
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


def rules(text: str, product: str = "example-bot") -> RobotsRules:
    return RobotsRules.of_body(text.encode(), product)


@pytest.mark.parametrize(
    ("text", "path", "is_allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: example-bot\nAllow: /", "/a", True),
        ("User-agent: EXAMPLE-BOT\nDisallow: /a", "/a", False),
        ("User-agent: x\nUser-agent: example-bot\nDisallow: /a", "/a", False),
        ("User-agent: example-bot\nSitemap: https://a.example/s\nDisallow: /a", "/a", False),
        (
            "User-agent: example-bot\nDisallow: /a\nUser-agent: example-bot\nDisallow: /b",
            "/b",
            False,
        ),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?q", True),
        ("User-agent: *\nDisallow: /a # why", "/a", False),
        ("User-agent: *\nDisallow: /%61", "/a", False),
        ("\ufeffUser-agent: *\nDisallow: /a", "/a", False),
        ("User-agent: *\r\nDisallow: /a\r\n", "/a", False),
        ("User-agent: *\rDisallow: /a\r", "/a", False),
        ("User-agent: other\nDisallow: /", "/a", True),
        ("<html>Not found</html>", "/a", True),
    ],
)
def test_rules(text: str, path: str, is_allowed: bool) -> None:
    assert rules(text).allows(SITE + path) is is_allowed


@pytest.mark.parametrize("name", ["recrawl/0.1.0", "recrawl 0.1", "recrawl/*", "Recrawl/1 # us"])
def test_a_name_with_a_version_addresses_the_fetcher(name: str) -> None:
    text = f"User-agent: *\nAllow: /\n\nUser-agent: {name}\nDisallow: /\n"
    assert not RobotsRules(text, "recrawl").allows("https://example.com/a")
    other = text.replace(name, "recrawl2/1.0")
    assert RobotsRules(other, "recrawl").allows("https://example.com/a")


def test_delays_and_sitemaps() -> None:
    found = rules("User-agent: *\nCrawl-delay: 2.5\nSitemap: https://a.example/s.xml")
    assert found.crawl_delay_seconds == 2.5
    assert found.sitemaps == ("https://a.example/s.xml",)
    assert rules("User-agent: *\nCrawl-delay: 1\nRequest-rate: 1/5").crawl_delay_seconds == 5.0
    assert rules("User-agent: *\nCrawl-delay: 1e9").crawl_delay_seconds in (
        None,
        CRAWL_DELAY_SECONDS_MAX,
    )
    for text in ("-5", "nan", "soon", "", "0"):
        assert rules(f"User-agent: *\nCrawl-delay: {text}").crawl_delay_seconds is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30.0),
        ("30s", 30.0),
        ("0,5", 0.5),
        ("2 min", 120.0),
        ("1.5h", CRAWL_DELAY_SECONDS_MAX),
        ("1e9", CRAWL_DELAY_SECONDS_MAX),
        ("inf", CRAWL_DELAY_SECONDS_MAX),
        ("9" * 400, CRAWL_DELAY_SECONDS_MAX),
        ("soon", None),
        ("-1", None),
        ("nan", None),
        ("0", None),
    ],
)
def test_delays_are_read_as_people_write_them(value: str, seconds: float | None) -> None:
    text = f"User-agent: *\nCrawl-delay: {value}  # please\nDisallow: /a"
    assert rules(text).crawl_delay_seconds == seconds


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_of_other_editors_are_read(encoding: str) -> None:
    body = "User-agent: *\r\nDisallow: /a\r\n".encode(encoding)
    found = RobotsRules.of_body(body, "example-bot")
    assert not found.allows(f"{SITE}/a")
    assert found.allows(f"{SITE}/b")


def test_rules_of_many_fetchers_are_stored_once() -> None:
    """With 5,000 names and 5,000 rules, a rule per name would be 25 million."""
    names = [f"User-agent: bot{i}" for i in range(5_000)]
    lines = [*names, "User agent example-bot", *(f"Disallow: /{i}" for i in range(5_000))]
    tracemalloc.start()
    found = rules("\n".join(lines))
    n_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n_bytes < 50e6
    assert not found.allows(f"{SITE}/4999")
    assert rules("\n".join([*names, "Disallow: /", "User-agent: *", "Allow: /"])).allows(SITE)


def test_a_large_file_is_cut_at_a_line() -> None:
    line = "Disallow: /something/long/%06d\n"
    n = ROBOTS_BYTES_MAX // len(line % 0) + 1000
    text = "User-agent: *\nDisallow: /first\n" + "".join(line % i for i in range(n))
    found = rules(text)
    assert not found.allows(f"{SITE}/first")
    assert not found.allows(f"{SITE}/something/long/000001")
    assert found.allows(f"{SITE}/something/long/{n - 1:06}")


def test_mutated_files_never_raise() -> None:
    rng = random.Random(3)
    good = b"User-agent: *\nDisallow: /a*b$\nAllow: /%C3%A4\nCrawl-delay: 1\nRequest-rate: 1/2s\n"
    for _ in range(3_000):
        body = bytearray(good)
        for _ in range(rng.randint(1, 10)):
            at = rng.randrange(len(body))
            body[at : at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 6))
        found = RobotsRules.of_body(bytes(body), "example-bot")
        assert found.allows(f"{SITE}/%ff/\u00e4?a=b") in (True, False)
        assert found.crawl_delay_seconds is None or found.crawl_delay_seconds > 0


def answered(
    status: int, body: bytes = b"", before: RobotsFile | None = None, days: float = 0
) -> RobotsFile:
    now_ms = NOW_MS + round(days * DAY_MS)
    return RobotsFile.after_answer(status, body, product=AGENT, now_ms=now_ms, before=before)


@pytest.mark.parametrize("status", [0, 429, 500, 503])
def test_an_unreachable_file_forbids_everything(status: int) -> None:
    found = answered(status)
    assert found.state == RobotsState.UNREACHABLE
    assert not found.allows(f"{SITE}/a")
    assert found.allows(f"{SITE}/robots.txt")
    assert found.expires_at_ms < NOW_MS + DAY_MS


@pytest.mark.parametrize("status", [302, 401, 403, 404, 410])
def test_a_missing_file_allows_everything(status: int) -> None:
    found = answered(status, b"User-agent: *\nDisallow: /")
    assert found.state == RobotsState.MISSING
    assert found.allows(f"{SITE}/a")


def test_a_file_holds_for_a_day() -> None:
    found = answered(200, b"User-agent: *\nDisallow: /a")
    assert found.expires_at_ms == NOW_MS + ROBOTS_SECONDS * 1000
    assert not found.allows(f"{SITE}/a")
    assert found.allows(f"{SITE}/b")


def test_an_earlier_copy_is_used_for_thirty_days() -> None:
    good = answered(200, b"User-agent: *\nDisallow: /a")
    later = answered(503, before=good, days=2)
    assert later.allows(f"{SITE}/b")
    assert not later.allows(f"{SITE}/a")
    last = answered(503, before=later, days=UNREACHABLE_SECONDS_MAX / 86_400 + 1)
    assert not last.allows(f"{SITE}/b")
    assert answered(404, before=last, days=40).allows(f"{SITE}/b")
    missing = answered(503, before=answered(404), days=2)
    assert missing.allows(f"{SITE}/b")


def test_failures_are_tried_again_ever_more_slowly() -> None:
    found, waits = None, []
    for _ in range(30):
        found = answered(0, before=found)
        waits.append(found.expires_at_ms - NOW_MS)
    assert waits == sorted(waits)
    assert waits[0] == 300_000
    assert waits[-1] == DAY_MS


def test_the_name_of_a_fetcher() -> None:
    assert product_token("Example-Bot/1.0 (+https://a.example)") == "Example-Bot"
    with pytest.raises(ValueError, match="must begin with a name"):
        product_token("1bot")


@pytest.mark.parametrize(
    ("text", "closes", "lines"),
    [
        ("", "nothing", ()),
        ("User-agent: *\nDisallow:", "nothing", ()),
        ("User-agent: other\nDisallow: /", "nothing", ()),
        ("User-agent: *\nDisallow: /", "everything", ("Disallow: /",)),
        ("User-agent: *\nDisallow: *", "everything", ("Disallow: *",)),
        ("User-agent: *\nDisallow: /a # why\nAllow: /", "parts", ("Disallow: /a", "Allow: /")),
        ("User-agent: *\nAllow: /a\nDisallow: /", "parts", ("Allow: /a", "Disallow: /")),
        ("User-agent: *\nDisallow: /\n\nUser-agent: example-bot\nDisallow:", "nothing", ()),
        ("User-agent: *\nDisalow: /\nUser-agent: example-bot\nDisallow: /a", "parts", None),
        ("User-agent: x\nUser-agent: Example-Bot/2\nSitemap: /s\nDisallow: /", "everything", None),
        ("User-agent: x\nDisallow: /x\nUser-agent: example-bot\nDisallow: /r", "parts", None),
        ("Disallow: /", "nothing", ()),
    ],
)
def test_people_are_told_what_a_file_closes(
    text: str, closes: str, lines: tuple[str, ...] | None
) -> None:
    file = answered(200, text.encode())
    note = file.note(SITE, AGENT, NOW_MS)
    assert (note.closes, note.result) == (closes, "found")
    assert lines is None or note.lines == lines
    # It agrees with what is fetched.
    assert (closes == "everything") <= (not file.allows(f"{SITE}/some/page"))
    assert (closes == "nothing") <= file.allows(f"{SITE}/a")


def test_people_are_told_that_a_file_is_unreachable() -> None:
    note = answered(0).note(SITE, AGENT, NOW_MS)
    assert (note.result, note.closes, note.read_at_ms) == ("unreachable", "everything", None)
    assert note.next_ask_ms == NOW_MS + 300_000
    good = answered(200, b"User-agent: *\nDisallow: /a\nCrawl-delay: 5")
    later = answered(503, before=good, days=1).note(SITE, AGENT, NOW_MS + DAY_MS)
    assert (later.result, later.closes, later.crawl_delay_seconds) == ("unreachable", "parts", 5.0)
    assert (later.read_at_ms, later.asked_at_ms) == (NOW_MS, NOW_MS + DAY_MS)
    missing = answered(404).note(SITE, AGENT, NOW_MS)
    assert (missing.result, missing.closes, missing.lines) == ("missing", "nothing", ())


def test_what_people_are_told_is_bounded() -> None:
    rules = "\n".join(f"Disallow: /{i}{'x' * 1_000}" for i in range(100))
    note = answered(200, f"User-agent: *\n{rules}".encode()).note(SITE, AGENT, NOW_MS)
    assert note.n_lines == 100
    assert [len(line) for line in note.lines] == [120] * 8
