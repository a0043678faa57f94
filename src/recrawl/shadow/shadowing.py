"""Follow the log of a crawler, and estimate for each week what recrawl would have done."""

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from recrawl.atomic_files import create_folder, replace_json
from recrawl.backtest import Estimate, Support, history_of
from recrawl.errors import ReadError
from recrawl.readers import Source, open_source
from recrawl.shadow.estimates import IMPUTATIONS, ShadowEstimate, estimate_shadow
from recrawl.shadow.followed_file import LogChunk
from recrawl.shadow.kept_rows import KeptRows
from recrawl.shadow.weeks import WEEK_MS, week_name, week_start

__all__ = ["FollowedLog", "LogCounts", "Shadow", "ShadowReport", "ShadowSettings", "WeekResult"]

STATE_FILE = "shadow.json"
STATE_VERSION = 1
CHUNK_BYTES = 8 << 20
"""Bytes of the log that are read before the place is saved."""
HEADER_BYTES_MAX = 1 << 16
"""Largest header line of a table; a longer one is not kept."""
WEEKS_LISTED_MAX = 520
"""Largest number of weeks whose results are kept."""
LATE_MS = 3_600_000
"""Time after the end of a week for which rows of the week may still be written."""
FUTURE_MS_MAX = 600_000
"""Largest time by which a row may be ahead of the clock; others are refused."""
# Formats of one row a line, so that any whole lines can be read alone.
_FORMATS = ("crawl-log", "cdx", "cdxj")


class FollowedLog(Protocol):
    """A log that grows: a file or a topic."""

    n_long_lines: int
    n_rests_lost: int

    @property
    def name(self) -> str:
        """Name of the log."""
        ...

    def read(self, n_bytes_max: int) -> LogChunk:
        """Return the next whole lines; none at the end."""
        ...

    def place(self) -> dict[str, Any]:
        """Return the place up to which the log was read."""
        ...

    def close(self) -> None:
        """Close the log."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowSettings:
    """Settings of a shadow.

    Parameters
    ----------
    n_weeks
        Number of weeks up to the end of a week that its report looks back on.
    n_pages_max, n_rows_max
        Largest numbers of pages and rows kept; of a larger log, a sample of pages is kept.
    n_imputations
        Number of times that the unknown times of changes are drawn.
    seed
        Random seed.
    format
        Format of the log; None to guess it.
    columns
        Columns of a table: recrawl's names, mapped to the names in the log.
    """

    n_weeks: int = 8
    n_pages_max: int = 20_000
    n_rows_max: int = 4_000_000
    n_imputations: int = IMPUTATIONS
    seed: int = 0
    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in (("n_weeks", 1), ("n_pages_max", 20), ("n_imputations", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)!r}")


@dataclass(slots=True, kw_only=True)
class LogCounts:
    """Counts of what a shadow has read so far."""

    n_rows: int = 0
    n_refused: int = 0
    """Lines that are not valid rows."""
    n_future: int = 0
    """Rows that were ahead of the clock, and refused."""
    n_long_lines: int = 0
    """Lines that were too long, and skipped."""
    n_rests_lost: int = 0
    """Rotations or deletions by which unread rows were lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekResult:
    """The result of one week, as the state keeps it."""

    week: str
    end_ms: int
    freshness: Estimate
    freshness_of_ours: Estimate
    gain: Estimate
    savings: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowReport:
    """What recrawl would have done up to the end of a week, or up to now."""

    name: str
    """Name of the week, such as "2026-W07"; "now" for what there is of the present week."""
    from_ms: int
    until_ms: int
    support: Support
    estimate: ShadowEstimate | None
    """None if the log is too small so far."""
    counts: LogCounts
    kept_share: float
    """Share of the log's pages that are kept; 1 without sampling."""
    weeks: tuple[WeekResult, ...]
    """Results of this and earlier weeks, in order."""


