"""A folder with one file for each page, always its latest version."""

import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from recrawl.atomic_files import create_folder, open_new_file, sync_to_disk
from recrawl.errors import SinkError
from recrawl.fetch.sinks.contract import DEFAULT_BATCH, BatchSettings, check_sink_name
from recrawl.fetch.sinks.kinds.file_names import page_path
from recrawl.fetch.sinks.version import PageVersion

__all__ = ["FolderSink"]

_DRAFTS = ".recrawl-drafts"
_ENDINGS = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/json": ".json",
    "application/xml": ".xml",
    "text/xml": ".xml",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
}
_OTHER_ENDING = ".bin"
_ALL_ENDINGS = (*sorted(set(_ENDINGS.values())), _OTHER_ENDING)


class FolderSink:
    """Writes each page into a file of its own, which its next version replaces.

    A reader sees either the old or the new version of a file, never a part of one.  Files of pages
    that are gone are removed.

    Parameters
    ----------
    folder
        Folder for the files, which is created; leave it to this sink.
    name
        Name of the sink.
    form
        Content of the files: ``"markdown"``, or ``"raw"`` for the bodies as received.
    has_front_matter
        Whether a Markdown file begins with the URL, title and time of the page, as YAML.
    keeps_gone
        Whether the files of pages that are gone stay.
    batch
        Number of versions per call.

    Raises
    ------
    SinkError
        If the folder cannot be created.
    """

    wants_unchanged = False

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str = "folder",
        form: Literal["markdown", "raw"] = "markdown",
        has_front_matter: bool = True,
        keeps_gone: bool = False,
        batch: BatchSettings = DEFAULT_BATCH,
    ) -> None:
        if form not in ("markdown", "raw"):
            raise ValueError(f"form must be 'markdown' or 'raw', got {form!r}")
        self.name = check_sink_name(name)
        self.batch = batch
        self._root = Path(folder)
        self._ending = ".md" if form == "markdown" else None
        self._has_front_matter = has_front_matter
        self._keeps_gone = keeps_gone
        try:
            create_folder(self._root / _DRAFTS)
            for path in (self._root / _DRAFTS).iterdir():
                path.unlink()  # left by a process that was killed
        except OSError as error:
            raise SinkError(f"cannot write to {self._root}: {error}") from error

    def path_of(self, version: PageVersion) -> Path:
        """Return the file of a page."""
        path = self._root / page_path(version.url, version.key, self._ending)
        if self._ending is None and path.name.endswith("~"):
            kind = (version.content_type or "").partition(";")[0].strip().lower()
            return path.with_name(path.name + _ENDINGS.get(kind, _OTHER_ENDING))
        return path

    def write(self, versions: Sequence[PageVersion]) -> None:
        """Write the latest of these versions of each page; see `Sink.write`."""
        latest = {(version.key, version.url): version for version in versions}
        touched: set[Path] = set()
        try:
            for version in latest.values():
                if version.is_removal:
                    if not self._keeps_gone:
                        self._remove(version, touched)
                elif version.body is not None:
                    self._replace(version, touched)
            for folder in touched:
                with suppress(FileNotFoundError):
                    sync_to_disk(folder)
        except OSError as error:
            raise SinkError(f"cannot write to {self._root}: {error}") from error

    def _replace(self, version: PageVersion, touched: set[Path]) -> None:
        path = self.path_of(version)
        folder = path.parent
        while not folder.is_dir():  # new folders are durable when their parents are synced
            touched.add(folder.parent)
            folder = folder.parent
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._root / _DRAFTS / secrets.token_hex(8)
        try:
            with open_new_file(draft) as file:
                file.write(self._content(version))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        touched.add(path.parent)
        for other in self._possible_paths(version):
            if other != path and _remove_file(other):
                touched.add(other.parent)

    def _remove(self, version: PageVersion, touched: set[Path]) -> None:
        for path in self._possible_paths(version):
            if _remove_file(path):
                touched.add(path.parent)
                self._remove_empty_folders(path.parent, touched)

    def _possible_paths(self, version: PageVersion) -> list[Path]:
        """Return the files that a page may have: the ending can depend on its type."""
        path = self._root / page_path(version.url, version.key, self._ending)
        if self._ending is None and path.name.endswith("~"):
            return [path.with_name(path.name + ending) for ending in _ALL_ENDINGS]
        return [path]

    def _remove_empty_folders(self, folder: Path, touched: set[Path]) -> None:
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:  # not empty
                return
            touched.discard(folder)
            folder = folder.parent
            touched.add(folder)

    def _content(self, version: PageVersion) -> bytes:
        if self._ending is None:
            return version.body or b""
        text = version.markdown or ""
        if self._has_front_matter:
            text = f"{_front_matter(version)}\n{text}"
        return text.encode("utf-8", "replace")

    def close(self) -> None:
        """Release nothing: no file stays open."""


def _remove_file(path: Path) -> bool:
    """Delete a file; return whether there was one."""
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _front_matter(version: PageVersion) -> str:
    """Return facts of a page as YAML; strings of JSON are strings of YAML."""
    fetched = datetime.fromtimestamp(version.fetched_at_ms / 1000, UTC)
    facts = {
        "url": version.url,
        "title": version.title,
        "fetched_at": fetched.isoformat(timespec="seconds"),
        "content_type": version.content_type,
        "digest": version.digest,
        "key": version.key,
        "doc_id": version.doc_id,
    }
    lines = [f"{name}: {json.dumps(value)}" for name, value in facts.items() if value]
    return "\n".join(["---", *lines, "---", ""])
