"""Read a CDX file of any size through a pipe, with the memory of a few blocks.

A second process generates the file while it is read, so it is never on disk.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO, Any, BinaryIO, cast

import numpy as np

from recrawl.readers import open_source

__all__ = ["cdx_blocks", "measure"]

_LINES_PER_BLOCK = 8_192
_N_BLOCKS = 16
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Memory is measured only after this many bytes, when pools and caches have reached their size.
_WARM_BYTES = 16 << 20


def cdx_blocks(n_bytes: int, odd_share: float = 0.001, seed: int = 0) -> Iterator[bytes]:
    """Yield about ``n_bytes`` of CDX lines; a share of them has another number of fields."""
    rng = np.random.default_rng(seed)
    blocks = [_cdx_block(rng, odd_share) for _ in range(_N_BLOCKS)]
    blocks[0] = b" CDX N b a m s k r M S V g\n" + blocks[0]
    n = 0
    while True:
        for block in blocks:
            if n >= n_bytes:
                return
            yield block
            n += len(block)


def _cdx_block(rng: np.random.Generator, odd_share: float) -> bytes:
    site = rng.integers(0, 1_000, _LINES_PER_BLOCK).tolist()
    page = rng.integers(0, 10**9, _LINES_PER_BLOCK).tolist()
    day = rng.integers(1, 29, _LINES_PER_BLOCK).tolist()
    second = rng.integers(0, 86_400, _LINES_PER_BLOCK).tolist()
    is_odd = (rng.random(_LINES_PER_BLOCK) < odd_share).tolist()
    lines = []
    for s, p, d, t, odd in zip(site, page, day, second, is_odd, strict=True):
        at = f"202401{d:02d}{t // 3600:02d}{t // 60 % 60:02d}{t % 60:02d}"
        blank = " " if odd else ""
        lines.append(
            f"com,site{s})/news/{p} {at} https://www.site{s}.com/news/{p}{blank} text/html 200 "
            f"{p:032X} - - {p % 90_000} {p} CC-MAIN-20240101-{s:05d}.warc.gz\n"
        )
    return "".join(lines).encode()


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE


def measure(n_bytes: int, odd_share: float = 0.001) -> dict[str, Any]:
    """Read ``n_bytes`` of CDX; return the speed and the growth of memory."""
    command = [sys.executable, "-m", "benchmarks.cdx_stream", str(n_bytes), str(odd_share)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        source = open_source(cast(BinaryIO, process.stdout))
        n_rows, before, most = 0, 0, 0
        wall, cpu = time.perf_counter(), time.process_time()
        for batch in source.batches():
            n_rows += batch.num_rows
            if source.n_bytes_read < _WARM_BYTES:
                before = _resident_bytes()
            most = max(most, _resident_bytes())
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    refused = source.refused
    return {
        "format": source.format,
        "mib": round(source.n_bytes_read / 2**20, 1),
        "rows": n_rows,
        "rows_refused": refused.n_refused,
        "is_cut_short": refused.is_cut_short,
        "rows_per_second": round(n_rows / wall),
        "rows_per_cpu_second": round(n_rows / cpu),
        "resident_mib_before": round(before / 2**20, 1),
        "resident_mib_growth": round((most - before) / 2**20, 1),
    }


def _write_cdx(n_bytes: int, odd_share: float, to: IO[bytes]) -> None:
    for block in cdx_blocks(n_bytes, odd_share):
        to.write(block)


if __name__ == "__main__":
    _write_cdx(int(sys.argv[1]), float(sys.argv[2]), sys.stdout.buffer)
