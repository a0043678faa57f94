"""Read a git repository as a history of exact changes: each file is a page.

Each commit on the first-parent line that touches a file changes its page, at the committer's
time, when the change went live.  Git runs as a child process whose output is read as a stream.
The reader keeps each page's path, the beginning of its window and its last version in memory.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyarrow as pa

from recrawl.errors import ReadError
from recrawl.readers.head import Head
from recrawl.readers.instants import instant_ms
from recrawl.readers.reading import Format, Reading
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import BATCH_ROWS_MAX, CHANGED, URL_BYTES_MAX, WINDOWS
from recrawl.readers.tabular.cells import as_strings

__all__ = ["GIT", "GIT_PAGES_MAX", "git_command", "git_environment"]

GIT_PAGES_MAX = 10_000_000
"""Most files, including deleted ones; reading stops there."""

_READ_BYTES = 1 << 18
_TOKEN_BYTES_MAX = 1 << 20
_COMMIT = b"\x01"
_FILE_MODES = frozenset({b"100644", b"100755"})
_GONE = b"000000"
_TIMEOUT_SECONDS = 30.0

# A repository's configuration can name programs to run.  Settings on the command line override it,
# so each of these settings is switched off here.
_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "core.alternateRefsCommand=",
    "core.sshCommand=false",
    "core.gitProxy=none",
    "core.askPass=",
    "credential.helper=",
    "diff.external=",
    "diff.orderFile=/dev/null",
    "diff.renames=false",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "log.showSignature=false",
    "log.showRoot=true",
    "log.mailmap=false",
    "log.follow=false",
    "protocol.allow=never",
    "color.ui=false",
    "gc.auto=0",
    "maintenance.auto=false",
    # Safe for folders of other users, because nothing in them is run.
    "safe.directory=*",
)


def git_environment() -> dict[str, str]:
    """Return the environment for git, without the user's own git settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def git_command(folder: Path, *arguments: str) -> list[str]:
    """Return a command that runs git in a folder, but no program named in its settings."""
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    return ["git", *settings, "-C", os.fspath(folder.absolute()), *arguments]


def is_repository(folder: Path) -> bool:
    """Return whether a folder is a git repository, bare or not."""
    if (folder / ".git").exists():
        return True
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _suits(head: Head) -> bool:
    return head.folder is not None and is_repository(head.folder)


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    folder = reading.source.path
    if folder is None or not reading.source.is_folder or not is_repository(folder):
        raise ReadError(f"{reading.source.name} is not a git repository; give the folder of one")
    _check_revision(folder, reading.options.revision)
    if _is_shallow(folder):
        reading.refused.note(
            "a shallow clone without its older commits; `git fetch --unshallow` gets them"
        )
    arguments = [
        "log",
        "--first-parent",
        "-m",
        "--reverse",
        "--raw",
        "--no-renames",
        "--no-abbrev",
        "--no-ext-diff",
        "--no-textconv",
        "--no-show-signature",
        "--no-notes",
        "--no-color",
        "--no-mailmap",
        "--ignore-submodules=all",
        "-z",
        "--format=%x01%ct",
        "--end-of-options",
        reading.options.revision,
        "--",
        *(f":(top,glob){pattern}" for pattern in reading.options.paths),
    ]
    pages = _Pages(reading.options.base_url or "")
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                git_command(folder, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=git_environment(),
            )
        except OSError as error:
            raise ReadError(f"git cannot be run: {error.strerror}; install git") from error
        try:
            assert process.stdout is not None
            yield from _changes(_tokens(process.stdout, reading.refused), pages, reading.refused)
            if reading.refused.is_cut_short:
                process.kill()
            elif process.wait() != 0:
                reading.refused.cut_short(f"git stopped: {_last_line(errors)}")
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    reading.windows.extend(pages.windows())


