"""The log that the configuration selects is opened, or the error says what is missing."""

import sys
from pathlib import Path

import pytest

import recrawl
from recrawl import CorpusConfig
from recrawl.errors import LedgerError


def test_without_the_kafka_client_no_folder_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("recrawl.ledger.kafka")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    ledger = {"kind": "kafka", "bootstrap": "127.0.0.1:9", "topic": "x"}
    with pytest.raises(LedgerError, match=r'pip install "recrawl\[kafka\]"'):
        recrawl.open(tmp_path / "corpus", CorpusConfig.from_dict({"ledger": ledger}))
    assert not (tmp_path / "corpus").exists()


def test_an_unreachable_broker_is_named_and_leaves_no_folder_behind(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    ledger = {
        "kind": "kafka",
        "bootstrap": "127.0.0.1:1",
        "topic": "x",
        "give_up_after": "0.5s",
    }
    config = CorpusConfig.from_dict({"ledger": ledger})
    with pytest.raises(LedgerError, match=r"Kafka at 127\.0\.0\.1:1 did not answer within 0\.5 s"):
        recrawl.open(tmp_path / "a" / "corpus", config)
    assert list(tmp_path.iterdir()) == []
