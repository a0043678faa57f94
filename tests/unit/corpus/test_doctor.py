"""The doctor's checks: a sound corpus passes, and whatever is wrong is found and named."""

import json
import logging
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.corpus.doctor import Finding, Level, checkup, kernels_check
from recrawl.corpus.doctor.disk_checks import lock_check
from recrawl.corpus.doctor.findings import found_by, ok
from recrawl.errors import RecrawlError
from recrawl.kv import KeyValues
from recrawl.shard.state.snapshot import ADDED_COLUMNS
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URLS = [f"https://h{i % 3}.example/{i}" for i in range(12)]


def work(corpus: Corpus, clock: ManualClock, n_rounds: int = 4) -> None:
    corpus.add(URLS)
    for i in range(n_rounds):
        clock.pass_seconds(7_200)
        for order in corpus.lease(6):
            corpus.report(Outcome(handle=order.handle, digest=b"%d" % (clock.wall_ms() + i)))


@pytest.fixture
def clock() -> ManualClock:
    """Later than all that happens to the sound corpus."""
    return ManualClock(1_701_000_000_000)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ManualClock]:
    """A corpus with two snapshots and a log that was truncated, closed."""
    folder, clock = tmp_path_factory.mktemp("sound") / "corpus", ManualClock()
    config = CorpusConfig.from_dict(
        {
            "politeness": IMPOLITE,
            "snapshots": {"every": "52w", "keep": 2},
            "budget": {"rate": "10/h", "burst": "2h"},
        }
    )
    with recrawl.open(folder, config, clock=clock) as corpus:
        for _ in range(3):
            work(corpus, clock)
            corpus.snapshot()
        work(corpus, clock)
        assert corpus.nodes[0].ledger.first > 0
    return folder, clock


@pytest.fixture
def broken(sound: tuple[Path, ManualClock], tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(sound[0], tmp_path / "broken"))


def findings(folder: Path, clock: ManualClock, *, is_deep: bool = False) -> list[Finding]:
    # What reading warns of is found too.
    logging.getLogger("recrawl").setLevel(logging.CRITICAL)
    try:
        return list(checkup(folder, is_deep=is_deep, clock=clock))
    finally:
        logging.getLogger("recrawl").setLevel(logging.NOTSET)


def wrong(found: list[Finding], level: Level = Level.BAD) -> dict[str, str]:
    """Return what is as bad as this, but for what the machine that tests run on may lack."""
    own = ("kernels", "disk", "cache", "versions")
    return {f.check: f.what for f in found if f.level == level and f.check not in own}


def snapshots_of(folder: Path) -> list[Path]:
    return sorted((folder / "snapshots" / "0").iterdir())


def flip(file: Path, share: float) -> None:
    data = bytearray(file.read_bytes())
    data[int(len(data) * share)] ^= 0xFF
    file.write_bytes(data)


@pytest.mark.parametrize("is_deep", [False, True])
def test_nothing_is_wrong_with_a_sound_corpus(
    sound: tuple[Path, ManualClock], is_deep: bool
) -> None:
    found = findings(*sound, is_deep=is_deep)
    assert wrong(found) == {}
    assert wrong(found, Level.WARN) == {}
    names = {f.check for f in found}
    assert {"versions", "kernels", "format", "configuration", "lock", "log", "store"} <= names
    assert {"snapshots", "opening", "clock", "budget", "limits", "hosts", "sources"} <= names
    if is_deep:
        assert {"records", "replay", "store files", "names"} <= names
    assert all(f.todo == "" for f in found if f.level == Level.OK)
    assert all(f.todo for f in found if f.level != Level.OK)


def test_it_works_beside_a_writer_and_says_who_that_is(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(budget={"rate": "10/h"})
    work(corpus, clock)
    found = findings(corpus.folder, clock)
    assert wrong(found) == {}
    (lock,) = (f.what for f in found if f.check == "lock")
    assert "works with it" in lock or "not known" in lock
    assert corpus.add(["https://new.example/"]).n_added == 1


def test_a_folder_that_is_no_corpus(tmp_path: Path, clock: ManualClock) -> None:
    assert "no corpus" in wrong(findings(tmp_path, clock))["format"]
    assert "no corpus" in wrong(findings(tmp_path / "not there", clock))["format"]


# ---------------------------------------------------------------------------- broken files


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot be read"),
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"format": 1}', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_format_file_that_is_none(
    broken: Path, clock: ManualClock, text: str | bytes, told: str
) -> None:
    (broken / "FORMAT").write_bytes(text.encode() if isinstance(text, str) else text)
    assert told in wrong(findings(broken, clock))["format"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"format": 99}, "a newer version"),
        ({"canonical_urls": 99}, "a newer version"),
        ({"canonical_urls": 0}, "canonical by version 0"),
        ({"partitions": 0}, "cannot be"),
        ({"ledger": "paper"}, "cannot be"),
    ],
)
def test_a_format_of_another_version(
    broken: Path, clock: ManualClock, changes: dict[str, Any], told: str
) -> None:
    about = json.loads((broken / "FORMAT").read_text()) | changes
    (broken / "FORMAT").write_text(json.dumps(about))
    assert told in wrong(findings(broken, clock))["format"]


