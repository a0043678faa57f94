"""A track that is over in a moment."""

from pathlib import Path

import numpy as np

from recrawl.refreshbench import Track
from recrawl.sim import Web, Windows, papers_web

HOUR = 3_600.0


def _web(number: int, folder: Path) -> Web:
    del folder
    web = papers_web(number, horizon=60 * HOUR, n_pages=24)
    return web._replace(group=np.arange(24) // 3, outages=Windows.none(8), group_delay=np.zeros(8))


SMALL = Track(
    name="small",
    about="Two webs of 24 pages for 60 hours.",
    make=_web,
    n_webs=2,
    n_held_out=2,
    fetches_per_page_day=(0.5, 1.0, 2.0, 4.0),
    very_stale_seconds=6 * HOUR,
    oracle_knows="each page's change rate",
    n_parts=4,
)
