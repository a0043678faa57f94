"""The kernel that hashes many passages agrees with the package xxhash."""

import random

import numpy as np
import xxhash

from recrawl.content.xxh3 import PADDING_BYTES, hash_parts


def test_texts_of_all_sizes_are_hashed_as_by_xxhash() -> None:
    rng = random.Random(1)
    parts = [rng.randbytes(n) for n in (*range(600), 1023, 1024, 1025, 1088, 2048, 5000, 0, 70_001)]
    rng.shuffle(parts)
    ends = np.cumsum([len(part) for part in parts])
    text = np.frombuffer(b"".join(parts) + bytes(PADDING_BYTES), dtype=np.uint8)
    assert hash_parts(text, ends).tolist() == [xxhash.xxh3_64_intdigest(part) for part in parts]
