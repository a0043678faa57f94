"""The section of the configuration that says which text of a page counts."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from recrawl.errors import ConfigError
from recrawl.node.config.values import Texts, WholeNumber, read_fields

if TYPE_CHECKING:
    from recrawl.content import ContentSettings

__all__ = ["ContentConfig"]

# Fields that are not settings of `recrawl.content`.
_OF_CORPUS = ("enabled", "keep_text", "processes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentConfig:
    """Which text of a page counts, if you report bodies or texts of pages."""

    enabled: bool = True
    """Whether recrawl looks into bodies.  If not, two bodies are the same only if all their bytes
    are."""
    keep_text: bool = False
    """Whether the log and the change feed keep the text of new passages, as `recrawl changes
    --passages` shows it.  Otherwise they keep only hashes."""
    processes: WholeNumber = 0
    """Number of processes that read bodies.  0: the thread that reports them does."""
    select: Texts = ()
    """CSS selectors.  If given, only the text of elements that match one of them counts."""
    ignore: Texts = ()
    """CSS selectors of elements whose text does not count, such as ".comments"."""
    ignore_patterns: Texts = ()
    """Regular expressions of RE2, without lookahead and backreferences.  A passage in which one of
    them is found does not count."""
    ignore_returns: bool = True
    """Whether a page that returns to a recent version counts as reverted instead of changed."""
    ignore_volatile: bool = True
    """Whether passages that differ at almost every fetch, such as clocks, do not count."""
    ignore_templates: bool = True
    """Whether passages that most pages of a host share do not count."""
    ignore_wrong_answers: bool = True
    """Whether answers that are not the page, such as block pages and login forms, are recognised,
    counted and otherwise ignored."""

    def __post_init__(self) -> None:
        read_fields(self)
        if self.select or self.ignore or self.ignore_patterns:
            # Not `recrawl.content`: a command reads the configuration before it chooses kernels.
            from recrawl.text_rules import check_patterns, check_selectors  # noqa: PLC0415

            try:
                check_selectors("select", self.select)
                check_selectors("ignore", self.ignore)
                check_patterns("ignore_patterns", self.ignore_patterns)
            except ValueError as error:
                raise ConfigError(str(error)) from None

    def content_settings(self) -> "ContentSettings":
        """Return the settings of `recrawl.content`."""
        from recrawl.content import ContentSettings  # noqa: PLC0415

        names = (field.name for field in fields(self) if field.name not in _OF_CORPUS)
        return ContentSettings(**{name: getattr(self, name) for name in names})
