"""Kinds of page that consist mostly of a list of items."""

import time
from functools import partial
from html import escape

from recrawl.sim.pages.draws import Draws
from recrawl.sim.pages.language import Language
from recrawl.sim.pages.material import Item, Material, make_material, money
from recrawl.sim.pages.view import PageKind, View, paragraphs_html

__all__ = ["LISTING_KINDS"]


def _avatar(item: Item) -> str:
    color = Draws(item.author).token(6)
    return (
        f'<svg class="avatar" width="32" height="32" viewBox="0 0 32 32"><circle cx="16" cy="16" '
        f'r="16" fill="#{color}"/><text x="16" y="21" text-anchor="middle">'
        f"{item.author[0]}</text></svg>"
    )


def _news_front(material: Material, view: View) -> str:
    stories = "".join(
        f'<article class="story story--{"lead" if i == 0 else "small"}"><a href="/story/'
        f'{item.number}"><img src="/img/s{item.number}.jpg" alt="" loading="lazy"><h2>'
        f'{escape(item.title)}</h2></a><p class="story__teaser">{escape(item.text)}</p><span '
        f'class="story__time">{view.ago(item.at)}</span></article>\n'
        for i, item in enumerate(material.items)
    )
    return (
        f'<h1 class="visually-hidden">{escape(material.title)}</h1><div '
        f'class="front">{stories}</div>'
    )


def _forum_thread(material: Material, view: View) -> str:
    posts = "".join(
        f'<div class="post" id="p{item.number}"><div class="post-author">{_avatar(item)}<b>'
        f"{item.author}</b><br>Posts: {view.count(item.author, 1):,}</div><div class='post-body'>"
        f"<div class='post-head'>{escape(item.title)} · {view.ago(item.at)}</div>"
        f"<div class='content'>"
        f"<p>{escape(item.text)}</p></div><a href='#reply' class='quote'>{view.label('reply')}</a>"
        f"<span class='likes'>{view.count(f'likes{item.number}', 0)}</span></div></div>\n"
        for item in material.items
    )
    return (
        f'<h1 class="topic-title">{escape(material.title)}</h1><div class="topic-stats">'
        f"{view.count('views', 60):,} {view.label('views')} · {view.request.integer(1, 40)} "
        f"{view.label('online')}</div>\n{posts}"
    )


def _forum_index(material: Material, view: View) -> str:
    rows = "".join(
        f'<tr class="topic"><td class="t"><a href="/t/{item.number}">{escape(item.title)}</a></td>'
        f"<td>{item.author}</td><td>{view.count(f'v{item.number}', 40):,}</td>"
        f"<td>{view.ago(item.at)}</td></tr>\n"
        for item in material.items
    )
    return (
        f"<h1>{escape(material.title)}</h1><table class='topics' width='100%'><tbody>\n{rows}"
        f"</tbody></table><p>{view.request.integer(20, 900)} {view.label('online')}</p>\n"
    )


def _scrolling_list(material: Material, view: View) -> str:
    cards = "".join(
        f'<li class="feed-item" data-id="{item.number}">{_avatar(item)}<div><b>{item.author}</b> '
        f'<span class="muted">{view.ago(item.at)}</span><h3>{escape(item.title)}</h3><p>'
        f"{escape(item.text)}</p><span class='actions'>♥ "
        f"{view.count(f'l{item.number}', 5):,}</span>"
        "</div></li>\n"
        for item in material.items
    )
    return (
        f'<h1>{escape(material.title)}</h1><ul class="feed" data-cursor="{view.request.token(16)}">'
        f'{cards}</ul><button class="load-more">{view.label("next")}</button>\n'
    )


def _search_results(material: Material, view: View) -> str:
    about = view.request.integer(11_000, 12_900)
    results = "".join(
        f'<div class="g result"><cite>{view.host} › {item.number}</cite><a href="/r/{item.number}'
        f'?ved={view.request.token(20)}"><h3>{escape(item.title)}</h3></a><p>{escape(item.text)}</p>'
        "</div>\n"
        for item in material.items
    )
    return (
        f"<h1>{escape(material.title)}</h1><div id='stats'>About {about:,} {view.label('results')} "
        f"({view.request.uniform():.2f} seconds)</div><div id='results'>\n{results}</div>\n"
    )


def _category(material: Material, view: View) -> str:
    cards = "".join(
        f'<div class="product-card" data-sku="{item.number:05d}"><a href="/p/{item.number}"><img '
        f'src="/i/{item.number}.webp" alt="{escape(item.title)}"><div class="name">'
        f'{escape(item.title)}</div></a><div class="price">€ {money(item.amount)}</div>'
        f"<button>{view.label('buy')}</button></div>\n"
        for item in material.items
    )
    return (
        f"<h1>{escape(material.title)}</h1>{paragraphs_html(material.paragraphs)}<div "
        f'class="product-grid">\n{cards}</div>\n'
    )


