"""Histories of real pages with truth, from the public repositories of Open Terms Archive.

A collection is two git repositories: NAME-snapshots has a commit whenever the bytes of an answer
differed, and NAME-versions one whenever the text that the archive extracted differed, naming the
snapshot it came from.  The data is by Open Terms Archive contributors (ODC-BY 1.0) and is never
committed here: the environment variable RECRAWL_HTML names a folder with the repositories.
"""

import collections
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

# Bodies above this are left out: the archive's truth is of text, and these are mostly data.
BYTES_MAX = 4_000_000
# A text that was among this many texts before is a return to a recent version.
N_RECENT = 4

FIRST, NONE, MARKUP, TEXT, RETURN, UNKNOWN = "first", "none", "markup", "text", "return", "unknown"
MOVED = "moved"
"""The archive's text has the same words in another order."""
ELSEWHERE = "elsewhere"
"""No word that the archive's text gained or lost is gained or lost by the page: the archive selects
another part of the page than before."""


# Commits of answers; the others set up a repository.
_ANSWER_SUBJECTS = ("Record new changes", "First record", "Start tracking", "Update ")


class Answer(NamedTuple):
    """One answer of a page: where it is, when it was fetched, and what it changed."""

    commit: str
    at_ms: int
    truth: str
    changed_words: frozenset[str] = frozenset()
    """Words that the archive's text has more often or less often than before, if it changed."""
    doubt: str = ""
    """Why a change of the archive's text is none of the page's: `MOVED` or `ELSEWHERE`."""


class PageHistory(NamedTuple):
    """All answers of a page in order."""

    path: str
    url: str
    answers: tuple[Answer, ...]


class Blobs:
    """Reads files of commits of a git repository through one process."""

    def __init__(self, repository: Path) -> None:
        self._git = subprocess.Popen(
            ["git", "-C", str(repository), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def read(self, commit: str, path: str) -> bytes | None:
        """Return the bytes of a file in a commit, or None if it is not there."""
        assert self._git.stdin is not None
        assert self._git.stdout is not None
        self._git.stdin.write(f"{commit}:{path}\n".encode())
        self._git.stdin.flush()
        head = self._git.stdout.readline().split()
        if head[-1] == b"missing":
            return None
        data = self._git.stdout.read(int(head[2]))
        self._git.stdout.read(1)
        return data

    def close(self) -> None:
        """End the process."""
        self._git.communicate()


def html_folder() -> Path | None:
    """Return the folder with the repositories, or None if RECRAWL_HTML is not set."""
    named = os.environ.get("RECRAWL_HTML")
    return Path(named) if named else None


def find_head(repository: Path) -> str:
    """Return the newest commit of a repository, shortened."""
    command = ["git", "-C", str(repository), "rev-parse", "HEAD"]
    found = subprocess.run(command, capture_output=True, check=True)
    return found.stdout.decode()[:12]


def _read_commits(repository: Path, head: str) -> Iterator[str]:
    """Yield the commits of a repository, the oldest first, in a format that ends with their files.

    A history has several hundred thousand commits, so they are not held in memory together.
    """
    options = ["log", "--reverse", f"--format=%x00{head}%x01", "--name-only"]
    command = ["git", "-C", str(repository), "-c", "core.quotePath=off", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as git:
        assert git.stdout is not None
        lines: list[str] = []
        for line in git.stdout:
            text = line.decode("utf-8", "replace")
            if text.startswith("\0") and lines:
                yield "".join(lines)
                lines = []
            lines.append(text.lstrip("\0"))
        if lines:
            yield "".join(lines)
    if git.returncode:
        raise subprocess.CalledProcessError(git.returncode, command)


def _words(text: str) -> str:
    # Markdown writes emphasis with underscores.
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def find_changed_words(before: str, after: str) -> frozenset[str]:
    """Return the words that one of two texts has more often than the other."""
    old, new = collections.Counter(before.split()), collections.Counter(after.split())
    return frozenset((old - new) | (new - old))


def page_words(body: bytes) -> str:
    """Return the words of all visible text of a page, as resiliparse finds it."""
    tree = HTMLTree.parse(body.decode("utf-8", "replace"))
    return _words(extract_plain_text(tree, main_content=False))


def words_of_markdown(text: str) -> str:
    """Return the words of a Markdown text without the addresses of its links."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return _words(re.sub(r"<[^>]+>|https?://\S+", " ", text))


def read_truth(versions: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Return what each snapshot that is named by a version changed, and the words of a change.

    A version that the archive wrote because its own extraction changed says nothing about the page:
    such a snapshot is unknown, as are those of texts assembled from several pages.
    """
    blobs = Blobs(versions)
    recent: dict[str, collections.deque[str]] = {}
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for commit in _read_commits(versions, "%H%n%B"):
        message, _, files = commit.partition("\x01")
        sha, _, body = message.partition("\n")
        snapshots = re.findall(r"snapshots/commit/([0-9a-f]{40})", body)
        paths = [path for path in files.strip().splitlines() if path.endswith(".md")]
        if len(snapshots) != 1 or len(paths) != 1:
            found.update(dict.fromkeys(snapshots, (UNKNOWN, frozenset())))
            continue
        text = blobs.read(sha, paths[0])
        words = words_of_markdown((text or b"").decode("utf-8", "replace"))
        before = recent.setdefault(paths[0], collections.deque(maxlen=N_RECENT))
        changed: frozenset[str] = frozenset()
        if not body.startswith(("Record new changes", "Update ")) or text is None:
            truth = FIRST if not before else UNKNOWN
        elif not before:
            truth = FIRST
        elif before[-1] == words:
            truth = MARKUP
        else:
            truth = RETURN if words in before else TEXT
            changed = find_changed_words(before[-1], words)
        found[snapshots[0]] = truth, changed
        if not before or before[-1] != words:
            before.append(words)
    blobs.close()
    return found


def read_histories(folder: Path, collection: str) -> Iterator[PageHistory]:
    """Yield the histories of the HTML pages of a collection that have truth."""
    truth = read_truth(folder / f"{collection}-versions")
    pages: dict[str, list[Answer]] = {}
    urls: dict[str, str] = {}
    for commit in _read_commits(folder / f"{collection}-snapshots", "%H %ct %s%n%b"):
        head, _, rest = commit.partition("\n")
        body, _, files = rest.partition("\x01")
        sha, seconds, subject = head.split(" ", 2)
        if not subject.startswith(_ANSWER_SUBJECTS):
            continue
        location = re.search(r"X-source-document-location: (\S+)", body)
        for path in files.strip().splitlines():
            if path.endswith(".html"):
                answer = Answer(sha, int(seconds) * 1000, *truth.get(sha, (NONE, frozenset())))
                pages.setdefault(path, []).append(answer)
                if location:
                    urls[path] = location[1]
    for path, answers in pages.items():
        # Texts assembled from several pages have no truth of their own.
        n_unknown = sum(answer.truth == UNKNOWN for answer in answers)
        has_truth = any(answer.truth != NONE for answer in answers)
        if (
            len(answers) > 1
            and has_truth
            and "#" not in path
            and n_unknown <= len(answers) // 100 + 3
        ):
            yield PageHistory(path, urls.get(path, ""), tuple(answers))
