"""The path that Prometheus scrapes."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from recrawl.service.calls import service_of
from recrawl.service.keys import Scope
from recrawl.service.operations.metrics import ServerMetrics

__all__ = ["router"]

router = APIRouter()


@router.get("/metrics", include_in_schema=False)
async def show_metrics(request: Request) -> Response:
    """Return the metrics of the server, and of the corpora that the client may read."""
    service = service_of(request)
    names = service.access.usable(request, Scope.READ)
    hosted = [service.corpora.find(name) for name in names]
    latest = await asyncio.gather(*(one.metrics.latest() for one in hosted))
    metrics: ServerMetrics = request.app.state.metrics
    data, media_type = metrics.encode(
        list(zip(hosted, latest, strict=True)),
        n_bytes_held=service.memory.n_held,
        accept=request.headers.get("accept", ""),
    )
    return Response(data, headers={"Content-Type": media_type, "Cache-Control": "no-store"})
