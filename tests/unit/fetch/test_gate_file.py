"""The delays of hosts survive the end of the process."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recrawl.fetch import FetchSettings, GateFile, gate_file
from recrawl.fetch.gate_file import GATE_FILE_BYTES_MIN
from tests.unit.fetch.test_host_gate import ManualTime, settings

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from recrawl.fetch import FetchSettings, GateFile, SystemTime

async def main():
    settings = FetchSettings(contact="https://example.com/bot", delay_seconds=50.0)
    gate = GateFile(Path(sys.argv[1])).open_gate(settings, SystemTime())
    await gate.enter("open.example")
    await gate.enter("busy.example")
    gate.leave("busy.example", is_failure=True, retry_after_seconds=5000)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_delays_survive_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    time = ManualTime(int(os.stat(path).st_mtime * 1000) + 10_000)
    file = GateFile(path)
    gate = file.open_gate(settings(delay_seconds=50.0), time)
    assert gate.next_start_ms("open.example") == time.at_ms + 50_000
    assert gate.next_start_ms("busy.example") > time.at_ms + 4_900_000
    file.close()


def test_a_damaged_file_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    for damage in (b"\0" * 100, b'["a.example",1', b"\xff\n" * 10):
        path.write_bytes(damage)
        file = GateFile(path)
        assert file.open_gate(settings(), ManualTime()).next_start_ms("a.example") == 0
        file.close()


def test_the_file_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "hosts"

    async def main() -> None:
        time = ManualTime()
        file = GateFile(path)
        given = FetchSettings(contact="me@example.com", delay_seconds=0.01, slowness_factor=0.0)
        gate = file.open_gate(given, time)
        for i in range(20_000):
            await gate.enter(f"{i % 100}.example")
            gate.leave(f"{i % 100}.example")
        file.close()
        # Nothing is written, and nothing raised, after the end.
        await gate.enter("late.example")

    asyncio.run(main())
    assert path.stat().st_size <= GATE_FILE_BYTES_MIN + 1000


def test_long_delays_are_synced_at_most_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    time = ManualTime()
    monkeypatch.setattr(gate_file, "_sync", lambda _: synced.append(time.at_ms))

    async def main() -> None:
        file = GateFile(tmp_path / "hosts")
        gate = file.open_gate(settings(delay_seconds=1.0), time)
        for i in range(50):
            await gate.enter(f"{i}.example")
            gate.leave(f"{i}.example")
        assert not synced
        for i in range(50):
            gate.delay_host(f"{i}.example", 3600.0)
        time.at_ms += 1_000
        gate.delay_host("late.example", 3600.0)
        file.close()

    start_ms = time.at_ms
    asyncio.run(main())
    assert synced == [start_ms, start_ms + 1_000]
