"""API keys: what is stored of them, and what each allows."""

import asyncio
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recrawl.corpus import Corpus
from recrawl.errors import StorageError
from recrawl.service import (
    Scope,
    WebSubSettings,
    create_app,
    create_key,
    list_keys,
    needs_key,
    open_without_keys,
    read_key_uses,
    revoke_key,
    rotate_key,
)
from recrawl.service.keys import KeyRing, is_well_formed
from recrawl.service.protection.key_use import KeyUses
from recrawl.service.server import is_loopback
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer

REFERENCE = Path(__file__).parents[3] / "docs/reference/service.md"
NOW = 1_700_000_000_000


def test_only_the_hash_of_a_key_is_stored(tmp_path: Path) -> None:
    key, stored = create_key(tmp_path, ["read", "lease", "read"], name="a", now_ms=NOW)
    assert is_well_formed(key)
    assert stored.scopes == (Scope.READ, Scope.LEASE)
    assert list_keys(tmp_path) == [stored]
    file = tmp_path / "api-keys.json"
    text = file.read_text()
    assert all(part not in text for part in (key, key.split("_")[2]))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ring = KeyRing(tmp_path)
    assert ring.find(key, NOW) == stored
    typo = key[:30] + ("a" if key[30] != "a" else "b") + key[31:]
    assert not is_well_formed(typo)
    assert ring.find(typo, NOW) is None
    other, _ = create_key(tmp_path / ".", ["read"], now_ms=NOW)
    assert ring.find(other, NOW) is None
    ring.reload()
    assert ring.find(other, NOW) is not None
    assert revoke_key(tmp_path, stored.id)
    assert not revoke_key(tmp_path, stored.id)
    ring.reload()
    assert ring.find(key, NOW) is None


def test_a_corpus_that_had_keys_stays_closed_until_an_operator_opens_it(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path)
    assert (len(ring), ring.is_open) == (0, True)
    _, stored = create_key(tmp_path, ["read"], now_ms=NOW)
    with pytest.raises(ValueError, match="revoke them first"):
        open_without_keys(tmp_path)
    revoke_key(tmp_path, stored.id)
    ring.reload()
    for one in (ring, KeyRing(tmp_path)):
        assert (len(one), one.is_open) == (0, False)
    assert needs_key(tmp_path)
    open_without_keys(tmp_path)
    ring.reload()
    assert (ring.is_open, KeyRing(tmp_path).is_open) == (True, True)
    create_key(tmp_path, ["read"], now_ms=NOW)
    ring.reload()
    assert not ring.is_open
    # A file that is lost while a server runs does not open the corpus.
    (tmp_path / "api-keys.json").unlink()
    ring.reload()
    assert (len(ring), ring.is_open) == (0, False)


def test_a_file_of_an_older_version_without_keys_is_closed(tmp_path: Path) -> None:
    (tmp_path / "api-keys.json").write_text('{"format": 1, "keys": []}')
    assert needs_key(tmp_path)
    assert not KeyRing(tmp_path).is_open


def test_keys_expire(tmp_path: Path) -> None:
    key, _ = create_key(tmp_path, ["read"], now_ms=NOW, expires_at_ms=NOW + 1_000)
    ring = KeyRing(tmp_path)
    assert ring.find(key, NOW + 999) is not None
    assert ring.find(key, NOW + 1_000) is None


def test_a_rotated_key_stays_valid_for_the_overlap(tmp_path: Path) -> None:
    day = 86_400_000
    first, _ = create_key(
        tmp_path, ["read", "lease"], name="a", now_ms=NOW, expires_at_ms=NOW + 90 * day
    )
    now = NOW + 10 * day
    second, new, old = rotate_key(tmp_path, "a", overlap_seconds=60.0, now_ms=now)
    assert list_keys(tmp_path) == [old, new]
    assert (new.name, new.scopes, new.replaced_by) == ("a", old.scopes, None)
    assert new.expires_at_ms == now + 90 * day
    assert (old.replaced_by, old.expires_at_ms) == (new.id, now + 60_000)
    ring = KeyRing(tmp_path)
    assert ring.find(first, now + 59_999) == old
    assert ring.find(second, now + 59_999) == new
    assert ring.find(first, now + 60_000) is None
    assert ring.recognise(first) == old
    # The name now means the new key.
    third, newest, replaced = rotate_key(
        tmp_path, "a", overlap_seconds=0, now_ms=now, expires_at_ms=now + day
    )
    assert (replaced.id, newest.expires_at_ms) == (new.id, now + day)
    ring.reload()
    assert ring.find(second, now) is None
    assert ring.find(third, now) == newest
    # An overlap does not make a key live longer.
    _, _, old = rotate_key(tmp_path, newest.id, overlap_seconds=2 * 86_400, now_ms=now)
    assert old.expires_at_ms == now + day


