"""Kinds of page that consist mostly of facts: products, prices, profiles, forecasts, shells."""

from functools import partial
from html import escape

from recrawl.sim.pages.draws import Draws
from recrawl.sim.pages.language import Language
from recrawl.sim.pages.material import Material, make_material
from recrawl.sim.pages.view import PageKind, View, facts_list, facts_table, paragraphs_html

__all__ = ["RECORD_KINDS"]

_PRODUCT = (
    ("Price", "€ ##.#9"),
    ("Availability", "In stock|Out of stock|Ships in 3 days|Pre-order"),
    ("Weight", "#.# kg"),
    ("Dimensions", "## x ## x ## cm"),
    ("Article number", "###-####"),
    ("Warranty", "12 months|24 months|36 months"),
)
_PLANS = (
    ("Starter, per month", "€ #.99"),
    ("Team, per month", "€ ##.99"),
    ("Business, per month", "€ ###.00"),
    ("Storage", "50 GB|100 GB|500 GB|1 TB|2 TB"),
    ("Support", "by mail|by mail and phone|around the clock"),
    ("Seats included", "##"),
)
_JOB = (
    ("Salary", "€ ##,#00"),
    ("Location", "Berlin|Lyon|Madrid|Remote|Utrecht|Wien"),
    ("Contract", "permanent|fixed term|freelance"),
    ("Apply by", "2026-0#-1#"),
)
_PERSON = (
    ("Position", "Head of research|Senior engineer|Professor|Director|Advisor"),
    ("Office", "Room #.###"),
    ("Phone", "+00 ### #######"),
    ("Publications", "##"),
)
_COMPONENTS = tuple(
    (name, "Operational|Degraded performance|Partial outage|Under maintenance")
    for name in ("API", "Website", "Mail delivery", "Storage", "Search", "Payments")
)
_FORECAST = tuple(
    (day, "1# to 2# °C, wind # km/h")
    for day in ("Tomorrow", "In two days", "In three days", "In four days", "In five days")
)
_QUOTE = (
    ("Previous close", "###.##"),
    ("Dividend", "#.## %"),
    ("Market value", "##.# bn"),
    ("Employees", "##,###"),
    ("Rating", "buy|hold|sell"),
)
_HOME = (
    ("Asking price", "€ ###,#00"),
    ("Living space", "1## m2"),
    ("Rooms", "#"),
    ("Built", "19#5"),
    ("Status", "available|reserved|sold|viewing by appointment"),
)
_TIMES = tuple(
    (f"Line {line}", "0#:1#, 0#:4#, 1#:2#, 1#:5#") for line in (1, 2, 5, 7, 11, 14, 20, 31)
)
_RELEASE = (
    ("Stable version", "#.#.##"),
    ("Released", "2026-0#-1#"),
    ("Size", "##.# MB"),
    ("Licence", "MIT|Apache 2.0|GPL 3"),
    ("Checksum", "########"),
)


def _product(material: Material, view: View) -> str:
    price = material.facts[0][1]
    return (
        f'<div class="product" itemscope itemtype="https://schema.org/Product"><div class="media">'
        f'<img src="/p/{view.page}.webp" alt="" width="600" height="600"></div><h1 itemprop="name">'
        f'{escape(material.title)}</h1><div class="price-box"><span itemprop="price" class="price">'
        f'{escape(price)}</span></div><div class="urgency">{view.request.integer(3, 60)} '
        f'{view.label("online")}</div><form action="/cart" method="post"><input type="hidden" '
        f'name="form_key" value="{view.request.token(16)}"><button>'
        f"{view.label('buy')}</button></form>"
        f'<div class="description">{paragraphs_html(material.paragraphs)}</div><h2>'
        f"{view.label('details')}</h2>{facts_table(material)}</div>\n"
    )


def _price_table(material: Material, view: View) -> str:
    return (
        f'<section class="pricing"><h1>{escape(material.title)}</h1>'
        f"{paragraphs_html(material.paragraphs)}{facts_table(material, 'plans')}<a class='btn' "
        f"href='/signup'>{view.label('subscribe')}</a></section>\n"
    )