def _job_board(material: Material, view: View) -> str:
    rows = "".join(
        f'<li class="job"><a href="/jobs/{item.number}"><h3>{escape(item.title)}</h3></a><div '
        f'class="company">{item.author}</div><div class="salary">€ {money(item.amount)}</div><p>'
        f"{escape(item.text)}</p><time>{view.ago(item.at)}</time></li>\n"
        for item in material.items
    )
    return f"<h1>{escape(material.title)}</h1><ul class='jobs'>\n{rows}</ul>\n"


def _event_list(material: Material, view: View) -> str:
    rows = "".join(
        f'<div class="vevent event"><div class="dtstart"><span class="day">'
        f"{time.gmtime(item.at).tm_mday}</span> {view.date(item.at + 60 * 86_400)}</div><h3 "
        f'class="summary">{escape(item.title)}</h3><p>{escape(item.text)}</p><a class="map" '
        f'href="/map/{item.number}">{view.label("map")}</a></div>\n'
        for item in material.items
    )
    return f"<h1>{escape(material.title)}</h1><div class='events'>\n{rows}</div>\n"


def _calendar(material: Material, view: View) -> str:
    today = time.gmtime(view.at)
    by_day: dict[int, list[Item]] = {}
    for item in material.items:
        by_day.setdefault(1 + item.number * 7 % 30, []).append(item)
    cells = []
    for day in range(1, 31):
        entries = "".join(f"<li>{escape(item.title)}</li>" for item in by_day.get(day, []))
        mark = " today" if day == today.tm_mday else ""
        cells.append(f'<td class="day{mark}"><b>{day}</b><ul>{entries}</ul></td>')
    weeks = "".join(f"<tr>{''.join(cells[i : i + 7])}</tr>\n" for i in range(0, 30, 7))
    return (
        f"<h1>{escape(material.title)}</h1><p class='today'>{view.clock()}</p>"
        f"<table class='calendar'>\n{weeks}</table>\n"
    )


def _gallery(material: Material, view: View) -> str:
    figures = "".join(
        f'<figure class="tile"><img src="https://img.{view.host}/{item.number}.jpg?sig='
        f'{view.request.token(24)}" alt="{escape(item.title)}" loading="lazy"><figcaption>'
        f"{escape(item.title)}</figcaption></figure>\n"
        for item in material.items
    )
    return (
        f"<h1>{escape(material.title)}</h1>{paragraphs_html(material.paragraphs)}<div "
        f"class='gallery'>\n{figures}</div>\n<p>{view.count('views', 200):,} "
        f"{view.label('views')}</p>"
    )


def _reviews(material: Material, view: View) -> str:
    rows = "".join(
        f'<div class="review"><div class="stars" aria-label="{1 + item.number % 5} of 5">'
        f"{'★' * (1 + item.number % 5)}</div><b>{escape(item.title)}</b><p>{escape(item.text)}</p>"
        f"<small>{item.author}, {view.ago(item.at)}</small></div>\n"
        for item in material.items
    )
    return f"<h1>{escape(material.title)}</h1>{paragraphs_html(material.paragraphs)}{rows}"


def _directory(material: Material, view: View) -> str:
    rows = "".join(
        f'<li><a href="https://site{item.number}.example/">{escape(item.title)}</a> - '
        f"<span>{escape(item.text)}</span></li>\n"
        for item in material.items
    )
    return (
        f"<h2>{escape(material.title)}</h2><ul>\n{rows}</ul><p>{len(material.items)} "
        f"{view.label('results')}</p>\n"
    )


def _question_thread(material: Material, view: View) -> str:
    answers = "".join(
        f'<div class="answer" id="a{item.number}"><div class="vote"><span>'
        f"{view.count(f'score{item.number}', 0) % 90}</span></div><div class='s-prose'><p><b>"
        f"{escape(item.title)}</b></p><p>{escape(item.text)}</p></div><div class='user'>answered "
        f"{view.ago(item.at)} {item.author}</div></div>\n"
        for item in material.items
    )
    return (
        f"<h1>{escape(material.title)}</h1><div class='question'>"
        f"{paragraphs_html(material.paragraphs)}<div class='stats'>viewed "
        f"{view.count('views', 30):,} times</div></div>\n{answers}"
    )


def _sports_results(material: Material, view: View) -> str:
    rows = "".join(
        f"<tr><td>{escape(item.title)}</td><td class='score'>{money(item.amount)}</td></tr>\n"
        for item in material.items
    )
    return (
        f"<h1>{escape(material.title)}</h1><p class='live'>{view.clock()}</p><table "
        f"class='results'><tbody>\n{rows}</tbody></table>\n{paragraphs_html(material.paragraphs)}"
    )


