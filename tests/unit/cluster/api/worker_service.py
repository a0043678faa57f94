"""A worker in a process of its own: its settings come as a line of JSON, then tables of owners."""

import json
import sys
from pathlib import Path

import recrawl
from recrawl.cluster.api.owners import Owner
from recrawl.corpus import CorpusConfig
from tests.unit.cluster.api.workers import Worker


def main() -> None:
    given = json.loads(sys.stdin.readline())
    config = CorpusConfig.from_dict(given["config"])
    corpus = recrawl.open(Path(given["folder"]), config, partitions=given["partitions"])
    worker = Worker(given["name"], corpus, Path(given["keys"]))
    with worker.server:
        sys.stdout.write(json.dumps({i: list(one) for i, one in worker.owned().items()}) + "\n")
        sys.stdout.flush()
        for line in sys.stdin:
            worker.owners.replace({int(i): Owner(*one) for i, one in json.loads(line).items()})


if __name__ == "__main__":
    main()
