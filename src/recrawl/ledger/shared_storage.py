"""Open storage that all workers of a cluster reach, by its URI."""

from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from recrawl.errors import ConfigError

__all__ = ["SharedStorage", "open_storage"]


class SharedStorage(NamedTuple):
    """A file system, and a folder in it."""

    system: fs.FileSystem
    root: str


def open_storage(uri: str) -> SharedStorage:
    """Return the storage at a URI.

    Parameters
    ----------
    uri
        Folder that all machines mount (``/mnt/shared/recrawl``), or a URI of pyarrow:
        ``s3://bucket/recrawl?region=eu-central-1``, ``gs://bucket/recrawl``.  Credentials come from
        where the libraries of Amazon and Google look for them.

    Raises
    ------
    ConfigError
        If pyarrow does not know such storage.

    Examples
    --------
    >>> storage = open_storage("/mnt/shared/recrawl")
    >>> storage.system.type_name, storage.root
    ('local', '/mnt/shared/recrawl')
    """
    if urlsplit(uri).scheme == "s3":
        # Then an object of up to 10 MB is one request; otherwise each would be an upload in parts,
        # which stays behind unfinished if its worker is killed.
        uri += ("&" if urlsplit(uri).query else "?") + "allow_delayed_open=true"
    try:
        return SharedStorage(*fs.FileSystem.from_uri(uri))
    except (pa.ArrowException, ValueError, OSError) as error:
        raise ConfigError(f"{_without_secrets(uri)} is not storage: {error}") from error


def _without_secrets(uri: str) -> str:
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="").geturl()
