"""Logging in with an API key: who gets in, who does not, and what ends a session."""

import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from recrawl.corpus import Corpus
from recrawl.dashboard import attach_dashboard
from recrawl.dashboard.frame.opened_page import Dashboard
from recrawl.dashboard.limits import DashboardLimits
from recrawl.dashboard.login.login_routes import safe_path
from recrawl.service import create_key, limit_rows, revoke_key
from recrawl.service.keys import KeyRing
from recrawl.service.protection.audit import read_audit_log
from tests.unit.dashboard.browser_client import BrowserClient
from tests.unit.service.running_server import RunningServer


def make_key(folder: Path, *scopes: str, name: str = "ops") -> tuple[str, str]:
    key, stored = create_key(folder, scopes, name=name, now_ms=time.time_ns() // 1_000_000)
    return key, stored.id


def test_a_corpus_without_keys_needs_no_login_on_this_machine(open_server: RunningServer) -> None:
    browser = BrowserClient(open_server)
    first = browser.get("/")
    assert (first.status, first.headers["location"]) == (303, "/ui/news/")
    page = browser.get("/ui/news/")
    assert page.status == 200
    assert b"Log out" not in page.data


@pytest.mark.parametrize("host", ["evil.example", "192.0.2.1:8377", "localhost.evil.example", ""])
def test_names_of_others_do_not_reach_an_open_corpus(open_server: RunningServer, host: str) -> None:
    """A website whose name leads to 127.0.0.1 would otherwise read pages (DNS rebinding)."""
    assert BrowserClient(open_server, host or " ").get("/ui/news/").status == 421


def test_websites_may_link_to_an_open_corpus_but_not_read_it(open_server: RunningServer) -> None:
    browser = BrowserClient(open_server)
    shown = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert browser.get("/ui/news/", **shown, Sec_Fetch_Dest="document").status == 200
    assert browser.get("/ui/news/", **shown, Sec_Fetch_Dest="iframe").status == 421
    assert browser.get("/ui/news/live", Sec_Fetch_Site="cross-site").status == 421
    assert browser.get("/ui/news/", Origin="https://evil.example").status == 421


def test_a_key_opens_the_dashboard(keyed_server: RunningServer, folder: Path) -> None:
    key, _ = make_key(folder, "read")
    browser = BrowserClient(keyed_server)
    sent_away = browser.get("/ui/news/?a=b")
    assert (sent_away.status, sent_away.headers["location"]) == (
        303,
        "/login?next=/ui/news/%3Fa%3Db",
    )
    assert browser.get("/").headers["location"] == "/login"
    assert browser.get("/ui/news/live", X_Recrawl_Live="1").status == 401
    answer = browser.log_in(key, next="/ui/news/?a=b")
    assert (answer.status, answer.headers["location"]) == (303, "/ui/news/?a=b")
    page = browser.get("/ui/news/")
    assert page.status == 200
    assert b">ops<" in page.data
    assert key.encode() not in page.data


def test_cookies_are_out_of_reach_of_scripts_and_other_sites(
    keyed_server: RunningServer, folder: Path
) -> None:
    key, _ = make_key(folder, "read")
    browser = BrowserClient(keyed_server)
    browser.log_in(key)
    assert len(browser.set_cookies) == 2
    for cookie in browser.set_cookies:
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Secure" not in cookie  # a browser would not send it to http://localhost
        assert "Domain" not in cookie


def test_a_login_begins_a_new_session(keyed_server: RunningServer, folder: Path) -> None:
    """A session id that somebody planted before the login is worth nothing after it."""
    key, _ = make_key(folder, "read")
    browser = BrowserClient(keyed_server)
    name = f"recrawl-session-{keyed_server.port}"
    browser.cookies[name] = planted = "planted-by-somebody-else-0000000000"
    browser.log_in(key)
    first = browser.cookies[name]
    assert first != planted
    browser.post("/login", {"key": key}, token=browser.token("/ui/news/"))
    assert browser.cookies[name] != first
    for old in (planted, first):
        other = BrowserClient(keyed_server)
        other.cookies[name] = old
        assert other.get("/ui/news/").status == 303


def test_wrong_keys_are_refused(keyed_server: RunningServer, folder: Path) -> None:
    key, _ = make_key(folder, "read")
    fetcher, _ = make_key(folder, "lease", "report")
    wrong = BrowserClient(keyed_server).log_in(key[:-1] + ("0" if key[-1] != "0" else "1"))
    assert (wrong.status, b"not a valid API key" in wrong.data) == (401, True)
    unread = BrowserClient(keyed_server).log_in(fetcher)
    assert (unread.status, b"scope read" in unread.data) == (403, True)


def test_attempts_to_log_in_are_limited(corpus: Corpus, folder: Path) -> None:
    """With so low a rate that no pause of a busy machine allows another attempt."""
    assert DashboardLimits().logins_per_second == 1
    limits = DashboardLimits(logins_per_second=1e-5)
    with RunningServer(
        {"news": corpus},
        folders={"news": folder},
        keys={"news": KeyRing(folder)},
        is_local=False,
        dashboard=partial(attach_dashboard, limits=limits),
    ) as server:
        browser = BrowserClient(server)
        token = browser.token()
        statuses = [browser.post("/login", {"key": "x"}, token=token).status for _ in range(30)]
    assert statuses == [401] + 29 * [429]


def test_a_form_of_another_site_logs_nobody_in(keyed_server: RunningServer, folder: Path) -> None:
    key, _ = make_key(folder, "read")
    browser = BrowserClient(keyed_server)
    token = browser.token()
    other_sites = [{"Origin": "https://evil.example"}, {"Origin": "null"}]
    other_sites += [{"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "none")]
    other_sites.append({"Origin": f"http://localhost:{keyed_server.port + 1}"})
    other_sites.append({"Origin": f"https://localhost:{keyed_server.port}"})
    for headers in other_sites:
        assert browser.post("/login", {"key": key}, token=token, headers=headers).status == 403
    # A token of another browser, none, and one that only looks right.
    for wrong in (BrowserClient(keyed_server).token(), "", "é" * 8):
        assert browser.post("/login", {"key": key}, token=wrong).status == 403


def test_without_encryption_a_key_is_not_asked_for(keyed_server: RunningServer) -> None:
    browser = BrowserClient(keyed_server, "recrawl.example:8377")
    page = browser.get("/login")
    assert b"not encrypted" in page.data
    assert b'type="password"' not in page.data
    assert browser.post("/login", {"key": "x"}, token="x").status == 403


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_behind_a_proxy_that_is_not_trusted_a_key_is_not_asked_for(
    keyed_server: RunningServer, folder: Path, header: str
) -> None:
    """The proxy may have written localhost as the host of a request from elsewhere."""
    key, _ = make_key(folder, "read")
    browser = BrowserClient(keyed_server)
    page = browser.get("/login", **{header.replace("-", "_"): "192.0.2.1"})
    assert b'type="password"' not in page.data
    answer = browser.post(
        "/login", {"key": key}, token=browser.token(), headers={header: "192.0.2.1"}
    )
    assert answer.status == 403
    assert browser.log_in(key).status == 303


def test_a_trusted_proxy_says_that_a_connection_is_encrypted(corpus: Corpus, folder: Path) -> None:
    key, _ = make_key(folder, "read")
    with RunningServer(
        {"news": corpus},
        folders={"news": folder},
        keys={"news": KeyRing(folder)},
        trusted_proxies=["127.0.0.1"],
        dashboard=attach_dashboard,
    ) as server:
        browser = BrowserClient(server, "recrawl.example")
        sent = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"}
        page = browser.request("GET", "/login", headers=sent)
        assert page.headers["strict-transport-security"].startswith("max-age=")
        token = re.findall(r'name="token" value="([^"]+)"', page.data.decode())[0]
        origins = [("http://recrawl.example", 403), ("https://recrawl.example", 303)]
        for origin, status in origins:
            headers = {**sent, "Origin": origin}
            answer = browser.post("/login", {"key": key}, token=token, headers=headers)
            assert answer.status == status
        assert all("Secure" in one and one.startswith("__Host-") for one in browser.set_cookies)
        plain = browser.request("GET", "/login", headers={"X-Forwarded-For": "192.0.2.1"})
        assert "strict-transport-security" not in plain.headers
        # The header is for all ports of a host, and so not for localhost.
        own = BrowserClient(server).request("GET", "/login", headers=sent)
        assert "strict-transport-security" not in own.headers


def test_a_corpus_without_keys_does_not_keep_people_from_others(
    open_corpus: Callable[..., Corpus], tmp_path: Path
) -> None:
    corpora = {name: open_corpus(name) for name in ("keyed", "open")}
    folders = {name: tmp_path / name for name in corpora}
    key, _ = make_key(folders["keyed"], "read")
    rings = {name: KeyRing(folder) for name, folder in folders.items()}
    with RunningServer(corpora, folders=folders, keys=rings, dashboard=attach_dashboard) as server:
        browser = BrowserClient(server)
        browser.log_in(key)
        assert browser.get("/ui/keyed/kinds").status == 200
        assert b"/ui/open/" in browser.get("/").data
        through_proxy = {"X_Forwarded_For": "192.0.2.1"}
        assert browser.get("/ui/keyed/kinds", **through_proxy).status == 200
        assert browser.get("/", **through_proxy).headers["location"] == "/ui/keyed/"
        assert browser.get("/ui/open/", **through_proxy).status == 421
        stranger = BrowserClient(server)
        assert stranger.get("/", **through_proxy).headers["location"] == "/login"


def test_logins_are_in_the_audit_log(keyed_server: RunningServer, folder: Path) -> None:
    key, key_id = make_key(folder, "read", name="Ada")
    browser = BrowserClient(keyed_server)
    assert browser.log_in("rk_wrong").status == 401
    assert browser.log_in(key).status == 303
    (entry,) = read_audit_log(folder)
    assert (entry.who, entry.what, entry.status) == ("Ada", "dashboard: log in", 303)
    assert (entry.key, entry.client) == (key_id, "127.0.0.1")
    assert key not in (folder / "audit.jsonl").read_text()


def test_revoking_a_key_ends_its_sessions(keyed_server: RunningServer, folder: Path) -> None:
    key, key_id = make_key(folder, "read")
    make_key(folder, "read", name="other")
    browser = BrowserClient(keyed_server)
    browser.log_in(key)
    assert browser.get("/ui/news/").status == 200
    revoke_key(folder, key_id)
    time.sleep(1.1)  # the server reads changed keys again once a second
    assert browser.get("/ui/news/").status == 303


def test_revoking_the_only_key_does_not_open_the_pages(corpus: Corpus, folder: Path) -> None:
    key, key_id = make_key(folder, "read")
    ring = KeyRing(folder)
    with RunningServer(
        {"news": corpus},
        folders={"news": folder},
        keys={"news": ring},
        dashboard=attach_dashboard,
    ) as server:
        browser = BrowserClient(server)
        browser.log_in(key)
        assert browser.get("/ui/news/").status == 200
        revoke_key(folder, key_id)
        ring.reload()
        for one in (browser, BrowserClient(server)):
            answer = one.get("/ui/news/")
            assert (answer.status, answer.headers["location"]) == (303, "/login?next=/ui/news/")


def test_logging_out_ends_the_session(keyed_server: RunningServer, folder: Path) -> None:
    key, _ = make_key(folder, "read")
    browser = BrowserClient(keyed_server)
    browser.log_in(key)
    before = dict(browser.cookies)
    assert browser.request("GET", "/logout").status == 405
    answer = browser.post("/logout", {}, token=browser.token("/ui/news/"))
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    browser.cookies = before
    assert browser.get("/ui/news/").status == 303


@pytest.mark.parametrize(
    "path",
    [
        *("https://evil.example/", "//evil.example/", "/\\evil.example", "/ui/../login"),
        *("javascript:alert(1)", "/ui//evil.example/", "/ui/news", "/ui/news/\r\nSet-Cookie: a=b"),
        *("/ui/news/<script>", "/logout", None, "", "/ui/news/\\x"),
    ],
)
def test_a_login_leads_to_pages_of_ours_alone(path: str | None) -> None:
    assert safe_path(path) == "/"


def test_sessions_of_a_server_are_bounded(keyed_server: RunningServer, folder: Path) -> None:
    key, _ = make_key(folder, "read")
    browser = BrowserClient(keyed_server)
    browser.log_in(key)
    route = next(r for r in keyed_server.app.router.routes if type(r).__name__ == "_DashboardRoute")
    dashboard: Dashboard = route._dashboard.state.dashboard  # type: ignore[attr-defined]
    assert len(dashboard.visitors.sessions) == 1


def test_forms_beyond_a_limit_are_answered_as_the_limits_say(open_server: RunningServer) -> None:
    limits = DashboardLimits()
    beyond = {row.name: row.beyond for row in limit_rows(limits)}
    browser = BrowserClient(open_server)
    fields = {f"field{i}": "" for i in range(limits.fields_max + 1)}
    assert browser.post("/login", fields).status == int(beyond["fields_max"].split()[0])
    large = {"key": "x" * limits.form_bytes_max}
    assert browser.post("/login", large).status == int(beyond["form_bytes_max"].split()[0])
