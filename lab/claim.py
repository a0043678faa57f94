"""What a paper claims, how it is measured here, and when it counts as reproduced."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from matplotlib.figure import Figure

from lab.tables import Table

__all__ = ["Check", "Claim", "Figures", "Kind", "Scale", "Tables"]

Tables = Mapping[str, Table]
Figures = Mapping[str, Figure]


class Kind(StrEnum):
    """What is asked of a claim."""

    EQUAL = "="
    """Must agree with the paper, or with the reference that stands for it, within a tolerance."""
    ORDER = "→"
    """The direction or the order must be the paper's."""
    FIGURE = "✎"
    """A figure to draw; nothing is judged."""


class Scale(StrEnum):
    """How much is spent on a measurement."""

    QUICK = "quick"
    """Seconds: enough to notice that something broke."""
    FULL = "full"
    """Minutes: what the pages show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison of what was found with what was to be found."""

    what: str
    found: str
    wanted: str
    holds: bool
    is_judged: bool = True
    """Whether the verdict depends on it; another reading of the paper is shown beside it only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row of the table of claims.

    Parameters
    ----------
    id, kind, paper, figures
        "S-2", what is asked, "Signals", "fig. 2".
    title
        A few words.
    says
        What the paper says, with its settings.
    tolerance
        When it counts as reproduced, written down before it is run; empty for figures.
    measure
        Returns the numbers, at a scale, from fixed seeds.
    judge
        Compares the numbers as they stand in the files; none for figures.
    draw
        Draws the figures from the numbers as they stand in the files, by name.
    captions
        Of the figures, by name: what to see, and where the paper's figure differs.
    remark
        Where the paper's number does not follow from its settings, or ours differ; and what was
        settled only after a first look.
    corrected
        Which number of the paper was replaced by which of ours in what is judged, if one was;
        such a claim "holds, corrected".
    fails_because
        Why the claim does not hold here, if it does not; the report says so.
    failing
        How the checks that fail begin, if some do; all others must hold.
    said
        Returns what stands in braces in ``remark``, ``fails_because`` and ``captions``, by name,
        from the numbers as they stand in the files: no measured number is written by hand.
    needs
        Files of recorded data, without which nothing can be measured.
    """

    id: str
    kind: Kind
    paper: str
    figures: str
    title: str
    says: str
    measure: Callable[[Scale], Tables]
    draw: Callable[[Tables], Figures]
    captions: Mapping[str, str]
    judge: Callable[[Tables], tuple[Check, ...]] | None = None
    tolerance: str = ""
    remark: str = ""
    corrected: str = ""
    fails_because: str = ""
    failing: tuple[str, ...] = ()
    said: Callable[[Tables], Mapping[str, str]] | None = None
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Judged claims say what is tolerated, figures have nothing to say."""
        is_judged = self.kind is not Kind.FIGURE
        if is_judged != (self.judge is not None) or is_judged != bool(self.tolerance):
            raise ValueError(f"judge and tolerance must fit the kind {self.kind} of {self.id}")
        if bool(self.failing) != bool(self.fails_because):
            raise ValueError(f"failing checks of {self.id} must have a reason, and the reason some")
        if self.corrected and not is_judged:
            raise ValueError(f"only a judged claim can be corrected, {self.id} is a figure")

    def worded(self, text: str, tables: Tables) -> str:
        """Return one of its texts with the numbers in it."""
        return text.format_map(self.said(tables)) if self.said else text

    def figure_file(self, name: str) -> str:
        """Return the name of the file of one of its figures."""
        return f"{self.slug}-{name}.svg" if name else f"{self.slug}.svg"

    @property
    def slug(self) -> str:
        """The id as it stands in names of files."""
        return self.id.lower().replace("/", "-").replace("..", "-").replace(", ", "-")
