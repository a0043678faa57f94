"""A repository as a web: whole, bare, strange and hostile."""

import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from recrawl.errors import ReadError
from recrawl.readers import open_source
from recrawl.readers.formats import git_history
from recrawl.readers.formats.git_history import git_command, git_environment
from tests.unit.readers.samples import commit, git, repository, rows_of

DAY_MS = 86_400_000
START_MS = 1_704_067_200_000


def changes(folder: Path, **options: Any) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Return the days of changes, and of the windows, by page."""
    source = open_source(folder, **options)
    found: dict[str, list[float]] = {}
    for row in rows_of(source):
        found.setdefault(row["url"], []).append((row["at_ms"] - START_MS) / DAY_MS)
    windows = {
        row["url"]: ((row["from_ms"] - START_MS) / DAY_MS, (row["until_ms"] - START_MS) / DAY_MS)
        for row in source.windows().to_pylist()
    }
    return found, windows


def test_each_file_is_a_page_and_each_commit_a_change(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    found, windows = changes(folder)
    assert found == {"a.md": [1, 2], "docs/b.md": [2]}
    # A page begins with its file, and ends with it or with the history.
    assert windows == {"a.md": (0, 3), "docs/b.md": (0, 3)}
    blob = git(folder, "rev-parse", "HEAD:a.md").strip()
    assert rows_of(open_source(folder, paths=["a.md"]))[-1]["digest"].hex() == blob


def test_a_bare_repository_gives_the_same_rows(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    subprocess.run(
        git_command(tmp_path, "clone", "--quiet", "--bare", "--no-local", str(folder), "bare"),
        env=git_environment() | {"GIT_ALLOW_PROTOCOL": "file"},
        check=True,
        capture_output=True,
    )
    assert changes(tmp_path / "bare") == changes(folder)


def test_only_files_that_a_pattern_matches_are_read(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    assert changes(folder, paths=["docs/**/*.md"])[0] == {"docs/b.md": [2]}
    assert changes(folder, paths=["*.md"])[0] == {"a.md": [1, 2]}
    assert changes(folder, paths=["nothing", ":!a.md", "--all", "-z"]) == ({}, {})


def test_pages_may_be_given_a_base_and_another_branch_read(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    git(folder, "branch", "old", "HEAD~2")
    found, _ = changes(folder, base_url="https://example.com/", revision="old")
    assert found == {"https://example.com/a.md": [1]}


def test_a_file_added_again_or_renamed_is_a_new_page(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    day = START_MS // 1_000 + 86_400 * 4
    commit(folder, day, {"docs/b.md": "9", "a.md": None, "new.md": "3"})
    commit(folder, day + 86_400, {"docs/b.md": "10"})
    found, windows = changes(folder)
    assert found["docs/b.md#2"] == [5]
    assert windows["a.md"] == (0, 4)
    assert windows["new.md"] == (4, 5)
    assert windows["docs/b.md"] == (0, 3)
    assert windows["docs/b.md#2"] == (4, 5)


def test_changes_of_a_merge_have_the_time_of_the_merge(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    day = START_MS // 1_000 + 86_400 * 4
    git(folder, "checkout", "--quiet", "-b", "side")
    commit(folder, day, {"a.md": "side"})
    git(folder, "checkout", "--quiet", "main")
    commit(folder, day + 86_400, {"main.md": "1"})
    git(folder, "merge", "--quiet", "--no-ff", "-m", "merge", "side", at=day + 2 * 86_400)
    assert changes(folder)[0]["a.md"] == [1, 2, 6]


def test_commit_times_never_go_backwards(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    commit(folder, START_MS // 1_000, {"a.md": "late"})
    assert changes(folder)[0]["a.md"] == [1, 2, 3]


def test_symbolic_links_modes_and_unusual_names_are_handled(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    day = START_MS // 1_000 + 86_400 * 4
    (folder / "link").symlink_to("a.md")
    strange = ":100644 ü\n\x01name"
    commit(folder, day, {strange: "1"})
    (folder / "a.md").chmod(0o755)
    commit(folder, day + 86_400, {strange: "2"})
    source = open_source(folder)
    rows = rows_of(source)
    assert [row["url"] for row in rows].count(strange) == 1
    assert [row["url"] for row in rows].count("a.md") == 2
    assert source.refused.by_reason == {"a symbolic link or a submodule, not a file": 1}


def test_a_folder_without_a_history_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="is not a git repository; give the folder of one"):
        rows_of(open_source(tmp_path, format="git"))
    git(tmp_path, "init", "--quiet")
    with pytest.raises(ReadError, match="has no history at 'HEAD'"):
        rows_of(open_source(tmp_path))
    folder = repository(tmp_path / "repository")
    for revision in ("nothing", "--all", "-h", "HEAD --output=x"):
        with pytest.raises(ReadError, match="has no history at"):
            rows_of(open_source(folder, revision=revision))


def test_a_missing_git_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = repository(tmp_path / "repository")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReadError, match="git is not installed"):
        rows_of(open_source(folder))


def test_a_history_with_a_missing_commit_is_read_up_to_it(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    tree = git(folder, "rev-parse", "HEAD~1^{tree}").strip()
    (folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    source = open_source(folder)
    rows = rows_of(source)
    assert len(rows) == 1
    assert str(source.refused.cut_short_reason).startswith("git stopped: ")
    assert source.windows().num_rows == 2


def test_files_are_counted_up_to_a_limit(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    with patch.object(git_history, "GIT_PAGES_MAX", 1):
        source = open_source(folder)
        rows_of(source)
    assert source.refused.cut_short_reason == "it has more than 1 files"


def test_reading_may_be_stopped_in_the_middle(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    batches = open_source(folder).batches()
    next(batches)
    batches.close()  # type: ignore[attr-defined]


def test_programs_named_in_a_repository_are_not_run(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran >> {ran}\nexit 1\n")
    program.chmod(0o755)
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(program.read_text())
        hook.chmod(0o755)
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text("* diff=hostile filter=hostile\n")
    settings = {
        "core.fsmonitor": program,
        "core.pager": program,
        "core.sshCommand": program,
        "core.editor": program,
        "core.askPass": program,
        "pager.log": program,
        "diff.external": program,
        "diff.hostile.textconv": program,
        "diff.hostile.command": program,
        "filter.hostile.clean": program,
        "filter.hostile.smudge": program,
        "gpg.program": program,
        "log.showSignature": "true",
        "log.showRoot": "false",
        "alias.log": f"!{program}",
        "credential.helper": f"!{program}",
        "protocol.ext.allow": "always",
        "remote.origin.url": f"ext::{program}",
        "remote.origin.promisor": "true",
        "remote.origin.partialCloneFilter": "blob:none",
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
    }
    expected = changes(folder)
    for name, value in settings.items():
        git(folder, "config", name, str(value))
    assert changes(folder) == expected
    tree = git(folder, "rev-parse", "HEAD~1^{tree}").strip()
    (folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    source = open_source(folder)
    rows_of(source)
    assert source.refused.is_cut_short
    assert not ran.exists()


def test_git_variables_of_the_environment_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository(tmp_path / "repository")
    expected = changes(folder)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    assert changes(folder) == expected


def test_a_shallow_clone_gives_a_note(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repository")
    subprocess.run(
        git_command(tmp_path, "clone", "--quiet", "--depth=1", "--no-local", str(folder), "thin"),
        env=git_environment() | {"GIT_ALLOW_PROTOCOL": "file"},
        check=True,
        capture_output=True,
    )
    thin, whole = open_source(tmp_path / "thin"), open_source(folder)
    assert (rows_of(thin), bool(rows_of(whole))) == ([], True)
    assert "--unshallow" in thin.refused.notes[0]
    assert not whole.refused.notes
