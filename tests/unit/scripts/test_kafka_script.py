"""`scripts/kafka` starts brokers as the guide recommends, and says what is missing for that."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "kafka"
GUIDE = ROOT / "docs" / "how-to" / "run-a-cluster.md"
# Name, default and recommended value of a setting.
ROW = re.compile(r"^\| `([a-z.]+)` \| (\d+) \| (\d+) \|", re.MULTILINE)


def test_brokers_have_the_settings_that_the_guide_recommends(tmp_path: Path) -> None:
    text = runpy.run_path(str(SCRIPT))["properties"](tmp_path, 1, [1, 2, 3], [4, 5, 6])
    settings = dict(line.split("=", 1) for line in text.splitlines())
    rows = ROW.findall(GUIDE.read_text("utf-8"))
    assert len(rows) == 6
    for name, default, recommended in rows:
        assert settings[name] == recommended
        assert int(recommended) < int(default)
    # A session outlives several lost heartbeats.
    session, heartbeat = "broker.session.timeout.ms", "broker.heartbeat.interval.ms"
    assert int(settings[session]) >= 5 * int(settings[heartbeat])


def test_a_missing_client_is_named_in_one_sentence(tmp_path: Path) -> None:
    modules, folder = tmp_path / "modules", tmp_path / "brokers"
    modules.mkdir()
    missing = 'raise ModuleNotFoundError("No module named confluent_kafka")\n'
    (modules / "confluent_kafka.py").write_text(missing)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "up", "--folder", str(folder)],
        env={**os.environ, "PYTHONPATH": str(modules)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("scripts/kafka: the package confluent-kafka is missing; install it")
    assert sys.executable in sentence
    assert not folder.exists()  # it did not begin