def _job_ad(material: Material, view: View) -> str:
    tasks = "".join(f"<li>{escape(item.title)}</li>\n" for item in material.items)
    return (
        f'<div class="job-ad"><h1>{escape(material.title)}</h1>{facts_list(material)}'
        f"{paragraphs_html(material.paragraphs)}<ul>{tasks}</ul><p>{view.count('views', 25):,} "
        f"{view.label('views')}</p><a class='apply' href='/apply?t={view.request.token(12)}'>"
        f"{view.label('more')}</a></div>\n"
    )


def _profile(material: Material, view: View) -> str:
    works = "".join(f"<li>{escape(item.title)}</li>\n" for item in material.items)
    return (
        f'<div class="vcard profile"><h1 class="fn">{escape(material.title)}</h1>'
        f"{facts_list(material)}{paragraphs_html(material.paragraphs)}<ul "
        f"class='works'>{works}</ul>"
        f"</div><p>{view.label('updated')}: {view.date(material.published_at)}</p>\n"
    )


def _status(material: Material, view: View) -> str:
    incidents = "".join(
        f"<div class='incident'><h3>{escape(item.title)}</h3><p>{escape(item.text)}</p></div>\n"
        for item in material.items
    )
    return (
        f"<h1>{escape(material.title)}</h1><p class='refreshed'>Refreshed "
        f"{view.request.integer(1, 59)} seconds ago, {view.clock()}</p>{facts_list(material)}"
        f"<div class='incidents'>{incidents}</div>\n"
    )


def _weather(material: Material, view: View) -> str:
    now = view.request
    return (
        f"<h1>{escape(material.title)}</h1><div class='now'><span class='temp'>"
        f"{now.integer(-5, 30)}.{now.integer(0, 9)} °C</span> wind {now.integer(1, 70)} km/h, "
        f"humidity {now.integer(20, 99)} %, at {view.clock()}</div>"
        f"{facts_table(material, 'forecast')}{paragraphs_html(material.paragraphs)}\n"
    )


def _ticker(material: Material, view: View) -> str:
    now = view.request
    news = "".join(f"<li>{escape(item.title)}</li>\n" for item in material.items)
    return (
        f"<h1>{escape(material.title)}</h1><div class='quote'><span class='last'>"
        f"{now.integer(90, 400)}.{now.integer(10, 99)}</span> <span class='change'>"
        f"{now.uniform() * 4 - 2:+.2f} %</span> <span class='volume'>"
        f"{now.integer(10_000, 9_000_000):,}"
        f"</span> {view.clock()}</div>{facts_table(material)}<ul class='news'>{news}</ul>"
        f"{paragraphs_html(material.paragraphs)}\n"
    )


def _home_for_sale(material: Material, view: View) -> str:
    return (
        f"<div class='listing'><h1>{escape(material.title)}</h1><div class='photos'>"
        + "".join(f'<img src="/f/{view.page}-{i}.jpg" alt="">' for i in range(8))
        + f"</div>{facts_list(material)}{paragraphs_html(material.paragraphs)}<p>"
        f"{view.count('views', 50):,} {view.label('views')}</p></div>\n"
    )


def _timetable(material: Material, view: View) -> str:
    return (
        f"<h1>{escape(material.title)}</h1><p>{view.clock()}</p>"
        f"{facts_table(material, 'timetable')}{paragraphs_html(material.paragraphs)}\n"
    )


def _release(material: Material, view: View) -> str:
    return (
        f"<h1>{escape(material.title)}</h1>{paragraphs_html(material.paragraphs)}"
        f"{facts_table(material, 'downloads')}<p>{view.count('downloads', 900):,} downloads</p>\n"
    )


def _no_content(material: Material, view: View) -> str:  # noqa: ARG001 (all kinds take these)
    return ""


