"""Compare folders."""

import filecmp
from pathlib import Path

__all__ = ["assert_equal_folders"]


def assert_equal_folders(first: Path, second: Path) -> None:
    compared = filecmp.dircmp(first, second)
    assert not compared.left_only + compared.right_only
    _, different, failed = filecmp.cmpfiles(first, second, compared.common_files, shallow=False)
    assert not different + failed
    for name in compared.common_dirs:
        assert_equal_folders(first / name, second / name)
