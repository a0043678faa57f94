"""The doctor finds every kind of damage, and reports nothing for an intact corpus."""

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
from recrawl.corpus.doctor import CheckResult, Severity, check_corpus, kernels_check
from recrawl.corpus.doctor.check_results import ok, run_check
from recrawl.corpus.doctor.corpus_checks import audits_check
from recrawl.corpus.doctor.disk_checks import lock_check
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


def findings(folder: Path, clock: ManualClock, *, is_deep: bool = False) -> list[CheckResult]:
    # What reading warns of is found too.
    logging.getLogger("recrawl").setLevel(logging.CRITICAL)
    try:
        return list(check_corpus(folder, is_deep=is_deep, clock=clock))
    finally:
        logging.getLogger("recrawl").setLevel(logging.NOTSET)


def wrong(found: list[CheckResult], level: Severity = Severity.BAD) -> dict[str, str]:
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
    assert wrong(found, Severity.WARN) == {}
    names = {f.check for f in found}
    assert {"versions", "kernels", "format", "configuration", "lock", "log", "store"} <= names
    assert {"snapshots", "opening", "clock", "budget", "limits", "hosts", "sources"} <= names
    if is_deep:
        assert {"records", "replay", "store files", "names"} <= names
    assert all(f.todo == "" for f in found if f.level == Severity.OK)
    assert all(f.todo for f in found if f.level != Severity.OK)


def test_checks_run_beside_a_writer_and_name_it(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "10/h"})
    work(corpus, clock)
    found = findings(corpus.folder, clock)
    assert wrong(found) == {}
    (lock,) = (f.what for f in found if f.check == "lock")
    assert "is using the corpus" in lock or "unknown" in lock
    assert corpus.add(["https://new.example/"]).n_added == 1


def test_a_folder_that_is_not_a_corpus(tmp_path: Path, clock: ManualClock) -> None:
    assert "is not a corpus" in wrong(findings(tmp_path, clock))["format"]
    assert "does not exist" in wrong(findings(tmp_path / "not there", clock))["format"]


# ---------------------------------------------------------------------------- broken files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "cannot be read"),
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"format": 1}', "no key 'canonical_urls'"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_format_file_that_cannot_be_read(
    broken: Path, clock: ManualClock, text: str | bytes, expected: str
) -> None:
    (broken / "FORMAT").write_bytes(text.encode() if isinstance(text, str) else text)
    assert expected in wrong(findings(broken, clock))["format"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"format": 99}, "a newer version"),
        ({"canonical_urls": 99}, "a newer version"),
        ({"canonical_urls": 0}, "'canonical_urls' must be an integer"),
        ({"partitions": 0}, "'partitions' must be an integer"),
        ({"ledger": "paper"}, "'ledger' must be rocksdb or kafka"),
    ],
)
def test_a_format_of_another_version(
    broken: Path, clock: ManualClock, changes: dict[str, Any], expected: str
) -> None:
    about = json.loads((broken / "FORMAT").read_text()) | changes
    (broken / "FORMAT").write_text(json.dumps(about))
    assert expected in wrong(findings(broken, clock))["format"]


def test_an_invalid_configuration(broken: Path, clock: ManualClock) -> None:
    (broken / "recrawl.toml").write_text('[budget]\nrate = "lots"\n')
    assert "recrawl.toml" in wrong(findings(broken, clock))["configuration"]


def test_a_configuration_of_another_corpus(broken: Path, clock: ManualClock) -> None:
    (broken / "recrawl.toml").write_text("[corpus]\npartitions = 7\n")
    assert "partitions is 1" in wrong(findings(broken, clock))["configuration"]


def test_a_broken_previous_configuration_is_a_warning(broken: Path, clock: ManualClock) -> None:
    (broken / "last-config.json").write_bytes(b"\x80{")
    found = findings(broken, clock)
    assert wrong(found) == {}
    assert "cannot be read" in wrong(found, Severity.WARN)["configuration"]


def test_one_broken_snapshot_is_a_warning(broken: Path, clock: ManualClock) -> None:
    flip(snapshots_of(broken)[-1] / "columns", 0.5)
    found = findings(broken, clock)
    assert wrong(found) == {}
    assert "is broken" in wrong(found, Severity.WARN)["snapshots"]


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
    assert "to start with" in found["replay"]


