"""Kinds of page, and what a page shows differently at each request."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from recrawl.sim.pages.draws import Draws
from recrawl.sim.pages.language import Language
from recrawl.sim.pages.material import Material

__all__ = ["PageKind", "View"]

DAY = 86_400
# Sites show the day of what is older than this, and how long ago it was of what is newer.
_AGO_DAYS_MAX = 30

# Words that designs use for the same thing; a new design chooses anew.
_LABELS = {
    "published": ("Published", "Posted on", "Date", "First published"),
    "updated": ("Last updated", "Updated", "Modified"),
    "by": ("By", "Author:", "Written by", "Posted by"),
    "comments": ("Comments", "Discussion", "Join the conversation", "Responses"),
    "reply": ("Reply", "Respond", "Answer"),
    "more": ("Read more", "Continue reading", "More", "Full story"),
    "share": ("Share this page", "Share", "Send to a friend"),
    "views": ("views", "reads", "page views"),
    "buy": ("Add to cart", "Add to basket", "Buy now"),
    "details": ("Details", "Specifications", "Facts", "At a glance"),
    "contents": ("Contents", "On this page", "Table of contents"),
    "results": ("results", "matches", "hits"),
    "online": ("readers online", "users online", "people are viewing this page"),
    "tags": ("Tags", "Topics", "Filed under"),
    "subscribe": ("Subscribe now", "Get full access", "Become a member"),
    "search": ("Search", "Find", "Search this site"),
    "login": ("Log in", "Sign in", "My account"),
    "skip": ("Skip to content", "Skip to main content", "Jump to content"),
    "home": ("Home", "Start", "Front page"),
    "teasers": ("Most read", "You may also like", "Recommended for you", "Trending now"),
    "latest": ("Latest", "New on this site", "Recent posts"),
    "newsletter": ("Newsletter", "Stay up to date", "Sign up for our newsletter"),
    "ad": ("Advertisement", "Sponsored", "Anzeige", "Promoted"),
    "next": ("Next page", "Older entries", "Load more"),
    "map": ("Show on map", "Directions", "View map"),
    "print": ("Print this page", "Printable version", "Print"),
    "source": ("Source", "Reference", "Origin"),
}
# How languages say that something was so many days, hours or minutes ago.
_AGO = {
    "en": ("{} days ago", "{} hours ago", "{} minutes ago"),
    "de": ("vor {} Tagen", "vor {} Stunden", "vor {} Minuten"),
    "fr": ("il y a {} jours", "il y a {} heures", "il y a {} minutes"),
    "es": ("hace {} días", "hace {} horas", "hace {} minutos"),
    "ru": ("{} дн. назад", "{} ч. назад", "{} мин. назад"),
    "ar": ("منذ {} يوم", "منذ {} ساعة", "منذ {} دقيقة"),
    "he": ("לפני {} ימים", "לפני {} שעות", "לפני {} דקות"),
    "zh": ("{}天前", "{}小时前", "{}分钟前"),
    "ja": ("{}日前", "{}時間前", "{}分前"),
}
# The names that `time.strftime` gives depend on the locale of the process.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class View:
    """One request for a page: where and when, and the draws that only this request makes.

    Parameters
    ----------
    host, page
        Name of the host and number of the page on it.
    at
        Instant of the request in seconds since 1970.
    language
        Language of the site.
    request
        Draws that differ from request to request.
    stable
        Names of draws that stay the same while the site keeps its design.
    """

    host: str
    page: int
    at: int
    language: Language
    request: Draws
    stable: tuple[int | str, ...]

    def label(self, name: str) -> str:
        """Return the word of the site's present design for a thing."""
        draws = Draws(*self.stable, "label", name)
        if self.language.code != "en":
            return self.language.label(draws)
        return draws.choose(_LABELS[name])

    def draws(self, *names: int | str) -> Draws:
        """Return draws of this page that do not change while the design stays."""
        return Draws(*self.stable, self.page, *names)

    def date(self, at: int) -> str:
        """Return the day of an instant as text."""
        day = time.gmtime(at)
        if self.language.code != "en":
            return time.strftime("%d.%m.%Y", day)
        return f"{day.tm_mday} {_MONTHS[day.tm_mon - 1]} {day.tm_year}"

    def clock(self) -> str:
        """Return date and time of the request as sites show them."""
        now = time.gmtime(self.at)
        style = Draws(*self.stable, "clock").integer(0, 3)
        if style == 0:
            return time.strftime("%H:%M:%S", now)
        if style == 1 or self.language.code != "en":
            return time.strftime("%Y-%m-%d %H:%M", now)
        weekday, month = _WEEKDAYS[now.tm_wday], _MONTHS[now.tm_mon - 1]
        if style == 2:
            return f"{weekday}, {now.tm_mday} {month} {now.tm_year}, {now.tm_hour}:{now.tm_min:02d}"
        return f"{weekday[:3]} {now.tm_mday:02d} {month[:3]} {time.strftime('%Y %H:%M UTC', now)}"

    def ago(self, at: int) -> str:
        """Return how long ago an instant is, as sites show it; the day if it is long ago."""
        seconds = max(self.at - at, 60)
        if seconds > _AGO_DAYS_MAX * DAY:
            return self.date(at)
        for text, size in zip(_AGO[self.language.code], (DAY, 3_600, 60), strict=True):
            if seconds >= 2 * size:
                return text.format(seconds // size)
        return text.format(1)

    def count(self, name: str, per_day: int) -> int:
        """Return a counter that grows with time."""
        start = Draws(self.host, self.page, name)
        first = start.integer(100, 20_000)
        grown = (self.at % (1_000 * DAY)) * per_day * (0.5 + start.uniform()) / DAY
        return first + int(grown)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageKind:
    """A kind of page.

    Parameters
    ----------
    name
        Name of the kind.
    make
        Function that makes the first version from draws, language and instant.
    render
        Function that returns the HTML of the content, or the whole body if the kind is not HTML.
    edits
        Names of edits (see `recrawl.sim.pages.material.edit_material`); a name that stands twice is
        twice as likely.
    changes_per_day
        Mean number of changes of a page per day.
    designs
        Names of the designs that sites of this kind use.
    languages
        Language codes of which each site uses one.
    content_type
        Media type; a charset is added for text.
    facts, n_sentences
        See `recrawl.sim.pages.material.make_material`.
    is_held_out
        Whether the kind may not be used to tune rules.
    is_shell
        Whether the server sends only an empty shell, which scripts would fill.
    is_prerendered
        Whether the server sometimes sends an empty shell instead of the content.
    """

    name: str
    make: Callable[[Draws, Language, int], Material]
    render: Callable[[Material, View], str]
    edits: tuple[str, ...]
    changes_per_day: float
    designs: tuple[str, ...] = ("press", "bootstrap", "blog", "portal", "app")
    languages: tuple[str, ...] = ("en",)
    content_type: str = "text/html"
    facts: tuple[tuple[str, str], ...] = ()
    n_sentences: int = 1
    is_held_out: bool = False
    is_shell: bool = False
    is_prerendered: bool = False


def paragraphs_html(texts: tuple[str, ...], class_name: str = "") -> str:
    """Return paragraphs as HTML."""
    attribute = f' class="{class_name}"' if class_name else ""
    return "\n".join(f"<p{attribute}>{escape(text)}</p>" for text in texts)


def byline(material: Material, view: View) -> str:
    """Return author and dates below a headline."""
    day = time.strftime("%Y-%m-%d", time.gmtime(material.published_at))
    return (
        f'<div class="meta"><span class="author">{view.label("by")} '
        f'<a href="/people/{material.author.lower().replace(" ", "-")}" rel="author">'
        f"{material.author}</a></span> <span>{view.label('published')} "
        f'<time datetime="{day}">{view.date(material.published_at)}</time></span></div>\n'
    )


def share_links(view: View) -> str:
    """Return the links for sharing that stand below an article."""
    icon = (
        '<svg width="16" height="16" viewBox="0 0 24 24" aria-hidden="true">'
        '<path d="M18 16.08a2.9 2.9 0 0 0-1.96.77L8.91 12.7a3 3 0 0 0 0-1.39l7.05-4.11"/></svg>'
    )
    links = "".join(
        f'<a class="share-{name}" href="https://{name}.example/share?u=https://{view.host}/'
        f'{view.page}" rel="nofollow noopener" aria-label="{name}">{icon}</a>'
        for name in ("mail", "chat", "social")
    )
    return f'<div class="share-bar"><span>{view.label("share")}</span>{links}</div>\n'


def facts_table(material: Material, class_name: str = "facts") -> str:
    """Return the facts as a table with one row each."""
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{escape(value)}</td></tr>\n'
        for label, value in material.facts
    )
    return f'<table class="{class_name}"><tbody>\n{rows}</tbody></table>\n'


def facts_list(material: Material) -> str:
    """Return the facts as a list of terms and definitions."""
    rows = "".join(
        f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>\n" for label, value in material.facts
    )
    return f'<dl class="facts">\n{rows}</dl>\n'
