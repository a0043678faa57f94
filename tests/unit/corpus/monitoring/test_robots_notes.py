"""What robots.txt files say is kept by host, within limits, and after a restart."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recrawl.corpus import Corpus
from recrawl.corpus.monitoring import robots_notes
from recrawl.corpus.monitoring.robots_notes import RobotsNotes, merge_robots_notes
from recrawl.messages.robots import RobotsNote

HOST = "a.example"


def note(origin: str = f"https://{HOST}", at_ms: int = 1_000, closes: str = "parts") -> RobotsNote:
    lines = ("Disallow: /private",) if closes == "parts" else ()
    return RobotsNote(origin, "found", closes, at_ms, at_ms, lines=lines, n_lines=len(lines))


def test_the_newest_note_of_each_site_is_kept(tmp_path: Path) -> None:
    notes = RobotsNotes(tmp_path, "host")
    assert notes.find([HOST]) == {}
    notes.add([note(), note(f"http://{HOST}", 2_000), note(at_ms=3_000, closes="nothing")])
    notes.add([note(at_ms=500)])  # it arrived late
    found = notes.find([HOST, "b.example"])
    assert list(found) == [HOST]
    assert [(one.origin, one.asked_at_ms) for one in found[HOST]] == [
        (f"https://{HOST}", 3_000),
        (f"http://{HOST}", 2_000),
    ]
    assert RobotsNotes(tmp_path, "host").find([HOST]) == found


def test_notes_have_the_host_or_domain_that_pages_are_grouped_by(tmp_path: Path) -> None:
    given = [note("https://A.example:443"), note("https://a.example:8443"), note("https://b.co.uk")]
    own = RobotsNotes(tmp_path / "host", "host")
    own.add([*given, note("no site"), note("https://a.example/path"), note("mailto:x@y")])
    found = own.find([HOST, "a.example:8443", "b.co.uk", "no site", "invalid"])
    assert {host: [one.origin for one in some] for host, some in found.items()} == {
        HOST: ["https://A.example:443"],
        "a.example:8443": ["https://a.example:8443"],
        "b.co.uk": ["https://b.co.uk"],
    }
    domains = RobotsNotes(tmp_path / "domain", "domain")
    domains.add([note("https://www.shop.example.co.uk"), note("https://example.co.uk")])
    assert len(domains.find(["example.co.uk"])["example.co.uk"]) == 2
    keys = RobotsNotes(tmp_path / "key", "key")
    keys.add(given)
    assert keys.find([HOST]) == {}


def test_the_number_of_notes_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_notes, "ROBOTS_NOTES_MAX", 3)
    monkeypatch.setattr(robots_notes, "_FILE_BYTES_MIN", 1_000)
    notes = RobotsNotes(tmp_path, "host")
    for at_ms in range(100):
        notes.add([note(f"https://site{at_ms % 5}.example", at_ms)])
    names = [f"site{i}.example" for i in range(5)]
    assert list(notes.find(names)) == names[2:]
    file = tmp_path / "run" / "robots"
    assert file.stat().st_size < 10_000
    assert RobotsNotes(tmp_path, "host").find(names) == notes.find(names)
    # A process that was killed may have written half a line, and others may have changed it.
    with file.open("ab") as out:
        out.write(b'[]\n{"origin": 5}\n\xff\n{"origin": "https://site9.exa')
    again = RobotsNotes(tmp_path, "host")
    again.add([note("https://site2.example", 1_000)])
    names = names[2:]
    assert RobotsNotes(tmp_path, "host").find(names) == again.find(names)
    assert again.find(names)["site2.example"][0].asked_at_ms == 1_000


def test_a_disk_that_takes_nothing_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder should be")
    notes = RobotsNotes(tmp_path, "host")
    notes.add([note()])
    assert notes.find([HOST]) == {HOST: [note()]}


def test_a_reader_writes_nothing(tmp_path: Path) -> None:
    RobotsNotes(tmp_path, "host", is_reader=True).add([note()])
    assert not (tmp_path / "run").exists()


def test_notes_of_workers_are_merged() -> None:
    older, newer = note(at_ms=1), note(at_ms=2)
    other = note("http://a.example", 3)
    merged = merge_robots_notes([{HOST: [newer]}, {}, {HOST: [older, other]}])
    assert merged == {HOST: [other, newer]}


def test_a_note_survives_json_and_is_cut_at_its_limits() -> None:
    whole = note()._replace(crawl_delay_seconds=2.0, agent="example-bot", next_ask_ms=5)
    assert RobotsNote.of_dict(json.loads(json.dumps(whole._asdict()))) == whole
    long = whole._asdict() | {"lines": ["Disallow: /" + "x" * 1_000] * 50, "new": 1}
    cut = RobotsNote.of_dict(long)
    assert [len(line) for line in cut.lines] == [120] * 8
    bad_members: list[dict[str, Any]] = [
        {"result": "other"},
        {"closes": []},
        {"origin": None},
        {"asked_at_ms": "x"},
        {"crawl_delay_seconds": float("nan")},
        {"lines": [1]},
        {"lines": 5},
    ]
    for bad in bad_members:
        with pytest.raises(ValueError, match=r"robots|needed|must be|invalid literal"):
            RobotsNote.of_dict(whole._asdict() | bad)


def test_a_corpus_keeps_notes(open_corpus: Callable[..., Corpus]) -> None:
    corpus = open_corpus()
    corpus.note_robots([note()])
    assert corpus.robots([HOST]) == {HOST: [note()]}
