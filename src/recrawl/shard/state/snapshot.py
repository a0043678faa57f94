"""Snapshots of a shard at one moment, taken in pieces while the shard goes on applying events.

A snapshot is the shard's columns as Arrow buffers (little-endian numbers without gaps), and a
manifest that lists the offset and checksum of each, and the position in the log.  Restoring a
snapshot maps the buffers; nothing is parsed.

The tables beside the pages are small and copied when a snapshot begins.  Pages are not: before a
page changes, the snapshot saves its row, once, unless it has been written already, and puts that
row into the piece it belongs to.  It saves rows rather than chunks, because events touch pages all
over the shard: in one second of a busy shard every chunk would have to be copied.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel
from recrawl.errors import SnapshotError, SnapshotFormatError
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.codes import LOG2_CODE_ONE
from recrawl.shard.state.tables import (
    RESULT_COLUMNS,
    RUNS_MAX,
    TABLES,
    Pages,
    Tables,
    dtypes_of,
    zeros,
)

__all__ = [
    "ADDED_COLUMNS",
    "ADDED_TABLES",
    "FORMAT",
    "FORMATS_READ",
    "CopiedRows",
    "Piece",
    "Snapshot",
    "SnapshotRoom",
    "format_of",
    "reserve_room",
    "restore_tables",
]

FORMAT = 7
FORMATS_READ = (1, 2, 3, 4, 5, 6, 7)
# Columns that older formats lack: the format that introduced them, and their default, which is a
# number or the name of an earlier column of the table.
ADDED_COLUMNS: dict[tuple[str, str], tuple[int, float | str]] = {
    ("priors", "weight"): (2, LOG2_CODE_ONE),
    ("pages", "surprise"): (3, 0),
    ("registers", "memory_lost"): (3, 0.0),
    ("pages", "newcomer_until"): (4, 0),
    ("groups", "domain"): (4, 0),
    ("groups", "domain_pages"): (4, "n_pages"),
    ("groups", "growth_pages"): (4, 0),
    ("groups", "growth_until"): (4, 0),
    ("groups", "newcomer_credit"): (4, 0.0),
    ("groups", "credited_order"): (4, 0),
    ("sources", "n_tested"): (4, "total"),
    ("sources", "n_untested"): (4, 0.0),
    ("sources", "precision_used"): (4, 0.0),
    ("registers", "growth_pages"): (4, 0),
    ("registers", "growth_until"): (4, 0),
    ("registers", "newcomers_until"): (4, 0),
    ("registers", "newcomer_credit"): (4, 0.0),
    ("registers", "n_newcomers_ordered"): (4, 0),
    ("registers", "reage_from"): (4, 0),
    ("registers", "n_to_reage"): (4, 0),
    ("registers", "budget_period"): (4, 0.0),
    ("registers", "run_budget"): (4, 0.0),
    ("registers", "run"): (4, 0),
    ("sources", "worse_evidence"): (5, 0.0),
    ("sources", "better_evidence"): (5, 0.0),
    ("groups", "window_at"): (6, 0),
    ("groups", "window_until"): (6, 0),
    ("groups", "granted_until"): (6, 0),
    ("groups", "n_audited"): (7, 0),
    ("groups", "n_audited_fresh"): (7, 0),
    ("groups", "audited_modelled"): (7, 0.0),
    ("groups", "audited_variance"): (7, 0.0),
    ("priors", "n_audited"): (7, 0),
    ("priors", "n_audited_fresh"): (7, 0),
    ("priors", "audited_modelled"): (7, 0.0),
    ("priors", "audited_variance"): (7, 0.0),
    ("registers", "audited_modelled"): (7, 0.0),
    ("registers", "audited_variance"): (7, 0.0),
}
ADDED_COLUMNS |= {
    (table, column): (7, 0)
    for table in ("groups", "priors")
    for column in (*RESULT_COLUMNS, "spent")
}
# Tables that older formats lack: the format that introduced them, and their rows, all zero.
ADDED_TABLES: dict[str, tuple[int, int]] = {"runs": (4, RUNS_MAX)}
_ALIGNMENT = 64
# Two megabytes, copied while the shard waits.
_ROWS_PER_PIECE = 1 << 15
_PAGE_ROW = np.dtype(list(dtypes_of(Pages).items()))


class Piece(NamedTuple):
    """Some bytes of a snapshot and their offset; bytes in no piece are zero."""

    offset: int
    data: NDArray[np.uint8]


SnapshotRoom: TypeAlias = dict[str, tuple[NDArray[Any], ...]]
"""Memory for the columns of each table beside the pages."""


class CopiedRows(NamedTuple):
    """Rows of a table as they were when the snapshot began."""

    table: str
    first_row: int
    columns: dict[str, NDArray[Any]]


def reserve_room(tables: Tables) -> SnapshotRoom:
    """Return memory for copies of the tables beside the pages; tables may change meanwhile."""
    return {
        # Filled, because the system provides memory only when it is first written to.
        name: tuple(np.full(column.size, 0, column.dtype) for column in columns)
        for name, columns in tables._asdict().items()
        if name != "pages"
    }


def _copy_into(copy: NDArray[Any], column: NDArray[Any]) -> NDArray[Any]:
    if copy.size != column.size:
        return column.copy()
    copy[:] = column
    return copy


@table_kernel
def _first_touches(
    is_preserved: NDArray[np.uint8], slots: NDArray[np.int64], first: int, out: NDArray[np.int64]
) -> int:
    """Write the slots not preserved before, and mark them; return their number."""
    n = 0
    for i in range(slots.size):
        slot = slots[i]
        if slot < first or slot >= 8 * is_preserved.size:
            continue
        bit = np.uint8(1 << (slot & 7))
        if not is_preserved[slot >> 3] & bit:
            is_preserved[slot >> 3] |= bit
            out[n] = slot
            n += 1
    return n


class Snapshot:
    """An iterator over the pieces of a shard as it was when the snapshot began.

    Between two pieces the shard may apply events; it calls `preserve_rows` before pages change.
    The manifest is complete after the last piece.

    Parameters
    ----------
    tables, settings
        State and settings of the shard.
    position
        Position in the log; the snapshot contains all events before it.
    room
        Memory of `reserve_room` for copies, so that the snapshot begins sooner.
    """

    def __init__(
        self,
        tables: Tables,
        settings: ShardSettings,
        position: str,
        room: SnapshotRoom | None = None,
    ) -> None:
        self._pages = tables.pages
        self._n_slots = int(tables.registers.n_slots[0])
        self._small = room if room is not None else reserve_room(tables)
        for name, copies in self._small.items():
            columns = getattr(tables, name)
            # A table may have grown since its room was reserved.
            self._small[name] = tuple(
                _copy_into(copy, column) for copy, column in zip(copies, columns, strict=True)
            )
        self._is_preserved = np.zeros((self._n_slots + 7) // 8, np.uint8)
        # Preserved rows by the piece that they belong to.
        self._preserved: dict[int, list[tuple[NDArray[np.int64], NDArray[Any]]]] = {}
        self._done = 0
        self._settings = settings
        self._position = position
        self._layout = self._compute_layout()
        self._iterator = self._emit()

    def _compute_layout(self) -> dict[str, dict[str, dict[str, Any]]]:
        layout: dict[str, dict[str, dict[str, Any]]] = {}
        offset = 0
        for name, table in TABLES.items():
            n_rows = self._n_slots if name == "pages" else self._small[name][0].size
            layout[name] = {}
            for column, dtype in dtypes_of(table).items():
                layout[name][column] = {
                    "type": dtype.name,
                    "rows": n_rows,
                    "offset": offset,
                    "crc32": 0,
                }
                size = n_rows * dtype.itemsize
                offset += -(-size // _ALIGNMENT) * _ALIGNMENT
        return layout

    @property
    def is_done(self) -> bool:
        """Whether the last piece has been taken."""
        return self._done < 0

    @property
    def n_bytes(self) -> int:
        """Total size of the buffers."""
        last = list(self._layout["registers"].values())[-1]
        return int(last["offset"]) + _ALIGNMENT

    @property
    def manifest(self) -> str:
        """The manifest as JSON; `restore_tables` needs it beside the buffers."""
        if not self.is_done:
            raise SnapshotError("the manifest is complete only after the last piece")
        body = {
            "format": FORMAT,
            "position": self._position,
            "settings": json.loads(self._settings.to_json()),
            "n_bytes": self.n_bytes,
            "tables": self._layout,
        }
        text = json.dumps(body, separators=(",", ":"))
        return json.dumps({"crc32": zlib.crc32(text.encode()), "body": text})

    def preserve_rows(self, pages: Pages, slots: NDArray[np.int64]) -> None:
        """Save the rows of pages about to change that have not been written yet."""
        if self._done < 0 or pages.word is not self._pages.word:
            return  # the table was replaced by a larger one; nobody writes to the old columns
        fresh = np.empty(slots.size, np.int64)
        fresh = fresh[: _first_touches(self._is_preserved, slots, self._done, fresh)]
        fresh = fresh[fresh < self._n_slots]
        if fresh.size:
            rows = np.empty(fresh.size, _PAGE_ROW)
            for name, column in pages._asdict().items():
                rows[name] = column[fresh]
            piece = fresh // _ROWS_PER_PIECE
            order = np.argsort(piece, kind="stable")
            ends = np.flatnonzero(np.diff(piece[order])) + 1
            for part in np.split(order, ends):
                own = self._preserved.setdefault(int(piece[part[0]]), [])
                own.append((fresh[part], rows[part]))

    def __iter__(self) -> Iterator[Piece]:
        return self._iterator

    def __next__(self) -> Piece:
        return next(self._iterator)

    def _emit(self) -> Iterator[Piece]:
        while (copied := self.copy_next()) is not None:
            yield from self.make_pieces(copied)

    def copy_next(self) -> CopiedRows | None:
        """Copy the next rows, which must not change meanwhile; return None after the last."""
        first = self._done
        if first < 0:
            return None
        if first < self._n_slots:
            end = min(first + _ROWS_PER_PIECE, self._n_slots)
            columns = {
                name: column[first:end].copy() for name, column in self._pages._asdict().items()
            }
            for slots, rows in self._preserved.pop(first // _ROWS_PER_PIECE, ()):
                for name, column in columns.items():
                    column[slots - first] = rows[name]
            self._done = end
            return CopiedRows("pages", first, columns)
        self._preserved.clear()
        if not self._small:
            self._done = -1
            return None
        table = next(iter(self._small))
        # They were copied when the snapshot began.
        columns = dict(zip(TABLES[table].__annotations__, self._small.pop(table), strict=True))
        return CopiedRows(table, 0, columns)

    def make_pieces(self, copied: CopiedRows) -> Iterator[Piece]:
        """Yield the pieces of copied rows that are not zero, and add them to the checksums.

        The shard may change meanwhile.  Call it for all rows that `copy_next` has returned, in the
        same order.
        """
        for name, column in copied.columns.items():
            place = self._layout[copied.table][name]
            data = column.view(np.uint8)
            place["crc32"] = zlib.crc32(data.data, place["crc32"])
            if column.any():
                yield Piece(place["offset"] + copied.first_row * column.itemsize, data)


def format_of(manifest: str) -> int:
    """Return the format number of a snapshot."""
    return int(_parse_manifest(manifest)["format"])


def _parse_manifest(manifest: str) -> Mapping[str, Any]:
    try:
        outer = json.loads(manifest)
        text = outer["body"]
        if zlib.crc32(text.encode()) != outer["crc32"]:
            raise SnapshotError("the manifest's checksum does not match: it is damaged")
        body: Mapping[str, Any] = json.loads(text)
        version = body["format"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotError(f"the text is not a manifest: {error}") from error
    if version not in FORMATS_READ:
        newer = isinstance(version, int) and version > FORMAT
        message = f"format must be one of {FORMATS_READ}, got {version!r}"
        raise SnapshotFormatError(
            f"{message}: a newer version of recrawl wrote it; upgrade to read it"
            if newer
            else message
        )
    return body


def restore_tables(
    manifest: str, buffer: NDArray[np.uint8], *, check: bool | Literal["small"] = True
) -> tuple[Tables, ShardSettings, str]:
    """Return the state, the settings and the log position of a snapshot.

    Parameters
    ----------
    manifest
        Manifest of the snapshot.
    buffer
        Writeable bytes of the snapshot, privately mapped or read.  The tables use this memory.
    check
        Whether to compare checksums, which reads everything once; ``"small"`` skips those of
        pages, so that mapping takes the same time for any number of pages.
    """
    body = _parse_manifest(manifest)
    if buffer.size < body["n_bytes"]:
        raise SnapshotError(f"buffer must have {body['n_bytes']} bytes, got {buffer.size}")
    tables: list[Any] = []
    for name, table in TABLES.items():
        if name not in body["tables"] and body["format"] < ADDED_TABLES.get(name, (0, 0))[0]:
            tables.append(zeros(table, ADDED_TABLES[name][1]))
            continue
        columns: list[NDArray[Any]] = []
        for column, dtype in dtypes_of(table).items():
            place = body["tables"].get(name, {}).get(column)
            added_in, default = ADDED_COLUMNS.get((name, column), (0, 0))
            if place is None and columns and body["format"] < added_in:
                if isinstance(default, str):
                    columns.append(columns[list(dtypes_of(table)).index(default)].astype(dtype))
                else:
                    columns.append(np.full(columns[0].size, default, dtype))
                continue
            if place is None or place["type"] != dtype.name:
                raise SnapshotError(f"column {name}.{column} must be {dtype.name}, got {place!r}")
            start, size = place["offset"], place["rows"] * dtype.itemsize
            data = buffer[start : start + size]
            is_checked = check is True or (check == "small" and name != "pages")
            if is_checked and zlib.crc32(data.data) != place["crc32"]:
                raise SnapshotError(f"the checksum of column {name}.{column} does not match")
            columns.append(data.view(dtype))
        tables.append(table(*columns))
    try:
        settings = ShardSettings.from_stored(body["settings"])
    except (TypeError, ValueError) as error:
        raise SnapshotError(f"the settings are not valid in this version: {error}") from error
    return Tables(*tables), settings, str(body["position"])
