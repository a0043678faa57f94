"""Kinds of answer that are not HTML: JSON, feeds, sitemaps, tables and plain text."""

import json
import time
from email.utils import formatdate
from functools import partial
from html import escape

from recrawl.sim.pages.draws import Draws
from recrawl.sim.pages.language import Language
from recrawl.sim.pages.material import Material, make_material, money
from recrawl.sim.pages.view import PageKind, View

__all__ = ["PLAIN_KINDS"]


def _iso(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _rfc_822(at: int) -> str:
    return formatdate(at)


def _json_answer(material: Material, view: View) -> str:
    value = {
        "data": {
            "id": view.page,
            "title": material.title,
            "description": list(material.paragraphs),
            "attributes": dict(material.facts),
            "items": [
                {
                    "id": item.number,
                    "name": item.title,
                    "price": money(item.amount),
                    "created_at": _iso(item.at),
                }
                for item in material.items
            ],
        },
        "meta": {
            "request_id": view.request.token(32),
            "generated_at": _iso(view.at),
            "took_ms": view.request.integer(2, 90),
            "api_version": "2.3",
        },
    }
    # Servers that build answers from hash tables write the keys in any order.
    if view.request.chance(0.5):
        value = dict(reversed(value.items()))
    return json.dumps(value, ensure_ascii=False, indent=view.draws("indent").choose([None, 2]))


def _rss(material: Material, view: View) -> str:
    items = "".join(
        f"<item><title>{escape(item.title)}</title><link>https://{view.host}/n/{item.number}</link>"
        f'<guid isPermaLink="false">{view.host}-{item.number}</guid><pubDate>{_rfc_822(item.at)}'
        f"</pubDate><description>{escape(item.text)}</description></item>\n"
        for item in material.items
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0" '
        f'xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>{escape(material.title)}</title>'
        f"<link>https://{view.host}/</link><lastBuildDate>{_rfc_822(view.at)}</lastBuildDate>"
        f"<ttl>60</ttl>\n{items}</channel></rss>\n"
    )


def _atom(material: Material, view: View) -> str:
    entries = "".join(
        f"<entry><id>tag:{view.host},2026:{item.number}</id><title>{escape(item.title)}</title>"
        f"<updated>{_iso(item.at)}</updated><author><name>{item.author}</name></author>"
        f'<summary type="html">{escape(escape(item.text))}</summary></entry>\n'
        for item in material.items
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom"><title>'
        f"{escape(material.title)}</title><updated>{_iso(view.at)}</updated><id>https://{view.host}/"
        f"</id><generator>press</generator>\n{entries}</feed>\n"
    )


def _sitemap(material: Material, view: View) -> str:
    rows = "".join(
        f"<url><loc>https://{view.host}/{item.number}-{item.title.lower().replace(' ', '-')}</loc>"
        f"<lastmod>{_iso(item.at)}</lastmod></url>\n"
        for item in material.items
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<?xml-stylesheet type="text/xsl" '
        'href="/sitemap.xsl"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        f"{rows}</urlset>\n<!-- generated {_iso(view.at)} in {view.request.uniform():.3f} s -->\n"
    )


def _plain_text(material: Material, view: View) -> str:  # noqa: ARG001 (all kinds take a view)
    body = "\n\n".join(material.paragraphs)
    return f"{material.title}\n{'=' * len(material.title)}\n\n{body}\n"


def _csv(material: Material, view: View) -> str:  # noqa: ARG001 (all kinds take a view)
    rows = "".join(
        f'{item.number},"{item.title}","{item.author}",{_iso(item.at)}\r\n'
        for item in material.items
    )
    return f'id,"{material.title}",person,created\r\n{rows}'


def _make(
    draws: Draws,
    language: Language,
    at: int,
    *,
    paragraphs: tuple[int, int] = (0, 0),
    items: tuple[int, int] = (0, 0),
    n_sentences: int = 2,
    facts: tuple[tuple[str, str], ...] = (),
    has_amounts: bool = False,
) -> Material:
    return make_material(
        draws,
        language,
        at,
        paragraphs=paragraphs,
        items=items,
        n_sentences=n_sentences,
        facts=facts,
        has_amounts=has_amounts,
        n_items_max=40,
    )


_ATTRIBUTES = (("stock", "###"), ("state", "active|paused|archived"), ("rating", "#.#"))

PLAIN_KINDS = (
    PageKind(
        name="json_api",
        make=partial(
            _make,
            paragraphs=(1, 3),
            items=(5, 20),
            facts=_ATTRIBUTES,
            has_amounts=True,
            n_sentences=0,
        ),
        render=_json_answer,
        edits=("amount", "fact", "add_first", "word"),
        changes_per_day=0.3,
        content_type="application/json",
        facts=_ATTRIBUTES,
        n_sentences=0,
    ),
    PageKind(
        name="rss_feed",
        make=partial(_make, items=(10, 20)),
        render=_rss,
        edits=("add_first", "add_first", "word"),
        changes_per_day=0.6,
        content_type="application/rss+xml",
        n_sentences=2,
    ),
    PageKind(
        name="atom_feed",
        make=partial(_make, items=(8, 20)),
        render=_atom,
        edits=("add_first", "add_first", "word"),
        changes_per_day=0.5,
        content_type="application/atom+xml",
        n_sentences=2,
        is_held_out=True,
    ),
    PageKind(
        name="sitemap_xml",
        make=partial(_make, items=(15, 40), n_sentences=0),
        render=_sitemap,
        edits=("add_first", "remove_item"),
        changes_per_day=0.3,
        content_type="application/xml",
        n_sentences=0,
    ),
    PageKind(
        name="plain_text",
        make=partial(_make, paragraphs=(5, 25)),
        render=_plain_text,
        edits=("word", "paragraph"),
        changes_per_day=0.12,
        content_type="text/plain",
    ),
    PageKind(
        name="csv_export",
        make=partial(_make, items=(20, 40), n_sentences=0),
        render=_csv,
        edits=("add_last", "remove_item", "word"),
        changes_per_day=0.3,
        content_type="text/csv",
        n_sentences=0,
        is_held_out=True,
    ),
)
