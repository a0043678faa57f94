"""Kinds of page that consist mostly of running text."""

from functools import partial
from html import escape

from recrawl.sim.pages.draws import Draws
from recrawl.sim.pages.language import Language
from recrawl.sim.pages.material import Material, make_material
from recrawl.sim.pages.view import PageKind, View, byline, facts_table, paragraphs_html, share_links

__all__ = ["ARTICLE_KINDS"]

_TEXT_EDITS = ("word", "word", "paragraph", "paragraph", "paragraph", "title")


def _article(material: Material, view: View) -> str:
    lead, rest = material.paragraphs[0], material.paragraphs[1:]
    picture = (
        f'<figure><img src="/media/{view.draws("picture").token(12)}.jpg?w=1200" '
        f'alt="" width="1200" '
        f'height="675"><figcaption>{view.label("source")}: {view.host}</figcaption></figure>\n'
    )
    inline = (
        f'<div class="inline-cta"><button type="button">{view.label("subscribe")}</button></div>\n'
    )
    half = len(rest) // 2
    return (
        f'<article class="article" itemscope><header><h1 itemprop="headline">'
        f"{escape(material.title)}"
        f'</h1>\n<p class="lead">{escape(lead)}</p>\n{byline(material, view)}</header>\n{picture}'
        f'<div class="article-body" itemprop="articleBody">'
        f"\n{paragraphs_html(rest[:half])}\n{inline}"
        f"{paragraphs_html(rest[half:])}\n</div>\n{share_links(view)}</article>\n"
    )


def _blog_post(material: Material, view: View) -> str:
    comments = "".join(
        f'<li class="comment" id="comment-{item.number}"><div class="comment-meta"><b class="fn">'
        f"{item.author}</b> <time>{view.ago(item.at)}</time></div>"
        f'<div class="comment-title">{escape(item.title)}</div><div class="comment-content">'
        f'<p>{escape(item.text)}</p></div><a class="reply" href="#respond" rel="nofollow">'
        f"{view.label('reply')}</a></li>\n"
        for item in material.items
    )
    views = f"{view.count('views', 90):,} {view.label('views')}"
    return (
        f'<article class="post hentry"><h1 class="entry-title">{escape(material.title)}</h1>'
        f'{byline(material, view)}<div class="post-views">{views}</div><div '
        f'class="entry-content">\n'
        f"{paragraphs_html(material.paragraphs)}\n</div></article>\n{share_links(view)}"
        f'<section id="comments" class="comments-area"><h2>{view.label("comments")}</h2>'
        f'<ol class="comment-list">\n{comments}</ol><form id="respond" action="/comment" '
        f'method="post"><input type="hidden" name="nonce" value="{view.request.token(10)}">'
        f"<textarea></textarea><button>{view.label('reply')}</button></form></section>\n"
    )


def _documentation(material: Material, view: View) -> str:
    parts = []
    for i, text in enumerate(material.paragraphs):
        draws = Draws("code", view.host, view.page, i)
        name = draws.choose(view.language.words)
        parts.append(f"<p>{escape(text)}</p>\n")
        if i % 3 == 0:
            parts.append(
                '<div class="highlight-python notranslate"><div '
                'class="highlight"><pre><span></span>'
                f'<span class="kn">import</span> <span class="nn">{name}</span>\n<span class="n">'
                f'{name}</span><span class="o">.</span><span class="n">run</span><span class="p">('
                f"{draws.integer(1, 99)})</span>\n</pre></div></div>\n"
            )
    return (
        f'<section id="doc"><h1>{escape(material.title)}<a class="headerlink" href="#doc" '
        f'title="Link">¶</a></h1>\n{"".join(parts)}</section>\n'
    )


