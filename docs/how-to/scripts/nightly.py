"""Refresh a corpus once a night: fetch the pages that are worth it most, then stop.

    python nightly.py corpus/ [RUN]

Set the number of fetches per run and the politeness in corpus/recrawl.toml.  A run is named after
the day unless you give it a name: started again, it continues with what is left of its budget.
"""

import hashlib
import sys
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import recrawl

BODY_BYTES_MAX = 10_000_000


def fetch(order: recrawl.Order) -> recrawl.Outcome:
    """Fetch a page, unless it is still the version that we have."""
    request = Request(order.fetch_url, headers={"User-Agent": "example-bot/1.0"})
    if order.etag:
        request.add_header("If-None-Match", order.etag.decode("latin-1"))
    if order.last_modified:
        request.add_header("If-Modified-Since", order.last_modified.decode("latin-1"))
    try:
        with urlopen(request, timeout=30) as response:
            body = response.read(BODY_BYTES_MAX)
            return recrawl.Outcome(
                handle=order.handle,
                status=response.status,
                digest=hashlib.blake2b(body).digest(),
                etag=header(response, "ETag"),
                last_modified=header(response, "Last-Modified"),
            )
    except HTTPError as error:  # also 304, 404, 429, 503: the corpus knows what they mean
        retry_after = error.headers.get("Retry-After", "")
        seconds = float(retry_after) if retry_after.isdigit() else 0.0
        return recrawl.Outcome(handle=order.handle, status=error.code, retry_after_seconds=seconds)
    except (OSError, HTTPException, ValueError):  # no answer, or an invalid URL
        return recrawl.Outcome(handle=order.handle, status=0)


def header(response, name):
    """Return a header as bytes, for the next conditional request."""
    value = response.headers.get(name)
    return value.encode("latin-1", "ignore") if value else None


def main(folder: str, run: str | None = None) -> None:
    """Fetch until the budget of this run is spent, or for an hour."""
    with recrawl.open(folder) as corpus:
        n_fetched = 0
        for order in corpus.paced(batch_max=10, for_seconds=3600, run=run):
            corpus.report(fetch(order))
            n_fetched += 1
        while changes := corpus.changes(consumer="nightly"):
            for change in changes:
                print(change.what.name.lower(), change.url)
            sys.stdout.flush()
            corpus.commit_changes("nightly", changes[-1].cursor)
        print(n_fetched, "fetched", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