def test_a_configuration_that_says_what_cannot_be(broken: Path, clock: ManualClock) -> None:
    (broken / "recrawl.toml").write_text('[budget]\nrate = "lots"\n')
    assert "recrawl.toml" in wrong(findings(broken, clock))["configuration"]


def test_a_configuration_of_another_corpus(broken: Path, clock: ManualClock) -> None:
    (broken / "recrawl.toml").write_text("[corpus]\npartitions = 7\n")
    assert "partitions is 1" in wrong(findings(broken, clock))["configuration"]


def test_a_last_configuration_that_is_broken_does_no_harm(broken: Path, clock: ManualClock) -> None:
    (broken / "last-config.json").write_bytes(b"\x80{")
    found = findings(broken, clock)
    assert wrong(found) == {}
    assert "cannot be read" in wrong(found, Level.WARN)["configuration"]


def test_one_broken_snapshot_is_a_warning(broken: Path, clock: ManualClock) -> None:
    flip(snapshots_of(broken)[-1] / "columns", 0.5)
    found = findings(broken, clock)
    assert wrong(found) == {}
    assert "is broken" in wrong(found, Level.WARN)["snapshots"]


@pytest.mark.parametrize("how", ["columns", "manifest", "none"])
def test_without_snapshots_and_a_beginning_nothing_can_be_opened(
    broken: Path, clock: ManualClock, how: str
) -> None:
    for snapshot in snapshots_of(broken):
        if how == "columns":
            (snapshot / "columns").unlink()
        elif how == "manifest":
            (snapshot / "manifest.json").write_text('{"crc32": 1, "body": "{}"}')
        else:
            shutil.rmtree(snapshot)
    found = wrong(findings(broken, clock, is_deep=True))
    assert "none can be used" in found["snapshots"]
    assert "cannot be opened" in found["opening"]
    assert "nothing to begin with" in found["replay"]


def test_a_snapshot_that_is_not_what_the_log_leads_to(
    broken: Path, sound: tuple[Path, ManualClock], clock: ManualClock, tmp_path: Path
) -> None:
    """As if somebody had copied one from another corpus, at the same position."""
    with recrawl.open(tmp_path / "other", CorpusConfig(), clock=ManualClock()) as other:
        for i in range(5_000):
            if other.nodes[0].position == int(snapshots_of(broken)[-1].name):
                break
            other.set_host("h.example", delay=i)
        other.snapshot()
        (foreign,) = snapshots_of(tmp_path / "other")
        newest = snapshots_of(broken)[-1]
        assert foreign.name == newest.name
        for name in ("columns", "manifest.json"):
            shutil.copy(foreign / name, newest / name)
    found = wrong(findings(broken, clock, is_deep=True))
    assert "is not what the log leads to" in found["replay"]


def test_a_snapshot_of_an_older_format_is_not_held_against_what_is_learned_today(
    broken: Path, clock: ManualClock
) -> None:
    for folder in snapshots_of(broken):
        outer = json.loads((folder / "manifest.json").read_text())
        body = json.loads(outer["body"]) | {"format": 2}
        for (table, column), (added_in, _) in ADDED_COLUMNS.items():
            if added_in > 2:
                del body["tables"][table][column]
        text = json.dumps(body)
        forged = {"crc32": zlib.crc32(text.encode()), "body": text}
        (folder / "manifest.json").write_text(json.dumps(forged))
    assert wrong(findings(broken, clock, is_deep=True)) == {}


def test_a_snapshot_beyond_the_log(broken: Path, clock: ManualClock) -> None:
    newest = snapshots_of(broken)[-1]
    newest.rename(newest.with_name("00000000000000099999"))
    assert "is broken" in wrong(findings(broken, clock), Level.WARN)["snapshots"]


def test_a_lost_store(broken: Path, clock: ManualClock) -> None:
    shutil.rmtree(broken / "store")
    found = findings(broken, clock, is_deep=True)
    assert "cannot be read" in wrong(found, Level.WARN)["store"]
    assert "cannot be opened" in wrong(found)["opening"]