def test_only_one_valid_key_can_be_rotated(tmp_path: Path) -> None:
    keys = [create_key(tmp_path, ["read"], name="a", now_ms=NOW)[1] for _ in range(2)]
    with pytest.raises(ValueError, match=f"2 keys are called 'a'.*{keys[0].id}, {keys[1].id}"):
        rotate_key(tmp_path, "a", now_ms=NOW)
    with pytest.raises(ValueError, match="no valid key 'b'"):
        rotate_key(tmp_path, "b", now_ms=NOW)
    with pytest.raises(ValueError, match="90 days"):
        rotate_key(tmp_path, keys[0].id, overlap_seconds=1e9, now_ms=NOW)
    with pytest.raises(ValueError, match="future"):
        rotate_key(tmp_path, keys[0].id, now_ms=NOW, expires_at_ms=NOW)
    rotate_key(tmp_path, keys[0].id, now_ms=NOW)
    with pytest.raises(ValueError, match="no valid key"):
        rotate_key(tmp_path, keys[0].id, now_ms=NOW)


def test_keys_that_expired_long_ago_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recrawl.service.keys.KEYS_MAX", 2)
    day = 86_400_000
    for _ in range(2):
        create_key(tmp_path, ["read"], now_ms=NOW, expires_at_ms=NOW + day)
    with pytest.raises(ValueError, match="at most 2 keys"):
        create_key(tmp_path, ["read"], now_ms=NOW + 30 * day)
    _, stored = create_key(tmp_path, ["read"], now_ms=NOW + 31 * day)
    assert list_keys(tmp_path) == [stored]


def test_wrong_keys_are_refused(tmp_path: Path) -> None:
    for wrong in ([], ["root"]):
        with pytest.raises(ValueError, match=r"scope|root"):
            create_key(tmp_path, wrong, now_ms=NOW)
    with pytest.raises(ValueError, match="future"):
        create_key(tmp_path, ["read"], now_ms=NOW, expires_at_ms=NOW)
    with pytest.raises(ValueError, match="printable"):
        create_key(tmp_path, ["read"], now_ms=NOW, name="\n")
    (tmp_path / "api-keys.json").write_text("{")
    with pytest.raises(StorageError, match="cannot be read"):
        list_keys(tmp_path)


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / f"keys-{name}" for name in ("news", "shop")}
    for folder in found.values():
        folder.mkdir()
    return found


@pytest.fixture
def key_of(folders: dict[str, Path]) -> Callable[..., str]:
    def create(corpus: str, *scopes: str, expires_at_ms: int | None = None) -> str:
        now_ms = time.time_ns() // 1_000_000
        key, _ = create_key(folders[corpus], scopes, now_ms=now_ms, expires_at_ms=expires_at_ms)
        return f"Bearer {key}"

    return create


@pytest.fixture
def guarded(
    open_corpus: Callable[..., Corpus], folders: dict[str, Path], key_of: Callable[..., str]
) -> Iterator[RunningServer]:
    key_of("news", "admin")
    key_of("shop", "admin")
    corpora = {"news": open_corpus("news"), "shop": open_corpus("shop")}
    corpora["news"].add(URLS)
    rings = {name: KeyRing(folder) for name, folder in folders.items()}
    with RunningServer(corpora, keys=rings, is_local=False, folders=folders) as server:
        server.app.state.rings = rings
        yield server


