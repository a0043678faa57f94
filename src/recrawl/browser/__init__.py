"""Fetchers for pages that show their text only in a browser.

`ShellAwareFetcher` fetches pages plainly, and renders those whose plain answer is an empty shell,
in Chromium.  The browser reaches the network only through a proxy of ours, which checks addresses.
It needs the extra ``recrawl[browser]`` and an installed Chromium.
"""

from recrawl.browser.fetchers import BrowserFetcher, ShellAwareFetcher
from recrawl.browser.render_memory import PageGrade, RenderMemory, grade_page, is_gain
from recrawl.browser.renderer import RenderedPage, Renderer
from recrawl.browser.settings import BrowserSettings

__all__ = [
    "BrowserFetcher",
    "BrowserSettings",
    "PageGrade",
    "RenderMemory",
    "RenderedPage",
    "Renderer",
    "ShellAwareFetcher",
    "grade_page",
    "is_gain",
]
