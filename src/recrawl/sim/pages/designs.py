"""Designs of sites: the markup around the content, as content management systems write it.

Each field is a piece of HTML.  Names in braces are filled in by `recrawl.sim.pages.chrome`; they
are the same in all pieces of one kind, so a site can change its design without its content.
"""

from dataclasses import dataclass

__all__ = ["DESIGNS", "Design"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The markup of one design.

    Parameters
    ----------
    head, tail
        Links, styles and scripts of the head and of the end of the body; fields ``build``,
        ``nonce`` and ``host``.
    top
        Everything from the start of the body to the menu; fields ``logo``, ``clock``, ``search``,
        ``account``, ``call`` and ``menu``.
    entry
        Entry of the menu; fields ``href`` and ``text``.
    before, after
        Markup around the content; ``before`` has the fields ``crumbs`` and ``kind``.
    aside, widget
        The column beside the content with the field ``widgets``, and one of its boxes with the
        fields ``title`` and ``html``.
    bottom, column
        The footer with the fields ``columns`` and ``note``, and one of its columns with the fields
        ``title`` and ``html``.
    is_aside_first
        Whether the column comes before the content in the source.
    has_hashed_classes
        Whether class names are hashes that change with every deployment.
    """

    head: str
    top: str
    entry: str
    before: str
    after: str
    aside: str
    widget: str
    bottom: str
    column: str
    tail: str
    is_aside_first: bool = False
    has_hashed_classes: bool = False


_PRESS = Design(
    head='<link rel="preload" href="https://static.{host}/fonts/serif-{build}.woff2" as="font" '
    'type="font/woff2" crossorigin>\n<link rel="stylesheet" '
    'href="https://static.{host}/css/main.{build}.css">\n<script nonce="{nonce}">window.dataLayer='
    "window.dataLayer||[];function gtag(){{dataLayer.push(arguments)}}</script>\n",
    top='<a class="skip-link" href="#content">{skip}</a>\n<header class="site-header" '
    'role="banner"><div class="site-header__inner">{logo}<p class="site-header__date">{clock}</p>'
    '{search}<div class="site-header__account">{account}</div></div>\n<nav class="site-nav" '
    'aria-label="Main"><ul class="site-nav__list">{menu}</ul></nav>{call}</header>\n',
    entry='<li class="site-nav__item"><a class="site-nav__link" href="{href}">{text}</a></li>\n',
    before='<div class="layout"><nav class="breadcrumb" aria-label="Breadcrumb">{crumbs}</nav>\n'
    '<main id="content" class="layout__main layout__main--{kind}">\n',
    after="</main>\n",
    aside='<aside class="layout__aside sidebar" role="complementary">{widgets}</aside></div>\n',
    widget='<section class="widget"><h2 class="widget__title">{title}</h2>{html}</section>\n',
    bottom='<footer class="site-footer" role="contentinfo"><div class="site-footer__columns">'
    '{columns}</div><p class="site-footer__legal">{note}</p></footer>\n',
    column='<div class="site-footer__column"><h3>{title}</h3><ul>{html}</ul></div>\n',
    tail='<script src="https://static.{host}/js/bundle.{build}.js" defer nonce="{nonce}"></script>',
)
_BOOTSTRAP = Design(
    head='<link href="/assets/bootstrap.min.css?v={build}" rel="stylesheet">\n'
    '<link href="/assets/site.css?v={build}" rel="stylesheet">\n',
    top='<nav class="navbar navbar-expand-lg navbar-light bg-light fixed-top"><div '
    'class="container">{logo}<button class="navbar-toggler" type="button" '
    'data-bs-toggle="collapse" data-bs-target="#menu" aria-label="Toggle navigation"><span '
    'class="navbar-toggler-icon"></span></button>\n<div class="collapse navbar-collapse" '
    'id="menu"><ul class="navbar-nav me-auto">{menu}</ul>{search}<span class="navbar-text small">'
    "{clock}</span>{account}</div></div></nav>\n{call}",
    entry='<li class="nav-item"><a class="nav-link" href="{href}">{text}</a></li>\n',
    before='<div class="container mt-5"><div class="row"><ol class="breadcrumb">{crumbs}</ol>\n'
    '<div class="col-md-8 page-{kind}" id="main-content">\n',
    after="</div>\n",
    aside='<div class="col-md-4 sidebar">{widgets}</div></div></div>\n',
    widget='<div class="card mb-4"><h5 class="card-header">{title}</h5><div class="card-body">'
    "{html}</div></div>\n",
    bottom='<footer class="py-5 bg-dark text-white"><div class="container"><div class="row">'
    '{columns}</div><p class="m-0 text-center">{note}</p></div></footer>\n',
    column='<div class="col-6 col-md-3"><h6>{title}</h6><ul class="list-unstyled">{html}</ul>'
    "</div>\n",
    tail='<script src="/assets/bootstrap.bundle.min.js?v={build}"></script>\n<script>'
    'window.__csrf="{nonce}";document.querySelectorAll("[data-bs-toggle]").forEach('
    "function(e){{e.addEventListener('click',function(){{}})}});</script>",
)
_TABLES = Design(
    head='<link rel="shortcut icon" href="/favicon.ico">\n<script type="text/javascript" '
    'src="/js/common.js?{build}"></script>\n',
    top='<table width="100%" border="0" cellspacing="0" cellpadding="0" bgcolor="#003366"><tr>'
    '<td width="220">{logo}</td><td align="right"><font color="#ffffff" size="1">{clock}</font>'
    "<br>{search}{account}</td></tr></table>\n{call}"
    '<table width="100%" border="0" cellpadding="4" bgcolor="#cccc99"><tr>{menu}</tr></table>\n',
    entry='<td align="center" nowrap><a href="{href}"><font size="2">{text}</font></a></td>\n',
    before='<table width="980" align="center" border="0" cellpadding="8"><tr>{aside}'
    '<td valign="top" width="720"><font size="1">{crumbs}</font>\n<!-- begin {kind} -->\n',
    after="\n<!-- end content --></td></tr></table>\n",
    aside='<td valign="top" width="200" bgcolor="#eeeeee">{widgets}</td>\n',
    widget='<p><b>{title}</b></p><table border="0" width="100%"><tr><td>{html}</td></tr></table>\n',
    bottom='<hr size="1"><center><table border="0"><tr>{columns}</tr></table><font size="1">{note}'
    "</font></center>\n",
    column='<td valign="top"><b>{title}</b><ul>{html}</ul></td>\n',
    tail='<img src="/cgi-bin/count.pl?id={nonce}" width="1" height="1" alt="">',
    is_aside_first=True,
)
_APP = Design(
    head='<meta name="next-head-count" content="9"><link rel="preload" '
    'href="/_next/static/css/{build}.css" as="style"><link rel="stylesheet" '
    'href="/_next/static/css/{build}.css"><script defer nonce="{nonce}" '
    'src="/_next/static/chunks/webpack-{build}.js"></script>',
    top='<div id="__next"><div class="css-{h1}"><div class="css-{h2}">{logo}<div class="css-{h3}">'
    '{menu}</div>{search}<div class="css-{h4}">{clock}</div>{account}</div>{call}',
    entry='<div class="css-{h5}"><a class="css-{h6}" href="{href}">{text}</a></div>',
    before='<div class="css-{h7}"><div class="css-{h8}">{crumbs}</div><main class="css-{h9}" '
    'data-testid="{kind}-page">',
    after="</main>",
    aside='<div class="css-{h10}" data-testid="right-rail">{widgets}</div></div>',
    widget='<div class="css-{h11}"><div class="css-{h12}">{title}</div>{html}</div>',
    bottom='<footer class="css-{h13}">{columns}<div class="css-{h14}">{note}</div></footer>'
    "</div></div>",
    column='<div class="css-{h15}"><div class="css-{h16}">{title}</div><ul>{html}</ul></div>',
    tail='<script nonce="{nonce}" src="/_next/static/{build}/_buildManifest.js" async></script>',
    has_hashed_classes=True,
)
_BLOG = Design(
    head='<link rel="alternate" type="application/rss+xml" title="Feed" href="/feed/">\n'
    '<link rel="stylesheet" id="theme-style-css" href="/wp-content/themes/journal/style.css?ver='
    '{build}" media="all">\n<link rel="https://api.w.org/" href="/wp-json/">\n<meta '
    'name="generator" content="WordPress 6.8">\n<link rel="shortlink" href="https://{host}/?p=1">\n'
    '<script id="wp-settings">var ajax_object={{"ajax_url":"/wp-admin/admin-ajax.php","nonce":'
    '"{nonce}"}};</script>\n',
    top='<div id="page" class="hfeed site"><a class="skip-link screen-reader-text" '
    'href="#primary">{skip}</a>\n<header id="masthead" class="site-header">{logo}<p '
    'class="site-description">{clock}</p><nav id="site-navigation" class="main-navigation">'
    '<button class="menu-toggle" aria-controls="primary-menu">Menu</button><div '
    'class="menu-main-container"><ul id="primary-menu" class="menu">{menu}</ul></div></nav>'
    "{search}{account}</header>{call}\n",
    entry='<li class="menu-item menu-item-type-post_type"><a href="{href}">{text}</a></li>\n',
    before='<div id="content" class="site-content"><div class="breadcrumbs">{crumbs}</div><div '
    'id="primary" class="content-area"><div id="main" class="site-main type-{kind}">\n',
    after="</div></div>\n",
    aside='<div id="secondary" class="widget-area" role="complementary">{widgets}</div></div>\n',
    widget='<div class="widget widget_text"><h3 class="widget-title">{title}</h3>{html}</div>\n',
    bottom='<footer id="colophon" class="site-footer"><div class="footer-widgets">{columns}</div>'
    '<div class="site-info">{note}</div></footer></div>\n',
    column='<div class="footer-widget"><h4 class="widget-title">{title}</h4><ul>'
    "{html}</ul></div>\n",
    tail='<script src="/wp-includes/js/jquery/jquery.min.js?ver={build}"></script>\n<!-- '
    "Performance optimized by W3 Total Cache. Served from: {host} @ {stamp} -->",
)
_MANUAL = Design(
    head='<link rel="stylesheet" type="text/css" href="/_static/pygments.css?v={build}">\n'
    '<link rel="stylesheet" type="text/css" href="/_static/theme.css?v={build}">\n<script '
    'data-url_root="./" src="/_static/documentation_options.js?v={build}"></script>\n',
    top='<div class="announcement">{call}</div><header class="mobile-header">{logo}</header>\n<div '
    'class="page"><aside class="sidebar-drawer"><div class="sidebar-container">{search}<div '
    'class="sidebar-tree"><ul>{menu}</ul></div><div class="sidebar-status">{clock}{account}</div>'
    "</div></aside>\n",
    entry='<li class="toctree-l1"><a class="reference internal" href="{href}">{text}</a></li>\n',
    before='<div class="main"><div class="content"><div class="article-container"><div '
    'class="content-icon-container">{crumbs}</div><article role="main" id="{kind}">\n',
    after='</article></div><div class="related-pages"><a class="next-page" href="next.html"><span>'
    "{skip}</span></a></div></div>\n",
    aside='<aside class="toc-drawer">{widgets}</aside></div></div>\n',
    widget='<div class="toc-sticky"><div class="toc-title-container"><span class="toc-title">'
    '{title}</span></div><div class="toc-tree-container">{html}</div></div>\n',
    bottom='<footer><div class="bottom-of-page"><div class="left-details">{note}</div>{columns}'
    "</div></footer>\n",
    column='<div class="right-details"><span>{title}</span><ul>{html}</ul></div>\n',
    tail='<script src="/_static/scripts/furo.js?v={build}"></script>\n<!-- {nonce} -->',
)
_SHOP = Design(
    head='<link rel="stylesheet" href="https://cdn.{host}/app-{build}.css">\n<script>'
    'window.shopConfig={{"csrf":"{nonce}","currency":"EUR","build":"{build}"}}</script>\n',
    top='<div class="bg-gray-900 text-white text-xs py-1 text-center">{call}</div>\n<header '
    'class="sticky top-0 z-40 flex items-center justify-between px-4 shadow">{logo}<div '
    'class="flex-1 mx-8">{search}</div><div class="flex gap-4 text-sm">{account}<span '
    'class="text-gray-500">{clock}</span></div></header>\n<div class="hidden md:flex gap-6 px-4 '
    'mega-menu">{menu}</div>\n',
    entry='<div class="group relative"><a class="hover:underline font-medium" href="{href}">{text}'
    "</a></div>\n",
    before='<div class="max-w-7xl mx-auto px-4"><div class="text-xs text-gray-400 py-2">{crumbs}'
    '</div><div class="grid grid-cols-12 gap-6" data-page="{kind}"><div class="col-span-9">\n',
    after="</div>\n",
    aside='<div class="col-span-3 recommendations">{widgets}</div></div></div>\n',
    widget='<div class="rounded-lg border p-4 mb-4"><div class="font-semibold mb-2">{title}</div>'
    "{html}</div>\n",
    bottom='<div class="bg-gray-100 mt-16 py-10 footer"><div class="grid grid-cols-4">{columns}'
    '</div><div class="text-xs text-center text-gray-500">{note}</div></div>\n',
    column='<div><div class="font-semibold">{title}</div><ul class="space-y-1">{html}</ul></div>\n',
    tail='<script type="module" src="https://cdn.{host}/app-{build}.js"></script>',
)
_PORTAL = Design(
    head='<link rel="stylesheet" href="/portal/theme/css/base.css;jsessionid={nonce}">\n<meta '
    'name="_csrf" content="{nonce}">\n',
    top='<div id="wrapper"><div id="header"><div id="logo">{logo}</div><div id="tools">{account} | '
    '{clock}</div>{search}</div>\n{call}<div id="topnav"><ul>{menu}</ul></div>\n',
    entry='<li><a href="{href}"><span>{text}</span></a></li>\n',
    before='<div id="body">{aside}<div id="centre"><div id="path">{crumbs}</div><div '
    'class="portlet portlet-{kind}"><div class="portlet-body">\n',
    after="</div></div></div></div>\n",
    aside='<div id="left">{widgets}</div>\n',
    widget='<div class="box"><div class="box-head">{title}</div><div class="box-body">{html}</div>'
    "</div>\n",
    bottom='<div id="footer"><div id="footer-links">{columns}</div><div id="imprint">{note}</div>'
    "</div></div>\n",
    column='<div class="links"><b>{title}</b><ul>{html}</ul></div>\n',
    tail='<script type="text/javascript" src="/portal/theme/js/all.js?b={build}"></script>\n<!-- '
    "node: {node}, time: {stamp} -->",
    is_aside_first=True,
)

DESIGNS = {
    "press": _PRESS,
    "bootstrap": _BOOTSTRAP,
    "tables": _TABLES,
    "app": _APP,
    "blog": _BLOG,
    "manual": _MANUAL,
    "shop": _SHOP,
    "portal": _PORTAL,
}