CALLS = {
    ("GET", "/stats"): "read",
    ("GET", "/audited-freshness"): "read",
    ("GET", "/sources"): "read",
    ("GET", "/sample"): "read",
    ("GET", "/samples"): "read",
    ("GET", "/hosts"): "read",
    ("GET", "/hosts/site0.example/pages"): "read",
    ("GET", "/page/history?url=x"): "read",
    ("GET", "/page/last-change?url=x"): "read",
    ("POST", "/pages/fetch-now"): "admin",
    ("GET", "/plan"): "read",
    ("GET", "/configuration"): "read",
    ("GET", "/budget"): "read",
    ("GET", "/pages"): "read",
    ("GET", "/page?url=x"): "read",
    ("GET", "/hosts/site0.example"): "read",
    ("GET", "/changes"): "read",
    ("GET", "/consumers"): "read",
    ("PUT", "/consumers/x"): "read",
    ("DELETE", "/consumers/x"): "admin",
    ("POST", "/orders"): "lease",
    ("POST", "/orders/by-url"): "lease",
    ("POST", "/orders/extend"): "lease",
    ("POST", "/orders/release"): "lease",
    ("POST", "/turns"): "lease",
    ("POST", "/robots"): "lease",
    ("GET", "/robots?host=site0.example"): "read",
    ("POST", "/pages"): "report",
    ("POST", "/outcomes"): "report",
    ("POST", "/requests"): "report",
    ("POST", "/signals?source=x"): "signal",
    ("PATCH", "/pages"): "admin",
    ("POST", "/pages/settings"): "admin",
    ("POST", "/pages/remove"): "admin",
    ("PUT", "/budget"): "admin",
    ("PATCH", "/hosts/site0.example"): "admin",
    ("GET", "/webhooks"): "read",
    ("POST", "/webhooks"): "admin",
    ("PATCH", "/webhooks/hook"): "admin",
    ("DELETE", "/webhooks/hook"): "admin",
    ("POST", "/webhooks/hook/rotate"): "admin",
    ("GET", "/webhooks/hook/letters"): "read",
    ("POST", "/webhooks/hook/letters/send-again"): "admin",
    ("POST", "/webhooks/hook/letters/drop"): "admin",
}


# Paths whose requests prove otherwise who has sent them; tests/unit/service/receivers tests them.
WITHOUT_KEYS = {
    ("POST", "/receivers/NAME"): "signature",
    ("GET", "/websub/TOKEN"): "signature",
    ("POST", "/websub/TOKEN"): "signature",
    ("GET", "/indexnow"): "key of the site",
    ("POST", "/indexnow"): "key of the site",
}
NAMES = {"x": "NAME", "site0.example": "HOST", "hook": "NAME"}
PARAMETERS = {
    "{consumer}": "NAME",
    "{host}": "HOST",
    "{webhook}": "NAME",
    "{receiver}": "NAME",
    "{token}": "TOKEN",
}


def named(path: str, names: dict[str, str]) -> str:
    parts = path.partition("?")[0].split("/")
    return "/".join(names.get(part, part) for part in parts)


def expected_scopes() -> dict[tuple[str, str], str]:
    """Return the scope of each path, with the names that the reference uses."""
    tested = {(method, named(path, NAMES)): scope for (method, path), scope in CALLS.items()}
    return tested | WITHOUT_KEYS


async def fetch_nothing(url: str) -> None:
    raise AssertionError(url)


def test_every_path_is_in_the_table(open_corpus: Callable[..., Corpus]) -> None:
    websub = WebSubSettings(url="https://recrawl.example/", fetch_feed=fetch_nothing)
    app = create_app({"news": open_corpus()}, fetch_text=fetch_nothing, websub=websub)
    prefix = "/v1/corpora/{corpus}"
    paths = {
        (method.upper(), named(path.removeprefix(prefix), PARAMETERS))
        for path, operations in app.openapi()["paths"].items()
        if path.startswith(prefix)
        for method in operations
    }
    assert set(expected_scopes()) == paths