def test_a_store_ahead_of_its_log(
    broken: Path, sound: tuple[Path, ManualClock], clock: ManualClock, tmp_path: Path
) -> None:
    ahead = Path(shutil.copytree(broken, tmp_path / "ahead"))
    with recrawl.open(ahead, clock=sound[1]) as corpus:
        corpus.add([f"https://more.example/{i}" for i in range(50)])
    shutil.rmtree(broken / "store")
    shutil.copytree(ahead / "store", broken / "store")
    assert "ahead of its log" in wrong(findings(broken, clock), Level.WARN)["store"]


def test_a_store_of_a_newer_version(broken: Path, clock: ManualClock) -> None:
    with KeyValues.open(broken / "store" / "0") as values:
        (key, value), *_ = (row for row in values.scan(b"") if b'"format"' in row[1])
        values.write([key], [value.replace(b'"format": 1', b'"format": 99')])
    assert "99" in wrong(findings(broken, clock))["store"]


def test_a_record_that_is_none(broken: Path, clock: ManualClock) -> None:
    with KeyValues.open(broken / "log") as values:
        keys = [key for key, _ in values.scan(b"\0\0", b"\0\1")]
        values.write(keys[-2:], [b"\x00\x07nothing", b"\xff\xffnothing"])
    found = wrong(findings(broken, clock, is_deep=True))
    assert "2 records are not ones" in found["records"]
    assert "opening" in found


def test_a_gap_in_the_log(broken: Path, clock: ManualClock) -> None:
    with KeyValues.open(broken / "log") as values:
        keys = [key for key, _ in values.scan(b"\0\0", b"\0\1")]
        values.write((), (), deletes=[keys[-5]])
    found = wrong(findings(broken, clock, is_deep=True))
    assert "missing" in found["records"]


@pytest.mark.parametrize("file", ["log/CURRENT", "log/MANIFEST-*", "store/0/CURRENT"])
@pytest.mark.parametrize("content", [b"", b"\x82\xff nothing of use", None])
def test_files_of_the_engine_that_are_broken(
    broken: Path, clock: ManualClock, file: str, content: bytes | None
) -> None:
    for path in list(broken.glob(file)):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    found = wrong(findings(broken, clock, is_deep=True))
    assert "opening" in found
    assert not any("could not be checked" in what for what in found.values())


def test_a_broken_copy_of_the_store_in_a_snapshot(broken: Path, clock: ManualClock) -> None:
    (snapshots_of(broken)[-1] / "store" / "CURRENT").write_bytes(b"")
    found = findings(broken, clock, is_deep=True)
    assert wrong(found) == {}
    assert "copy of the store" in wrong(found, Level.WARN)["snapshots"]


# ---------------------------------------------------------------------------- what it was told


def test_no_pages_and_no_budget(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    told = wrong(findings(corpus.folder, clock), Level.WARN)
    assert told["pages"] == "none"
    assert "none was ever set" in told["budget"]
    corpus.add(URLS)
    assert (
        "none has ever been fetched" in wrong(findings(corpus.folder, clock), Level.WARN)["pages"]
    )


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ({"rate": "30/h"}, "30/h"),
        ({"rate": "100/run"}, "100 left"),
        ({"price": 500}, "a fixed price of 500"),
        ({"rate": "2/d", "unit": "cost"}, "2/d in cost"),
        ({"rate": "50/s"}, "50/s"),
    ],
)
def test_the_budget_is_named(
    open_corpus: Open, clock: ManualClock, budget: dict[str, Any], told: str
) -> None:
    corpus = open_corpus(budget=budget)
    corpus.add(URLS)
    (what,) = (f.what for f in findings(corpus.folder, clock) if f.check == "budget")
    assert told in what


def test_ceilings_beyond_the_budget(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "5/h"}, pattern=[{"match": "/*", "max_age": "1h"}])
    work(corpus, clock)
    told = wrong(findings(corpus.folder, clock))["limits"]
    assert "of 12 pages take 12/h, and the budget is 5/h" in told


def test_promises_beyond_the_budget(open_corpus: Open, clock: ManualClock) -> None:
    promise = {"match": "/*", "stale_for": "1m", "stale_probability": 0.001}
    corpus = open_corpus(budget={"rate": "1/h"}, pattern=[promise])
    work(corpus, clock)
    assert "cannot be kept" in wrong(findings(corpus.folder, clock))["limits"]


def test_ceilings_that_take_most_of_the_budget(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "13/h"}, pattern=[{"match": "/*", "max_age": "1h"}])
    work(corpus, clock)
    assert "12/h of a budget of 13/h" in wrong(findings(corpus.folder, clock), Level.WARN)["limits"]


