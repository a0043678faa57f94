"""Options of the storage engine: memory, compression, threads."""

from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, Options

__all__ = ["Compression", "KvOptions", "TornLog", "engine_options"]

Compression: TypeAlias = Literal["none", "lz4", "zstd"]
TornLog: TypeAlias = Literal["keep_prefix", "refuse"]

# The engine's own log files: enough to investigate a failure, too small to fill a disk.
_ENGINE_LOG_FILES_MAX = 3
_ENGINE_LOG_FILE_BYTES_MAX = 1 << 20
_MANIFEST_BYTES_MAX = 32 << 20
_BUFFER_FILTER_RATIO = 0.1
_TABLE_FILE_BYTES = 128 << 20
# A common limit of open files is 1024.  A reader must keep every file open, see KeyValues.
_OPEN_FILES_MAX = 512
_ALL_FILES = -1

_COMPRESSIONS = {
    "none": DBCompressionType.none,
    "lz4": DBCompressionType.lz4,
    "zstd": DBCompressionType.zstd,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KvOptions:
    """Options of a `KeyValues`; they do not affect its contents and may differ at every opening.

    Parameters
    ----------
    write_buffer_bytes
        Memory for writes that are not yet in a sorted file; up to three such buffers are in use.
    block_cache_bytes
        Memory for decompressed blocks that were read; all databases of a process with the same
        value share it.
    compression
        Compression of blocks in files; "zstd" still uses lz4 for files that are merged soon.
    bloom_bits
        Bits per key of the Bloom filters that spare reads of absent keys; 0 for no filters.
    block_bytes
        Size of a block before compression; reading one key decompresses one block.
    background_jobs
        Threads that flush and compact.
    torn_log
        Behaviour on opening if the write-ahead log is corrupt before its end: keep the writes
        before the corruption, or refuse to open.  An incomplete last write is dropped either way:
        it was never acknowledged.
    """

    write_buffer_bytes: int = 64 << 20
    block_cache_bytes: int = 64 << 20
    compression: Compression = "lz4"
    bloom_bits: int = 10
    block_bytes: int = 16 << 10
    background_jobs: int = 2
    torn_log: TornLog = "keep_prefix"

    def __post_init__(self) -> None:
        for name in ("write_buffer_bytes", "block_bytes"):
            if getattr(self, name) < 1 << 10:
                raise ValueError(f"{name} must be at least 1024, got {getattr(self, name)}")
        if self.block_cache_bytes < 0:
            raise ValueError(
                f"block_cache_bytes must not be negative, got {self.block_cache_bytes}"
            )
        if self.compression not in get_args(Compression):
            raise ValueError(
                f"compression must be one of {get_args(Compression)}, got {self.compression!r}"
            )
        if not 0 <= self.bloom_bits <= 64:
            raise ValueError(f"bloom_bits must be between 0 and 64, got {self.bloom_bits}")
        if self.background_jobs < 1:
            raise ValueError(f"background_jobs must be at least 1, got {self.background_jobs}")
        if self.torn_log not in get_args(TornLog):
            raise ValueError(f"torn_log must be one of {get_args(TornLog)}, got {self.torn_log!r}")


@cache
def _shared_cache(n_bytes: int) -> Cache:
    """Return the cache of a size, which all databases of this process with that size share.

    Otherwise memory would grow with the number of partitions.
    """
    return Cache(n_bytes)


def engine_options(options: KvOptions, *, is_reader: bool) -> Options:
    """Return the options of the engine that correspond to ours."""
    blocks = BlockBasedOptions()
    blocks.set_block_size(options.block_bytes)
    if options.block_cache_bytes:
        blocks.set_block_cache(_shared_cache(options.block_cache_bytes))
    else:
        blocks.disable_cache()
    if options.bloom_bits:
        blocks.set_bloom_filter(options.bloom_bits, False)
    engine = Options(raw_mode=True)
    if options.bloom_bits:
        # The write buffer gets a filter too, because absent keys are looked up while it fills.
        engine.set_memtable_prefix_bloom_ratio(_BUFFER_FILTER_RATIO)
        engine.set_memtable_whole_key_filtering(True)
    engine.create_if_missing(not is_reader)
    engine.set_block_based_table_factory(blocks)
    engine.set_compression_type(_COMPRESSIONS[options.compression]())
    if options.compression == "zstd":
        # The upper levels are merged again soon, so they are compressed quickly.
        fast, dense = DBCompressionType.lz4(), DBCompressionType.zstd()
        engine.set_compression_per_level([fast, fast, *[dense] * 5])
        engine.set_bottommost_compression_type(dense)
    engine.set_write_buffer_size(options.write_buffer_bytes)
    engine.set_max_write_buffer_number(3)
    engine.set_max_bytes_for_level_base(4 * options.write_buffer_bytes)
    engine.set_target_file_size_base(_TABLE_FILE_BYTES)
    engine.set_max_background_jobs(options.background_jobs)
    engine.set_max_open_files(_ALL_FILES if is_reader else _OPEN_FILES_MAX)
    engine.set_max_manifest_file_size(_MANIFEST_BYTES_MAX)
    engine.set_keep_log_file_num(_ENGINE_LOG_FILES_MAX)
    engine.set_max_log_file_size(_ENGINE_LOG_FILE_BYTES_MAX)
    engine.set_stats_dump_period_sec(0)
    engine.set_stats_persist_period_sec(0)
    engine.set_wal_recovery_mode(
        DBRecoveryMode.point_in_time()
        if options.torn_log == "keep_prefix"
        else DBRecoveryMode.tolerate_corrupted_tail_records()
    )
    return engine
