"""A server that speaks S3, in this process, which can be made to fail."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

__all__ = ["S3Server"]


class S3Server:
    """A server that can be told to refuse some requests, by their numbers."""

    def __init__(self) -> None:
        self._serves = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.requests: list[str] = []
        self.fails_from: int | None = None
        """Number of requests after which the next ones are refused; None for none."""
        self.n_failing: int | None = None
        """Number of requests that are refused; None for all."""

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.requests.append(f"{environ['REQUEST_METHOD']} {environ['QUERY_STRING']}")
        if self._is_refused(len(self.requests) - 1):
            # Not 503, after which the client tries again for seconds.
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("403 Forbidden", [("Content-Length", "0")])
            return [b""]
        return self._serves(environ, start)

    def _is_refused(self, number: int) -> bool:
        if self.fails_from is None or number < self.fails_from:
            return False
        return self.n_failing is None or number < self.fails_from + self.n_failing

    @property
    def uri(self) -> str:
        """URI of a bucket."""
        options = f"scheme=http&region=us-east-1&endpoint_override=127.0.0.1:{self._server.port}"
        return f"s3://key:secret@bucket/recrawl?allow_bucket_creation=true&{options}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
