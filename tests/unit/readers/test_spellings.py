"""Names of fields as people spell them, fields kept as metadata, and messages about fields."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recrawl.errors import ReadError, UnknownFormat
from recrawl.readers import Source, open_source
from recrawl.readers.formats.lists import URL_NAMES

URL = "https://example.com/a"


def opened(text: str | bytes, **options: object) -> Source:
    data = text.encode() if isinstance(text, str) else text
    return open_source(io.BytesIO(data), **options)  # type: ignore[arg-type]


def rows_of(source: Source) -> list[dict[str, object]]:
    return [row for batch in source.batches() for row in batch.to_pylist()]


def as_parquet(name: str) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({name: [URL], "Team Name": ["docs"]}), file)
    return file.getvalue()


SPELLINGS = (
    "URL",
    "Url",
    "url",
    "LINK",
    "loc",
    "Address",
    "page",
    "Page URL",
    "page-url",
    "pageUrl",
)


@pytest.mark.parametrize("name", [*SPELLINGS, "\ufeffurl", " uri ", "Web_Address"])
def test_the_field_with_urls_is_found_in_every_spelling(name: str) -> None:
    assert rows_of(opened(f"{name},Team Name\n{URL},docs\n"))[0]["url"] == URL
    assert rows_of(opened(f"{name}\n{URL}\n"))[0]["url"] == URL
    assert rows_of(opened(json.dumps({name: URL, "x": 1})))[0]["url"] == URL
    assert rows_of(opened(as_parquet(name)))[0]["url"] == URL


def test_other_fields_are_found_in_other_spellings() -> None:
    source = opened("Link;Priority;Last-Mod;Doc ID\nhttps://a.example/;2;2024-01-01;d7\n")
    (row,) = rows_of(source)
    assert (row["importance"], row["doc_id"]) == (2.0, "d7")
    assert row["last_modified_at_ms"] == 1_704_067_200_000
    log = opened(
        "Page URL,Fetched At,Status Code,Content-Hash\nhttps://a.example/,1700000000,404,x"
    )
    assert log.kind == "observed"
    assert rows_of(log)[0] | {} == rows_of(log_with_our_names())[0]


def log_with_our_names() -> Source:
    return opened("url,at,status,digest\nhttps://a.example/,1700000000,404,x")


def test_two_fields_that_may_be_the_url_are_an_error_that_names_both() -> None:
    message = "several columns that may be url: 'Link' and 'Address'.*--column url=Link"
    with pytest.raises(ReadError, match=message):
        rows_of(opened("Link,Address\nhttps://a.example/,https://b.example/\n"))
    with pytest.raises(ReadError, match=message):
        rows_of(opened(json.dumps({"Link": URL, "Address": URL})))
    with pytest.raises(ReadError, match="'URL' and 'Url'"):
        rows_of(opened("URL,Url\nhttps://a.example/,https://b.example/\n"))


def test_our_own_name_is_better_than_all_others() -> None:
    (row,) = rows_of(opened("page,url,Link\n7,https://a.example/,https://b.example/\n"))
    assert row["url"] == "https://a.example/"
    assert rows_of(opened("Link,Address\na,b\n", columns={"url": "address"}))[0]["url"] == "b"


def test_rows_of_json_may_spell_a_field_differently() -> None:
    data = "".join(json.dumps({name: URL}) + "\n" for name in ("url", "URL", "link"))
    assert [row["url"] for row in rows_of(opened(data))] == [URL] * 3


def test_a_refused_file_lists_its_fields_and_the_option_that_accepts_it() -> None:
    message = r"fields are titel, Seite 1; .* --column url=\"Seite 1\""
    with pytest.raises(UnknownFormat, match=message):
        opened("titel,Seite 1\nA,https://a.example/\n")
    with pytest.raises(UnknownFormat, match=r"fields are adresse, n; .* --column url=adresse"):
        opened(json.dumps({"adresse": URL, "n": 1}))
    with pytest.raises(UnknownFormat, match=r"fields are Ort, Team Name; .* --column url=NAME"):
        opened(as_parquet("Ort"))
    accepted = opened("titel,Seite 1\nA,https://a.example/\n", columns={"url": "Seite 1"})
    assert rows_of(accepted)[0]["url"] == "https://a.example/"


# ---------------------------------------------------------------------- further fields

TABLE = "url,team,Language,empty\nhttps://a.example/,docs,de,\nhttps://b.example/,,,\n"


def metadata_of(source: Source) -> list[object]:
    texts = [row["metadata"] for row in rows_of(source)]
    return [None if text is None else json.loads(str(text)) for text in texts]


def test_further_fields_are_named_as_ignored() -> None:
    source = opened(TABLE)
    assert metadata_of(source) == [None, None]
    assert source.ignored_fields == ("team", "Language", "empty")
    source = opened(TABLE, metadata=["language"])
    assert metadata_of(source) == [{"Language": "de"}, None]
    assert source.ignored_fields == ("team", "empty")


def test_all_further_fields_may_be_kept_as_metadata() -> None:
    source = opened(TABLE, metadata=["all"])
    assert metadata_of(source) == [{"team": "docs", "Language": "de"}, None]
    assert source.ignored_fields == ()
    row = {"url": URL, "metadata": {"team": "own"}, "team": "x", "n": [1, None], "f": 0.5}
    kept = metadata_of(opened(json.dumps(row), metadata=["all"]))
    assert kept == [{"team": "own", "n": [1, None], "f": 0.5}]


def test_metadata_may_keep_a_field_that_has_another_meaning_too() -> None:
    source = opened("url,weight\nhttps://a.example/,2\n", metadata=["weight"])
    (row,) = rows_of(source)
    assert (row["importance"], row["metadata"]) == (2.0, '{"weight": "2"}')


def test_a_field_to_keep_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ReadError, match="no column 'colour' to keep as metadata: its columns are"):
        rows_of(opened(TABLE, metadata=["colour"]))


def test_values_of_parquet_become_json() -> None:
    file = io.BytesIO()
    day = pa.array([19_723], pa.int32()).cast(pa.date32())
    columns = {"url": [URL], "day": day, "raw": [b"x"], "gap": [float("nan")], "doc_id": [17.0]}
    pq.write_table(pa.table(columns), file)
    (row,) = rows_of(opened(file.getvalue(), metadata=["all"]))
    assert json.loads(str(row["metadata"])) == {"day": "2024-01-01", "raw": "x"}
    assert row["doc_id"] == "17"


def test_a_row_whose_metadata_is_not_an_object_is_refused() -> None:
    source = opened('{"url": "a", "metadata": [1]}\n{"url": "b", "metadata": "{\\"n\\": 1}"}\n')
    assert metadata_of(source) == [{"n": 1}]
    assert source.refused.by_reason == {"the metadata is not a JSON object": 1}


def test_id_is_not_taken_for_a_doc_id() -> None:
    source = opened("url,id\nhttps://a.example/,7\n")
    assert rows_of(source)[0]["doc_id"] is None
    assert source.ignored_fields == ("id",)
    assert "id" not in URL_NAMES["doc_id"]
    named = opened("url,id\nhttps://a.example/,7\n", columns={"doc_id": "id"})
    assert rows_of(named)[0]["doc_id"] == "7"
