"""Find the columns of a table that correspond to ours."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from recrawl.errors import ReadError
from recrawl.readers.reading import IGNORED_MAX, Reading
from recrawl.readers.spellings import simple_name, simple_names
from recrawl.readers.tabular.cells import Column

__all__ = [
    "KEY_NAMES",
    "OWN_NAMES",
    "Names",
    "Rows",
    "candidates",
    "check_ambiguous",
    "check_columns",
    "choose_columns",
    "choose_extra",
    "equally_good",
    "named_column",
]

Names = Mapping[str, tuple[str, ...]]
"""Our name of a column to its possible names in a file, best first; any spelling of them counts."""


OWN_NAMES: dict[str, tuple[str, ...]] = {
    "doc_id": ("doc_id", "document_id"),
    "metadata": ("metadata",),
}
"""Names of the columns with the user's own data of a page."""
KEY_NAMES: dict[str, tuple[str, ...]] = {"key": ("key", "group_key")}
"""Name of the column with the key of a page's group, read only for corpora grouped by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Some rows of a table."""

    lines: Sequence[int]
    """Line number of each row in the file."""
    columns: Mapping[str, Column]
    """Columns by our names; only those that the file has."""
    extra: Mapping[str, Column] = field(default_factory=dict)
    """Further columns by the names in the file, to keep as metadata."""

    def __len__(self) -> int:
        return len(self.lines)


def check_columns(columns: Mapping[str, str], names: Names) -> None:
    """Raise if the user names a column that this format does not have."""
    for ours in columns:
        if ours not in names:
            raise ReadError(
                f"this format has no column {ours!r}; its columns are: {', '.join(names)}"
            )


def candidates(ours: str, known: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return the names in a file that may be our column, best first.

    Our own name comes first, then other spellings of it, then other names.
    """
    ranked = simple_names([ours, *known])
    found = [
        (name != ours, ranked.index(simple), place, name)
        for place, (name, simple) in enumerate(zip(theirs, simple_names(theirs), strict=True))
        if simple in ranked
    ]
    return [name for *_, name in sorted(found)]


def equally_good(ours: str, found: Sequence[str]) -> list[str]:
    """Return those names, best first, that are as good as the first one.

    Our own name is better than another spelling of it, and that is better than another name.
    """
    if ours in found:
        return [ours]
    simple = simple_name(ours)
    return [name for name in found if simple_name(name) == simple] or [*found]


def choose_columns(
    reading: Reading,
    names: Names,
    required: tuple[str, ...],
    theirs: Sequence[str],
    *,
    is_strict: bool = False,
) -> dict[str, int]:
    """Return the number of the file's column for each of ours.

    Parameters
    ----------
    reading
        File that is read.
    names
        Possible names of our columns.
    required
        Columns that the file must have.
    theirs
        Names of the file's columns.
    is_strict
        Whether two columns that may both be one of ours are an error; otherwise the best is used.
    """
    chosen: dict[str, int] = {}
    for ours, known in names.items():
        given = reading.options.columns.get(ours)
        if given is not None:
            chosen[ours] = theirs.index(named_column(reading, given, theirs))
            continue
        found = candidates(ours, known, theirs)
        if is_strict:
            check_ambiguous(reading, ours, found)
        if found:
            chosen[ours] = theirs.index(found[0])
    for ours in required:
        if ours not in chosen:
            raise ReadError(
                f"{reading.source.name} has no column {ours!r}; "
                f"name the one to use: {_columns_text(theirs)}.  {_option_text(ours)}"
            )
    reading.fields.update({ours: theirs[n] for ours, n in chosen.items()})
    return chosen


# Any digest of the content shows whether it changed.
_ANY_WILL_DO = frozenset({"digest"})


def named_column(reading: Reading, given: str, theirs: Sequence[str]) -> str:
    """Return the file's column that the user named, in any spelling."""
    if given in theirs:
        return given
    simple = simple_name(given)
    found = [name for name in theirs if simple_name(name) == simple]
    if len(found) == 1:
        return found[0]
    if found:
        raise ReadError(
            f"{reading.source.name} has several columns that may be {given!r}: "
            f"{', '.join(map(repr, found))}; write the one to use exactly as in the file"
        )
    raise ReadError(f"{reading.source.name} has no column {given!r}: {_columns_text(theirs)}")


def check_ambiguous(reading: Reading, ours: str, found: Sequence[str]) -> None:
    """Raise if several fields of a file may equally well be one of ours."""
    best = equally_good(ours, found)
    if len(best) < 2 or ours in _ANY_WILL_DO:
        return
    shown = " and ".join(repr(name[:_NAME_CHARACTERS_MAX]) for name in best[:_NAMED_MAX])
    raise ReadError(
        f"{reading.source.name} has several columns that may be {ours}: {shown}; "
        f"name the one to use.  {_option_text(ours, best[0])}"
    )


def choose_extra(
    reading: Reading, names: Iterable[str], used: Iterable[str], *, is_whole: bool = True
) -> list[str]:
    """Return the fields to keep as metadata, and remember which ones are ignored.

    Parameters
    ----------
    reading
        File that is read.
    names
        Names of all fields.
    used
        Names of the fields that are read as our columns.
    is_whole
        Whether ``names`` are all fields of the file, so that a missing one is an error.
    """
    taken = {*used}
    rest = [name for name in names if name not in taken and name.strip()]
    wanted = reading.options.metadata
    if wanted == ("all",):
        return rest
    simple = {simple_name(name): name for name in wanted}
    kept = [name for name in rest if name in wanted or simple_name(name) in simple]
    if is_whole:
        found = {*simple_names(kept), *simple_names(taken)}
        missing = [name for key, name in simple.items() if key not in found]
        if missing:
            raise ReadError(
                f"{reading.source.name} has no column {missing[0]!r} to keep as metadata: "
                f"{_columns_text([*names])}"
            )
        kept += [name for name in taken if name in wanted or simple_name(name) in simple]
    for name in rest:
        if name not in kept and len(reading.ignored) < IGNORED_MAX:
            reading.ignored[name] = None
    return kept


_NAME_CHARACTERS_MAX = 40
_NAMED_MAX = 4


def _option_text(ours: str, example: str = "NAME") -> str:
    shown = example if example.isidentifier() else f'"{example[:_NAME_CHARACTERS_MAX]}"'
    return f"On the command line: --column {ours}={shown}"


def _columns_text(theirs: Sequence[str]) -> str:
    shown = ", ".join(name[:_NAME_CHARACTERS_MAX] for name in theirs[:20])
    return f"its columns are {shown}{', …' if len(theirs) > 20 else ''}"
