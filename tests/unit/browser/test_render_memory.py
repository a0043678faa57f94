"""Which pages are rendered is learned, and remembered within limits."""

from pathlib import Path

import pytest

from recrawl.browser import PageGrade, RenderMemory, grade_page, is_gain
from recrawl.browser import render_memory as module
from recrawl.browser.script_cache import ScriptCache
from recrawl.content import observe

HOST = "example.com"
WORDS = " ".join(f"word{i}" for i in range(80))


@pytest.mark.parametrize(
    ("body", "grade"),
    [
        ('<div id="root"></div><script src="/a.js"></script>', PageGrade.SHELL),
        ("<p>You need to enable JavaScript to run this app.<script></script>", PageGrade.SHELL),
        ("<p>A short page with eight words and a script.<SCRIPT>1</SCRIPT>", PageGrade.THIN),
        ("<p>A short page without one.", PageGrade.FULL),
        (f"<p>{WORDS}<script src='/a.js'></script>", PageGrade.FULL),
        (
            "<title>Just a moment...</title><p>Checking your browser<script></script>",
            PageGrade.FULL,
        ),
        ("", PageGrade.FULL),
    ],
)
def test_pages_are_graded(body: str, grade: PageGrade) -> None:
    raw = body.encode()
    assert grade_page(observe(raw, "text/html"), raw) == grade


def test_a_gain_is_much_more_text() -> None:
    empty, short, long = (
        observe(f"<p>{' '.join(WORDS.split()[:n])}".encode(), "text/html") for n in (0, 10, 80)
    )
    assert is_gain(empty, long)
    assert is_gain(short, long)
    assert not is_gain(empty, short)
    assert not is_gain(long, long)
    assert not is_gain(long, empty)


def n_rendered(memory: RenderMemory, n_pages: int, *, has_text: bool) -> int:
    n = 0
    for _ in range(n_pages):
        if memory.wants(HOST, PageGrade.SHELL):
            memory.learn(HOST, PageGrade.SHELL, is_gain=has_text)
            n += 1
    return n


def test_rendering_in_vain_becomes_rare_and_comes_back() -> None:
    memory = RenderMemory()
    assert n_rendered(memory, 1000, has_text=False) <= 11
    # Pages that show text again are found, and from then on all are rendered.
    assert n_rendered(memory, 3000, has_text=True) > 900
    assert n_rendered(memory, 100, has_text=True) == 100
    assert memory.gain_share(HOST, PageGrade.THIN) is None
    assert not memory.wants(HOST, PageGrade.FULL)


def test_the_memory_survives_and_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rendering"
    memory = RenderMemory(path)
    for i in range(300):
        memory.learn(f"{i}.example", PageGrade.SHELL, is_gain=True)
    assert path.exists(), "saved now and then"
    memory.learn(HOST, PageGrade.THIN, is_gain=False)
    memory.save()
    monkeypatch.setattr(module, "RENDER_HOSTS_MAX", 10)
    found = RenderMemory(path)
    assert len(found) == 10
    assert found.gain_share(HOST, PageGrade.THIN) == 0.0
    assert [found.wants(HOST, PageGrade.THIN) for _ in range(2)] == [False, True]
    for i in range(20):
        found.wants(f"{i}.example", PageGrade.SHELL)
    assert len(found) == 10


@pytest.mark.parametrize(
    "damage",
    [b"\0" * 50, b'["a",1,1', b"\xff\n", b'["a",7,1,1,1,1]', b'["a",1,-1,0,0,0]', b"[]", b"1"],
)
def test_a_damaged_file_does_no_harm(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "rendering"
    path.write_bytes(damage + b'\n["b.example",2,4,2,1,0]\n')
    memory = RenderMemory(path)
    assert len(memory) == 1
    assert memory.gain_share("b.example", PageGrade.SHELL) == 0.5


def test_scripts_are_kept_as_long_as_their_sites_allow() -> None:
    cache = ScriptCache(1000)
    cache.put("a", {"cache-control": "max-age=100", "set-cookie": "x"}, b"1" * 200, now_ms=0)
    cache.put("b", {"cache-control": "no-store"}, b"2", now_ms=0)
    cache.put("c", {}, b"3" * 200, now_ms=0)
    cache.put("d", {}, b"4" * 500, now_ms=0)
    cache.put("e", {"vary": "*"}, b"5", now_ms=0)
    assert len(cache) == 2
    found = cache.find("a", now_ms=99_000)
    assert found is not None
    assert found.headers == {"cache-control": "max-age=100"}
    assert cache.find("a", now_ms=100_000) is None
    assert cache.find("c", now_ms=100_000) is not None
    assert cache.find("d", now_ms=0) is None
    for i in range(10):
        cache.put(str(i), {}, b"x" * 200, now_ms=0)
    assert cache.n_bytes <= 1000
    assert len(cache) == 5
