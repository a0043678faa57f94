"""What the sinks that write files write, and what a crash leaves of it."""

import json
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from recrawl.errors import SinkError
from recrawl.fetch.sinks import PageVersion
from recrawl.fetch.sinks.kinds.folder import FolderSink
from recrawl.fetch.sinks.kinds.json_lines import JsonLinesSink
from recrawl.fetch.sinks.kinds.parquet import ParquetSink
from recrawl.fetch.sinks.kinds.warc import WarcSink
from recrawl.shard import Transition
from recrawl.store import PassageChanges
from recrawl.testing.sinks import make_versions
from tests.unit.fetch.sinks.sink_targets import WarcTarget

URL = "https://example.com/tea"


def version(number: int = 1, body: bytes | None = b"<p>Green tea", **facts: Any) -> PageVersion:
    (one,) = make_versions(1, first=number)
    return replace(one, url=facts.pop("url", URL), body=body, **facts)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_raw_file_has_the_ending_of_its_type(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path, form="raw")
    sink.write([version()])
    assert files_in(tmp_path) == ["example.com/tea~.html"]
    sink.write([version(2, b"{}", content_type="application/json")])
    assert files_in(tmp_path) == ["example.com/tea~.json"]
    sink.write([version(3, b"x", url=URL + ".html"), version(4, b"\0", url=URL + "/a.png")])
    assert files_in(tmp_path) == [
        "example.com/tea.html",
        "example.com/tea/a.png",
        "example.com/tea~.json",
    ]
    assert (tmp_path / "example.com/tea/a.png").read_bytes() == b"\0"
    gone = [version(5, None, transition=Transition.GONE, url=url) for url in (URL, URL + "/a.png")]
    sink.write(gone)
    assert files_in(tmp_path) == ["example.com/tea.html"]
    assert not (tmp_path / "example.com/tea").exists()  # empty folders are removed


def test_files_of_pages_that_are_gone_can_stay(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path, keeps_gone=True, has_front_matter=False)
    sink.write([version(), version(2, None, transition=Transition.GONE)])
    sink.write([version(1)])
    sink.write([version(2, None, transition=Transition.GONE)])
    assert (tmp_path / "example.com/tea.md").read_text() == "Green tea\n"


def test_drafts_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    FolderSink(tmp_path).write([version()])
    (tmp_path / ".recrawl-drafts/abc").write_text("half")
    FolderSink(tmp_path)
    assert files_in(tmp_path) == ["example.com/tea.md"]


def test_front_matter_is_safe(tmp_path: Path) -> None:
    title = b'<title>a: b\n---\n\xe2\x80\xae "c" # d</title><p>x'
    FolderSink(tmp_path).write([version(1, title)])
    lines = (tmp_path / "example.com/tea.md").read_text().splitlines()
    assert lines[0] == lines[6] == "---"
    assert lines[2] == 'title: "a: b --- \\u202e \\"c\\" # d"'


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path)
    (tmp_path / "example.com").write_text("")
    with pytest.raises(SinkError, match="cannot write to"):
        sink.write([version()])
    assert files_in(tmp_path) == ["example.com"]


def test_json_lines_have_all_fields(tmp_path: Path) -> None:
    body = "<title>Tea</title><p>Grüner Tee\u202e".encode()
    one = version(1, body, key="k", doc_id="d", metadata={"a": 1}, final_url=URL + "/")
    with closing(JsonLinesSink(tmp_path, content=["markdown", "text", "body"])) as sink:
        sink.write([one])
    (path,) = tmp_path.iterdir()
    line = path.read_bytes()
    assert line.isascii()  # so that no reader splits it at other line ends
    row = json.loads(line)
    assert row["markdown"] == "Grüner Tee\u202e\n"
    assert row["text"] == "Grüner Tee\u202e"
    assert row["title"] == "Tea"
    assert (row["key"], row["doc_id"], row["metadata"]) == ("k", "d", {"a": 1})
    assert row["transition"] == "new"
    assert row["removed_passages"] == ["0000000000000003"]


def test_added_passages_have_their_texts(tmp_path: Path) -> None:
    body = b"<p>Green tea is here.</p><p>Black tea is gone.</p>"
    found = version(1, body).observation
    assert found is not None
    first, second = found.passages.tolist()
    one = version(1, body, passages=PassageChanges((first,), (second, 5), ()))
    assert one.added_passages == ((second, "Black tea is gone."), (5, None))
    stored = PassageChanges((), (second,), (), ("as stored",))
    assert version(1, body, passages=stored).added_passages == ((second, "as stored"),)


def test_half_a_line_is_cut_off(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path, content=())
    sink.write([version(1), version(2)])
    sink.close()
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for n_cut in (1, 10, len(whole) - 1):
        path.write_bytes(whole[:-n_cut])
        sink = JsonLinesSink(tmp_path, content=())
        sink.write([version(3)])
        sink.close()
        numbers = [json.loads(line)["number"] for line in path.read_text().splitlines()]
        assert numbers == ([3] if n_cut == len(whole) - 1 else [1, 3])