def test_the_reference_has_every_path_with_its_scope() -> None:
    (table,) = re.findall(r"^## Paths\n(.*?)^## ", REFERENCE.read_text("utf-8"), re.M | re.S)
    documented = {}
    for first, second in re.findall(r"^\| (`[A-Z]+ /.*?) \| (.*?) \|", table, re.M):
        calls = re.findall(r"`([A-Z]+) (/[^`?]*)[^`]*`", first)
        scopes = [one.strip("` ") for one in second.split(",")]
        for i, (method, path) in enumerate(calls):
            documented[method, path] = scopes[min(i, len(scopes) - 1)]
    assert documented == expected_scopes()


@pytest.mark.parametrize("scope", list(Scope))
def test_a_scope_allows_its_calls_and_no_others(
    guarded: RunningServer, key_of: Callable[..., str], scope: Scope
) -> None:
    headers = {"Authorization": key_of("news", scope)}
    for (method, path), needed in CALLS.items():
        body = None if method in ("GET", "DELETE") else b"[]"
        sent = headers | {"Content-Type": "application/json"}
        answer = guarded.request(method, f"/v1/corpora/news{path}", body, sent)
        if scope in (needed, "admin"):
            assert answer.status in (200, 404, 422), (path, answer)
        else:
            assert (answer.status, answer.problem) == (403, "not-allowed"), path
        other = guarded.request(method, f"/v1/corpora/shop{path}", body, sent)
        assert (other.status, other.problem) == (401, "key-needed"), path


