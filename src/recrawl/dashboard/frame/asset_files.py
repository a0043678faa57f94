"""The style sheets, the script and the icon of the dashboard."""

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from recrawl.charts import CHART_CSS
from recrawl.service.problems import Problem

__all__ = ["asset_url", "router"]

router = APIRouter()

_TYPES: Final = {
    "dashboard.css": "text/css; charset=utf-8",
    "charts.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_FOR_A_YEAR: Final = "public, max-age=31536000, immutable"


@cache
def _read_asset(name: str) -> bytes:
    if name == "charts.css":
        return CHART_CSS.encode()
    return (files("recrawl.dashboard") / "assets" / name).read_bytes()


@cache
def _version_of(name: str) -> str:
    return blake2b(_read_asset(name), digest_size=8).hexdigest()


def asset_url(name: str) -> str:
    """Return the path of a file, which changes with its content."""
    return f"/assets/{name}?v={_version_of(name)}"


@router.get("/assets/{name}")
async def show_asset(request: Request, name: str) -> Response:
    """Return a file that pages use."""
    if name not in _TYPES:
        raise Problem("unknown-path", "there is no such file")
    # A page of another version may still be open: its files must not be kept under a wrong name.
    is_exact = request.query_params.get("v") == _version_of(name)
    headers = {"Cache-Control": _FOR_A_YEAR if is_exact else "no-cache"}
    return Response(_read_asset(name), media_type=_TYPES[name], headers=headers)
