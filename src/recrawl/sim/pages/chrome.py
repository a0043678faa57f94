"""Everything around the content of a page: menus, clocks, tokens, ads, teasers, banners, footers.

None of it means anything to the page, and much of it differs from request to request.
"""

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape

from recrawl.sim.pages.designs import DESIGNS, Design
from recrawl.sim.pages.draws import Draws
from recrawl.sim.pages.language import LANGUAGES
from recrawl.sim.pages.view import DAY, View

__all__ = ["Traits", "draw_traits", "render_document"]

# Sites deploy new scripts every two days or so, which changes the hashes in their addresses.
_DEPLOYMENT_SECONDS = 2 * DAY
_ANNOUNCEMENT_SECONDS = 9 * DAY
_TEASER_POOL = 24
_ICON = (
    '<svg class="icon" width="24" height="24" viewBox="0 0 24 24" fill="none" stroke="currentColor"'
    ' stroke-width="2"><path d="{}"/><circle cx="12" cy="12" r="{}"/></svg>'
)
_AD_WORDS = (
    "Save {}% on your first order",
    "New: the {} for your home",
    "{} people have already switched. What about you?",
    "Compare {} and win a weekend",
    "Free delivery on {} until midnight",
    "The {} that experts recommend",
    "Only today: {} from 9.99",
    "Learn {} in 30 days",
)
_EXPERIMENTS = (
    ("Start your free trial", "Try it free for 30 days"),
    ("Subscribe for 1 € a month", "Get unlimited access for 12 € a year"),
    ("Download our app", "Continue in the app for a better experience"),
    ("Sign up for free", "Create your account in two minutes"),
)
_CONSENT = (
    "We and our partners store and access information on a device, such as cookies, to personalise "
    "content and ads. You can change your choice at any time.",
    "This website uses cookies to improve your experience. By continuing you agree to our use of "
    "cookies.",
    "We use cookies that are necessary for this site, and others that help us to measure its use.",
)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a site shows around its content.

    Parameters
    ----------
    has_clock
        Whether the header shows the time of the request.
    has_ads
        Whether boxes contain advertisements with text.
    teasers
        Teasers that the boxes contain: ``rotating`` differ at each request, ``latest`` lists what
        is new on the site, ``none``.
    consent
        How often a cookie banner is part of the page: ``always``, ``sometimes`` or ``never``.
    has_counter
        Whether a box counts the readers who are online.
    has_experiment
        Whether the site tries two variants of its call to action.
    has_announcements
        Whether all pages show an announcement for a few days now and then.
    n_style_rules
        Number of style rules in the head, which make up much of the size.
    """

    has_clock: bool
    has_ads: bool
    teasers: str
    consent: str
    has_counter: bool
    has_experiment: bool
    has_announcements: bool
    n_style_rules: int


def draw_traits(draws: Draws) -> Traits:
    """Return random traits of a site."""
    return Traits(
        has_clock=draws.chance(0.4),
        has_ads=draws.chance(0.5),
        teasers=draws.choose(["rotating", "rotating", "latest", "none"]),
        consent=draws.choose(["always", "sometimes", "never"]),
        has_counter=draws.chance(0.3),
        has_experiment=draws.chance(0.4),
        has_announcements=draws.chance(0.5),
        n_style_rules=draws.choose([15, 60, 120, 250, 400]),
    )


@lru_cache(maxsize=256)
def _style(names: tuple[int | str, ...], n_rules: int) -> str:
    draws = Draws(*names, "style")
    properties = ("margin", "padding", "font-size", "line-height", "border-radius", "gap", "top")
    rules = "".join(
        f".c-{draws.token(6)}{{{draws.choose(properties)}:{draws.integer(1, 40)}px;"
        f"{draws.choose(properties)}:{draws.integer(1, 40)}px;color:#{draws.token(6)}}}\n"
        for _ in range(n_rules)
    )
    return f"<style>\n:root{{--brand:#{draws.token(6)}}}\n{rules}</style>\n"


@lru_cache(maxsize=256)
def _teaser_pool(host: str, code: str) -> tuple[str, ...]:
    language = LANGUAGES[code]
    draws = Draws(host, "teasers")
    return tuple(language.title(draws, draws.integer(4, 8)) for _ in range(_TEASER_POOL))


@lru_cache(maxsize=256)
def _menu(
    design: Design, names: tuple[int | str, ...], code: str, classes: tuple[str, ...]
) -> tuple[str, str]:
    """Return the entries of the menu and the columns of the footer."""
    language = LANGUAGES[code]
    draws = Draws(*names, "menu")
    fields = _class_fields(classes)
    menu = "".join(
        design.entry.format_map(fields | {"href": f"/{draws.token(5)}/", "text": escape(text)})
        for text in (
            language.label(draws, draws.integer(1, 2)) for _ in range(draws.integer(5, 14))
        )
    )
    columns = ""
    for _ in range(draws.integer(2, 4)):
        links = "".join(
            f'<li><a href="/{draws.token(6)}">{escape(language.label(draws, draws.integer(1, 3)))}'
            "</a></li>"
            for _ in range(draws.integer(4, 9))
        )
        title = escape(language.label(draws))
        columns += design.column.format_map(fields | {"title": title, "html": links})
    return menu, columns


def _class_fields(classes: tuple[str, ...]) -> dict[str, str]:
    return {f"h{i + 1}": name for i, name in enumerate(classes)}


@lru_cache(maxsize=256)
def _hashed_classes(names: tuple[int | str, ...], deployment: int) -> tuple[str, ...]:
    draws = Draws(*names, "classes", deployment)
    return tuple(draws.token(6) for _ in range(16))


def _announcement(view: View, traits: Traits) -> str:
    season = view.at // _ANNOUNCEMENT_SECONDS
    draws = Draws(view.host, "announcement", season)
    if not traits.has_announcements or draws.chance(0.5):
        return ""
    return f'<div class="announcement-bar">{escape(view.language.sentence(draws))}</div>\n'


def _call(view: View, traits: Traits) -> str:
    call = _announcement(view, traits)
    if traits.has_experiment:
        variants = Draws(view.host, "experiment").choose(_EXPERIMENTS)
        variant = view.request.integer(0, 1)
        call += (
            f'<div class="cta cta--{"ab"[variant]}" data-experiment="cta-{variant}">'
            f'<a class="btn btn-primary" href="/join?v={variant}">{variants[variant]}</a></div>\n'
        )
    return call


def _teaser_widget(view: View, traits: Traits) -> tuple[str, str] | None:
    pool = _teaser_pool(view.host, view.language.code)
    if traits.teasers == "rotating":
        chosen = view.request.sample(pool, 5)
    elif traits.teasers == "latest":
        # Something new appears somewhere on the site every ten hours or so.
        first = view.at // 36_000
        chosen = [pool[(first + i) % len(pool)] for i in range(5)]
    else:
        return None
    html = "".join(
        f'<li class="teaser"><a href="/story/{abs(hash_of(text)) % 10**6}"><img loading="lazy" '
        f'src="/img/{hash_of(text) % 997}.jpg" alt="" width="120" height="80"><span>{escape(text)}'
        "</span></a></li>"
        for text in chosen
    )
    label = view.label("teasers" if traits.teasers == "rotating" else "latest")
    return label, f'<ul class="teaser-list">{html}</ul>'


def hash_of(text: str) -> int:
    """Return a number that a text always has, unlike the built-in function."""
    return Draws(text).bits()


def _ad(view: View, slot: int) -> str:
    draws = view.request
    frame = (
        f'<div class="ad ad-slot" id="div-gpt-ad-{slot}" data-google-query-id="{draws.token(22)}">'
    )
    if draws.chance(0.4):
        return f'{frame}<iframe src="https://ads.example/f?c={draws.token(12)}"></iframe></div>'
    word = draws.choose(view.language.words)
    text = draws.choose(_AD_WORDS).format(word)
    return (
        f'{frame}<span class="ad-label">{view.label("ad")}</span><a href="https://ads.example/'
        f'{draws.token(16)}" rel="sponsored nofollow">{escape(text)}</a></div>'
    )


def _widgets(view: View, design: Design, traits: Traits, fields: Mapping[str, str]) -> str:
    boxes: list[tuple[str, str]] = []
    teasers = _teaser_widget(view, traits)
    if teasers:
        boxes.append(teasers)
    if traits.has_ads:
        boxes += [(view.label("ad"), _ad(view, slot)) for slot in range(2)]
    if traits.has_counter:
        n_online = view.request.integer(12, 4_000)
        boxes.append(("", f"<p>{n_online:,} {view.label('online')}</p>"))
    token = view.request.token(40)
    boxes.append(
        (
            view.label("newsletter"),
            '<form action="/newsletter" method="post"><input type="hidden" name="csrf_token" '
            f'value="{token}"><input type="email" name="email" placeholder="name@example.org">'
            f"<button>{view.label('subscribe')}</button></form>",
        )
    )
    tags = Draws(*view.stable, "tags")
    cloud = " ".join(
        f'<a href="/tag/{i}" rel="tag">{escape(view.language.label(tags))}</a>' for i in range(12)
    )
    boxes.append((view.label("tags"), f'<div class="tag-cloud">{cloud}</div>'))
    return "".join(
        design.widget.format_map({**fields, "title": title, "html": html}) for title, html in boxes
    )


def _consent_banner(view: View, traits: Traits) -> str:
    if traits.consent == "never" or (traits.consent == "sometimes" and view.request.chance(0.4)):
        return ""
    text = Draws(view.host, "consent").choose(_CONSENT)
    return (
        '<div id="cookie-banner" class="cookie-consent" role="dialog" aria-live="polite"><p>'
        f'{text} <a href="/privacy">Privacy policy</a></p><button class="accept">'
        f"Accept all</button>"
        '<button class="reject">Reject</button><button>Settings</button></div>\n'
    )


def _json_ld(title: str, view: View, schema: str) -> str:
    value = {
        "@context": "https://schema.org",
        "@type": schema,
        "headline": title,
        "url": f"https://{view.host}/{view.page}",
        "publisher": {"@type": "Organization", "name": view.host},
    }
    text = json.dumps(value, ensure_ascii=False).replace("</", "<\\/")
    return f'<script type="application/ld+json">{text}</script>\n'


def render_document(
    main: str,
    title: str,
    view: View,
    design_name: str,
    traits: Traits,
    *,
    kind: str,
    schema: str = "WebPage",
) -> str:
    """Return a whole HTML document.

    Parameters
    ----------
    main
        HTML of the content.
    title
        Title of the page, without the name of the site.
    view
        The request.
    design_name
        Name of the site's present design.
    traits
        Traits of the site.
    kind
        Name of the kind of page, which appears in class names.
    schema
        Type of the page in its structured data.
    """
    design = DESIGNS[design_name]
    language = view.language
    request = view.request
    deployment = view.at // _DEPLOYMENT_SECONDS
    build = Draws(view.host, "build", deployment).token(10)
    classes = _hashed_classes(view.stable if not design.has_hashed_classes else (view.host,), 0)
    if design.has_hashed_classes:
        classes = _hashed_classes((view.host,), deployment)
    menu, columns = _menu(design, view.stable, language.code, classes)
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(view.at))
    site_name = Draws(view.host, "name").choose(("Daily", "Open", "Blue", "North", "Prime"))
    site_name += " " + language.label(Draws(view.host, "name", 2))
    logo = (
        f'<a class="logo" href="/" title="{escape(site_name)}">'
        f"{_ICON.format('M3 12h18M12 3v18', 9)}<span>{escape(site_name)}</span></a>"
    )
    search = (
        '<form class="search" action="/search" role="search"><input type="search" name="q" '
        f'placeholder="{view.label("search")}"><input type="hidden" name="_token" value="'
        f'{request.token(32)}"><button>{view.label("search")}</button></form>'
    )
    fields: dict[str, str] = defaultdict(str)
    fields |= _class_fields(classes) | {
        "build": build,
        "nonce": request.token(24),
        "host": view.host,
        "stamp": stamp,
        "node": f"web-{request.integer(1, 9):02d}",
        "skip": view.label("skip"),
        "logo": logo,
        "clock": view.clock() if traits.has_clock else "",
        "search": search,
        "account": f'<a class="login" href="/login?back=/{view.page}">{view.label("login")}</a>',
        "call": _call(view, traits),
        "menu": menu,
        "columns": columns,
        "note": f"© {time.gmtime(view.at).tm_year} {escape(site_name)}",
        "crumbs": f'<a href="/">{view.label("home")}</a> &rsaquo; <span>'
        f"{escape(title[:40])}</span>",
        "kind": kind.replace("_", "-"),
    }
    fields["widgets"] = _widgets(view, design, traits, fields)
    fields["aside"] = aside = design.aside.format_map(fields)
    description = escape(language.sentence(view.draws("description")))
    full_title = escape(f"{title} | {site_name}")
    return "".join(
        (
            f'<!DOCTYPE html>\n<html lang="{language.code}" dir="{language.direction}">\n<head>\n'
            f'<meta charset="utf-8">\n<title>{full_title}</title>\n<meta name="viewport" '
            'content="width=device-width, initial-scale=1">\n<meta name="description" '
            f'content="{description}">\n<link rel="canonical" href="https://{view.host}/{view.page}">'
            f'\n<meta property="og:title" content="{full_title}">\n<meta name="csrf-token" '
            f'content="{request.token(43)}">\n',
            design.head.format_map(fields),
            _style((view.host,), traits.n_style_rules),
            _json_ld(title, view, schema),
            f'</head>\n<body class="page page-{fields["kind"]}" data-page-id="{view.page}">\n',
            design.top.format_map(fields),
            design.before.format_map(fields),
            main,
            design.after.format_map(fields),
            "" if design.is_aside_first else aside,
            design.bottom.format_map(fields),
            _consent_banner(view, traits),
            design.tail.format_map(fields),
            f"\n<script>window.__requestId='{request.token(16)}';window.__t={view.at}</script>"
            f"\n<!-- rendered in {request.uniform():.4f} s -->\n</body>\n</html>\n",
        )
    )
