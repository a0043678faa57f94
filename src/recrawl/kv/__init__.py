"""A sorted key-value store on disk, behind a small interface; the engine is RocksDB."""

from recrawl.kv.damage_marks import damage_mark, is_damage, mark_damaged, unmark_damaged
from recrawl.kv.heap import return_free_memory
from recrawl.kv.keyvalues import KeyValues, Mode
from recrawl.kv.open_files import FILES_PER_DATABASE, allow_databases
from recrawl.kv.options import Compression, KvOptions, TornLog

__all__ = [
    "FILES_PER_DATABASE",
    "Compression",
    "KeyValues",
    "KvOptions",
    "Mode",
    "TornLog",
    "allow_databases",
    "damage_mark",
    "is_damage",
    "mark_damaged",
    "return_free_memory",
    "unmark_damaged",
]
