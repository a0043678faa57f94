"""`KvOptions` rejects invalid values when it is created."""

import pytest

from recrawl.kv import KvOptions


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"write_buffer_bytes": 10}, "write_buffer_bytes must be at least 1024, got 10"),
        ({"block_bytes": 0}, "block_bytes must be at least 1024, got 0"),
        ({"block_cache_bytes": -1}, "block_cache_bytes must not be negative, got -1"),
        ({"compression": "gzip"}, "compression must be one of .* got 'gzip'"),
        ({"bloom_bits": -1}, "bloom_bits must be between 0 and 64, got -1"),
        ({"background_jobs": 0}, "background_jobs must be at least 1, got 0"),
        ({"torn_log": "shrug"}, "torn_log must be one of .* got 'shrug'"),
    ],
)
def test_wrong_options_are_named(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KvOptions(**wrong)  # type: ignore[arg-type]