def _wiki(material: Material, view: View) -> str:
    sections = []
    toc = []
    for i, text in enumerate(material.paragraphs):
        if i and i % 3 == 0:
            heading = view.language.label(Draws(view.host, view.page, "heading", i), 2)
            toc.append(f'<li class="toclevel-1"><a href="#s{i}">{escape(heading)}</a></li>')
            sections.append(
                f'<h2><span class="mw-headline" id="s{i}">{escape(heading)}</span><span '
                f'class="mw-editsection">[<a '
                f'href="/w/index.php?action=edit&amp;section={i}">edit</a>'
                "]</span></h2>\n"
            )
        sections.append(f'<p>{escape(text)}<sup class="reference"><a>[{i + 1}]</a></sup></p>\n')
    return (
        f'<h1 id="firstHeading" class="firstHeading">{escape(material.title)}</h1>\n<div '
        f'id="mw-content-text" class="mw-parser-output">'
        f"{facts_table(material, 'infobox')}\n{sections[0]}<div id='toc' class='toc'><h2>"
        f"{view.label('contents')}</h2><ul>{''.join(toc)}</ul></div>\n{''.join(sections[1:])}</div>\n"
        f'<div class="printfooter">{view.label("source")} "https://{view.host}/{view.page}"</div>\n'
    )


def _terms(material: Material, view: View) -> str:
    clauses = "".join(
        f'<li id="clause-{i}"><p>{escape(text)}</p></li>\n'
        for i, text in enumerate(material.paragraphs)
    )
    return (
        f'<div class="legal"><h1>{escape(material.title)}</h1>\n<p class="effective">'
        f"{view.label('updated')}: {view.date(material.published_at)}</p>\n<ol>\n{clauses}</ol>\n"
        f'<p><a href="javascript:window.print()">{view.label("print")}</a></p></div>\n'
    )


def _recipe(material: Material, view: View) -> str:
    steps = "".join(f"<li><p>{escape(text)}</p></li>\n" for text in material.paragraphs)
    ingredients = "".join(
        f'<li class="ingredient"><span>{escape(value)}</span> <span>{escape(label)}</span></li>\n'
        for label, value in material.facts
    )
    return (
        f'<div class="recipe" itemscope itemtype="https://schema.org/Recipe"><h1>'
        f"{escape(material.title)}</h1>{byline(material, view)}<button onclick='window.print()'>"
        f'{view.label("print")}</button><ul class="ingredients">\n{ingredients}</ul>\n'
        f'<ol class="instructions">\n{steps}</ol></div>\n<p class="made">'
        f"{view.count('made', 20):,} {view.label('views')}</p>\n"
    )


def _faq(material: Material, view: View) -> str:  # noqa: ARG001 (all kinds take a view)
    entries = "".join(
        f'<details class="faq-item"><summary>{escape(item.title)}?</summary><div class="answer">'
        f"<p>{escape(item.text)}</p></div></details>\n"
        for item in material.items
    )
    return (
        f'<h1>{escape(material.title)}</h1>\n<div class="faq">\n{entries}</div>\n'
        f"{paragraphs_html(material.paragraphs)}\n"
    )


def _changelog(material: Material, view: View) -> str:
    releases = "".join(
        f'<section class="release" id="r{item.number}"><h2>Version {item.number // 10}.'
        f"{item.number % 10} <small>{view.date(item.at)}</small></h2><h3>{escape(item.title)}</h3>"
        f"<ul><li>{escape(item.text)}</li></ul></section>\n"
        for item in material.items
    )
    return f"<h1>{escape(material.title)}</h1>\n{releases}"


def _landing_page(material: Material, view: View) -> str:
    cards = "".join(
        f'<div class="feature-card"><svg viewBox="0 0 48 48" width="48" height="48"><rect x="4" '
        f'y="4" width="40" height="40" rx="8"/></svg><h3>{escape(item.title)}</h3><p>'
        f"{escape(item.text)}</p></div>\n"
        for item in material.items
    )
    quotes = Draws(view.host, "quotes")
    pool = [view.language.sentence(quotes) for _ in range(6)]
    quote = view.request.choose(pool)
    return (
        f'<section class="hero"><h1>{escape(material.title)}</h1>'
        f"{paragraphs_html(material.paragraphs)}"
        f'<a class="button" href="/start">{view.label("subscribe")}</a></section>\n<section '
        f'class="features">\n{cards}</section>\n<section class="testimonial"><blockquote>'
        f"{escape(quote)}</blockquote></section>\n"
    )