def test_files_are_rotated(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path, content=(), file_bytes_max=1_000)
    for number in range(1, 21):
        sink.write([version(number)])
    sink.close()
    paths = sorted(tmp_path.iterdir())
    assert len(paths) > 3
    assert all(path.stat().st_size < 2_000 for path in paths)
    lines = [line for path in paths for line in path.read_text().splitlines()]
    numbers = [json.loads(line)["number"] for line in lines]
    assert numbers == list(range(1, 21))


def test_a_parquet_file_is_replaced_when_its_versions_come_again(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    sink.write(make_versions(5))
    sink.write(make_versions(7))
    (path,) = tmp_path.iterdir()
    table = pq.read_table(path)
    assert table["number"].to_pylist() == list(range(1, 8))
    assert table["markdown"].to_pylist()[0].startswith("Text of version 1")
    assert table["removed_passages"].to_pylist()[0] == [3]
    assert str(table["fetched_at"][0]).startswith("2026-09-21")


def archive(folder: Path, versions: list[PageVersion], **settings: Any) -> None:
    sink = WarcSink(folder, **settings)
    sink.write(versions)
    sink.close()


def test_answers_without_news_are_revisits(tmp_path: Path) -> None:
    none = Transition.NONE
    archive(
        tmp_path,
        [
            version(1),
            version(2, transition=none),
            version(3, None, transition=none, status=304, headers=(("ETag", '"1"'),)),
        ],
    )
    # The index of earlier answers survives.
    archive(tmp_path, [version(4, transition=none), version(5, b"<p>Black tea")])
    records = sorted(WarcTarget(tmp_path).records(), key=lambda one: one[0]["WARC-Date"])
    records = [one for one in records if one[0]["WARC-Type"] != "warcinfo"]
    kinds = [headers["WARC-Type"] for headers, _ in records]
    assert kinds == ["response", "revisit", "revisit", "revisit", "response"]
    first = records[0][0]
    for headers, body in records[1:4]:
        assert body == b""
        assert headers["WARC-Refers-To"] == first["WARC-Record-ID"]
        assert headers["WARC-Refers-To-Date"] == first["WARC-Date"]
        assert headers["WARC-Refers-To-Target-URI"] == URL
    profiles = [headers["WARC-Profile"].rpartition("/")[2] for headers, _ in records[1:4]]
    assert profiles == [
        "identical-payload-digest",
        "server-not-modified",
        "identical-payload-digest",
    ]
    assert records[4][1] == b"<p>Black tea"


def test_failures_are_archived_but_not_referred_to(tmp_path: Path) -> None:
    none = Transition.NONE
    archive(tmp_path, [version(1, status=503), version(2, transition=none, status=503), version(3)])
    kinds = [headers["WARC-Type"] for headers, _ in WarcTarget(tmp_path).records()]
    assert sorted(kinds) == ["response", "response", "response", "warcinfo"]


def test_headers_that_belong_to_the_encoded_body_have_other_names(tmp_path: Path) -> None:
    headers = (("Content-Encoding", "gzip"), ("Content-Length", "3"), ("X-A", "b\r\nc: d"))
    archive(tmp_path, [version(1, b"tea" * 1_000, headers=headers)])
    (path,) = tmp_path.glob("*.warc.gz")
    with path.open("rb") as file:
        _, record = ((one, one.content_stream().read())[0] for one in ArchiveIterator(file))
    assert record.rec_headers.protocol == "WARC/1.1"
    found = dict(record.http_headers.headers)
    assert found["X-Crawl-Content-Encoding"] == "gzip"
    assert found["X-Crawl-Content-Length"] == "3"
    assert found["Content-Length"] == "3000"
    assert found["X-A"] == "b c: d"
    assert found["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("n_cut", [0, 1, 100, 250])
def test_half_a_record_of_an_archive_is_cut_off(tmp_path: Path, n_cut: int) -> None:
    sink = WarcSink(tmp_path / "killed")
    sink.write([version(1), version(2, os.urandom(500))])
    (path,) = (tmp_path / "killed").glob("*.open")
    left = tmp_path / "left"
    left.mkdir()
    data = path.read_bytes()
    (left / path.name).write_bytes(data[: len(data) - n_cut])
    sink.close()
    archive(left, [version(3, b"next")])
    bodies = {body for headers, body in WarcTarget(left).records() if "status" in headers}
    assert b"<p>Green tea" in bodies
    assert b"next" in bodies
    assert len(bodies) == (3 if n_cut == 0 else 2)
    assert not list(left.glob("*.open"))


def test_archives_are_rotated(tmp_path: Path) -> None:
    archive(tmp_path, [version(i, os.urandom(2_000)) for i in range(1, 9)], file_bytes_max=5_000)
    assert len(list(tmp_path.glob("recrawl-*.warc.gz"))) >= 3
    assert len(WarcTarget(tmp_path).read_pages()) == 1
