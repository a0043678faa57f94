"""Settings of `recrawl.content`: limits, and which parts of pages count."""

from dataclasses import dataclass

from recrawl.text_rules import check_patterns, check_selectors

__all__ = ["DEFAULT_CONTENT_SETTINGS", "ContentSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentSettings:
    """Which parts of a body count as its content, and how large a body may be.

    Parameters
    ----------
    select
        CSS selectors: if given, only the text of elements that match one of them counts.
    ignore
        CSS selectors of elements whose text does not count.
    ignore_patterns
        Regular expressions of RE2; a passage in which one of them is found does not count.
    ignore_returns
        Whether a page that returns to a recent version has not changed.
    ignore_volatile
        Whether passages in places that differ at almost every poll do not count.
    ignore_templates
        Whether passages that most pages of a host have do not count.
    ignore_wrong_answers
        Whether error pages, block pages, login walls and the like are not observations of the page.
    html_bytes_max
        Size up to which an HTML page is parsed, without its scripts; the main text of a larger one
        is not told from its menus.
    text_bytes_max
        Size of the part of a body that is compared by words; the rest is compared by bytes.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    ignore_patterns: tuple[str, ...] = ()
    ignore_returns: bool = True
    ignore_volatile: bool = True
    ignore_templates: bool = True
    ignore_wrong_answers: bool = True
    html_bytes_max: int = 2_000_000
    text_bytes_max: int = 4_000_000

    def __post_init__(self) -> None:
        for name in ("select", "ignore", "ignore_patterns"):
            values = getattr(self, name)
            if isinstance(values, str) or not all(isinstance(value, str) for value in values):
                raise ValueError(f"{name} must be a list of strings, got {values!r}")
            object.__setattr__(self, name, tuple(values))
        check_selectors("select", self.select)
        check_selectors("ignore", self.ignore)
        check_patterns("ignore_patterns", self.ignore_patterns)


DEFAULT_CONTENT_SETTINGS = ContentSettings()
