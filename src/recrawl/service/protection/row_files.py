"""Files of a corpus that hold rows with secrets, such as its API keys, as JSON with a format."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from recrawl.errors import StorageError

__all__ = ["ROW_FILE_FORMAT", "read_row_content", "read_row_file"]

ROW_FILE_FORMAT = 1
"""Format of the files that this version writes, and the newest that it reads."""

_FILE_BYTES_MAX = 16 << 20
_T = TypeVar("_T")


def read_row_file(path: Path, name: str, row_of: Callable[[dict[str, Any]], _T]) -> list[_T]:
    """Return the rows of a file; none if there is no file.

    Parameters
    ----------
    path
        File to read.
    name
        Member of its object that has the rows.
    row_of
        Function that returns a row from its JSON object.

    Raises
    ------
    StorageError
        If the file cannot be read, or a newer version of recrawl has written it.
    """
    return read_row_content(path, name, row_of)[0]


def read_row_content(
    path: Path, name: str, row_of: Callable[[dict[str, Any]], _T]
) -> tuple[list[_T], dict[str, Any]]:
    """Return the rows of a file, and its other members; nothing if there is no file.

    Parameters
    ----------
    path
        File to read.
    name
        Member of its object that has the rows.
    row_of
        Function that returns a row from its JSON object.

    Raises
    ------
    StorageError
        If the file cannot be read, or a newer version of recrawl has written it.
    """
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(_FILE_BYTES_MAX))
        if int(content["format"]) > ROW_FILE_FORMAT:
            raise StorageError(f"{path} was written by a newer version of recrawl")
        rows = [row_of(row) for row in content.pop(name)]
    except FileNotFoundError:
        return [], {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    return rows, content