def _make(
    draws: Draws,
    language: Language,
    at: int,
    *,
    paragraphs: tuple[int, int] = (0, 0),
    items: tuple[int, int] = (12, 25),
    n_sentences: int = 1,
    has_amounts: bool = False,
    n_items_max: int = 30,
) -> Material:
    return make_material(
        draws,
        language,
        at,
        paragraphs=paragraphs,
        items=items,
        n_sentences=n_sentences,
        has_amounts=has_amounts,
        n_items_max=n_items_max,
    )


LISTING_KINDS = (
    PageKind(
        name="news_front",
        make=_make,
        render=_news_front,
        edits=("add_first", "add_first", "add_first", "word"),
        changes_per_day=3.0,
        designs=("press", "bootstrap", "app"),
    ),
    PageKind(
        name="forum_thread",
        make=partial(_make, items=(4, 12), n_sentences=4),
        render=_forum_thread,
        edits=("add_last", "add_last", "add_last", "word"),
        changes_per_day=0.4,
        designs=("portal", "bootstrap", "tables"),
        n_sentences=4,
    ),
    PageKind(
        name="forum_index",
        make=partial(_make, n_sentences=0),
        render=_forum_index,
        edits=("add_first", "add_first", "remove_item"),
        changes_per_day=0.8,
        designs=("portal", "tables"),
        n_sentences=0,
        is_held_out=True,
    ),
    PageKind(
        name="scrolling_list",
        make=partial(_make, items=(15, 20), n_items_max=20, n_sentences=2),
        render=_scrolling_list,
        edits=("add_first",),
        changes_per_day=1.5,
        designs=("app", "bootstrap"),
        n_sentences=2,
    ),
    PageKind(
        name="search_results",
        make=partial(_make, items=(10, 10), n_items_max=12, n_sentences=2),
        render=_search_results,
        edits=("add_first", "remove_item", "word"),
        changes_per_day=0.3,
        designs=("press", "app"),
        n_sentences=2,
    ),
    PageKind(
        name="category_listing",
        make=partial(_make, paragraphs=(1, 1), items=(12, 36), n_sentences=0, has_amounts=True),
        render=_category,
        edits=("amount", "amount", "add_first", "remove_item"),
        changes_per_day=0.4,
        designs=("shop", "bootstrap"),
        n_sentences=0,
    ),
    PageKind(
        name="job_board",
        make=partial(_make, has_amounts=True),
        render=_job_board,
        edits=("add_first", "remove_item", "amount"),
        changes_per_day=0.5,
        designs=("bootstrap", "app"),
        is_held_out=True,
    ),
    PageKind(
        name="event_list",
        make=_make,
        render=_event_list,
        edits=("add_last", "remove_item", "word"),
        changes_per_day=0.25,
        designs=("blog", "portal", "press"),
    ),
    PageKind(
        name="calendar",
        make=partial(_make, items=(5, 14), n_sentences=0),
        render=_calendar,
        edits=("add_last", "remove_item", "word"),
        changes_per_day=0.2,
        designs=("portal", "bootstrap", "tables"),
        n_sentences=0,
    ),
    PageKind(
        name="gallery",
        make=partial(_make, paragraphs=(1, 1), n_sentences=0),
        render=_gallery,
        edits=("add_first", "remove_item", "word"),
        changes_per_day=0.2,
        designs=("blog", "app"),
        n_sentences=0,
    ),
    PageKind(
        name="review_page",
        make=partial(_make, paragraphs=(1, 2), items=(6, 16), n_sentences=3),
        render=_reviews,
        edits=("add_first", "add_first", "paragraph"),
        changes_per_day=0.3,
        designs=("shop", "bootstrap"),
        n_sentences=3,
        is_held_out=True,
    ),
    PageKind(
        name="directory",
        make=partial(_make, items=(20, 50), n_items_max=60),
        render=_directory,
        edits=("add_last", "remove_item", "word"),
        changes_per_day=0.15,
        designs=("tables", "portal"),
    ),
    PageKind(
        name="question_thread",
        make=partial(_make, paragraphs=(2, 4), items=(2, 7), n_sentences=5),
        render=_question_thread,
        edits=("add_last", "word", "paragraph"),
        changes_per_day=0.2,
        designs=("bootstrap", "app"),
        n_sentences=5,
        is_held_out=True,
    ),
    PageKind(
        name="sports_results",
        make=partial(_make, paragraphs=(1, 2), n_sentences=0, has_amounts=True),
        render=_sports_results,
        edits=("add_first", "amount"),
        changes_per_day=0.6,
        designs=("press", "portal"),
        n_sentences=0,
        is_held_out=True,
    ),
)
