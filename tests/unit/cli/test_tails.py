"""What is logged since the newest snapshot is measured without loading any kernel."""

import subprocess
import sys
from pathlib import Path

import pytest

import recrawl
from recrawl.cli.tails import SHORT_RECORDS_MAX, is_soon_read, tail_of

URLS = [f"https://h{i % 5}.example/{i}" for i in range(300)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    with recrawl.open(folder) as corpus:
        corpus.add(URLS)
        corpus.snapshot()
    return folder


def test_after_a_snapshot_there_is_nothing_to_read(folder: Path) -> None:
    tail = tail_of(folder)
    assert tail is not None
    assert (tail.n_records, tail.n_bytes, tail.is_whole) == (0, 0, True)
    assert is_soon_read(folder)


def test_it_is_what_was_logged_since_while_another_process_goes_on(folder: Path) -> None:
    with recrawl.open(folder) as corpus:
        before = tail_of(folder)
        corpus.add(["https://new.example/"])
        after = tail_of(folder)
    assert before is not None
    assert after is not None
    assert after.n_records > before.n_records > 0  # the claim, the name of the host, the page
    assert after.n_bytes > before.n_bytes > 0
    assert after.is_whole


def test_a_long_one_is_not_looked_at_to_its_end(folder: Path) -> None:
    with recrawl.open(folder) as corpus:
        for url in URLS[:10]:
            corpus.remove([url])
        by_records = tail_of(folder, n_records_max=5)
        by_bytes = tail_of(folder, n_bytes_max=100)
    assert by_records is not None
    assert by_bytes is not None
    assert not by_records.is_whole
    assert by_records.n_records > 5
    assert not by_bytes.is_whole


def test_too_many_records_are_not_soon_read(folder: Path) -> None:
    with recrawl.open(folder) as corpus:
        node = corpus.nodes[0]
        node.submit([node.shard.tick(node.shard.now_ms)] * (SHORT_RECORDS_MAX + 1))
        assert not is_soon_read(folder)


def test_partitions_are_added_up(tmp_path: Path) -> None:
    config = recrawl.CorpusConfig.from_dict({"corpus": {"partitions": 3}})
    with recrawl.open(tmp_path, config) as corpus:
        corpus.add(URLS)
        tail = tail_of(tmp_path)
        assert tail is not None
        assert tail.n_records == sum(node.position for node in corpus.nodes)


@pytest.mark.parametrize("text", [None, "{}", "nonsense", '{"ledger": "kafka", "partitions": 1}'])
def test_what_cannot_be_told_is_not(folder: Path, text: str | None) -> None:
    if text is None:
        (folder / "FORMAT").unlink()
    else:
        (folder / "FORMAT").write_text(text)
    assert tail_of(folder) is None
    assert not is_soon_read(folder)


def test_no_kernel_is_loaded(folder: Path) -> None:
    script = (
        "import sys, recrawl.cli.tails\n"
        f"assert recrawl.cli.tails.is_soon_read({str(folder)!r})\n"
        "print([name for name in sys.modules if name.startswith(('numba', 'recrawl.core'))])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