def test_a_snapshot_that_differs_from_the_log(
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
    assert "differs from what the log leads to" in found["replay"]


def test_a_snapshot_of_an_older_format_is_not_compared_with_replay(
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
    assert "a snapshot is at 99,999" in wrong(findings(broken, clock))["log"]


def test_a_missing_log(broken: Path, clock: ManualClock) -> None:
    shutil.rmtree(broken / "log")
    assert "it is missing" in wrong(findings(broken, clock))["log"]


def test_a_lost_store(broken: Path, clock: ManualClock) -> None:
    shutil.rmtree(broken / "store")
    found = findings(broken, clock, is_deep=True)
    assert "cannot be read" in wrong(found, Severity.WARN)["store"]
    assert "cannot be opened" in wrong(found)["opening"]


def test_a_store_ahead_of_its_log(
    broken: Path, sound: tuple[Path, ManualClock], clock: ManualClock, tmp_path: Path
) -> None:
    ahead = Path(shutil.copytree(broken, tmp_path / "ahead"))
    with recrawl.open(ahead, clock=sound[1]) as corpus:
        corpus.add([f"https://more.example/{i}" for i in range(50)])
    shutil.rmtree(broken / "store")
    shutil.copytree(ahead / "store", broken / "store")
    assert "the store is at" in wrong(findings(broken, clock))["log"]
    (broken / "recrawl.toml").write_text('[ledger]\ndurability = "os"\n')
    assert "ahead of its log" in wrong(findings(broken, clock), Severity.WARN)["store"]


def test_a_store_of_a_newer_version(broken: Path, clock: ManualClock) -> None:
    with KeyValues.open(broken / "store" / "0") as values:
        (key, value), *_ = (row for row in values.scan(b"") if b'"format"' in row[1])
        values.write([key], [value.replace(b'"format": 1', b'"format": 99')])
    assert "99" in wrong(findings(broken, clock))["store"]


def test_a_record_that_cannot_be_decoded(broken: Path, clock: ManualClock) -> None:
    with KeyValues.open(broken / "log") as values:
        keys = [key for key, _ in values.scan(b"\0\0", b"\0\1")]
        values.write(keys[-2:], [b"\x00\x07nothing", b"\xff\xffnothing"])
    found = wrong(findings(broken, clock, is_deep=True))
    assert "2 records cannot be decoded" in found["records"]
    assert "opening" in found


def test_a_gap_in_the_log(broken: Path, clock: ManualClock) -> None:
    with KeyValues.open(broken / "log") as values:
        keys = [key for key, _ in values.scan(b"\0\0", b"\0\1")]
        values.write((), (), deletes=[keys[-5]])
    found = wrong(findings(broken, clock, is_deep=True))
    assert "missing" in found["records"]


@pytest.mark.parametrize("file", ["log/CURRENT", "log/MANIFEST-*", "store/0/CURRENT"])
@pytest.mark.parametrize("content", [b"", b"\x82\xff nothing of use", None])
def test_broken_files_of_rocksdb(
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
    assert "copy of the store" in wrong(found, Severity.WARN)["snapshots"]


# ---------------------------------------------------------------------------- settings


def test_no_pages_and_no_budget(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    result = wrong(findings(corpus.folder, clock), Severity.WARN)
    assert result["pages"] == "none"
    assert "not set" in result["budget"]
    corpus.add(URLS)
    assert (
        "none has been fetched yet" in wrong(findings(corpus.folder, clock), Severity.WARN)["pages"]
    )


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({"rate": "30/h"}, "30 fetches/h"),
        ({"rate": "100/run"}, "100 fetches/run"),
        ({"price": 500}, "a fixed price of 500"),
        ({"rate": "2/d", "unit": "cost"}, "2 cost/day"),
        ({"rate": "50/s"}, "50 fetches/s"),
        ({"rate": "50 EUR/month", "cost_per_fetch": "0.0005 EUR"}, "50 EUR/month"),
    ],
)
def test_the_budget_is_named(
    open_corpus: Open, clock: ManualClock, budget: dict[str, Any], expected: str
) -> None:
    corpus = open_corpus(budget=budget)
    corpus.add(URLS)
    (what,) = (f.what for f in findings(corpus.folder, clock) if f.check == "budget")
    assert expected in what


def test_max_age_limits_beyond_the_budget(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "5/h"}, pattern=[{"match": "/*", "max_age": "1h"}])
    work(corpus, clock)
    result = wrong(findings(corpus.folder, clock))["limits"]
    assert "of 12 pages need 12/h, but the budget is 5/h" in result


def test_staleness_limits_beyond_the_budget(open_corpus: Open, clock: ManualClock) -> None:
    promise = {"match": "/*", "stale_for": "1m", "stale_probability": 0.001}
    corpus = open_corpus(budget={"rate": "1/h"}, pattern=[promise])
    work(corpus, clock)
    assert "cannot be kept" in wrong(findings(corpus.folder, clock))["limits"]


def test_max_age_limits_that_take_most_of_the_budget(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "13/h"}, pattern=[{"match": "/*", "max_age": "1h"}])
    work(corpus, clock)
    assert (
        "12/h of a budget of 13/h" in wrong(findings(corpus.folder, clock), Severity.WARN)["limits"]
    )


