"""A client that keeps cookies and sends forms as a browser does."""

import re
from collections.abc import Mapping
from http.cookies import SimpleCookie
from urllib.parse import urlencode

from tests.unit.service.running_server import Answer, RunningServer

_TOKEN = re.compile(r'name="token" value="([^"]+)"')


class BrowserClient:
    def __init__(self, server: RunningServer, host: str | None = None) -> None:
        self._server = server
        self.host = host or f"localhost:{server.port}"
        self.cookies: dict[str, str] = {}
        self.set_cookies: list[str] = []

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        sent = {"Host": self.host, **(headers or {})}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = self._server.request(method, path, body, sent)
        given = answer.headers.get("set-cookie")
        if given is not None:
            self.set_cookies.append(given)
            for name, morsel in SimpleCookie(given).items():
                self.cookies[name] = morsel.value
                if not morsel.value:
                    del self.cookies[name]
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("GET", path, headers=named)

    def token(self, path: str = "/login") -> str:
        found = _TOKEN.search(self.get(path).data.decode())
        assert found is not None, path
        return found[1]

    def post(
        self,
        path: str,
        fields: Mapping[str, str],
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a form from a page of the server, with a token unless one is given."""
        token = self.token() if token is None else token
        body = urlencode({**fields, "token": token}).encode()
        sent = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": f"http://{self.host}",
            **(headers or {}),
        }
        return self.request("POST", path, body, sent)

    def log_in(self, key: str, **fields: str) -> Answer:
        return self.post("/login", {"key": key, **fields})