def _make(
    draws: Draws,
    language: Language,
    at: int,
    *,
    facts: tuple[tuple[str, str], ...] = (),
    paragraphs: tuple[int, int] = (2, 5),
    items: tuple[int, int] = (0, 0),
    n_sentences: int = 0,
) -> Material:
    return make_material(
        draws,
        language,
        at,
        paragraphs=paragraphs,
        items=items,
        n_sentences=n_sentences,
        facts=facts,
    )


RECORD_KINDS = (
    PageKind(
        name="product",
        make=partial(_make, facts=_PRODUCT),
        render=_product,
        edits=("fact", "fact", "fact", "word", "paragraph"),
        changes_per_day=0.25,
        designs=("shop", "bootstrap", "app"),
        facts=_PRODUCT,
    ),
    PageKind(
        name="pricing_table",
        make=partial(_make, facts=_PLANS, paragraphs=(1, 2)),
        render=_price_table,
        edits=("fact",),
        changes_per_day=0.1,
        designs=("app", "bootstrap", "shop"),
        facts=_PLANS,
    ),
    PageKind(
        name="job_ad",
        make=partial(_make, facts=_JOB, items=(4, 8)),
        render=_job_ad,
        edits=("fact", "word", "paragraph", "add_last"),
        changes_per_day=0.12,
        facts=_JOB,
        n_sentences=0,
    ),
    PageKind(
        name="profile",
        make=partial(_make, facts=_PERSON, items=(3, 15)),
        render=_profile,
        edits=("add_last", "fact", "word"),
        changes_per_day=0.1,
        facts=_PERSON,
        n_sentences=0,
    ),
    PageKind(
        name="status_page",
        make=partial(_make, facts=_COMPONENTS, paragraphs=(0, 0), items=(3, 8), n_sentences=2),
        render=_status,
        edits=("fact", "fact", "add_first"),
        changes_per_day=0.3,
        designs=("bootstrap", "app"),
        facts=_COMPONENTS,
        n_sentences=2,
        is_held_out=True,
    ),
    PageKind(
        name="weather",
        make=partial(_make, facts=_FORECAST, paragraphs=(1, 2)),
        render=_weather,
        edits=("fact", "fact", "paragraph"),
        changes_per_day=0.8,
        designs=("press", "portal"),
        facts=_FORECAST,
    ),
    PageKind(
        name="stock_ticker",
        make=partial(_make, facts=_QUOTE, items=(4, 8), paragraphs=(1, 2)),
        render=_ticker,
        edits=("fact", "add_first"),
        changes_per_day=0.6,
        designs=("press", "app"),
        facts=_QUOTE,
        n_sentences=0,
        is_held_out=True,
    ),
    PageKind(
        name="real_estate",
        make=partial(_make, facts=_HOME),
        render=_home_for_sale,
        edits=("fact", "word"),
        changes_per_day=0.12,
        designs=("bootstrap", "shop"),
        facts=_HOME,
        is_held_out=True,
    ),
    PageKind(
        name="timetable",
        make=partial(_make, facts=_TIMES, paragraphs=(1, 2)),
        render=_timetable,
        edits=("fact", "fact", "paragraph"),
        changes_per_day=0.1,
        designs=("portal", "tables"),
        facts=_TIMES,
    ),
    PageKind(
        name="software_release",
        make=partial(_make, facts=_RELEASE),
        render=_release,
        edits=("fact", "fact", "word"),
        changes_per_day=0.15,
        designs=("bootstrap", "manual"),
        facts=_RELEASE,
    ),
    PageKind(
        name="prerendered_app",
        make=partial(_make, facts=_PRODUCT, paragraphs=(4, 8)),
        render=_product,
        edits=("fact", "word", "paragraph"),
        changes_per_day=0.2,
        designs=("app",),
        facts=_PRODUCT,
        is_prerendered=True,
    ),
    PageKind(
        name="empty_app",
        make=_make,
        render=_no_content,
        edits=("word",),
        changes_per_day=0.0,
        designs=("app",),
        is_shell=True,
    ),
)
