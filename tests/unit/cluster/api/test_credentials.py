"""Workers recognise each other by signatures; nobody else can forward requests."""

from pathlib import Path

import pytest

from recrawl.cluster.api.credentials import (
    SETTLE_SECONDS,
    VALID_SECONDS,
    ClusterKeys,
    parse_keys,
    rotate_cluster_keys,
)
from recrawl.errors import AccessDenied, ConfigError

NOW_MS = 1_800_000_000_000
SETTLE_MS, VALID_MS = round(SETTLE_SECONDS * 1000), round(VALID_SECONDS * 1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    rotate_cluster_keys(path, NOW_MS)
    return path


def test_a_signature_is_good_for_its_message_and_for_a_short_time(path: Path) -> None:
    keys = ClusterKeys(path)
    token = keys.sign("message", NOW_MS)
    for later in (-VALID_MS, 0, VALID_MS):
        keys.check(token, "message", NOW_MS + later)
    for later in (-VALID_MS - 1, VALID_MS + 1):
        with pytest.raises(AccessDenied, match="signed 60 s away"):
            keys.check(token, "message", NOW_MS + later)
    with pytest.raises(AccessDenied, match="not valid"):
        keys.check(token, "another", NOW_MS)
    delayed = token.replace(str(NOW_MS), str(NOW_MS + 1))
    with pytest.raises(AccessDenied, match="not valid"):
        keys.check(delayed, "message", NOW_MS)
    for wrong in ("", "v1", token[:-1], token + "0", token.replace("v1", "v2"), "é" * 80):
        with pytest.raises(AccessDenied, match="malformed"):
            keys.check(wrong, "message", NOW_MS)


def test_keys_are_rotated_without_a_moment_at_which_workers_refuse_each_other(path: Path) -> None:
    before = ClusterKeys(path)
    first = parse_keys(path.read_text())[0]
    second = rotate_cluster_keys(path, NOW_MS + SETTLE_MS)
    after = ClusterKeys(path)
    # A worker with the new file still signs with the old key, which all have.
    at_once = NOW_MS + SETTLE_MS + 1
    before.check(after.sign("a", at_once), "a", at_once)
    after.check(before.sign("b", at_once), "b", at_once)
    assert after.sign("c", at_once).split(".")[1] == first.id
    settled = NOW_MS + 2 * SETTLE_MS
    assert after.sign("c", settled).split(".")[1] == second.id
    after.check(before.sign("d", settled), "d", settled)

    rotate_cluster_keys(path, settled)
    assert [key.created_at_ms for key in parse_keys(path.read_text())] == [
        settled,
        NOW_MS + SETTLE_MS,
    ]
    with pytest.raises(AccessDenied, match="does not accept"):
        ClusterKeys(path).check(before.sign("e", settled), "e", settled)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "a secret", "0 0 0", "zz" * 40, "aaaaaaaa 1 " + "0" * 63])
def test_a_file_without_valid_keys_is_refused_and_not_printed(text: str, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        ClusterKeys(path)
    assert not text.strip() or text not in str(caught.value)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        ClusterKeys(tmp_path / "none")
