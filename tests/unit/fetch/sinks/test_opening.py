"""Sinks are made from settings, and wrong settings are named."""

from pathlib import Path
from typing import Any

import pytest

from recrawl.errors import ConfigError, SinkError
from recrawl.fetch.sinks import SINK_KINDS, PageVersion, open_sink, parse_sink
from recrawl.testing.sinks import make_versions

SEEN: list[PageVersion] = []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("folder:pages", ("folder", {"folder": "pages"})),
        ("json-lines:/tmp/a:b", ("json-lines", {"folder": "/tmp/a:b"})),
        ("warc:archive", ("warc", {"folder": "archive"})),
        ("postgres:dbname=x", ("postgres", {"connection": "dbname=x"})),
        ("webhook:https://a.example/x", ("webhook", {"url": "https://a.example/x"})),
        ("python:a.b:c", ("python", {"function": "a.b:c"})),
        ("kafka:a:1,b:2/t", ("kafka", {"bootstrap": "a:1,b:2", "topic": "t"})),
    ],
)
def test_a_short_text_names_a_sink(text: str, expected: tuple[str, dict[str, str]]) -> None:
    assert parse_sink(text) == expected


@pytest.mark.parametrize("text", ["", "folder", "folder:", "files:x", "kafka:a:1", "kafka:/t"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="a sink"):
        parse_sink(text)


def test_settings_are_checked(tmp_path: Path) -> None:
    folder: dict[str, Any] = {"folder": tmp_path / "x"}
    sink = open_sink("folder", folder | {"name": "own", "versions_max": 7, "wait_seconds": 2})
    assert sink.name == "own"
    assert (sink.batch.versions_max, sink.batch.wait_seconds) == (7, 2)
    assert open_sink("parquet", folder | {"versions_max": 7}).batch.wait_seconds == 300
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("files", {}, "unknown kind of sink 'files'; there are folder, "),
        ("folder", {}, "missing"),
        ("folder", folder | {"from": "raw"}, "has no setting 'from'; it has folder, name, form"),
        ("folder", folder | {"form": "html"}, "form must be 'markdown' or 'raw', got 'html'"),
        ("folder", folder | {"versions_max": 0}, "versions_max and bytes_max must be at least 1"),
        ("json-lines", folder | {"content": ["html"]}, "content must be some of markdown, text"),
        ("json-lines", folder | {"name": "A"}, "name of a sink"),
        ("warc", folder | {"prefix": "../x"}, "prefix must be"),
        ("webhook", {"url": "ftp://a.example/"}, "url must begin with https"),
        ("webhook", {"url": "https://a.example/ x"}, "without spaces"),
        ("webhook", {"url": "https://a.example", "allow_networks": ["x"]}, "does not appear"),
        ("python", {"function": "json"}, "module:function"),
        ("python", {"function": "json:nothing"}, "cannot be loaded"),
        ("python", {"function": "no_such_module:x"}, "cannot be loaded"),
    ]
    for kind, settings, message in wrong:
        with pytest.raises(ConfigError, match=message):
            open_sink(kind, settings)


@pytest.mark.parametrize("kind", ["folder", "json-lines", "warc", "parquet"])
def test_a_folder_that_cannot_be_made_is_a_sink_error(kind: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot write to"):
        open_sink(kind, {"folder": tmp_path / "file" / "x"})


def see(versions: list[PageVersion]) -> None:
    SEEN.extend(versions)


def test_a_function_is_found_by_its_name() -> None:
    open_sink("python", {"function": f"{__name__}:see"}).write(make_versions(2))
    assert [version.number for version in SEEN] == [1, 2]


def test_the_guide_lists_every_kind() -> None:
    path = Path(__file__).parents[4] / "docs/how-to/send-new-versions.md"
    text = path.read_text(encoding="utf-8")
    assert all(f"| `{kind}` |" in text for kind in SINK_KINDS)
