"""A log file is followed across appends, restarts, rotations and truncation."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from recrawl.errors import ReadError
from recrawl.readers.lines import LINE_BYTES_MAX
from recrawl.shadow import FollowedFile

CHUNK = 1 << 20


OPENED: list[FollowedFile] = []


@pytest.fixture(autouse=True)
def _close_logs() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def follow(path: Path, place: Mapping[str, Any] | None = None) -> FollowedFile:
    OPENED.append(FollowedFile(path, place))
    return OPENED[-1]


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def read_all(log: FollowedFile) -> str:
    parts = []
    while data := log.read(CHUNK).data:
        parts.append(data)
    return b"".join(parts).decode()


def restarted(log: FollowedFile) -> FollowedFile:
    place = json.loads(json.dumps(log.place()))
    log.close()
    return follow(log.path, place)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "fetches.jsonl"
    path.write_text("one\ntwo\n", "utf-8")
    return path


def lines(first: int, last: int) -> str:
    return "".join(f"line {number}\n" for number in range(first, last))


def test_an_unfinished_line_waits_for_its_end(path: Path) -> None:
    log = follow(path)
    append(path, "thr")
    assert log.read(CHUNK) == (b"one\ntwo\n", True)
    assert log.read(CHUNK) == (b"", False)
    append(path, "ee\nfo")
    assert log.read(CHUNK) == (b"three\n", False)


def test_a_restart_continues_at_the_place(path: Path) -> None:
    log = follow(path)
    read_all(log)
    append(path, "three\n")
    log = restarted(log)
    assert read_all(log) == "three\n"
    assert log.n_rests_lost == 0


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_renamed_file_is_read_to_its_end_before_the_new_one(
    path: Path, is_restarted: bool
) -> None:
    log = follow(path)
    read_all(log)
    append(path, "three\nunfinished")
    path.rename(path.with_name("fetches.jsonl.1"))
    path.write_text("four\n", "utf-8")
    os.utime(path, ns=(2**62, 2**62))
    if is_restarted:
        log = restarted(log)
    assert read_all(log) == "three\nunfinished\nfour\n"
    assert log.n_rests_lost == 0


def test_two_rotations_while_nobody_read_lose_nothing(path: Path) -> None:
    log = follow(path)
    read_all(log)
    old, middle = path.with_name("fetches.jsonl.2"), path.with_name("fetches.jsonl.1")
    path.rename(old)
    middle.write_text("three\n", "utf-8")
    path.write_text("four\n", "utf-8")
    for seconds, file in enumerate((old, middle, path), start=1_000):
        os.utime(file, (seconds, seconds))
    log = restarted(log)
    assert read_all(log) == "three\nfour\n"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_copied_and_truncated_file_loses_nothing(path: Path, is_restarted: bool) -> None:
    log = follow(path)
    read_all(log)
    append(path, "three\n")
    shutil.copy(path, path.with_name("fetches.jsonl-20260101"))
    os.truncate(path, 0)
    append(path, "four, longer than everything before\n")
    if is_restarted:
        log = restarted(log)
    assert read_all(log) == "three\nfour, longer than everything before\n"
    assert log.n_rests_lost == 0


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_truncated_file_without_a_copy_is_counted(path: Path, is_restarted: bool) -> None:
    log = follow(path)
    read_all(log)
    path.write_text("new\n", "utf-8")
    if is_restarted:
        log = restarted(log)
    assert read_all(log) == "new\n"
    assert log.n_rests_lost == 1


def test_a_line_that_is_too_long_is_skipped_and_counted(path: Path) -> None:
    log = follow(path)
    read_all(log)
    append(path, "x" * (LINE_BYTES_MAX + 10))
    assert read_all(log) == ""
    log = restarted(log)
    append(path, "x" * LINE_BYTES_MAX + "\nfour\n")
    assert read_all(log) == "four\n"


def test_a_missing_file_is_waited_for(path: Path) -> None:
    path.unlink()
    log = follow(path)
    assert read_all(log) == ""
    path.write_text("one\n", "utf-8")
    assert read_all(log) == "one\n"


def test_files_of_other_names_are_not_taken_for_older_ones(path: Path) -> None:
    log = follow(path)
    read_all(log)
    append(path, "three\n")
    path.rename(path.with_name("fetches.jsonl.backup"))
    path.write_text("four\n", "utf-8")
    log = restarted(log)
    assert read_all(log) == "four\n"
    assert log.n_rests_lost == 1


def test_a_compressed_file_is_refused(path: Path) -> None:
    path.write_bytes(b"\x1f\x8b\x08\x00")
    with pytest.raises(ReadError, match="compressed"):
        follow(path).read(CHUNK)


def test_any_interleaving_of_writes_and_reads_gives_every_line_once(path: Path) -> None:
    """A small CHUNK would be rounded up, so lines come in parts by the writes alone."""
    text = lines(0, 400)
    path.write_text("", "utf-8")
    log, got = follow(path), ""
    for number, at in enumerate(range(0, len(text), 37)):
        append(path, text[at : at + 37])
        if number % 3 == 0:
            got += read_all(log)
        if number % 5 == 0:
            log = restarted(log)
        if number % 20 == 19:
            path.rename(path.with_name(f"fetches.jsonl.{number:04d}"))
            # A writer finishes its line before it changes the file.
            rest = path.with_name(f"fetches.jsonl.{number:04d}")
            tail = text[at + 37 :].partition("\n")[0]
            text = text[: at + 37] + text[at + 37 + len(tail) + 1 :] if tail else text
            append(rest, f"{tail}\n" if tail else "")
            path.write_text("", "utf-8")
            got += read_all(log)
            break
    got += read_all(log)
    whole = [line for line in got.splitlines() if line]
    assert whole == [f"line {number}" for number in range(len(whole))]
    assert len(whole) >= 70
