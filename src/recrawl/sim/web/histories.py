"""Recorded histories of real pages as a web, on which policies run as on a simulated one."""

from collections.abc import Sequence

import numpy as np

from recrawl.core.arrays import ArrayLike, CountArray, FloatArray, RowArray
from recrawl.sim.web.content import Content, Replaces
from recrawl.sim.web.times import Times, offsets_of
from recrawl.sim.web.webs import Web, make_web

__all__ = ["recorded_web", "renumbered_versions"]


def recorded_web(  # noqa: PLR0913 (all but two are keywords)
    page: ArrayLike,
    changed_at: ArrayLike,
    *,
    start_at: float,
    end_at: float,
    n_pages: int,
    version: ArrayLike | None = None,
    divergences: Sequence[FloatArray] | None = None,
    importance: ArrayLike = 1.0,
    group: ArrayLike = 0,
    kind: ArrayLike = 0,
    has_date: ArrayLike = False,
    seed: int = 0,
) -> Web:
    """Return recorded changes as a web that starts at ``start_at``.

    Parameters
    ----------
    page, changed_at
        One row per change, in any order: the page's number and the instant in seconds.
    start_at, end_at
        The window to replay.  A change before it sets what the page is at the start.
    n_pages
        Pages that never changed count too.
    version
        What the page is after each change, any numbers; the same number is the same content.
        By default every change makes something new.
    divergences
        For each page a square matrix: of its versions from each other, numbered as by
        `renumbered_versions`.  By default versions have nothing in common.
    importance, group, kind, has_date
        Of each page.
    seed
        For what is drawn beside the changes.

    Examples
    --------
    >>> web = recorded_web([0, 0, 1], [5.0, 12.0, 30.0], start_at=10.0, end_at=20.0, n_pages=2)
    >>> web.changes.at, web.changes.counts()
    (array([2.]), array([1, 0]))
    """
    pages = np.asarray(page, np.int64)
    at = np.asarray(changed_at, np.float64)
    if pages.shape != at.shape:
        raise ValueError(f"page and changed_at must be as long, got {pages.size} and {at.size}")
    if not start_at < end_at:
        raise ValueError(f"end_at must be after start_at, got {end_at!r}")
    order = np.lexsort((at, pages))
    order = order[at[order] < end_at]
    inside = at[order] >= start_at
    rows = order[inside]
    changes = Times(offsets_of(pages[rows], n_pages), at[rows] - start_at)
    horizon = end_at - start_at
    web = make_web(
        seed,
        horizon,
        changes.counts() / horizon,
        importance=importance,
        group=group,
        kind=kind,
        has_date=has_date,
        changes=changes,
    )
    if version is not None:
        versions = np.asarray(version, np.int64)
        web = web._replace(version=renumbered_versions(pages[order], versions[order], inside))
    if divergences is not None:
        web = web._replace(content=_recorded_content(divergences))
    return web


def renumbered_versions(
    page: RowArray, version: CountArray, is_inside: np.typing.NDArray[np.bool_]
) -> CountArray:
    """Return versions counted from 0 in the order in which each page first shows them.

    Number 0 is what the page is at the start: its last version from before, or, without one,
    something unlike all others.  ``page`` must be sorted, and by time within a page.

    Examples
    --------
    >>> pages, versions = np.array([0, 0, 0, 0]), np.array([7, 9, 7, 8])
    >>> renumbered_versions(pages, versions, np.array([False, True, True, True]))
    array([1, 0, 2])
    """
    numbers: list[int] = []
    seen: dict[int, int] = {}
    n_seen = 1
    current = -1
    for p, v, inside in zip(page.tolist(), version.tolist(), is_inside.tolist(), strict=True):
        if p != current:
            current, seen, n_seen = p, {}, 1
        if not inside:
            seen = {v: 0}
            continue
        if v not in seen:
            seen[v] = n_seen
            n_seen += 1
        numbers.append(seen[v])
    return np.array(numbers, np.int64)


def _recorded_content(divergences: Sequence[FloatArray]) -> Content:
    """Return the lower triangles of the matrices, one after the other."""
    triangles = [matrix[np.tril_indices(len(matrix), -1)] for matrix in divergences]
    offsets = np.concatenate([[0], np.cumsum([triangle.size for triangle in triangles])])
    content = Content.of(len(divergences), replaces=Replaces.AS_RECORDED)
    table = np.concatenate([*triangles, np.empty(0)]).astype(np.float32)
    return content._replace(table_offsets=offsets[:-1].astype(np.int64), table=table)