def test_max_age_limits_beyond_the_delay_of_a_host(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(budget={"rate": "500/h"}, pattern=[{"match": "/*", "max_age": "1h"}])
    work(corpus, clock)
    corpus.set_host("h1.example", delay=1_800)
    result = wrong(findings(corpus.folder, clock))["host limits"]
    assert "h1.example (4/h, allowed 2/h)" in result


def test_hosts_that_are_closed_blocked_or_failing(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    work(corpus, clock)
    corpus.set_host("h0.example", is_closed=True)
    corpus.set_host("h1.example", blocked_until_ms=clock.wall_ms() + 7_200_000)
    found = findings(corpus.folder, clock)
    result = [f.what for f in found if f.check == "hosts"]
    assert result == [
        "closed: h0.example",
        "paused after errors, or on request: h1.example (tried again in 2 h)",
    ]


def test_audits_that_disagree_with_the_model(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    work(corpus, clock)
    (none,) = audits_check(corpus)
    assert (none.level, none.what.split(";")[0]) == (Severity.OK, "none")
    tables = corpus.nodes.all[0].shard.tables
    tables.registers.audited_modelled[0], tables.registers.audited_variance[0] = 900.0, 90.0
    kinds = tables.priors
    kinds.n_audited[0], kinds.audited_modelled[0], kinds.audited_variance[0] = 1_000, 900.0, 90.0
    kinds.n_audited_fresh[0] = 890
    (close,) = audits_check(corpus)
    assert (close.level, close.what) == (
        Severity.OK,
        "89 % of 1,000 copies were fresh, the model expected 90 %",
    )
    kinds.n_audited_fresh[0] = 800
    far, _ = audits_check(corpus)
    assert far.level == Severity.WARN
    assert far.what.startswith("all pages: 80 % of 1,000 audited copies were fresh")
    assert "recrawl stats --audited" in far.todo


def test_an_unreliable_source(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    work(corpus, clock)
    for _ in range(8):
        clock.pass_seconds(600)
        corpus.signal(URLS, source="liar")
        corpus.lease(1)
        clock.pass_seconds(600)
        corpus.report([Outcome(url=url, changed=False) for url in URLS])
    result = wrong(findings(corpus.folder, clock), Severity.WARN)["sources"]
    assert result.startswith("liar: ")
    assert "of 96 signals announced a change" in result


def test_reliable_sources_are_listed_with_their_share(
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
    (result,) = (f for f in findings(corpus.folder, clock) if f.check == "sources")
    assert result.level == Severity.OK
    assert result.what.startswith("feed ")


def test_pages_that_flip_between_versions(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    work(corpus, clock)
    for i in range(8):
        clock.pass_seconds(600)
        corpus.lease(1)
        clock.pass_seconds(5)
        corpus.report(Outcome(url=URLS[3], digest=b"flip" if i % 2 else b"flop"))
    result = wrong(findings(corpus.folder, clock), Severity.WARN)["flapping"]
    assert f"{URLS[3]} (6 times)" in result


# ---------------------------------------------------------------------------- the machine


@pytest.mark.parametrize(
    ("seconds", "level"), [(0, Severity.OK), (3_600, Severity.WARN), (10 * 86_400, Severity.BAD)]
)
def test_a_clock_that_is_behind_the_log(
    sound: tuple[Path, ManualClock], seconds: float, level: Severity
) -> None:
    folder, clock = sound
    behind = ManualClock(clock.wall_ms())
    behind.set_back(seconds)
    (result,) = (f for f in findings(folder, behind) if f.check == "clock")
    assert result.level == level


@pytest.mark.parametrize(
    ("free", "level"), [(1 << 20, Severity.BAD), (1 << 28, Severity.WARN), (1 << 40, Severity.OK)]
)
def test_a_disk_that_is_full(
    sound: tuple[Path, ManualClock], monkeypatch: pytest.MonkeyPatch, free: int, level: Severity
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    (result,) = (f for f in findings(*sound) if f.check == "disk")
    assert result.level == level


def test_kernels_that_are_cached_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    (result,) = kernels_check()
    assert result.level == Severity.WARN
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "one.nbi").touch()
    (result,) = kernels_check()
    assert result.level == Severity.OK
    (tmp_path / "kernels" / "one.nbi").unlink()
    monkeypatch.setattr("recrawl.corpus.doctor.machine_checks.kernel_folder", lambda: None)
    (result,) = kernels_check()
    assert result.level == Severity.WARN
    assert "no folder for compiled code can be written to" in result.what
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    (result,) = kernels_check()
    assert "switched off" in result.what


def test_a_lock_whose_owner_is_unknown(tmp_path: Path) -> None:
    (result,) = lock_check(tmp_path)
    assert result.what == "free"


# ---------------------------------------------------------------------------- checks that fail


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RecrawlError("it is\nbroken"), "it is"),
        (ZeroDivisionError("oh"), "could not be checked: ZeroDivisionError: oh"),
        (RuntimeError(), "could not be checked: RuntimeError: RuntimeError"),
    ],
)
def test_an_exception_in_a_check_becomes_a_result(error: Exception, expected: str) -> None:
    def check() -> list[CheckResult]:
        raise error

    (found,) = run_check("a check", check)
    assert found.level == Severity.BAD
    assert found.what == expected


def test_interrupts_end_the_checks() -> None:
    def check() -> list[CheckResult]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_check("a check", check))


def test_results_before_an_exception_are_kept() -> None:
    def check() -> Any:
        yield ok("first", "well")
        raise OSError("gone")

    assert [f.level for f in run_check("a check", check)] == [Severity.OK, Severity.BAD]
