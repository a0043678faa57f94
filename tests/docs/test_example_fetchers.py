"""The fetchers in Go and in JavaScript work with a real server and a real site."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

import recrawl
from recrawl.corpus import CorpusConfig
from recrawl.service.keys import KeyRing, create_key
from tests.corpus_fixtures import IMPOLITE
from tests.docs.test_shared_corpus import PageHandler
from tests.unit.service.running_server import RunningServer

pytestmark = [pytest.mark.slow, pytest.mark.slow_without_jit]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/fetchers"
COMMANDS = {"go": ["go", "run", "fetch.go"], "node": ["node", "fetch.mjs"]}
N_PAGES = 15


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), PageHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("language", COMMANDS)
def test_a_fetcher_leases_fetches_and_reports(site: str, tmp_path: Path, language: str) -> None:
    assert shutil.which(language), f"install {language}; CI does so by itself"
    key, _ = create_key(tmp_path, ["lease", "report"], now_ms=time.time_ns() // 1_000_000)
    config = CorpusConfig.from_dict({"politeness": IMPOLITE})
    corpus = recrawl.open(tmp_path / "corpus", config)
    corpus.add([f"{site}/{i}" for i in range(N_PAGES - 1)] + ["http://127.0.0.1:1/refused"])
    with RunningServer({"news": corpus}, keys={"news": KeyRing(tmp_path)}) as server:
        done = subprocess.run(
            [*COMMANDS[language], f"http://127.0.0.1:{server.port}/v1/corpora/news", "2"],
            cwd=EXAMPLES,
            env=os.environ | {"RECRAWL_KEY": key, "GOCACHE": str(tmp_path / "go")},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 2
        stats = corpus.stats()
        assert stats.n_outcomes >= N_PAGES
        assert stats.in_flight == 0
        assert len(corpus.changes()) == N_PAGES - 1
        assert stats.n_texts >= N_PAGES - 1
