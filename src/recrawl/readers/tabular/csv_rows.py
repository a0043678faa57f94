"""Read CSV in blocks of lines, so that an unclosed quote does not consume the whole file."""

import csv
from collections.abc import Iterator
from itertools import chain

from recrawl.readers.head import delimiter_of, header_cells
from recrawl.readers.lines import line_blocks
from recrawl.readers.reading import Reading
from recrawl.readers.refused import Refused
from recrawl.readers.spellings import simple_names
from recrawl.readers.tabular.columns import Names, Rows, choose_columns, choose_extra

__all__ = ["CSV_ROW_LINES_MAX", "csv_rows"]

CSV_ROW_LINES_MAX = 100
"""Largest number of lines in a row with quoted line ends; a longer quote counts as unclosed."""

_UNCLOSED = "a quote that is not closed"


def csv_rows(
    reading: Reading,
    names: Names,
    required: tuple[str, ...],
    headless: tuple[str, ...],
    *,
    with_extra: bool = False,
) -> Iterator[Rows]:
    """Yield the rows of a CSV file, with recrawl's names for the columns; see `table_rows`.

    ``headless`` names the columns of a file without a header; empty if a header is required.
    """
    table: _Table | None = None
    for block in line_blocks(reading.source, reading.refused):
        texts = block.texts(reading.refused)
        if table is None:
            index = next((i for i, text in enumerate(texts) if text.strip()), None)
            if index is None:
                continue
            header = texts[index]
            cells = header_cells(header)
            if headless and not _is_header(cells, reading, names):
                chosen = {ours: n for n, ours in enumerate(headless) if n < len(cells)}
                n_cells = max(len(cells), len(headless))
                table = _Table(header, chosen, [], n_cells, reading.refused)
            else:
                chosen = choose_columns(reading, names, required, cells, is_strict=with_extra)
                used = [cells[n] for n in chosen.values()]
                extra = choose_extra(reading, cells, used) if with_extra else []
                kept = [(name, cells.index(name)) for name in extra]
                table = _Table(header, chosen, kept, len(cells), reading.refused)
                texts[index] = ""
        yield from table.rows(block.first_line, texts)
    if table is not None:
        yield from table.rest()


def _is_header(cells: list[str], reading: Reading, names: Names) -> bool:
    """Return whether a cell of the first line is the name of a known column."""
    known = {*simple_names(chain.from_iterable(names.values()))}
    known |= {*simple_names(reading.options.columns.values())}
    return not known.isdisjoint(simple_names(cells))


class _Table:
    """Parser of a table whose columns are known; keeps the lines of an unfinished row."""

    def __init__(
        self,
        header: str,
        chosen: dict[str, int],
        extra: list[tuple[str, int]],
        n_cells: int,
        refused: Refused,
    ) -> None:
        self._chosen = chosen
        self._extra = extra
        self._n_cells = n_cells
        self._refused = refused
        self._feed = _Feed()
        self._reader = csv.reader(self._feed, delimiter=delimiter_of(header))
        self._carried: list[str] = []
        self._carried_line = 0

    def rows(self, first_line: int, texts: list[str]) -> Iterator[Rows]:
        """Yield the rows of some lines, except a last row that is unfinished."""
        if self._carried:
            if self._carried_line + len(self._carried) == first_line:
                texts, first_line = self._carried + texts, self._carried_line
            else:
                # A line in between was refused.
                yield from self.rest()
        self._carried = []
        yield from self._parse(first_line, texts, is_last=False)

    def rest(self) -> Iterator[Rows]:
        """Yield the unfinished row at the end of the file."""
        carried, self._carried = self._carried, []
        if carried:
            yield from self._parse(self._carried_line, carried, is_last=True)

    def _parse(self, first_line: int, texts: list[str], *, is_last: bool) -> Iterator[Rows]:
        refused, feed, reader = self._refused, self._feed, self._reader
        feed.lines, feed.at = texts, 0
        lines: list[int] = []
        rows: list[list[str]] = []
        while feed.at < len(texts):
            begin = feed.begin = feed.at
            try:
                row = next(reader)
            except csv.Error as error:
                refused.n_rows += 1
                refused.refuse(first_line + begin, "not a CSV row", str(error))
                feed.at = begin + 1
                continue
            n_lines = feed.at - begin
            if n_lines > 1 or (feed.at == len(texts) and not is_last):
                is_open = sum(text.count('"') for text in texts[begin : feed.at]) % 2 == 1
                if is_open and feed.at == len(texts) and not is_last:
                    self._carried, self._carried_line = texts[begin:], first_line + begin
                    break
                if is_open:
                    refused.n_rows += 1
                    refused.refuse(first_line + begin, _UNCLOSED, texts[begin])
                    feed.at = begin + 1
                    continue
            if not row or (len(row) == 1 and not row[0].strip()):
                continue
            refused.n_rows += 1
            if len(row) > self._n_cells:
                reason = f"more than {self._n_cells} cells"
                refused.refuse(first_line + begin, reason, texts[begin])
                continue
            lines.append(first_line + begin)
            rows.append(row)
        if rows:
            # Only the columns needed: filling in all columns could use unbounded memory if a long
            # header comes before many short rows.
            columns, extra = (
                {name: [row[n] if n < len(row) else None for row in rows] for name, n in places}
                for places in (self._chosen.items(), self._extra)
            )
            yield Rows(lines=lines, columns=columns, extra=extra)


class _Feed:
    """Yields lines with line ends to the CSV parser, at most CSV_ROW_LINES_MAX for a row."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.at = 0
        self.begin = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        at = self.at
        if at == len(self.lines) or at - self.begin >= CSV_ROW_LINES_MAX:
            raise StopIteration
        self.at = at + 1
        return self.lines[at] + "\n"