def _run_git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a short git command and return its result."""
    try:
        return subprocess.run(
            git_command(folder, *arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=git_environment(),
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise ReadError("git is not installed; install git to read a repository") from error
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ReadError(f"git cannot be run in {folder}: {error}") from error


def _is_shallow(folder: Path) -> bool:
    return _run_git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"


def _check_revision(folder: Path, revision: str) -> None:
    done = _run_git(
        folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
    )
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1][:200] if lines else "there is no commit"
        raise ReadError(f"{folder} has no history at {revision!r}: {why}")


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:200] if lines else "no error message"


def _tokens(stream: IO[bytes], refused: Refused) -> Iterator[bytes]:
    """Yield the parts of a stream between zero bytes."""
    rest = b""
    while block := stream.read(_READ_BYTES):
        *whole, rest = (rest + block).split(b"\0")
        yield from whole
        if len(rest) > _TOKEN_BYTES_MAX:
            refused.cut_short("git wrote a path of more than a mebibyte")
            return


@dataclass(slots=True)
class _Pages:
    """Pages read so far; a file that is deleted and added again is a new page."""

    base: str
    now_ms: int = 0
    number: dict[bytes, int] = field(default_factory=dict)
    """Number of the current page at each path."""
    n_lives: dict[bytes, int] = field(default_factory=dict)
    """Number of deleted pages at each path."""
    urls: list[str] = field(default_factory=list)
    from_ms: list[int] = field(default_factory=list)
    until_ms: list[int | None] = field(default_factory=list)

    def begin(self, path: bytes) -> None:
        lives = self.n_lives.get(path, 0) + 1
        url = self.base + path.decode("utf-8", "replace")
        self.number[path] = len(self.urls)
        self.urls.append(url if lives == 1 else f"{url}#{lives}")
        self.from_ms.append(self.now_ms)
        self.until_ms.append(None)

    def end(self, path: bytes) -> None:
        number = self.number.pop(path, None)
        if number is not None:
            self.until_ms[number] = self.now_ms
            self.n_lives[path] = self.n_lives.get(path, 0) + 1

    def windows(self) -> Iterator[pa.RecordBatch]:
        """Yield the window of each page; current pages have one until the last commit."""
        for begin in range(0, len(self.urls), BATCH_ROWS_MAX):
            part = slice(begin, begin + BATCH_ROWS_MAX)
            until = [self.now_ms if end is None else end for end in self.until_ms[part]]
            yield pa.RecordBatch.from_arrays(
                [
                    as_strings(self.urls[part]),
                    pa.array(self.from_ms[part], pa.int64()),
                    pa.array(until, pa.int64()),
                ],
                schema=WINDOWS,
            )


def _changes(tokens: Iterator[bytes], pages: _Pages, refused: Refused) -> Iterator[pa.RecordBatch]:
    urls: list[str] = []
    at_ms: list[int] = []
    digests: list[bytes] = []
    n_commits = 0
    for token in tokens:
        entry = token.removeprefix(b"\n")
        if entry.startswith(_COMMIT):
            n_commits += 1
            ms = instant_ms(entry[1:].decode("latin-1"))
            if ms is None:
                refused.note(
                    "commits dated outside 1990 to 2100 got the time of the previous commit"
                )
            # Clocks may go back, so the order of commits decides.
            pages.now_ms = max(pages.now_ms, ms or 0)
            continue
        if not entry.startswith(b":"):
            continue
        path = next(tokens, b"")
        parts = entry[1:].split(b" ")
        if len(parts) != 5 or not path or pages.now_ms == 0:
            continue
        refused.n_rows += 1
        old_mode, new_mode, old_blob, new_blob, _ = parts
        if new_mode not in _FILE_MODES:
            # The file was deleted, or became a symbolic link or a submodule.
            pages.end(path)
            if new_mode != _GONE:
                refused.refuse(n_commits, "a symbolic link or a submodule, not a file", path)
            continue
        if len(path) > URL_BYTES_MAX - len(pages.base):
            refused.refuse(n_commits, "a path of more than 65,535 bytes", path)
            continue
        number = pages.number.get(path)
        if number is None:
            if len(pages.urls) >= GIT_PAGES_MAX:
                refused.cut_short(f"it has more than {GIT_PAGES_MAX:,} files")
                break
            pages.begin(path)
        elif old_blob != new_blob or old_mode not in _FILE_MODES:
            urls.append(pages.urls[number])
            at_ms.append(pages.now_ms)
            digests.append(bytes.fromhex(new_blob.decode("latin-1")))
            if len(urls) >= BATCH_ROWS_MAX:
                yield _batch(urls, at_ms, digests)
                urls, at_ms, digests = [], [], []
    if urls:
        yield _batch(urls, at_ms, digests)


def _batch(urls: list[str], at_ms: list[int], digests: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [as_strings(urls), pa.array(at_ms, pa.int64()), pa.array(digests, pa.binary())],
        schema=CHANGED,
    )


GIT = Format(
    name="git",
    kind="changed",
    about="a git repository: each file a page, each commit of the main line a change of its files",
    suits=_suits,
    read=_read,
)
