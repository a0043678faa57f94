"""A small whole file of every format, for tests to read and to break."""

import bz2
import gzip
import io
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recrawl.readers import Source, open_source
from recrawl.readers.formats.git_history import git_environment


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A file, the format it is of, and what must be said beside it."""

    format: str
    data: bytes
    n_rows: int
    name: str = "sample"
    options: Mapping[str, Any] = field(default_factory=dict)


def parquet(table: Mapping[str, object], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(dict(table)), file, **options)
    return file.getvalue()


def lines(*rows: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


CDX_11 = b"""\
 CDX N b a m s k r M S V g
com,example)/ 20240101000000 http://example.com/ text/html 200 AAAA - - 2153 0 a.warc.gz
com,example)/ 20240102000000 http://example.com/ text/html 200 AAAA - - 2153 900 a.warc.gz
com,example)/ 20240103120000 http://example.com/ warc/revisit - BBBB - - 2153 1800 a.warc.gz
com,example)/b 20240103 https://example.com/b text/html 404 CCCC - - 99 2700 a.warc.gz
"""
CDX_7 = b"""\
com,example)/ 20240101000000 http://example.com/ text/html 200 AAAA 2153
com,example)/ 20240102000000 http://example.com/ text/html 200 BBBB 2153
"""
CDX_JSON = b"""\
[["urlkey","timestamp","original","mimetype","statuscode","digest","length"],
["com,example)/", "20240101000000", "http://example.com/", "text/html", "200", "AAAA", "2153"],
["com,example)/", "20240102000000", "http://example.com/", "text/html", "-", "BBBB", "2153"]]
"""
CDX_CSV = b"""\
urlkey,timestamp,original,mimetype,status,digest,length,source
"com,example)/",20240101000000,http://example.com/,text/html,200,AAAA,2153,wayback
"com,example)/",20240102000000,http://example.com/,text/html,,BBBB,2153,wayback
"""
CDXJ = b"""\
!meta {"format": "cdxj"}
com,example)/ 20240101000000 {"url": "https://example.com/", "status": "200", "digest": "AAAA"}
com,example)/b 20240102000000 {"status": "200", "digest": "sha1:BBBB"}
"""
NUTCH = b"""\
https://example.com/\tVersion: 7
Status: 2 (db_fetched)
Fetch time: Wed Jan 31 00:00:00 UTC 2024
Modified time: Fri Dec 01 00:00:00 UTC 2023
Retries since fetch: 0
Retry interval: 2592000 seconds (30 days)
Score: 1.5
Signature: 5d41402abc4b2a76b9719d911017c592
Metadata:
 \t_pst_=success(1), lastModified=0
\tContent-Type=text/html

https://example.com/gone\tVersion: 7
Status: 3 (db_gone)
Fetch time: Wed Jan 31 00:00:00 UTC 2024
Modified time: Thu Jan 01 00:00:00 UTC 1970
Retries since fetch: 0
Retry interval: 86400 seconds (1 days)
Score: 0.0
Signature: null
Metadata:

"""
NUTCH_CSV = b"""\
Url,Status code,Status name,Fetch Time,Modified Time,Retries since fetch,\
Retry interval seconds,Retry interval days,Score,Signature,Metadata
"https://example.com/",2,"db_fetched",Wed Jan 31 00:00:00 UTC 2024,\
Thu Jan 01 00:00:00 UTC 1970,0,2592000.0,30.0,1.5,"5d41402a","_pst_:success"
"""
STORMCRAWLER = lines(
    {
        "_index": "status",
        "_id": "5",
        "_source": {
            "url": "https://example.com/",
            "status": "FETCHED",
            "nextFetchDate": "2024-02-01T00:00:00.000Z",
            "metadata": {
                "lastProcessedDate": ["2024-01-05T00:00:00.000Z"],
                "fetch%2EstatusCode": ["200"],
                "signature": ["AAAA"],
                "signatureChangeDate": ["2024-01-02T00:00:00.000Z"],
                "fetchInterval": ["1440"],
            },
        },
    },
    {
        "url": "https://example.com/gone",
        "status": "ERROR",
        "nextFetchDate": "2024-02-01T00:00:00Z",
        "metadata": {"lastProcessedDate": "2024-01-06T00:00:00Z", "fetch": {"statusCode": "410"}},
    },
)
SITEMAP = b"""\
<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
  <url><loc>https://example.com/?a=1&amp;b=2</loc><lastmod>2024-01-02</lastmod></url>
  <url><loc> https://example.com/b </loc><lastmod>2024-01-02T03:04:05+01:00</lastmod></url>
  <url><loc>https://example.com/c</loc><priority>0.5</priority></url>
