"""Webs made from recorded histories of real pages."""

from collections.abc import Sequence

import numpy as np

from recrawl.core.arrays import ArrayLike, CountArray, FloatArray, RowArray
from recrawl.sim.web.content import Content, Replaces
from recrawl.sim.web.times import Times, offsets_of
from recrawl.sim.web.webs import Web, make_web

__all__ = ["recorded_web", "renumber_versions"]


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
    """Make a web of recorded changes that starts at ``start_at``.

    Parameters
    ----------
    page, changed_at
        Page number and instant in seconds of each change, in any order.
    start_at, end_at
        Window to replay.  The last change before it sets the page's version at the start.
    n_pages
        Number of pages, including those that never changed.
    version
        Version after each change: any numbers; equal numbers mean equal content.  By default
        every change makes a new version.
    divergences
        Square matrix for each page, with the divergence of its versions from each other,
        numbered as by `renumber_versions`.  By default versions have nothing in common.
    importance, group, kind, has_date
        Columns with a row for each page, as in `make_web`.
    seed
        Random seed for everything but the changes.

    Examples
    --------
    >>> web = recorded_web([0, 0, 1], [5.0, 12.0, 30.0], start_at=10.0, end_at=20.0, n_pages=2)
    >>> web.changes.at, web.changes.counts()
    (array([2.]), array([1, 0]))
    """
    pages = np.asarray(page, np.int64)
    at = np.asarray(changed_at, np.float64)
    if pages.shape != at.shape:
        raise ValueError(
            f"page and changed_at must have the same length, got {pages.size} and {at.size}"
        )
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
        web = web._replace(version=renumber_versions(pages[order], versions[order], inside))
    if divergences is not None:
        web = web._replace(content=_recorded_content(divergences))
    return web


def renumber_versions(
    page: RowArray, version: CountArray, is_inside: np.typing.NDArray[np.bool_]
) -> CountArray:
    """Return versions counted from 0 in the order in which each page first shows them.

    Number 0 is the version at the start: the last one from before or, without one, a version
    different from all others.  ``page`` must be sorted, and by time within a page.

    Examples
    --------
    >>> pages, versions = np.array([0, 0, 0, 0]), np.array([7, 9, 7, 8])
    >>> renumber_versions(pages, versions, np.array([False, True, True, True]))
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
