"""Faces use a corpus only through its public interface, and both classes offer the same methods."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import recrawl.corpus
from recrawl.corpus import AsyncCorpus, Corpus, Outcome, Reported, Target, Transition
from tests.manual_clock import ManualClock

PACKAGE = Path(recrawl.__path__[0])
FACES = sorted([*(PACKAGE / "cli").rglob("*.py"), *(PACKAGE / "service").rglob("*.py")])
# Packages below the faces that a face must not know.
INTERNAL = ("core", "kv", "ledger", "node", "papers", "shard", "store")
PRIVATE_ATTRIBUTES = {"nodes", "partitions", "time"}
# `AsyncCorpus` opens and closes with `async with`; its property `corpus` has the rest.
# What only workers of a cluster call, from their own threads.
WORKERS_ONLY = {
    "close_standby",
    "follow_clock",
    "follow_standby",
    "for_parts",
    "has_moved",
    "open_partitions",
    "owned_partitions",
    "stand_by",
    "standby_lags",
    "tick",
    "set_records_version",
    "keep_places_in_log",
    "leave_out_stopped",
    "pages_for_plan",
}
ONLY_SYNC = {"begin", "change_matching", "close", "lease_each", "partitions"} | WORKERS_ONLY
PROPERTIES = {"corpus", "is_budget_per_run", "lease_asked_at_ms", "leases_under_way", "n_pages"}


def imported_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def is_allowed(module: str) -> bool:
    if module.startswith("recrawl.node.config"):
        return True
    if module.startswith("recrawl.corpus."):
        return False
    return not module.startswith(tuple(f"recrawl.{name}" for name in INTERNAL))


@pytest.mark.parametrize("path", FACES, ids=lambda path: path.stem)
def test_a_face_imports_the_corpus_package_and_none_of_its_modules(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [module for module in imported_modules(tree) if not is_allowed(module)] == []


@pytest.mark.parametrize("path", FACES, ids=lambda path: path.stem)
def test_a_face_reads_no_internal_attribute_of_a_corpus(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [
        f"corpus.{node.attr}, line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "corpus"
        and node.attr in PRIVATE_ATTRIBUTES
    ]
    assert found == []


def public_names(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_both_classes_have_the_same_public_methods() -> None:
    assert public_names(AsyncCorpus) - {"corpus"} == public_names(Corpus) - ONLY_SYNC


@pytest.mark.parametrize("name", sorted(public_names(AsyncCorpus) - PROPERTIES))
def test_a_method_takes_the_same_arguments_in_both_classes(name: str) -> None:
    async_parameters = inspect.signature(getattr(AsyncCorpus, name)).parameters
    parameters = inspect.signature(getattr(Corpus, name)).parameters
    if any(one.kind is one.VAR_KEYWORD for one in async_parameters.values()):
        return
    assert [(one.name, one.kind, one.default) for one in async_parameters.values()] == [
        (one.name, one.kind, one.default) for one in parameters.values()
    ]


def test_every_public_name_can_be_imported() -> None:
    assert {name for name in recrawl.corpus.__all__ if not hasattr(recrawl.corpus, name)} == set()
    assert set(recrawl.corpus.__all__) <= set(dir(recrawl.corpus))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = recrawl.corpus.nothing


def test_measuring_a_folder_loads_no_kernels() -> None:
    program = (
        "import sys; from pathlib import Path; from recrawl.corpus import data_bytes; "
        "data_bytes(Path()); print({'numba', 'recrawl.core'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "set()", ran.stderr


Open = Callable[..., Corpus]
URLS = [f"https://h{i % 2}.example/{kind}/{i}" for i in range(6) for kind in ("news", "tag")]


def test_pages_are_removed_by_pattern(open_corpus: Open) -> None:
    corpus = open_corpus(corpus={"partitions": 2})
    corpus.add(URLS)
    assert corpus.n_pages == 12
    assert corpus.remove(pattern="/tag/*") == 6
    assert corpus.n_pages == 6
    for arguments in ({}, {"urls": URLS, "pattern": "/tag/*"}):
        with pytest.raises(ValueError, match="either urls or a pattern"):
            corpus.remove(**arguments)  # type: ignore[arg-type]


def test_each_page_gets_its_own_importance_and_cost(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS[:2])
    given = [*URLS[:2], "https://unknown.example/"]
    assert corpus.set_each(given, importance=[2.0, 4.0, 8.0], cost=3.0) == 2
    assert corpus.set_each(given) == 0
    for url, importance in zip(URLS[:2], (2.0, 4.0), strict=True):
        page = corpus.explain(url)
        assert page is not None
        assert page.state.importance == pytest.approx(importance, rel=0.01)
        assert page.state.cost == pytest.approx(3, rel=0.01)


def test_the_past_of_a_page_is_read_from_its_log(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(corpus={"partitions": 2})
    corpus.add(URLS)
    added_ms = corpus.now_ms()
    clock.pass_seconds(3_600)
    corpus.report([Outcome(url=url, digest=b"1") for url in URLS])
    records: list[int] = []
    then = corpus.explain(URLS[0], at_ms=added_ms, on_record=records.append)
    assert then is not None
    assert then.state.fetched_at_ms is None
    assert 0 < sum(records) <= corpus.n_log_records(URLS[0]) < corpus.n_log_records()
    history = corpus.history(URLS[0], with_beliefs=False)
    assert history is not None
    assert history.n_seen == 1
    unknown = "https://unknown.example/"
    assert corpus.history(unknown) is None
    assert corpus.n_log_records(unknown) == 0


def test_a_corpus_answers_about_hosts_sources_targets_and_similar_urls(open_corpus: Open) -> None:
    corpus = open_corpus(budget={"rate": "10/d"})
    corpus.add(URLS)
    corpus.signal(URLS[:3], source="sitemap")
    assert corpus.n_pages_of_host("H0.example") == 6
    assert corpus.similar_hosts("h0.example:8080") == {"h0.example": 6}
    table = corpus.sources()
    assert {row.source for row in table.rows} == {"sitemap"}
    assert table.n_sources == len(table.rows)
    assert corpus.source("sitemap", table.rows[0].group.upper()) == table.rows[0]
    assert corpus.source("feed", table.rows[0].group) is None
    assert corpus.source("sitemap", "unknown.example") is None
    assert corpus.similar_urls("http://h0.example/news/0")[0] == URLS[0]
    assert corpus.believed_pages(100).shape.size == 12
    plan = corpus.plan_targets(["50 %", Target(share=0.9, of="h0.example")], budget_per_hour=2.0)
    assert plan.budget_per_hour == 2.0
    assert [answer.n_pages for answer in plan.targets] == [12, 6]


def test_a_report_says_how_many_outcomes_were_not_the_page() -> None:
    columns = [np.array(one, np.uint8) for one in ([Transition.NEW, 0, 0], [0, 0, 0], [0, 1, 2])]
    transition, has_dropped, wrong_answer = columns
    counted = np.ones(3, np.bool_)
    reported = Reported(counted, transition, has_dropped > 0, wrong_answer=wrong_answer)
    assert repr(reported) == "<Reported: 3 of 3 outcomes counted: 1 new, 2 not the page>"
