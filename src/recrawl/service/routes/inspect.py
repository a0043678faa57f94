"""Paths that read: statistics, audits, plans, sources, configuration."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from recrawl.corpus import plan_words, read_overview_part, target_words
from recrawl.service.calls import CorpusName, enter, service_of
from recrawl.service.formats.answers import json_answer, version_of
from recrawl.service.formats.rows import ARROW
from recrawl.service.forwarded import find_forwarded
from recrawl.service.keys import Scope
from recrawl.service.problems import Problem
from recrawl.service.routes.changes import change_answer

__all__ = ["router"]

router = APIRouter(tags=["reading"])


@router.get("/stats", summary="Show page counts, freshness and budget")
async def stats(request: Request, corpus: CorpusName) -> Response:
    """Return counts, budget, price and estimated freshness."""
    hosted = enter(request, corpus, Scope.READ)
    found = await hosted.read(hosted.corpus.stats)
    return json_answer(found.as_dict())


@router.get("/sample", summary="Show the present state by partition, host, kind and source")
async def sample(request: Request, corpus: CorpusName) -> Response:
    """Return figures of now: totals, largest hosts, kinds, sources and histograms."""
    hosted = enter(request, corpus, Scope.READ)
    found = await hosted.read(hosted.corpus.sample)
    return json_answer(found.as_dict())


@router.get("/samples", summary="Show figures over time")
async def samples(
    request: Request,
    corpus: CorpusName,
    step: Annotated[str, Query(pattern="^(minute|hour|day)$")] = "minute",
    since_ms: Annotated[int | None, Query(ge=0, le=1 << 50)] = None,
    until_ms: Annotated[int | None, Query(ge=0, le=1 << 50)] = None,
    host: Annotated[str | None, Query(max_length=4_096)] = None,
    kind: Annotated[str | None, Query(max_length=4_096)] = None,
    source: Annotated[
        str | None, Query(max_length=4_096, description="Source of signals on the host.")
    ] = None,
) -> Response:
    """Return the series of the corpus, a host, a kind, or a source of signals on a host."""
    hosted = enter(request, corpus, Scope.READ)
    span = {"step": step, "since_ms": since_ms, "until_ms": until_ms}
    if source is None:
        if host is not None and kind is not None:
            raise Problem("invalid-value", "give a host or a kind, not both")
        found = await hosted.read(partial(hosted.corpus.samples, **span, host=host, kind=kind))
    elif host is None or kind is not None:
        raise Problem("invalid-value", "a source needs its host, and no kind")
    else:
        found = await hosted.read(partial(hosted.corpus.source_samples, source, host, **span))
    return json_answer(found.as_dict())


@router.get("/sources", summary="Show how reliable the sources of signals are")
async def sources(request: Request, corpus: CorpusName) -> Response:
    """Return the sources with the most signals, by host."""
    hosted = enter(request, corpus, Scope.READ)
    rows, n_sources = await hosted.read(hosted.corpus.sources)
    return json_answer({"sources": [row.as_dict() for row in rows], "n_sources": n_sources})


@router.get("/audited-freshness", summary="Compare audited and modelled freshness")
async def audited_freshness(request: Request, corpus: CorpusName) -> Response:
    """Return the freshness that audits found and that the model expected, by kind and host."""
    hosted = enter(request, corpus, Scope.READ)
    rows, n_judged = await hosted.read(hosted.corpus.audited_freshness)
    return json_answer({"rows": [row.as_dict() for row in rows], "n_judged": n_judged})


@router.get("/plan", summary="Show how fresh each budget would keep the pages")
async def plan(
    request: Request,
    corpus: CorpusName,
    target: Annotated[
        list[str] | None, Query(description='Targets such as "95 % of /product/* under 6 h".')
    ] = None,
    budget_per_hour: Annotated[float | None, Query(gt=0, le=1e12)] = None,
) -> Response:
    """Return the freshness that budgets buy, and what targets cost."""
    hosted, limits = enter(request, corpus, Scope.READ), service_of(request).limits
    if len(target or ()) > limits.targets_max:
        raise Problem("invalid-value", f"a plan has at most {limits.targets_max} targets")
    found = await hosted.read(_plan, hosted.corpus, target or [], budget_per_hour)
    return json_answer(found)


@router.get("/plan/pages", include_in_schema=False)
async def plan_pages(
    request: Request,
    corpus: CorpusName,
    n_pages_max: Annotated[int, Query(ge=0)],
    n_pages_total: Annotated[int | None, Query(ge=0)] = None,
    of: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """Return sampled pages of this process, from which another worker makes a plan."""
    hosted = enter(request, corpus, Scope.READ)
    if find_forwarded(request) is None:
        raise Problem("unknown-path", "only workers of a cluster ask for this")
    found = await hosted.read(
        hosted.corpus.pages_for_plan, n_pages_max, n_pages_total=n_pages_total, patterns=of or []
    )
    return Response(found, media_type=ARROW)


@router.get("/overview-part", include_in_schema=False)
async def overview_part(
    request: Request,
    corpus: CorpusName,
    n_changes: Annotated[int, Query(ge=0, le=1_000)],
    n_due: Annotated[float | None, Query(ge=0)] = None,
) -> Response:
    """Return the latest changes and the problems of this process, for another worker's page."""
    hosted = enter(request, corpus, Scope.READ)
    if find_forwarded(request) is None:
        raise Problem("unknown-path", "only workers of a cluster ask for this")
    found = await hosted.show(read_overview_part, hosted.corpus, n_changes, n_due)
    changes = [change_answer(one) for one in found.changes]
    problems = [asdict(one) for one in found.problems]
    return json_answer({"changes": changes, "problems": problems})


def _plan(corpus: Any, targets: list[str], budget_per_hour: float | None) -> dict[str, Any]:
    found = corpus.plan_targets(targets, budget_per_hour=budget_per_hour)
    curve = found.plan.curve
    return {
        "words": plan_words(found),
        "at_ms": found.plan.at_ms,
        "n_pages": found.plan.n_pages,
        "pages_covered": found.coverage.share,
        "n_partitions_away": found.coverage.n_away,
        "unit": found.plan.unit,
        "budget_per_hour": found.budget_per_hour,
        "freshness": found.freshness,
        "freshness_max": found.freshness_max,
        "curve": {
            "price": curve.price,
            "fetches_per_hour": curve.fetches_per_hour,
            "cost_per_hour": curve.cost_per_hour,
            "freshness": curve.freshness,
            "weighted_freshness": curve.weighted_freshness,
        },
        "targets": [
            {
                "words": target_words(answer, found),
                "verdict": str(answer.verdict),
                "n_pages": answer.n_pages,
                "share_now": answer.share_now,
                "share_max": answer.share_max,
                "needed_overall_per_hour": answer.needed_overall_per_hour,
            }
            for answer in found.targets
        ],
    }


@router.get("/configuration", summary="Show the configuration")
async def configuration(request: Request, corpus: CorpusName) -> Response:
    """Return the settings that differ from their defaults, as in recrawl.toml."""
    hosted = enter(request, corpus, Scope.READ)
    found = hosted.corpus.config.to_dict()
    return json_answer(found, headers={"ETag": version_of(found)})
