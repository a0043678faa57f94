"""The section of the configuration that says what ``recrawl run`` does."""

from dataclasses import dataclass

from recrawl.node.config.values import Texts, read_fields

__all__ = ["RunConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """What `recrawl run` does, and who it says it is.  Options of the command override these."""

    contact: str | None = None
    """URL or e-mail address that every request carries, so that the people behind a site can write
    to you.  Default: the page of the project."""
    name: str = "recrawl"
    """Name of the fetcher, by which robots.txt files address it: letters, "_" and "-"."""
    to: Texts = ()
    """Where new versions of pages go, such as "folder:pages", "json-lines:versions" or
    "warc:archive"; relative to the folder of the corpus.  Default: Markdown files in "pages"."""
    discover: bool = False
    """Whether to follow links to other pages of the same sites.  Sitemaps and feeds are always
    read."""
    allow_networks: Texts = ()
    """Networks that may be connected to although they are not public, such as "10.1.0.0/16"."""
    browser: bool = False
    """Whether pages that are empty without scripts are rendered in Chromium; needs
    recrawl[browser]."""

    def __post_init__(self) -> None:
        read_fields(self)
