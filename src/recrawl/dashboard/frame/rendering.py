"""Fill templates.  Everything that a template writes is escaped unless our own code made it."""

import time
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from recrawl import __version__
from recrawl.charts import without_style
from recrawl.dashboard.frame.asset_files import asset_url
from recrawl.dashboard.frame.opened_page import dashboard_of, find_page
from recrawl.dashboard.frame.text_filters import FILTERS
from recrawl.dashboard.login.cookies import set_cookie
from recrawl.messages.samples import FRESHNESS_KNOWN_WORDS

__all__ = ["chart_html", "render"]

_TEMPLATES: Final = Environment(
    loader=PackageLoader("recrawl.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_TEMPLATES.filters.update(FILTERS)
_TEMPLATES.globals.update(
    asset_url=asset_url, version=__version__, known_words=FRESHNESS_KNOWN_WORDS
)


def chart_html(svg: str) -> Markup:
    """Return a chart of `recrawl.charts` for a template; its style is in a file of its own.

    Parameters
    ----------
    svg
        Chart, whose texts are escaped.
    """
    return Markup(without_style(svg))


def render(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page.

    Templates also have: ``page``, the page that the request has opened, None for pages without a
    corpus; ``sections``, for the navigation; ``token``, for the field ``token`` of each form; and
    ``now_ms``.

    Parameters
    ----------
    request
        Request of the browser.
    template
        Name of a file in the folder of templates.
    status
        HTTP status of the answer.
    **context
        Values for the template.
    """
    dashboard = dashboard_of(request)
    visitor = dashboard.visitors.find(request)
    context.setdefault("page", find_page(request))
    context.setdefault("now_ms", time.time_ns() // 1_000_000)
    html = _TEMPLATES.get_template(template).render(
        sections=dashboard.sections,
        path=request.url.path,
        token=visitor.token,
        is_logged_in=visitor.session is not None,
        **context,
    )
    response = HTMLResponse(html, status)
    if visitor.is_new:
        set_cookie(request, response, "browser", visitor.browser)
    return response
