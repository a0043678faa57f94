"""A sorted key-value store on disk, behind a small interface; the engine is RocksDB."""

from recrawl.kv.keyvalues import KeyValues, Mode
from recrawl.kv.options import Compression, KvOptions, TornLog

__all__ = ["Compression", "KeyValues", "KvOptions", "Mode", "TornLog"]