class Shadow:
    """A process beside a crawler that reads its log and reports weekly.

    Parameters
    ----------
    folder
        Folder for the state; created if it does not exist.
    open_log
        Function that opens the log at a place, None for its beginning.
    settings
        Settings.
    now_ms
        Time source in milliseconds since 1970.
    """

    def __init__(
        self,
        folder: Path,
        open_log: Callable[[Mapping[str, Any] | None], FollowedLog],
        *,
        settings: ShadowSettings | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._folder = folder
        self._settings = settings or ShadowSettings()
        self._now_ms = now_ms
        create_folder(folder)
        state = self._load()
        self._format: str | None = state.get("format") or self._settings.format
        self._header = bytes.fromhex(state.get("header", ""))
        self._newest_ms: int | None = state.get("newest_ms")
        self._week_ms: int | None = state.get("week_ms")
        """Start of the first week that is not reported."""
        self._past = LogCounts(**state.get("counts", {}))
        self._weeks = [_week_of(row) for row in state.get("weeks", [])]
        self.rows = KeptRows(
            folder,
            n_pages_max=self._settings.n_pages_max,
            n_rows_max=self._settings.n_rows_max,
            state=state.get("rows"),
        )
        self.log = open_log(state.get("place"))

    @property
    def counts(self) -> LogCounts:
        """Counts of what was read, also by earlier processes."""
        counts = LogCounts(**asdict(self._past))
        counts.n_long_lines += self.log.n_long_lines
        counts.n_rests_lost += self.log.n_rests_lost
        return counts

    def close(self) -> None:
        """Close the log; everything that was read has been saved."""
        self.log.close()

    def read(self) -> bool:
        """Read the next part of the log, and save the place; return whether there was any.

        Raises
        ------
        recrawl.errors.ReadError
            If the log cannot be read, or its format is not known.
        """
        chunk = self.log.read(CHUNK_BYTES)
        if not chunk.data:
            return False
        for batch in self._batches(chunk):
            self._add(batch)
        self._save()
        return True

    def next_report(self) -> ShadowReport | None:
        """Return the report of the oldest finished week that was not reported; None without one.

        A week is finished when the log has a row that is an hour younger than its end.  Call
        `finish` when the report has been written.
        """
        if self._week_ms is None or self._newest_ms is None:
            return None
        first_ms = self.rows.first_at(self._week_ms)
        if first_ms is not None:
            self._week_ms = week_start(first_ms)  # nothing to report of weeks without rows
        if self._newest_ms < self._week_ms + WEEK_MS + LATE_MS:
            return None
        return self._report(week_name(self._week_ms), self._week_ms + WEEK_MS)

    def finish(self, report: ShadowReport) -> None:
        """Note that the report of a week has been written, and drop rows no longer needed."""
        self._weeks = list(report.weeks)
        self._week_ms = report.until_ms
        # A report on what there is now may end soon after the week.
        self.rows.drop_before(report.until_ms - self._settings.n_weeks * WEEK_MS)
        self._save()

    def report_now(self) -> ShadowReport:
        """Return a report on what there is, up to the newest row."""
        until_ms = self._now_ms() if self._newest_ms is None else self._newest_ms + 1
        return self._report("now", until_ms)

    def _report(self, name: str, until_ms: int) -> ShadowReport:
        from_ms = until_ms - self._settings.n_weeks * WEEK_MS
        history = history_of(
            _Period(self.rows, from_ms, until_ms), n_pages_max=self._settings.n_pages_max
        )
        support, estimate = estimate_shadow(
            history, n_imputations=self._settings.n_imputations, seed=self._settings.seed
        )
        weeks = self._weeks
        if estimate is not None:
            result = WeekResult(
                week=name,
                end_ms=until_ms,
                freshness=estimate.freshness,
                freshness_of_ours=estimate.freshness_of_ours,
                gain=estimate.gain,
                savings=estimate.savings,
            )
            weeks = [*weeks, result][-WEEKS_LISTED_MAX:]
        return ShadowReport(
            name=name,
            from_ms=from_ms,
            until_ms=until_ms,
            support=support,
            estimate=estimate,
            counts=self.counts,
            kept_share=self.rows.kept_share * history.kept_share,
            weeks=tuple(weeks),
        )

    def _batches(self, chunk: LogChunk) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk; count what is not a row."""
        source = self._open(chunk)
        if source is None:
            self._past.n_refused += chunk.data.count(b"\n")
            return
        try:
            yield from source.batches()
        except ReadError:
            self._past.n_refused += chunk.data.count(b"\n") - source.refused.n_rows
        self._past.n_rows += source.refused.n_rows
        self._past.n_refused += source.refused.n_refused

    def _open(self, chunk: LogChunk) -> Source | None:
        columns = dict(self._settings.columns)
        if self._format is None or (chunk.is_start and self._header):
            # A new file may have a new header, or none if only the first file had one.
            try:
                source = open_source(io.BytesIO(chunk.data), columns=columns)
                self._check_format(source)
            except ReadError:
                if self._format is None:
                    raise
            else:
                self._format = source.format
                first = chunk.data[: chunk.data.find(b"\n") + 1]
                self._header = first if _is_header(first, source.format) else b""
                return source
        header = b"" if chunk.data.startswith(self._header) else self._header
        try:
            return open_source(
                io.BytesIO(header + chunk.data), format=self._format, columns=columns
            )
        except ReadError:
            return None

    def _check_format(self, source: Source) -> None:
        if source.format not in _FORMATS:
            raise ReadError(
                f"{self.log.name} has the format {source.format}; a log that grows must be JSON "
                "lines or CSV with url, at, and digest or changed, or CDX or CDXJ"
            )

    def _add(self, batch: pa.RecordBatch) -> None:
        at_ms = batch.column("at_ms")
        is_past = pc.less_equal(at_ms, self._now_ms() + FUTURE_MS_MAX)
        past = batch.filter(is_past)
        self._past.n_future += batch.num_rows - past.num_rows
        if past.num_rows == 0:
            return
        edges = pc.min_max(past.column("at_ms"))
        newest = edges["max"].as_py()
        if self._week_ms is None:
            self._week_ms = week_start(edges["min"].as_py())
        self._newest_ms = newest if self._newest_ms is None else max(newest, self._newest_ms)
        self.rows.add(past)

    def _load(self) -> dict[str, Any]:
        path = self._folder / STATE_FILE
        try:
            state = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ReadError(f"{path} cannot be read: {error}; delete it to begin again") from error
        if not isinstance(state, dict) or state.get("version") != STATE_VERSION:
            raise ReadError(f"{path} was written by another version; delete it to begin again")
        return state

    def _save(self) -> None:
        """Write new rows, then the state that counts them, then delete files no longer needed."""
        self.rows.write()
        replace_json(
            self._folder / STATE_FILE,
            {
                "version": STATE_VERSION,
                "place": self.log.place(),
                "format": self._format,
                "header": self._header.hex(),
                "newest_ms": self._newest_ms,
                "week_ms": self._week_ms,
                "counts": asdict(self.counts),
                "weeks": [asdict(week) for week in self._weeks],
                "rows": self.rows.state(),
            },
        )
        self.rows.remove_stray_files()


def _is_header(line: bytes, format_name: str) -> bool:
    """Return whether the first line of a log names its fields."""
    if len(line) > HEADER_BYTES_MAX or format_name == "cdxj":
        return False
    text = line.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text.startswith(b"CDX ") if format_name == "cdx" else not text.startswith(b"{")


def _week_of(row: Mapping[str, Any]) -> WeekResult:
    estimates = {
        name: Estimate(**row[name])
        for name in ("freshness", "freshness_of_ours", "gain", "savings")
    }
    return WeekResult(week=row["week"], end_ms=row["end_ms"], **estimates)


@dataclass(frozen=True, slots=True)
class _Period:
    """The kept rows of a period, as a source of a backtest."""

    rows: KeptRows
    from_ms: int
    until_ms: int

    @property
    def kind(self) -> str:
        return "observed"

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self.rows.batches(from_ms=self.from_ms, until_ms=self.until_ms)

    def windows(self) -> pa.Table:
        raise NotImplementedError
