"""Settings over HTTP: a client changes only what it has seen."""

from typing import Any

from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import Answer, RunningServer


def put_budget(server: RunningServer, rate: Any, **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.request("PUT", "/v1/corpora/news/budget", {"rate": rate}, sent)


def test_the_budget_is_changed_only_if_it_is_the_one_seen(server: RunningServer) -> None:
    seen = server.get("/budget")
    assert seen.json["budget"] == "unlimited"
    changed = put_budget(server, "30/h", If_Match=seen.headers["etag"])
    assert changed.status == 200
    assert "30" in changed.json["budget"]
    late = put_budget(server, "90/h", If_Match=seen.headers["etag"])
    assert (late.status, late.problem) == (412, "other-version")
    assert late.headers["etag"] == changed.headers["etag"] == server.get("/budget").headers["etag"]
    assert put_budget(server, None, If_Match="*").json["budget"] == "unlimited"
    assert put_budget(server, "lots").problem == "invalid-value"
    assert put_budget(server, 3).problem == "invalid-value"


def test_a_host_is_changed_only_if_it_is_the_one_seen(server: RunningServer) -> None:
    server.post("/pages", [{"url": URLS[0]}])
    path = "/v1/corpora/news/hosts/site0.example"
    seen = server.request("GET", path)
    assert seen.json["n_pages"] == 1
    server.post("/pages", [{"url": URLS[1]}])  # not a setting, so not another version
    match = {"If-Match": seen.headers["etag"]}
    changed = server.request("PATCH", path, {"delay": "5s", "is_closed": True}, match)
    assert (changed.json["delay_seconds"], changed.json["is_closed"]) == (5.0, True)
    late = server.request("PATCH", path, {"delay": "1s"}, match)
    assert late.problem == "other-version"
    wrong: Any
    for wrong in ({"delay": -1}, {"burst": 0}, {"in_flight_max": 1 << 40}, {"colour": 1}, []):
        assert server.request("PATCH", path, wrong).problem == "invalid-value"
    assert server.request("GET", "/v1/corpora/news/hosts/a%2Fb").status in (404, 422)
