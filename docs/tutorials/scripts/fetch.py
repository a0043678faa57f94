"""Fetches the pages that `recrawl lease` orders, and prints outcomes for `recrawl report`."""

import hashlib
import json
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException


def fetch(line):
    order = json.loads(line)
    outcome = {"handle": order["handle"]}
    try:
        request = urllib.request.Request(order["fetch_url"])
        if order["etag"]:
            request.add_header("If-None-Match", order["etag"])
        with urllib.request.urlopen(request, timeout=10) as answer:
            outcome["status"] = answer.status
            outcome["etag"] = answer.headers["ETag"]
            outcome["digest"] = hashlib.sha256(answer.read()).hexdigest()
    except urllib.error.HTTPError as error:
        outcome["status"] = error.code  # 304: not modified
    except (OSError, HTTPException, ValueError):
        outcome["status"] = 0  # no answer, or an invalid URL
    return json.dumps(outcome)


with ThreadPoolExecutor(8) as pool:
    for outcome in pool.map(fetch, sys.stdin):
        print(outcome, flush=True)
