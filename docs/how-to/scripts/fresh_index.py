"""Keep a retrieval index up to date: embed new passages, delete gone ones, keep the rest.

    python fresh_index.py corpus/ "host=/tmp/pg dbname=index" vectors/ [RUN]

PostgreSQL has the text of each passage, and the place in the change feed up to which the index is
complete.  LanceDB, which needs no server, has the vectors in a folder.
"""

import hashlib
import sys
import uuid
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import lancedb
import numpy as np
import psycopg
import pyarrow as pa

import recrawl

BODY_BYTES_MAX = 10_000_000
DIMENSIONS = 256
VECTORS = pa.schema([("id", pa.string()), ("vector", pa.list_(pa.float32(), DIMENSIONS))])
TABLES = """
    CREATE TABLE IF NOT EXISTS passage (
        id text PRIMARY KEY, url text NOT NULL, text text NOT NULL);
    CREATE INDEX IF NOT EXISTS passage_url ON passage (url);
    CREATE TABLE IF NOT EXISTS feed (place text NOT NULL);
"""


def embed(texts):
    """Return a vector for each text: counts of hashed letter trigrams.

    This stands for your model.  It needs no download, and finds texts with similar words.
    """
    vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
    for row, text in enumerate(texts):
        letters = f"  {text.lower()} "
        for i in range(len(letters) - 2):
            digest = hashlib.blake2b(letters[i : i + 3].encode(), digest_size=4).digest()
            vectors[row, int.from_bytes(digest) % DIMENSIONS] += 1.0
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def id_of(url, passage):
    """Return the id of a passage of a page: always the same for the same text."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{url}#{passage:016x}"))


class PassageIndex:
    """Passages in PostgreSQL and their vectors in LanceDB."""

    def __init__(self, database, vectors):
        self.database = psycopg.connect(database, autocommit=True)
        self.database.execute(TABLES)
        self.vectors = lancedb.connect(vectors).create_table(
            "passages", schema=VECTORS, exist_ok=True
        )
        self.n_embedded = self.n_deleted = 0

    def place(self):
        """Return the cursor of the last change that the index has; None for none."""
        row = self.database.execute("SELECT place FROM feed").fetchone()
        return row and row[0]

    def apply(self, changes):
        """Apply changes and remember their place, in one transaction."""
        with self.database.transaction():
            new, gone = {}, set()
            for change in changes:
                if change.what.name in ("GONE", "MOVED", "RETIRED"):
                    added, removed = self._update(change.url, (), {})
                elif change.passages is not None:
                    kept, passages, _, texts = change.passages
                    texts = texts or [None] * len(passages)
                    added = dict(zip(passages, texts, strict=True))
                    added, removed = self._update(change.url, kept, added)
                else:
                    continue
                new = {id: text for id, text in (new | added).items() if id not in removed}
                gone = (gone | removed) - added.keys()
            # If the program stops before the transaction ends, the next run does this again.
            self._write_vectors(new, gone)
            self.database.execute("DELETE FROM feed")
            self.database.execute("INSERT INTO feed VALUES (%s)", [changes[-1].cursor])

    def _update(self, url, kept, added):
        """Write the passages of a page; return the texts of new ones, and the ids of old ones."""
        before = self._ids(url)
        removed = before - {id_of(url, passage) for passage in (*kept, *added)}
        new = {id_of(url, passage): text for passage, text in added.items()}
        new = {id: text for id, text in new.items() if text and id not in before}
        self.database.execute("DELETE FROM passage WHERE id = ANY(%s)", [list(removed)])
        with self.database.cursor() as cursor:
            rows = [(id, url, text) for id, text in new.items()]
            cursor.executemany("INSERT INTO passage VALUES (%s, %s, %s)", rows)
        return new, removed

    def _write_vectors(self, new, gone):
        if gone:
            self.vectors.delete(f"id IN ({', '.join(repr(id) for id in sorted(gone))})")
        if new:
            vectors = list(embed(list(new.values())))
            rows = pa.table({"id": list(new), "vector": pa.array(vectors, VECTORS[1].type)})
            merge = self.vectors.merge_insert("id")
            merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)
        self.n_embedded += len(new)
        self.n_deleted += len(gone)

    def _ids(self, url):
        return {
            id for (id,) in self.database.execute("SELECT id FROM passage WHERE url = %s", [url])
        }

    def search(self, question, n=3):
        """Return the passages that are most similar to a question, with their URLs."""
        nearest = self.vectors.search(embed([question])[0]).metric("cosine").limit(n).to_list()
        select = "SELECT url, text FROM passage WHERE id = %s"
        return [self.database.execute(select, [row["id"]]).fetchone() for row in nearest]


def update_index(corpus, index):
    """Apply all changes of the corpus that the index does not have yet."""
    while changes := corpus.changes(index.place(), limit=100):
        index.apply(changes)


def fetch(order):
    """Fetch a page; the corpus finds out by itself whether its text has changed."""
    request = Request(order.fetch_url, headers={"User-Agent": "example-bot/1.0"})
    if order.etag:
        request.add_header("If-None-Match", order.etag.decode("latin-1"))
    try:
        with urlopen(request, timeout=30) as response:
            etag = response.headers.get("ETag")
            return recrawl.Outcome(
                handle=order.handle,
                status=response.status,
                body=response.read(BODY_BYTES_MAX),
                content_type=response.headers.get("Content-Type"),
                etag=etag.encode("latin-1", "ignore") if etag else None,
            )
    except HTTPError as error:  # also 304 and 404: the corpus knows what they mean
        return recrawl.Outcome(handle=order.handle, status=error.code)
    except (OSError, HTTPException, ValueError):  # no answer, or an invalid URL
        return recrawl.Outcome(handle=order.handle, status=0)


def main(folder, database, vectors, run=None):
    """Fetch until the budget of this run is spent, then bring the index up to date."""
    index = PassageIndex(database, vectors)
    with recrawl.open(folder) as corpus:
        for order in corpus.paced(batch_max=10, for_seconds=3600, run=run):
            corpus.report(fetch(order))
        update_index(corpus, index)
    print(index.n_embedded, "passages embedded,", index.n_deleted, "deleted")


if __name__ == "__main__":
    main(*sys.argv[1:])
