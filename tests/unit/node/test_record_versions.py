"""Records have versions: older ones can be written, and newer ones are refused."""

from collections.abc import Callable

import pytest

from recrawl import Corpus
from recrawl.errors import EventError, UnknownEvent
from recrawl.ledger import Record
from recrawl.node import records
from recrawl.node.records import NODE_SCHEMAS, RECORDS_VERSION, SCHEMAS_SINCE, entry_of, record_of
from recrawl.shard import ImportanceSet, PagesRemoved, event_of
from recrawl.shard.events import SCHEMAS
from tests.unit.cluster.newer_worker import SCHEMA

# Numbers of the first version.  A new one is added to SCHEMAS_SINCE with the next version, and not
# here, once a release of recrawl has had clusters.
FIRST = {
    *range(1, 23),
    *(30, 35, 36, 37, 43, 50, 60, 61, 62, 63, 70),
    *(101, 102, 103, 110, 111, 120, 121, 130, 135, 136, 137, 160, 161, 170, 171),
}
ENTRY = event_of(ImportanceSet, page=[1], importance=2.0)


@pytest.fixture
def second_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a second version, in which `ImportanceSet` has another schema number."""
    newest = records._newest_record_of

    def write(entry: records.LogEntry) -> Record:
        record = newest(entry)
        return Record(SCHEMA, record.data) if isinstance(entry, ImportanceSet) else record

    monkeypatch.setattr(records, "_newest_record_of", write)
    monkeypatch.setitem(SCHEMAS, SCHEMA, ImportanceSet)
    monkeypatch.setitem(SCHEMAS_SINCE, SCHEMA, 2)
    monkeypatch.setitem(records.OLDER_FORMS, SCHEMA, newest)


def test_every_new_schema_number_has_a_version() -> None:
    every = {*SCHEMAS, *NODE_SCHEMAS, 137}
    assert every - FIRST == set(SCHEMAS_SINCE)
    assert all(1 < since <= RECORDS_VERSION for since in SCHEMAS_SINCE.values())
    assert set(records.OLDER_FORMS) <= set(SCHEMAS_SINCE)


@pytest.mark.usefixtures("second_version")
def test_an_entry_is_written_as_its_readers_know_it() -> None:
    older, newer = record_of(ENTRY, 1), record_of(ENTRY, 2)
    assert (older.schema, newer.schema) == (3, SCHEMA)
    for record in (older, newer):
        assert entry_of(record).page.tolist() == [1]  # type: ignore[union-attr]
    other = event_of(PagesRemoved, page=[1])
    assert record_of(other, 1) == record_of(other, 2)


@pytest.mark.usefixtures("second_version")
def test_an_entry_that_older_versions_lack_waits_for_the_upgrade() -> None:
    del records.OLDER_FORMS[SCHEMA]
    with pytest.raises(EventError, match=r"ImportanceSet needs version 2.*upgrade all workers"):
        record_of(ENTRY, 1)


@pytest.mark.usefixtures("second_version")
def test_a_corpus_writes_the_version_that_it_is_told(open_corpus: Callable[..., Corpus]) -> None:
    corpus = open_corpus()
    corpus.add(["https://a.example/"])
    (node,) = corpus.nodes.all
    with pytest.raises(ValueError, match="must be 1 to 1"):
        corpus.set_records_version(2)
    corpus.set_records_version(1)
    for version, schema in ((1, 3), (2, SCHEMA)):
        node.written.number = version
        position = node.position
        assert corpus.set(["https://a.example/"], importance=5.0 * version) == 1
        written = [record.schema for _, record in node.ledger.read(position)]
        assert schema in written


def test_a_record_of_a_newer_version_is_refused(open_corpus: Callable[..., Corpus]) -> None:
    corpus = open_corpus()
    (node,) = corpus.nodes.all
    data = record_of(ENTRY).data
    node.ledger.append([Record(SCHEMA, data)])
    with pytest.raises(UnknownEvent, match=r"got 99: a newer version of recrawl wrote"):
        node.follow()
    corpus.close()
    with pytest.raises(UnknownEvent, match="upgrade this one"):
        open_corpus()