</urlset>
"""
RSS = b"""\
<rss version="2.0"><channel><title>News</title><link>https://example.com/</link>
<item><title>A</title><link>https://example.com/a</link>
<pubDate>Tue, 02 Jan 2024 03:04:05 GMT</pubDate></item></channel></rss>
"""
ATOM = b"""\
<feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="https://example.com/feed"/>
<entry><link rel="alternate" href="https://example.com/a"/><published>2023-01-01T00:00:00Z</published>
<updated>2024-01-02T03:04:05Z</updated></entry></feed>
"""
ACCESS_LOG = b"""\
1.2.3.4 - - [10/Oct/2023:13:55:36 -0700] "GET /a HTTP/1.1" 200 2326 "-" "Mozilla/5.0"
1.2.3.4 - bob [10/Oct/2023:13:55:37 -0700] "GET /a HTTP/1.1" 304 - "https://x/" "Mozilla/5.0"
1.2.3.4 - - [10/Oct/2023:13:55:38 -0700] "GET /b?x=1 HTTP/1.0" 200 9 "-" "Googlebot/2.1"
1.2.3.4 - - [10/Oct/2023:13:55:39 -0700] "POST /a HTTP/1.1" 200 9 "-" "Mozilla/5.0"
1.2.3.4 - - [10/Oct/2023:13:55:40 -0700] "GET /c HTTP/1.1" 404 9
"""
CHANGE_TIMES = lines(
    {
        "url": "https://example.com/",
        "observed_from": "2024-01-01",
        "observed_until": 1_710_000_000,
        "change_times": [1_706_000_000, "2024-02-01T00:00:00Z"],
        "digests": ["a", "b"],
    },
    {
        "url": "https://example.com/b",
        "observed_from": 1_704_067_200,
        "observed_until": 1_710_000_000,
        "change_times": [],
    },
)
CRAWL_LOG = lines(
    {"url": "https://example.com/", "at": "2024-01-01T00:00:00Z", "digest": "AAAA", "status": 200},
    {"url": "https://example.com/", "ts": 1_704_153_600, "changed": True, "importance": 2.5},
    {"url": 17, "timestamp": 1_704_240_000_000, "changed": 0},
)
CRAWL_LOG_CSV = b"""\
url,fetched_at,hash,changed,status
https://example.com/,2024-01-01T00:00:00Z,AAAA,,200
"https://example.com/a,b",1704153600,,true,
"""
CRAWL_LOG_TABLE = {
    "page_id": pa.array([1, 2, 2], pa.int16()),
    "ts": pa.array([1_704_067_200, 1_704_067_200, 1_704_153_600], pa.int32()),
    "text_changed": [False, False, True],
    "note": ["a", None, "c"],
}
CHANGE_TABLE = {
    "source": pa.array(["a", "a"]).dictionary_encode(),
    "path": ["x", "y"],
    "obs_start": [1_704_067_200, 1_704_067_200],
    "obs_end": [1_710_000_000, 1_710_000_000],
    "change_ts": [[1_706_000_000, 1_705_000_000], []],
    "version": [[1, 2], []],
}

SAMPLES = {
    "list": Sample(
        format="list",
        data=b"# pages\nhttps://example.com/\n\n  https://example.com/b  \r\nexample.com/c\n",
        n_rows=3,
    ),
    "list-gzip": Sample(
        format="list", data=gzip.compress(b"https://example.com/\n" * 50), n_rows=50
    ),
    "list-bz2": Sample(format="list", data=bz2.compress(b"https://example.com/\n" * 50), n_rows=50),
    "list-zstd": Sample(
        format="list",
        data=pa.compress(b"https://example.com/\n" * 50, codec="zstd", asbytes=True),
        n_rows=50,
    ),
    "url-csv": Sample(
        format="url-table",
        data=b"url;importance;cost\nhttps://example.com/;2,5;\nhttps://example.com/b;3;1\n",
        n_rows=1,
    ),
    "url-csv-headless": Sample(
        format="url-table", data=b"https://example.com/,2\nhttps://example.com/b,\n", n_rows=2
    ),
    "url-jsonl": Sample(
        format="url-table",
        data=lines({"url": "https://example.com/", "importance": 2}, {"url": "https://b.example/"}),
        n_rows=2,
    ),
    "url-json-array": Sample(
        format="url-table",
        data=b'[{"url": "https://example.com/"},\n{"url": "https://example.com/b"}\n]\n',
        n_rows=2,
    ),
    "url-parquet": Sample(
        format="url-table", data=parquet({"url": ["https://example.com/"], "cost": [1]}), n_rows=1
    ),
    "sitemap": Sample(format="sitemap", data=SITEMAP, n_rows=3),
    "sitemap-gzip": Sample(format="sitemap", data=gzip.compress(SITEMAP), n_rows=3),
    "rss": Sample(format="sitemap", data=RSS, n_rows=1),
    "atom": Sample(format="sitemap", data=ATOM, n_rows=1),
    "access-log": Sample(
        format="access-log",
        data=ACCESS_LOG,
        n_rows=1,
        options={"base_url": "https://example.com/"},
    ),
    "crawl-log": Sample(format="crawl-log", data=CRAWL_LOG, n_rows=3),
    "crawl-log-csv": Sample(format="crawl-log", data=CRAWL_LOG_CSV, n_rows=2),
    "crawl-log-parquet": Sample(
        format="crawl-log",
        data=parquet(CRAWL_LOG_TABLE, row_group_size=2),
        n_rows=3,
        options={"columns": {"url": "page_id", "at": "ts", "changed": "text_changed"}},
    ),
    "cdx-11": Sample(format="cdx", data=CDX_11, n_rows=4),
    "cdx-7": Sample(format="cdx", data=CDX_7, n_rows=2),
    "cdx-json": Sample(format="cdx", data=CDX_JSON, n_rows=2),
    "cdx-csv": Sample(format="cdx", data=CDX_CSV, n_rows=2),
    "cdxj": Sample(format="cdxj", data=CDXJ, n_rows=2),
    "nutch": Sample(format="nutch", data=NUTCH, n_rows=3),
    "nutch-csv": Sample(format="nutch", data=NUTCH_CSV, n_rows=1),
    "stormcrawler": Sample(format="stormcrawler", data=STORMCRAWLER, n_rows=3),
    "change-times": Sample(format="change-times", data=CHANGE_TIMES, n_rows=2),
    "change-times-parquet": Sample(format="change-times", data=parquet(CHANGE_TABLE), n_rows=2),
    "change-times-csv": Sample(
        format="change-times",
        data=b"path,obs_start,obs_end,change_ts\nx,1704067200,1710000000,1705000000 1706000000\n",
        n_rows=2,
    ),
}

KOLOBOV_FILES = {
    "urlid_offset_history.txt": (
        b"5\t5.5143055555555556\t[[1.10396990740741, 0], [1.47311342592593, 1]]\n"
        b"7\t0.5\t[[1.0, 1]]\n"
    ),
    "url_urlid_hostid.txt": b"https://example.com/7\t7\t1\nhttps://example.com/5\t5\t1\n",
    "urlid_imp.txt": b"5\t0.25\n7\t8.0\n",
    "host_hostid_isconstrained.txt": b"example.com\t1\t0\n",
}


def kolobov_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in KOLOBOV_FILES.items():
        (folder / name).write_bytes(data)
    return folder


def git(folder: Path, *arguments: str, at: int = 1_704_067_200) -> str:
    """Run git as a test's author would, at a time of the test's own."""
    environment = git_environment() | {
        "GIT_AUTHOR_DATE": f"{at} +0000",
        "GIT_COMMITTER_DATE": f"{at} +0000",
    }
    settings = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *settings, "-C", str(folder), *arguments],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
        timeout=300,
    )
    return done.stdout


def commit(folder: Path, at: int, files: Mapping[str, str | None]) -> None:
    """Write files, or delete those that are None, and commit them."""
    for name, text in files.items():
        path = folder / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "change", at=at)


def repository(folder: Path) -> Path:
    """Make a repository with two files, three changes and a deletion."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, 1_704_067_200, {"a.md": "1", "docs/b.md": "1"})
    commit(folder, 1_704_153_600, {"a.md": "2"})
    commit(folder, 1_704_240_000, {"a.md": "3", "docs/b.md": "2"})
    commit(folder, 1_704_326_400, {"docs/b.md": None})
    return folder


def rows_of(source: Source) -> list[dict[str, Any]]:
    """Draw everything, checking that it is as promised."""
    rows: list[dict[str, Any]] = []
    for batch in source.batches():
        assert batch.schema == source.schema
        batch.validate(full=True)
        assert 0 < batch.num_rows <= 65_536
        rows += batch.to_pylist()
    refused = source.refused
    assert refused.n_refused == sum(refused.by_reason.values())
    assert len(refused.examples) == min(refused.n_refused, 10)
    return rows


def opened(data: bytes, **options: Any) -> Source:
    return open_source(io.BytesIO(data), **options)


def read(data: bytes, **options: Any) -> list[dict[str, Any]]:
    return rows_of(opened(data, **options))