def test_ceilings_beyond_a_hosts_delay(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "500/h"}, pattern=[{"match": "/*", "max_age": "1h"}])
    work(corpus, clock)
    corpus.set_host("h1.example", delay=1_800)
    told = wrong(findings(corpus.folder, clock))["host limits"]
    assert "h1.example (4/h, allowed 2/h)" in told


def test_hosts_that_are_closed_blocked_or_failing(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    work(corpus, clock)
    corpus.set_host("h0.example", is_closed=True)
    corpus.set_host("h1.example", blocked_until_ms=clock.wall_ms() + 7_200_000)
    found = findings(corpus.folder, clock)
    told = [f.what for f in found if f.check == "hosts"]
    assert told == [
        "closed: h0.example",
        "blocked after errors, or as it asked: h1.example (asked again in 2 h)",
    ]


def test_a_source_that_lies(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    work(corpus, clock)
    for _ in range(8):
        clock.pass_seconds(600)
        corpus.signal(URLS, source="liar")
        corpus.lease(1)
        clock.pass_seconds(600)
        corpus.report([Outcome(url=url, changed=False) for url in URLS])
    told = wrong(findings(corpus.folder, clock), Level.WARN)["sources"]
    assert told.startswith("liar: ")
    assert "of 96 signals announced a change" in told


def test_sources_that_tell_the_truth_are_named_with_their_share(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    work(corpus, clock)
    for i in range(8):
        clock.pass_seconds(600)
        corpus.signal(URLS, source="feed")
        corpus.lease(1)
        clock.pass_seconds(60)
        corpus.report([Outcome(url=url, digest=b"new %d" % i) for url in URLS])
    (told,) = (f for f in findings(corpus.folder, clock) if f.check == "sources")
    assert told.level == Level.OK
    assert told.what.startswith("feed ")


def test_pages_that_flap(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    work(corpus, clock)
    for i in range(8):
        clock.pass_seconds(600)
        corpus.lease(1)
        clock.pass_seconds(5)
        corpus.report(Outcome(url=URLS[3], digest=b"flip" if i % 2 else b"flop"))
    told = wrong(findings(corpus.folder, clock), Level.WARN)["flapping"]
    assert f"{URLS[3]} (6 times)" in told


# ---------------------------------------------------------------------------- the machine


@pytest.mark.parametrize(
    ("seconds", "level"), [(0, Level.OK), (3_600, Level.WARN), (10 * 86_400, Level.BAD)]
)
def test_a_clock_that_is_behind_the_log(
    sound: tuple[Path, ManualClock], seconds: float, level: Level
) -> None:
    folder, clock = sound
    behind = ManualClock(clock.wall_ms())
    behind.set_back(seconds)
    (told,) = (f for f in findings(folder, behind) if f.check == "clock")
    assert told.level == level


@pytest.mark.parametrize(
    ("free", "level"), [(1 << 20, Level.BAD), (1 << 28, Level.WARN), (1 << 40, Level.OK)]
)
def test_a_disk_that_is_full(
    sound: tuple[Path, ManualClock], monkeypatch: pytest.MonkeyPatch, free: int, level: Level
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    (told,) = (f for f in findings(*sound) if f.check == "disk")
    assert told.level == level


def test_kernels_that_are_kept_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    (told,) = kernels_check()
    assert told.level == Level.WARN
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "one.nbi").touch()
    (told,) = kernels_check()
    assert told.level == Level.OK
    (tmp_path / "kernels" / "one.nbi").unlink()
    monkeypatch.setattr("os.access", lambda *_: False)
    (told,) = kernels_check()
    assert told.level == Level.BAD
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    (told,) = kernels_check()
    assert "switched off" in told.what


def test_a_lock_that_nobody_can_tell_of(tmp_path: Path) -> None:
    (told,) = lock_check(tmp_path)
    assert told.what == "free"


# ---------------------------------------------------------------------------- checks that fail


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RecrawlError("it is\nbroken"), "it is"),
        (ZeroDivisionError("oh"), "could not be checked: ZeroDivisionError: oh"),
        (RuntimeError(), "could not be checked: RuntimeError: RuntimeError"),
    ],
)
def test_a_check_that_fails_is_a_finding(error: Exception, told: str) -> None:
    def check() -> list[Finding]:
        raise error

    (found,) = found_by("a check", check)
    assert found.level == Level.BAD
    assert found.what == told


def test_who_stops_a_checkup_is_heard() -> None:
    def check() -> list[Finding]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(found_by("a check", check))


def test_what_a_check_found_before_it_failed_is_kept() -> None:
    def check() -> Any:
        yield ok("first", "well")
        raise OSError("gone")

    assert [f.level for f in found_by("a check", check)] == [Level.OK, Level.BAD]
