"""A real Kafka broker for the whole test run, started when the first test asks for it."""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from functools import cache
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "kafka"
STOP_SECONDS_MAX = 30


@cache
def started_broker() -> str:
    """Start one broker and return where it is; it ends with this process, however that ends."""
    folder = tempfile.mkdtemp(prefix="recrawl-tests-kafka-")
    command = [sys.executable, str(SCRIPT), "up", "--attached", "--folder", folder]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def stop() -> None:
        stdin.close()
        process.wait(timeout=STOP_SECONDS_MAX)
        stdout.close()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    line = stdout.readline()
    assert line, "no broker could be started: scripts/kafka says why above"
    bootstrap = json.loads(line)["bootstrap"]
    assert isinstance(bootstrap, str)
    return bootstrap


@pytest.fixture(scope="session")
def kafka_bootstrap() -> str:
    """Return where a real broker is: the one that RECRAWL_TEST_KAFKA names, or one of our own."""
    return os.environ.get("RECRAWL_TEST_KAFKA") or started_broker()


@pytest.fixture
def kafka_topic() -> str:
    """Return the name of a topic that nobody has used."""
    return f"test-{uuid.uuid4().hex}"
