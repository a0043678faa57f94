"""Which columns of a foreign table are which of ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recrawl.errors import ReadError
from recrawl.readers.reading import Reading
from recrawl.readers.tabular.cells import Column

__all__ = ["Names", "Rows", "check_columns", "chosen_columns"]

Names = Mapping[str, tuple[str, ...]]
"""Our name of a column to the names it may have in a file, in lower case, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Some rows of a table."""

    lines: Sequence[int]
    """Where each row stands in the file."""
    columns: Mapping[str, Column]
    """By our names; those the file does not have are left out."""

    def __len__(self) -> int:
        return len(self.lines)


def check_columns(columns: Mapping[str, str], names: Names) -> None:
    """Raise where a user renames a column that this format does not have."""
    for ours in columns:
        if ours not in names:
            raise ReadError(
                f"no column is called {ours!r} here; those of this format are: {', '.join(names)}"
            )


def chosen_columns(
    reading: Reading, names: Names, required: tuple[str, ...], theirs: Sequence[str]
) -> dict[str, int]:
    """Return which of a file's columns each of ours is."""
    place = {name.lower(): number for number, name in reversed(list(enumerate(theirs)))}
    exact = {name: number for number, name in enumerate(theirs)}
    chosen: dict[str, int] = {}
    for ours, known in names.items():
        asked = reading.options.columns.get(ours)
        if asked is None:
            found = next((place[name] for name in known if name in place), None)
            if found is not None:
                chosen[ours] = found
        elif asked in exact or asked.lower() in place:
            chosen[ours] = exact.get(asked, place.get(asked.lower(), 0))
        else:
            raise ReadError(f"{reading.source.name} has no column {asked!r}: {_listed(theirs)}")
    for ours in required:
        if ours not in chosen:
            raise ReadError(
                f"{reading.source.name} has no column {ours!r}; say which it is: {_listed(theirs)}"
            )
    return chosen


def _listed(theirs: Sequence[str]) -> str:
    shown = ", ".join(name[:40] for name in theirs[:20])
    return f"its columns are {shown}{', …' if len(theirs) > 20 else ''}"
