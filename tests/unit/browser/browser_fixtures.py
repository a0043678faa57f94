"""Settings and pages for the tests of the browser."""

from typing import Any

from recrawl.browser import BrowserSettings
from recrawl.fetch import FetchSettings
from recrawl.testing.fetchers import http_answer


def fetch_settings(**changes: Any) -> FetchSettings:
    given: dict[str, Any] = {
        "contact": "https://example.com/bot",
        "delay_seconds": 0.0,
        "slowness_factor": 0.0,
        "backoff_seconds": 0.0,
        "audit_share": 0.0,
        "allow_networks": ("127.0.0.0/8",),
    }
    return FetchSettings(**given | changes)


def browser_settings(**changes: Any) -> BrowserSettings:
    # On a busy machine, half a second may pass between two steps of a page.
    given: dict[str, Any] = {"quiet_seconds": 1.0, "seconds_max": 60.0, "has_sandbox": False}
    return BrowserSettings(**given | changes)


def html(text: str, *, headers: str = "") -> bytes:
    """Return the bytes of an answer with an HTML page."""
    return http_answer(text.encode(), headers=f"Content-Type: text/html\r\n{headers}")


def script(text: str, *, headers: str = "") -> bytes:
    """Return the bytes of an answer with a script."""
    return http_answer(text.encode(), headers=f"Content-Type: text/javascript\r\n{headers}")


SHELL = '<!doctype html><title>App</title><div id="root"></div><script src="/app.js"></script>'
APP = """
fetch("/data.json").then((answer) => answer.json()).then((data) => {
  document.getElementById("root").innerHTML = `<h1>Tea</h1><p>${data.text}</p>`;
});
"""
TEXT = " ".join(f"word{i}" for i in range(60))
SHELL_SITE = {
    "/page": html(SHELL, headers='ETag: "1"\r\n'),
    "/app.js": script(APP),
    "/data.json": http_answer(
        f'{{"text": "{TEXT}"}}'.encode(), headers="Content-Type: application/json\r\n"
    ),
}
