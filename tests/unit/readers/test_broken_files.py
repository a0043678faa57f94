"""No file makes a reader raise anything but our own error, whatever is in it."""

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recrawl.errors import ReadError
from recrawl.readers import FORMATS, open_source
from tests.unit.readers.samples import (
    KOLOBOV_FILES,
    SAMPLES,
    Sample,
    kolobov_folder,
    repository,
    rows_of,
)

OF_FILES = sorted(set(FORMATS) - {"git", "kolobov"})
# Formats where every row that is seen is handed out or refused.
ONE_TO_ONE = {"list", "url-table", "sitemap", "crawl-log", "cdx", "cdxj", "nutch", "stormcrawler"}
# By the profile: few in CI, many where it explores.
N_EXAMPLES = settings().max_examples // 2

samples = pytest.mark.parametrize("name", sorted(SAMPLES))


def drained(data: bytes | Path, **options: Any) -> None:
    """Read to the end, or to our own error."""
    source = None
    try:
        source = open_source(io.BytesIO(data) if isinstance(data, bytes) else data, **options)
        n_rows = len(rows_of(source))
    except ReadError as error:
        assert str(error)  # noqa: PT017 - either way of ending is right
    else:
        if source.format in ONE_TO_ONE:
            assert source.refused.n_rows == source.refused.n_refused + n_rows
        if source.kind == "changed":
            source.windows().validate(full=True)


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Cut, flip, repeat, splice and stuff a file, a few times over."""
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(len(data), begin + 200)))
        match draw(st.sampled_from(["cut", "flip", "repeat", "drop", "stuff", "swap"])):
            case "cut":
                data = data[:begin]
            case "flip" if begin < len(data):
                byte = data[begin] ^ (1 << draw(st.integers(0, 7)))
                data = data[:begin] + bytes([byte]) + data[begin + 1 :]
            case "repeat":
                data = data[:end] + data[begin:end] * draw(st.integers(1, 4)) + data[end:]
            case "drop":
                data = data[:begin] + data[end:]
            case "stuff":
                data = data[:begin] + draw(st.sampled_from(STUFFING)) + data[end:]
            case _:
                data = data[end:] + data[:begin]
    return data


STUFFING = [
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b'"\\ud800"',
    b"\n",
    b"\r",
    b"\t",
    b'"',
    b"null",
    b"[",
    b"{" * 100,
    b"[" * 5_000,
    b"1e999",
    b"-1",
    b"9" * 5_000,
    b"NaN",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
    b" CDX N b a\n",
    b"99999999999999",
    "\u2028".encode(),
]


@samples
@settings(max_examples=N_EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_broken_file_is_read_or_refused(name: str, data: st.DataObject) -> None:
    sample = SAMPLES[name]
    broken = data.draw(mutated(sample.data))
    drained(broken, format=sample.format, **sample.options)
    drained(broken, **sample.options)


@pytest.mark.parametrize("format_name", [None, *OF_FILES])
@settings(max_examples=N_EXAMPLES)
@given(data=st.binary(max_size=400))
@example(data=b"")
@example(data=b"\n")
@example(data=b"PAR1")
@example(data=b"PAR1\0\0\0\0PAR1")
@example(data=b"\x1f\x8b")
@example(data=b"\x1f\x8b\x08\0\0\0\0\0\0\0")
@example(data=b"BZh9")
@example(data=b"\x28\xb5\x2f\xfd")
@example(data=b"\xff\xfe<\0")
@example(data=b"<")
@example(data=b"{" * 20_000)
@example(data=b"[" * 200_000)
@example(data=b'{"url": ' * 5_000)
@example(data=b" CDX\n")
@example(data=b" CDX N b\nx 2024 y z\n")
@example(data=b"\tCDX\tN\tb\ta\nx\t2024\ty\n")
@example(data=b"url," * 3_000 + b"\n" + b"a\n" * 3_000)
@example(data=b'url\n"' + b"x" * 300_000)
def test_random_bytes_are_read_or_refused(format_name: str | None, data: bytes) -> None:
    drained(data, format=format_name)


@pytest.mark.parametrize("format_name", OF_FILES)
@samples
def test_a_file_of_another_format_is_read_or_refused(name: str, format_name: str) -> None:
    drained(SAMPLES[name].data, format=format_name)


@samples
def test_a_file_cut_anywhere_is_read_or_refused(name: str) -> None:
    sample = SAMPLES[name]
    step = max(len(sample.data) // 60, 1)
    for end in range(0, len(sample.data), step):
        drained(sample.data[:end], format=sample.format, **sample.options)


@samples
def test_a_file_with_any_byte_changed_is_read_or_refused(name: str) -> None:
    sample = SAMPLES[name]
    step = max(len(sample.data) // 60, 1)
    for place in range(0, len(sample.data), step):
        broken = bytearray(sample.data)
        broken[place] ^= 0xFF
        drained(bytes(broken), format=sample.format, **sample.options)


ROWS: dict[str, Callable[[bytes], bytes]] = {
    "crawl-log": lambda cell: b'{"url": "https://a.example/", "at": %s}\n' % cell,
    "url-table": lambda cell: b'{"url": "https://a.example/", "importance": %s}\n' % cell,
    "change-times": (
        lambda cell: (
            b'{"url": "a", "observed_from": 1e9, "observed_until": %s, "change_times": %s}\n'
            % (cell, cell)
        )
    ),
    "stormcrawler": (
        lambda cell: (
            b'{"url": %s, "status": %s, "metadata": {"lastProcessedDate": %s}}\n'
            % (cell, cell, cell)
        )
    ),
}
CELLS = [
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e308",
    b"1e400",
    b"NaN",
    b"-Infinity",
    b"9" * 400,
    b'"\\ud800"',
    b'"\\u0000"',
    b"{}",
    b"[]",
    b"[null]",
    b"[[[1700000000]]]",
    b"[1700000000, {}]",
    b'"' + b"9" * 10_000 + b'"',
    b'"0001-01-01T00:00:00+23:59"',
    b'"9999-12-31T23:59:59-23:59"',
    b'"2024-02-30"',
    b'"Tue, 99 Foo 2024 99:99:99 GMT"',
    b'"Mon, 1 Jan 99999999999 00:00:00 +9999"',
]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("format_name", sorted(ROWS))
def test_odd_values_are_read_or_refused(format_name: str, cell: bytes) -> None:
    drained(ROWS[format_name](cell), format=format_name)


FILLERS = [
    b"a",
    b"a.",
    b"\t",
    b" ",
    b", ",
    b'"',
    b"[",
    b"\\",
    b"0",
    b": ",
    b"http://",
    b"a ",
    b"\xff",
]


@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize("format_name", [None, *OF_FILES])
def test_a_long_line_of_repeated_bytes_is_read_in_time(
    format_name: str | None, filler: bytes
) -> None:
    # What backtracks would take minutes.
    long = filler * (300_000 // len(filler))
    for begin in (b"", b"https://a.example/,", b"a.b 1 ", b"https://a.example/ 2024 ", b"a: "):
        drained(begin + long + b"!\n", format=format_name)


@settings(max_examples=N_EXAMPLES)
@given(data=st.data(), name=st.sampled_from(sorted(KOLOBOV_FILES)))
def test_a_broken_folder_of_kolobov_is_read_or_refused(data: st.DataObject, name: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = kolobov_folder(Path(made))
        (folder / name).write_bytes(data.draw(mutated(KOLOBOV_FILES[name])))
        drained(folder)


@pytest.fixture(scope="module")
def whole_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("git") / "whole")


@settings(max_examples=N_EXAMPLES // 2)
@given(data=st.data())
def test_a_broken_repository_is_read_or_refused(
    whole_repository: Path, data: st.DataObject
) -> None:
    kept = sorted(
        path.relative_to(whole_repository)
        for path in (whole_repository / ".git").rglob("*")
        if path.is_file() and "hooks" not in path.parts
    )
    broken = data.draw(st.sampled_from(kept))
    with tempfile.TemporaryDirectory() as made:
        for name in kept:
            content = (whole_repository / name).read_bytes()
            if name == broken:
                content = data.draw(mutated(content))
            path = Path(made) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for empty in ("refs", "objects"):
            (Path(made) / ".git" / empty).mkdir(parents=True, exist_ok=True)
        drained(Path(made), format="git")


def test_there_is_a_sample_of_every_format() -> None:
    assert {sample.format for sample in SAMPLES.values()} == set(OF_FILES)
    assert isinstance(SAMPLES["list"], Sample)
