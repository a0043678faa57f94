"""`scripts/kafka` says what is missing on a machine where it was not used before."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "kafka"


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
