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
STOP_SECONDS_MAX = 120


@cache
def start_broker() -> str:
    """Start a broker and return its address; it stops when this process ends, even if killed."""
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
    """Return the address of a real broker: RECRAWL_TEST_KAFKA, or a broker started here."""
    return os.environ.get("RECRAWL_TEST_KAFKA") or start_broker()


@pytest.fixture
def kafka_topic() -> str:
    """Return the name of a topic that does not exist yet."""
    return f"test-{uuid.uuid4().hex}"
