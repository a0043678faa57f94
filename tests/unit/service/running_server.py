"""A server in a thread of the test, which listens on a real port."""

import asyncio
import json
import threading
from collections.abc import Mapping
from http.client import HTTPConnection
from types import TracebackType
from typing import Any, NamedTuple, Self

import uvicorn

from recrawl.service.app import create_app
from recrawl.service.listening import bind_socket
from recrawl.service.server import server_config


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def problem(self) -> str:
        """The name of the problem, which an answer with an error must have."""
        assert self.headers["content-type"] == "application/problem+json", self
        document = self.json
        assert document["status"] == self.status
        assert document["detail"]
        return str(document["type"]).removeprefix("urn:recrawl:problem:")


class RunningServer:
    """Starts with ``with``, and stops as a process does that gets SIGTERM."""

    def __init__(self, corpora: Mapping[str, Any], **settings: Any) -> None:
        self.app = create_app(corpora, **settings)
        self._socket = bind_socket("127.0.0.1", 0)
        self.port: int = self._socket.getsockname()[1]
        config = server_config(self.app, self.app.state.service.limits)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._server.serve(sockets=[self._socket]))
        )

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
            assert self._thread.is_alive(), "the server has not started"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server and wait until it has ended."""
        self._server.should_exit = True
        self._thread.join(300)
        assert not self._thread.is_alive(), "the server has not stopped"
        self._socket.close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 300,
    ) -> Answer:
        """Send one request; a body that is not bytes is sent as JSON."""
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", f"/v1/corpora/news{path}", headers=_named(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.request("POST", f"/v1/corpora/news{path}", body, _named(headers))


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