def _gated_article(material: Material, view: View) -> str:
    shown = material.paragraphs[:2]
    return (
        f"<article><h1>{escape(material.title)}</h1>{byline(material, view)}\n"
        f"{paragraphs_html(shown)}\n<ul class='points'>"
        + "".join(f"<li>{escape(text)}</li>\n" for text in material.paragraphs[2:])
        + '</ul><div class="paywall"><h2>Log in to continue reading</h2><p>This article is for '
        f'subscribers. {view.label("subscribe")}.</p><form action="/login" method="post"><input '
        f'type="hidden" name="csrf" value="{view.request.token(32)}"><input name="user"><input '
        f'type="password" name="password"><button>{view.label("login")}</button></form></div>'
        "</article>\n"
    )


def _notice(material: Material, view: View) -> str:
    body = "<br><br>\n".join(escape(text) for text in material.paragraphs)
    return (
        f'<h3><font color="#003366">{escape(material.title)}</font></h3>\n<p><i>'
        f"{view.label('published')}: {view.date(material.published_at)}</i></p>\n"
        f'<div align="justify">{body}</div>\n{facts_table(material)}'
        f"<p>{view.count('visits', 300):,} {view.label('views')}</p>\n"
    )


def _abstract(material: Material, view: View) -> str:
    references = "".join(
        f'<li class="reference"><span>{item.author}</span>. {escape(item.title)}.</li>\n'
        for item in material.items
    )
    return (
        f'<div class="paper"><h1 class="title">{escape(material.title)}</h1><div class="authors">'
        f'{material.author}</div><div class="metrics"><span>{view.count("reads", 30):,} '
        f"{view.label('views')}</span></div><blockquote class='abstract'>"
        f"{paragraphs_html(material.paragraphs)}</blockquote>{facts_table(material)}"
        f'<ol class="references">\n{references}</ol></div>\n'
    )