def test_nothing_is_answered_without_a_key(
    guarded: RunningServer, key_of: Callable[..., str]
) -> None:
    expired = key_of("news", "admin", expires_at_ms=time.time_ns() // 1_000_000 + 1)
    time.sleep(0.01)
    wrong = ("", "Bearer", "Bearer x", "Basic eDp5", expired, expired[:-1], "Bearer " + "x" * 9_000)
    for given in wrong:
        sent = {"Authorization": given, "Content-Type": "application/json"} if given else {}
        for method, path in CALLS:
            body = None if method in ("GET", "DELETE") else b"[]"
            answer = guarded.request(method, f"/v1/corpora/news{path}", body, sent)
            assert (answer.status, answer.problem) == (401, "key-needed"), path
            assert answer.headers["www-authenticate"].startswith("Bearer")
        # Not even what is wrong with a request.
        for path in ("/pages?limit=x", "/nothing", "/orders?n=0"):
            answer = guarded.request("GET", f"/v1/corpora/news{path}", headers=sent)
            assert answer.problem == "key-needed", path
        assert guarded.request("GET", "/v1/openapi.json", headers=sent).problem == "key-needed"
        assert guarded.request("GET", "/v1/", headers=sent).problem == "key-needed"
        answer = guarded.request("GET", "/v1/corpora/unknown/stats", headers=sent)
        assert answer.problem == "key-needed"
        assert guarded.request("GET", "/v1/corpora", headers=sent).problem == "key-needed"
    assert guarded.request("GET", "/healthz").status == 200
    assert guarded.request("GET", "/readyz").status == 200


def test_the_last_use_of_a_key_is_written(
    guarded: RunningServer, folders: dict[str, Path], key_of: Callable[..., str]
) -> None:
    used, unused = key_of("news", "read"), key_of("news", "read")
    before = time.time_ns() // 1_000_000
    assert guarded.request("GET", "/v1/corpora/news/stats", headers={"Authorization": used})
    wrong = used[:-9] + unused[-9:]
    assert guarded.request("GET", "/v1/corpora/news/stats", headers={"Authorization": wrong})
    guarded.stop()
    uses = read_key_uses(folders["news"])
    assert list(uses) == [used.split("_")[1]]
    (use,) = uses.values()
    assert before <= use.at_ms <= time.time_ns() // 1_000_000
    assert use.client == "127.0.0.1"
    assert read_key_uses(folders["shop"]) == {}


def test_the_last_use_of_a_key_is_written_rarely(tmp_path: Path) -> None:
    file = tmp_path / "api-key-use.json"

    async def write() -> list[int]:
        uses, found = KeyUses(tmp_path), []
        for at_ms in (NOW, NOW + 1_000, NOW + 299_999, NOW + 300_000):
            uses.note("a", at_ms, "127.0.0.1")
            uses.note("revoked", at_ms, "127.0.0.1")
            await uses.save({"a"})
            found.append(read_key_uses(tmp_path)["a"].at_ms)
        uses.note("a", NOW + 300_001, "::1")
        await uses.save({"a"}, is_last=True)
        return found

    assert asyncio.run(write()) == [NOW, NOW, NOW, NOW + 300_000]
    assert read_key_uses(tmp_path) == {"a": (NOW + 300_001, "::1")}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("[]")
    assert read_key_uses(tmp_path) == {}


def test_a_key_lists_only_its_own_corpus(
    guarded: RunningServer, key_of: Callable[..., str]
) -> None:
    headers = {"Authorization": key_of("shop", "read")}
    answer = guarded.request("GET", "/v1/corpora", headers=headers)
    assert answer.json == {"corpora": ["shop"]}


def test_leasing_with_new_urls_needs_the_scope_to_add_them(
    guarded: RunningServer, key_of: Callable[..., str]
) -> None:
    headers = {"Authorization": key_of("news", "lease")}
    path = "/v1/corpora/news/orders/by-url"
    assert guarded.request("POST", path, [], headers).status == 200
    assert guarded.request("POST", f"{path}?add=true", [], headers).problem == "not-allowed"


def test_a_new_key_is_valid_at_once(guarded: RunningServer, key_of: Callable[..., str]) -> None:
    for _ in range(3):
        headers = {"Authorization": key_of("news", "read")}
        assert guarded.request("GET", "/v1/corpora/news/stats", headers=headers).status == 200


def test_a_revoked_key_is_refused_within_a_second(
    guarded: RunningServer, folders: dict[str, Path], key_of: Callable[..., str]
) -> None:
    key = key_of("news", "read")
    time.sleep(1.1)
    headers = {"Authorization": key}
    assert guarded.request("GET", "/v1/corpora/news/stats", headers=headers).status == 200
    revoke_key(folders["news"], key.split("_")[1])
    time.sleep(1.1)
    assert guarded.request("GET", "/v1/corpora/news/stats", headers=headers).status == 401


def test_revoking_the_only_key_does_not_open_a_server_of_this_machine(
    corpus: Corpus, folders: dict[str, Path], key_of: Callable[..., str]
) -> None:
    ring = KeyRing(folders["news"])
    with RunningServer({"news": corpus}, keys={"news": ring}) as server:
        assert server.get("/stats").status == 200
        key = key_of("news", "read")
        ring.reload()
        assert server.get("/stats").problem == "key-needed"
        revoke_key(folders["news"], key.split("_")[1])
        ring.reload()
        for given in ({}, {"Authorization": key}):
            assert server.get("/stats", **given).problem == "key-needed"
        open_without_keys(folders["news"])
        ring.reload()
        assert server.get("/stats").status == 200


def test_the_same_idempotency_key_of_two_clients_means_two_requests(
    guarded: RunningServer, key_of: Callable[..., str]
) -> None:
    found = []
    for _ in range(2):
        headers = {"Authorization": key_of("news", "lease"), "Idempotency-Key": "1"}
        answer = guarded.request("POST", "/v1/corpora/news/orders?n=2", None, headers)
        found += [order["url"] for order in answer.json["orders"]]
    assert len(set(found)) == 4


def test_an_open_server_answers_only_to_names_of_this_machine(server: RunningServer) -> None:
    for host in ("localhost", "127.0.0.1:8377", "[::1]:80"):
        assert server.get("/stats", Host=host).status == 200
    answer = server.get("/stats", Host="evil.example")
    assert (answer.status, answer.problem) == (421, "wrong-host")


def test_web_pages_cannot_change_an_open_corpus(server: RunningServer, corpus: Corpus) -> None:
    corpus.add(["https://a.example/"])
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}):
        for path in ("/pages/remove?pattern=*", "/orders?n=1"):
            answer = server.post(path, **headers)
            assert (answer.status, answer.problem) == (421, "wrong-host")
    assert server.get("/stats", Sec_Fetch_Site="cross-site").problem == "wrong-host"
    assert corpus.n_pages == 1
    assert server.post("/orders", Origin="http://localhost:3000").status == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.com", False),
    ],
)
def test_loopback_addresses_are_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
