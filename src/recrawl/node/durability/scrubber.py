"""Read all files of a corpus every few days, slowly, to find damage while it can be repaired.

A disk may lose a block that nobody reads for months.  A scrub reads every block of the log, the
stores and the snapshots and compares its checksum.  It notes its result in ``scrub.json``, and
marks a damaged store, so that the next opening rebuilds it.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recrawl.atomic_files import replace_json
from recrawl.errors import LedgerError, SnapshotError, StorageError
from recrawl.kv import mark_damaged, unmark_damaged
from recrawl.ledger import SnapshotFolder
from recrawl.node.clock import Clock
from recrawl.node.config.sections import ScrubConfig
from recrawl.node.durability.corpus_format import CorpusFormat
from recrawl.node.durability.file_checks import check_database, check_snapshot
from recrawl.node.durability.store_repair import CHECKPOINT

__all__ = ["DamagedPart", "ScrubReport", "Scrubber", "read_scrub_report", "scrub_corpus"]

logger = logging.getLogger(__name__)

SCRUB_FILE = "scrub.json"
_CHECK_SECONDS = 1.0
# Short commands end before a scrub begins.
_START_MS = 60_000


class DamagedPart(NamedTuple):
    """A part of a corpus in which a scrub found damage."""

    part: str
    """Path of the part in the folder of the corpus, such as "store/0"."""
    what: str


class ScrubReport(NamedTuple):
    """The result of one scrub."""

    started_at_ms: int
    ended_at_ms: int
    n_bytes: int
    """Number of bytes that were read and compared, before compression."""
    damage: Sequence[DamagedPart]


class _Part(NamedTuple):
    """A part of a corpus, and a function that reads and checks it."""

    path: str
    check: Callable[[], Iterator[int]]


def _parts(folder: Path, shape: CorpusFormat) -> Iterator[_Part]:
    if shape.ledger == "rocksdb":
        yield _Part("log", lambda: check_database(folder / "log"))
    for i in range(shape.partitions):
        store = f"store/{i}"
        yield _Part(store, lambda store=store: check_database(folder / store))  # type: ignore[misc]
        for saved in SnapshotFolder(folder / "snapshots" / str(i)).list_saved():
            path = f"snapshots/{i}/{saved.folder.name}"
            yield _Part(path, lambda saved=saved: check_snapshot(saved))  # type: ignore[misc]
            copy = saved.folder / CHECKPOINT
            yield _Part(f"{path}/{CHECKPOINT}", lambda copy=copy: check_database(copy))  # type: ignore[misc]


def scrub_corpus(
    folder: Path,
    shape: CorpusFormat,
    clock: Clock,
    *,
    after_bytes: Callable[[int], bool] = lambda _: True,
) -> ScrubReport | None:
    """Read all files of a corpus, note the result, and mark what is damaged.

    Other processes may use the corpus meanwhile.

    Parameters
    ----------
    folder
        Folder of the corpus.
    shape
        Content of its FORMAT file.
    clock
        Time source.
    after_bytes
        Function that is called with the number of bytes read since its last call; it may pause,
        and returns whether to continue.

    Returns
    -------
    ScrubReport or None
        Result; None if it was stopped.
    """
    started_at_ms = clock.wall_ms()
    n_bytes = 0
    damage: list[DamagedPart] = []
    for part in _parts(folder, shape):
        try:
            for n in part.check():
                n_bytes += n
                if not after_bytes(n):
                    return None
        except (StorageError, SnapshotError, LedgerError, OSError) as error:
            if not (folder / part.path).exists():
                continue  # the writer has removed an old snapshot meanwhile
            what = str(error).removeprefix(f"{folder / part.path}: ")
            damage.append(DamagedPart(part.path, what))
            if part.path.startswith("store/"):
                mark_damaged(folder / part.path, what)
            else:
                logger.error("%s is damaged: %s", folder / part.path, what)
            continue
        if part.path == "log":
            # The mark of a store stays, because only a repair proves that it was wrong.
            unmark_damaged(folder / part.path)
    report = ScrubReport(started_at_ms, clock.wall_ms(), n_bytes, damage)
    _write_report(folder, report)
    return report


def _write_report(folder: Path, report: ScrubReport) -> None:
    body: dict[str, Any] = {
        "format": 1,
        **report._asdict(),
        "damage": [damaged._asdict() for damaged in report.damage],
    }
    try:
        replace_json(folder / SCRUB_FILE, body)
    except OSError as error:
        logger.warning("%s cannot be written: %s", folder / SCRUB_FILE, error)


def read_scrub_report(folder: Path) -> ScrubReport | None:
    """Return the result of the last scrub of a corpus; None if there is none that can be read."""
    try:
        body = json.loads((folder / SCRUB_FILE).read_bytes())
        return ScrubReport(
            int(body["started_at_ms"]),
            int(body["ended_at_ms"]),
            int(body["n_bytes"]),
            [DamagedPart(str(one["part"]), str(one["what"])) for one in body["damage"]],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Scrubber:
    """A thread that scrubs a corpus when the configured time has passed since the last scrub.

    Parameters
    ----------
    folder
        Folder of the corpus.
    shape
        Content of its FORMAT file.
    config
        Interval and speed.
    clock
        Time source.
    """

    def __init__(
        self, folder: Path, shape: CorpusFormat, config: ScrubConfig, clock: Clock
    ) -> None:
        self._folder = folder
        self._shape = shape
        self._config = config
        self._clock = clock
        self._opened_ms = clock.running_ms()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recrawl-scrub", daemon=True)

    def start(self) -> None:
        """Start the thread, unless scrubs are switched off."""
        if self._config.every < float("inf"):
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread; a scrub in progress ends without a result."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def is_due(self) -> bool:
        """Return whether it is time for a scrub."""
        if self._clock.running_ms() - self._opened_ms < _START_MS:
            return False
        last = read_scrub_report(self._folder)
        if last is None:
            return True
        passed_ms = self._clock.wall_ms() - last.started_at_ms
        # Negative if the clock was wrong at the last scrub.
        return passed_ms < 0 or passed_ms >= self._config.every * 1000

    def _run(self) -> None:
        while not self._stop.wait(_CHECK_SECONDS):
            if self.is_due():
                try:
                    scrub_corpus(self._folder, self._shape, self._clock, after_bytes=self.pause)
                except Exception:
                    logger.exception("the scrub of %s failed", self._folder)
                    self._opened_ms = self._clock.running_ms()  # try again later

    def pause(self, n_bytes: int) -> bool:
        """Wait as long as reading so many bytes may take; return False if it was stopped."""
        return not self._stop.wait(n_bytes / self._config.bytes_per_second)
