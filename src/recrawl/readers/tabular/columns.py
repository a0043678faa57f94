"""Find the columns of a table that correspond to ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recrawl.errors import ReadError
from recrawl.readers.reading import Reading
from recrawl.readers.tabular.cells import Column

__all__ = ["Names", "Rows", "check_columns", "choose_columns"]

Names = Mapping[str, tuple[str, ...]]
"""Our name of a column to its possible names in a file, in lower case, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Some rows of a table."""

    lines: Sequence[int]
    """Line number of each row in the file."""
    columns: Mapping[str, Column]
    """Columns by our names; only those that the file has."""

    def __len__(self) -> int:
        return len(self.lines)


def check_columns(columns: Mapping[str, str], names: Names) -> None:
    """Raise if the user names a column that this format does not have."""
    for ours in columns:
        if ours not in names:
            raise ReadError(
                f"this format has no column {ours!r}; its columns are: {', '.join(names)}"
            )


def choose_columns(
    reading: Reading, names: Names, required: tuple[str, ...], theirs: Sequence[str]
) -> dict[str, int]:
    """Return the number of the file's column for each of ours."""
    place = {name.lower(): number for number, name in reversed(list(enumerate(theirs)))}
    exact = {name: number for number, name in enumerate(theirs)}
    chosen: dict[str, int] = {}
    for ours, known in names.items():
        given = reading.options.columns.get(ours)
        if given is None:
            number = next((place[name] for name in known if name in place), None)
            if number is not None:
                chosen[ours] = number
        elif given in exact or given.lower() in place:
            chosen[ours] = exact.get(given, place.get(given.lower(), 0))
        else:
            raise ReadError(
                f"{reading.source.name} has no column {given!r}: {_columns_text(theirs)}"
            )
    for ours in required:
        if ours not in chosen:
            raise ReadError(
                f"{reading.source.name} has no column {ours!r}; "
                f"name the one to use: {_columns_text(theirs)}"
            )
    return chosen


def _columns_text(theirs: Sequence[str]) -> str:
    shown = ", ".join(name[:40] for name in theirs[:20])
    return f"its columns are {shown}{', …' if len(theirs) > 20 else ''}"
