"""The way in: what is guessed, what comes out, what is said of what was left out."""

import gzip
import io
import os
import threading
from pathlib import Path

import pytest

from recrawl.errors import ReadError, UnknownFormat
from recrawl.readers import FORMATS, WINDOWS, open_source
from tests.unit.readers.samples import SAMPLES, kolobov_folder, opened, read, repository, rows_of

samples = pytest.mark.parametrize("name", sorted(SAMPLES))


@samples
def test_a_format_is_guessed_from_the_content(name: str) -> None:
    sample = SAMPLES[name]
    assert opened(sample.data, **sample.options).format == sample.format


@samples
def test_a_guessed_format_and_a_named_format_read_the_same_rows(name: str) -> None:
    sample = SAMPLES[name]
    found = read(sample.data, **sample.options)
    assert found == read(sample.data, format=sample.format, **sample.options)
    assert len(found) == sample.n_rows


@samples
def test_a_file_and_a_stream_give_the_same_rows(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    path = tmp_path / "file"
    path.write_bytes(sample.data)
    source = open_source(path, **sample.options)
    assert source.n_bytes == len(sample.data)
    assert rows_of(source) == read(sample.data, **sample.options)
    assert source.n_bytes_read == len(sample.data)


@samples
def test_a_compressed_file_gives_the_same_rows(name: str) -> None:
    sample = SAMPLES[name]
    packed = gzip.compress(sample.data)
    if name.endswith("parquet"):
        with pytest.raises(ReadError, match=r"decompress it first|none of the formats|UTF-8"):
            rows_of(opened(packed, format=sample.format, **sample.options))
    elif sample.data[:1] not in {b"\x1f", b"B", b"\x28"}:
        assert read(packed, **sample.options) == read(sample.data, **sample.options)


def test_the_format_of_a_folder_is_guessed(tmp_path: Path) -> None:
    assert open_source(repository(tmp_path / "git")).format == "git"
    assert open_source(kolobov_folder(tmp_path / "kolobov")).format == "kolobov"
    with pytest.raises(UnknownFormat, match="is a folder, but neither"):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"hello\nworld\n", "begins with 'hello'"),
        (b"\xff\xfea\0b\0", "not text in UTF-8"),
        (b"name,size\na,1\n", "name the format or the columns"),
    ],
)
def test_a_file_of_no_known_format_is_an_error_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(UnknownFormat, match=words):
        opened(data)


def test_an_unknown_format_names_those_that_are_known() -> None:
    with pytest.raises(UnknownFormat, match=r"one of git, .*list, got 'warc'"):
        opened(b"", format="warc")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="does not exist; check the path"):
        open_source(tmp_path / "nothing")
    with pytest.raises(ReadError, match="cannot be read"):
        open_source("a\0b")


def test_columns_can_be_renamed_and_make_a_format_known() -> None:
    data = b"where,when\nhttps://a.example/,1700000000\n"
    with pytest.raises(UnknownFormat):
        opened(data)
    source = opened(data, columns={"url": "where", "at": "When"})
    assert source.format == "crawl-log"
    assert [row["at_ms"] for row in rows_of(source)] == [1_700_000_000_000]


def test_a_missing_column_is_an_error_that_lists_the_columns() -> None:
    with pytest.raises(ReadError, match=r"no column 'when': its columns are url, at"):
        read(b"url,at\na,1\n", columns={"at": "when"})
    with pytest.raises(ReadError, match="this format has no column 'when'"):
        read(b"url,at\na,1\n", columns={"when": "at"})
    with pytest.raises(ReadError, match="has no column 'url'; name the one to use"):
        read(b"name,time\na,1\n", format="crawl-log")


def test_a_source_can_be_read_only_once() -> None:
    source = opened(b"https://a.example/\n")
    rows_of(source)
    with pytest.raises(ValueError, match="read only once"):
        source.batches()


def test_only_a_source_of_changes_has_windows_and_only_at_its_end() -> None:
    with pytest.raises(ValueError, match="kind must be 'changed'"):
        opened(b"https://a.example/\n").windows()
    source = opened(SAMPLES["change-times"].data)
    with pytest.raises(ValueError, match="only after all batches have been read"):
        source.windows()
    rows_of(source)
    assert source.windows().schema == WINDOWS


def test_a_pipe_is_read_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"https://a.example/\n" * 5_000,))
    writer.start()
    source = open_source(path)
    assert source.n_bytes is None
    assert len(rows_of(source)) == 5_000
    writer.join()


def test_a_stream_of_the_caller_stays_open() -> None:
    stream = io.BytesIO(b"https://a.example/\n")
    rows_of(open_source(stream))
    assert not stream.closed


def test_every_format_has_a_description() -> None:
    for name, known in FORMATS.items():
        assert known.name == name
        assert known.about
        assert known.kind in {"listed", "observed", "changed"}
