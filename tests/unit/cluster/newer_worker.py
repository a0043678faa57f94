"""``recrawl worker`` of a later release, which writes a second version of the log's records.

It writes the importance of pages with another schema number, if all workers read that.
"""

import recrawl.cluster.running
import recrawl.cluster.worker
import recrawl.corpus.corpus
from recrawl.cli import main
from recrawl.ledger import Record
from recrawl.node import records
from recrawl.shard import events

SCHEMA = 99
UPGRADE_SECONDS = 3.0


def plant_second_version() -> None:
    newest = records._newest_record_of

    def write(entry: records.LogEntry) -> Record:
        record = newest(entry)
        is_new = isinstance(entry, events.ImportanceSet)
        return Record(SCHEMA, record.data) if is_new else record

    events.SCHEMAS[SCHEMA] = events.ImportanceSet
    records.SCHEMAS_SINCE[SCHEMA] = 2
    records.OLDER_FORMS[SCHEMA] = newest
    records._newest_record_of = write
    for module in (records, recrawl.corpus.corpus, recrawl.cluster.running):
        module.RECORDS_VERSION = 2  # type: ignore[attr-defined]
    defaults = recrawl.cluster.worker.Worker.__init__.__kwdefaults__
    assert defaults is not None
    defaults["upgrade_seconds"] = UPGRADE_SECONDS


if __name__ == "__main__":
    plant_second_version()
    main()