def _make(
    draws: Draws,
    language: Language,
    at: int,
    *,
    paragraphs: tuple[int, int] = (6, 22),
    items: tuple[int, int] = (0, 0),
    n_sentences: int = 3,
    facts: tuple[tuple[str, str], ...] = (),
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


_INGREDIENTS = (
    ("flour", "###0 g"),
    ("butter", "## g"),
    ("salt", "# teaspoons"),
    ("milk", "### ml"),
    ("sugar", "none|50 g|80 g|100 g|120 g|brown, 90 g"),
    ("oven", "1#0 °C"),
)
_INFOBOX = (
    ("Population", "###,###"),
    ("Area", "#,### km2"),
    ("Elevation", "### m"),
    ("Founded", "1##5"),
    ("Status", "active|closed|under construction|planned"),
)
_NOTICE = (("Reference", "##/2026-###"), ("Fee", "##.50"), ("Office hours", "#:30 to 1#:00"))
_PAPER = (("DOI", "10.####/x####"), ("Cited by", "###"), ("Version", "v#"))

ARTICLE_KINDS = (
    PageKind(
        name="news_article",
        make=_make,
        render=_article,
        edits=_TEXT_EDITS,
        changes_per_day=0.15,
        designs=("press", "app", "bootstrap"),
    ),
    PageKind(
        name="blog_post",
        make=partial(_make, items=(1, 8)),
        render=_blog_post,
        edits=("add_last", "add_last", "add_last", "word", "paragraph"),
        changes_per_day=0.3,
        designs=("blog", "press"),
        n_sentences=3,
    ),
    PageKind(
        name="documentation",
        make=_make,
        render=_documentation,
        edits=_TEXT_EDITS,
        changes_per_day=0.12,
        designs=("manual", "bootstrap"),
    ),
    PageKind(
        name="wiki_article",
        make=partial(_make, facts=_INFOBOX),
        render=_wiki,
        edits=("word", "word", "paragraph", "fact"),
        changes_per_day=0.2,
        designs=("portal", "press"),
        facts=_INFOBOX,
    ),
    PageKind(
        name="legal_terms",
        make=partial(_make, paragraphs=(20, 40)),
        render=_terms,
        edits=("word", "word", "paragraph"),
        changes_per_day=0.08,
        designs=("bootstrap", "shop", "app", "press"),
    ),
    PageKind(
        name="recipe",
        make=partial(_make, paragraphs=(4, 9), facts=_INGREDIENTS),
        render=_recipe,
        edits=("word", "fact", "paragraph"),
        changes_per_day=0.1,
        designs=("blog", "app"),
        facts=_INGREDIENTS,
        is_held_out=True,
    ),
    PageKind(
        name="faq",
        make=partial(_make, paragraphs=(1, 2), items=(5, 15)),
        render=_faq,
        edits=("word", "add_last", "remove_item"),
        changes_per_day=0.12,
        n_sentences=3,
    ),
    PageKind(
        name="press_release",
        make=partial(_make, paragraphs=(5, 10)),
        render=_article,
        edits=_TEXT_EDITS,
        changes_per_day=0.1,
        designs=("portal", "bootstrap"),
        is_held_out=True,
    ),
    PageKind(
        name="changelog",
        make=partial(_make, paragraphs=(0, 0), items=(6, 20)),
        render=_changelog,
        edits=("add_first", "add_first", "word"),
        changes_per_day=0.2,
        designs=("manual", "bootstrap"),
        n_sentences=3,
        is_held_out=True,
    ),
    PageKind(
        name="research_abstract",
        make=partial(_make, paragraphs=(2, 4), items=(8, 20), n_sentences=0, facts=_PAPER),
        render=_abstract,
        edits=("word", "fact", "add_last"),
        changes_per_day=0.1,
        designs=("portal", "press"),
        facts=_PAPER,
        n_sentences=0,
        is_held_out=True,
    ),
    PageKind(
        name="landing_page",
        make=partial(_make, paragraphs=(1, 2), items=(3, 8)),
        render=_landing_page,
        edits=("word", "title", "add_last", "paragraph"),
        changes_per_day=0.1,
        designs=("app", "shop", "bootstrap"),
        n_sentences=2,
    ),
    PageKind(
        name="multilingual_article",
        make=_make,
        render=_article,
        edits=_TEXT_EDITS,
        changes_per_day=0.15,
        languages=("de", "fr", "es"),
    ),
    PageKind(
        name="arabic_article",
        make=_make,
        render=_article,
        edits=_TEXT_EDITS,
        changes_per_day=0.15,
        languages=("ar",),
    ),
    PageKind(
        name="hebrew_notice",
        make=partial(_make, paragraphs=(3, 8), facts=_NOTICE),
        render=_notice,
        edits=("word", "paragraph", "fact"),
        changes_per_day=0.12,
        designs=("tables", "portal"),
        languages=("he",),
        facts=_NOTICE,
        is_held_out=True,
    ),
    PageKind(
        name="chinese_news",
        make=_make,
        render=_article,
        edits=_TEXT_EDITS,
        changes_per_day=0.2,
        languages=("zh",),
        is_held_out=True,
    ),
    PageKind(
        name="japanese_article",
        make=_make,
        render=_article,
        edits=_TEXT_EDITS,
        changes_per_day=0.2,
        languages=("ja",),
    ),
    PageKind(
        name="russian_article",
        make=partial(_make, items=(0, 5)),
        render=_blog_post,
        edits=("add_last", "word", "paragraph"),
        changes_per_day=0.2,
        languages=("ru",),
        n_sentences=3,
        is_held_out=True,
    ),
    PageKind(
        name="login_gated",
        make=partial(_make, paragraphs=(4, 6)),
        render=_gated_article,
        edits=("word", "paragraph", "title"),
        changes_per_day=0.12,
        designs=("press", "app"),
    ),
    PageKind(
        name="government_notice",
        make=partial(_make, paragraphs=(3, 10), facts=_NOTICE),
        render=_notice,
        edits=("word", "paragraph", "fact"),
        changes_per_day=0.1,
        designs=("tables", "portal"),
        facts=_NOTICE,
        is_held_out=True,
    ),
)
