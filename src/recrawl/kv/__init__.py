"""Keys and values on disk, in order, behind few methods; the engine is RocksDB."""

from recrawl.kv.keyvalues import KeyValues, Mode
from recrawl.kv.options import Compression, KvOptions, TornLog

__all__ = ["Compression", "KeyValues", "KvOptions", "Mode", "TornLog"]
