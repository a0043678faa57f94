"""The page of proof: whether audits confirm the model, and whether recrawl beats the old rule."""

from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from recrawl.dashboard.frame.opened_page import open_page
from recrawl.dashboard.frame.rendering import render
from recrawl.messages.views import AuditRow
from recrawl.service.calls import CorpusName

__all__ = ["router"]

router = APIRouter()


class Proof(NamedTuple):
    """What audits and hold-outs have shown."""

    corpus_row: AuditRow
    rows: list[AuditRow]
    """Kinds and hosts that have been audited."""
    n_disagreeing: int
    holdout: Any
    """A `recrawl.corpus.HoldoutView`; None if no hosts are held out, or in a cluster."""
    at_ms: int


def read_proof(
    corpus: Any,
    local: Any,
    is_cluster: bool,
) -> Proof:
    """Return what audits and hold-outs have shown.

    Parameters
    ----------
    corpus
        Corpus with all partitions.
    local
        Corpus with the partitions that are open in this process, perhaps the same.
    is_cluster
        Whether other processes have further partitions.
    """
    table = corpus.audited_freshness()
    audited = [row for row in table.rows if row.audited is not None]
    # The audits of an experiment since its start are kept in the folder of the corpus.
    holds_out = not is_cluster and local.config.holdout.share > 0
    return Proof(
        table.rows[0],
        [row for row in audited if row.part != "corpus"],
        sum(row.disagrees for row in audited),
        local.holdout() if holds_out else None,
        local.now_ms(),
    )


@router.get("/ui/{corpus}/proof")
async def show_proof(request: Request, corpus: CorpusName) -> Response:
    """Show what audits and hold-outs have shown."""
    page = open_page(request, corpus)
    changes = page.hosted.settings_lock.n_changes
    found = await page.read_slow(changes, read_proof, page.corpus, page.local, page.is_cluster)
    return render(request, "proof.html", **found._asdict(), now_ms=found.at_ms)
