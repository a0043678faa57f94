"""The files of a league: rows as they are finished, and what is shipped of them."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lab.league.entries import ENTRIES
from recrawl.refreshbench import TRACKS, KnownWeb, Score

__all__ = ["FOLDER", "WEB_NAMES", "AsItComes", "Files", "ship"]

FOLDER = Path(__file__).parents[1] / "results" / "league"
PACKAGE = Path(__file__).parents[2] / "src" / "recrawl" / "refreshbench"


class AsItComes(NamedTuple):
    """A rule with its own waits, and recrawl with as many fetches."""

    track: str
    web: int
    policy: str
    n_fetches: int
    freshness: float
    very_stale_share: float
    ours_freshness: float
    ours_very_stale_share: float
    seconds: float

    @property
    def key(self) -> tuple[str, int, str]:
        """What was run."""
        return self.track, self.web, self.policy


class _Rows:
    """A CSV file that grows by a row at a time."""

    def __init__(self, path: Path, names: tuple[str, ...], n_key: int) -> None:
        self._path = path
        self._names = names
        self._n_key = n_key
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            self.write([])
        self.done = {tuple(row[: self._n_key]) for row in self.rows()}

    def rows(self) -> list[list[str]]:
        with self._path.open(newline="", encoding="utf-8") as file:
            return [row for row in list(csv.reader(file))[1:] if len(row) == len(self._names)]

    def write(self, rows: Iterable[list[str]]) -> None:
        with self._path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self._names)
            writer.writerows(rows)

    def add(self, row: Mapping[str, Any]) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([row[name] for name in self._names])

    def extend(self, rows: Iterable[list[str]]) -> None:
        self.write([*self.rows(), *rows])
        self.done = {tuple(row[: self._n_key]) for row in self.rows()}

    def has(self, *key: object) -> bool:
        return tuple(str(part) for part in key) in self.done

    def sort(self) -> None:
        """Put rows in the order of an undisturbed run; of rows of the same run the last counts."""
        tracks = [track.name for track in TRACKS]
        policies = [entry.name for entry in ENTRIES]
        kept = {tuple(row[: self._n_key]): row for row in self.rows()}

        def place(key: tuple[str, ...]) -> tuple[int, ...]:
            rest = (int(part) if part.isdigit() else policies.index(part) for part in key[2:])
            return tracks.index(key[0]), int(key[1]), *rest

        wanted = [key for key in kept if len(key) < 3 or key[-1] in policies]
        self.write(kept[key] for key in sorted(wanted, key=place))


WEB_NAMES = KnownWeb._fields


class Files:
    """The files of a league's results.

    Parameters
    ----------
    folder
        In which they are.
    """

    def __init__(self, folder: Path) -> None:
        self.scores = _Rows(folder / "scores.csv", Score._fields, 4)
        self.own = _Rows(folder / "as_they_come.csv", AsItComes._fields, 3)
        self.webs = _Rows(folder / "webs.csv", WEB_NAMES, 2)

    def _all(self) -> tuple[_Rows, _Rows, _Rows]:
        return self.scores, self.own, self.webs

    def sort(self) -> None:
        """Put all rows in order."""
        for file in self._all():
            file.sort()

    def take(self, other: "Files") -> None:
        """Take over the rows of another league, which may have been run beside this one."""
        for file, theirs in zip(self._all(), other._all(), strict=True):
            file.extend(theirs.rows())


def ship(folder: Path = FOLDER, package: Path = PACKAGE) -> None:
    """Copy scores and webs into the package, without what depends on the machine."""
    names = tuple(name for name in Score._fields if name != "seconds")
    n_names = len(names)
    scores = _Rows(folder / "scores.csv", Score._fields, 4).rows()
    _Rows(package / "scores.csv", names, 4).write(row[:n_names] for row in scores)
    webs = _Rows(folder / "webs.csv", WEB_NAMES, 2).rows()
    _Rows(package / "webs.csv", WEB_NAMES, 2).write(webs)
