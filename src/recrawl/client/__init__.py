"""Use a corpus that another process serves over HTTP, with the methods of `recrawl.Corpus`.

`Client` is for plain programs, `AsyncClient` for asyncio.  Both repeat requests that fail, and each
repeated request has the effect of one.  Importing them loads no compiled code.
"""

from recrawl.client.async_client import AsyncClient
from recrawl.client.client import Client
from recrawl.client.details import ServiceDetails
from recrawl.client.service_url import is_service_url
from recrawl.client.work import WorkCounts

__all__ = ["AsyncClient", "Client", "ServiceDetails", "WorkCounts", "is_service_url"]
