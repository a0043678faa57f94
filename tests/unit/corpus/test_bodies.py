"""A corpus that is given bodies, texts and observations instead of digests."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest

import recrawl
from recrawl.content import ContentSettings, WrongAnswer, observe, passage_hash
from recrawl.corpus import Corpus, Outcome, Transition, explanation_words, restore_corpus
from recrawl.corpus.doctor.corpus_checks import wrong_answers_check
from recrawl.corpus.wrong_answers import WRONG_ANSWER_NAMES
from recrawl.errors import ConfigError, EventError
from recrawl.ledger import Record
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.content import bodies, judging
from recrawl.node.content.judging import WRONG_AGAIN_SECONDS, update_host_memory
from recrawl.node.node import Node
from recrawl.node.records import (
    MEMORY_CHANGE_FLAG,
    NODE_SCHEMAS,
    SAME_CONTENT_FLAG,
    PagesReported,
    entry_of,
    record_of,
)
from recrawl.node.reporting import many as reporting
from recrawl.shard import Shard
from recrawl.shard.events import to_arrow
from recrawl.shard.wire import pack_batch
from recrawl.store import Names, Store
from recrawl.testing.stores import contents_of
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
PAGE = "https://a.example/"
PAGES = [f"https://a.example/{i}" for i in range(6)]
HTML = "text/html; charset=utf-8"

TEXT = (
    "The harbour opens at six in the morning and closes late in the evening.",
    "Boats that arrive at night wait outside until the pilot comes on board.",
    "The ferry to the islands leaves three times a day from the northern quay.",
)
NEWS = "A second ferry begins to sail in summer and calls at the southern islands."
BLOCKED = "<p>Please verify that you are not a robot. Checking your browser before you access.</p>"


def html(*passages: str, title: str = "Harbour", nonce: int = 0) -> bytes:
    text = "".join(f"<p>{passage}</p>" for passage in passages)
    return (
        f"<html><head><title>{title}</title><script nonce='{nonce}'>var a={nonce};</script></head>"
        f"<body><main><h1>{title}</h1>{text}</main></body></html>"
    ).encode()


def blocked() -> bytes:
    return html(title="Just a moment...") + BLOCKED.encode()


def report(corpus: Corpus, body: bytes, url: str = PAGE, **fields: Any) -> Transition:
    """Report one body; return what it meant for the page."""
    outcome = Outcome(url=url, body=body, content_type=HTML, **fields)
    reported = corpus.report(outcome)
    assert reported.counted.all()
    return Transition(int(reported.transition[0]))


def contents(corpus: Corpus) -> dict[str, Any]:
    node = corpus.nodes[0]
    found = contents_of(node.store, int(node.shard.tables.registers.n_slots[0]))
    del found["position"]
    return found


# ---------------------------------------------------------------------- what counts


def test_a_body_is_enough(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    assert report(corpus, html(*TEXT)) == Transition.NEW
    clock.pass_seconds(100)
    assert report(corpus, html(*TEXT, nonce=7)) == Transition.NONE
    clock.pass_seconds(100)
    assert report(corpus, html(*TEXT, NEWS)) == Transition.CHANGED
    clock.pass_seconds(100)
    assert report(corpus, html(*TEXT)) == Transition.REVERTED
    clock.pass_seconds(100)
    corpus.report(Outcome(url=PAGE, status=404, body=b"<p>not here</p>"))
    clock.pass_seconds(100)
    assert report(corpus, html(*TEXT)) == Transition.RETURNED
    assert corpus.stats().n_texts == 5


def test_changes_have_passages(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(content={"keep_text": True})
    corpus.add([PAGE])
    report(corpus, html(*TEXT))
    clock.pass_seconds(100)
    report(corpus, html(TEXT[0], NEWS, TEXT[2]))
    first, second = (change.passages for change in corpus.changes())
    assert first is not None
    assert second is not None
    assert first.kept == first.removed == ()
    assert first.added_text is not None
    assert set(TEXT) <= set(first.added_text)
    assert second.added_text == (NEWS,)
    assert len(second.removed) == 1
    # All passages of the new version are known: those kept and those added.
    assert set(second.kept) | set(second.removed) == set(first.added)
    text_of = dict(zip(first.added, first.added_text, strict=True))
    assert [text_of[one] for one in second.removed] == [TEXT[1]]


def test_texts_are_kept_only_on_request(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    report(corpus, html(*TEXT))
    (change,) = corpus.changes()
    assert change.passages is not None
    assert change.passages.added_text is None
    corpus.close()
    for path in corpus.folder.rglob("*"):
        assert not path.is_file() or b"northern quay" not in path.read_bytes()


def test_own_texts_and_observations_count_as_bodies(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(PAGES[:2])
    for news in ("", "\n" + NEWS):
        text = "\n".join(TEXT) + news
        seen = observe(text.encode(), "text/plain")
        corpus.report([Outcome(url=PAGES[0], text=text), Outcome(url=PAGES[1], observation=seen)])
        clock.pass_seconds(100)
    by_url = [(change.url, change.what, change.passages) for change in corpus.changes()]
    assert [(url, what.name) for url, what, _ in by_url[2:]] == [
        (PAGES[0], "CHANGED"),
        (PAGES[1], "CHANGED"),
    ]
    assert by_url[2][2] == by_url[3][2]


def test_without_content_bytes_are_compared(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(content={"enabled": False})
    corpus.add([PAGE])
    seen = []
    for body in (html(*TEXT), html(*TEXT), html(*TEXT, nonce=7), blocked()):
        seen.append(report(corpus, body).name)
        clock.pass_seconds(100)
    assert seen == ["NEW", "NONE", "CHANGED", "CHANGED"]
    assert corpus.nodes[0].store.content_counts is None
    assert all(change.passages is None for change in corpus.changes())


def test_a_digest_counts_only_without_a_body(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    report(corpus, html(*TEXT), digest=b"one")
    clock.pass_seconds(100)
    assert report(corpus, html(*TEXT), digest=b"two") == Transition.NONE
    clock.pass_seconds(100)
    assert report(corpus, html(*TEXT), changed=True) == Transition.CHANGED


def test_a_page_known_by_digests_gets_a_baseline(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    corpus.report(Outcome(url=PAGE, digest=b"one"))
    clock.pass_seconds(100)
    assert report(corpus, html(*TEXT)) == Transition.NONE
    assert corpus.stats().n_baselines == 1
    clock.pass_seconds(100)
    assert report(corpus, html(*TEXT, NEWS)) == Transition.CHANGED


@pytest.mark.parametrize("given", ["body", "digest"])
def test_a_page_known_by_its_text_gets_a_baseline_without(
    open_corpus: Open, clock: ManualClock, given: str
) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    report(corpus, html(*TEXT))
    corpus.close()
    corpus = open_corpus(content={"enabled": False})
    seen = []
    for body in (html(*TEXT), html(*TEXT), html(*TEXT, NEWS)):
        clock.pass_seconds(100)
        if given == "body":
            seen.append(report(corpus, body))
        else:
            reported = corpus.report(Outcome(url=PAGE, digest=body[-200:]))
            seen.append(Transition(int(reported.transition[0])))
    assert seen == [Transition.NONE, Transition.NONE, Transition.CHANGED]
    corpus.close()
    corpus = open_corpus()
    clock.pass_seconds(100)
    assert report(corpus, html(*TEXT, nonce=3)) == Transition.NONE


def test_settings_change_what_counts(open_corpus: Open, clock: ManualClock) -> None:
    aside = html(*TEXT).replace(b"</main>", b"</main><aside class='x'>%s</aside>" % NEWS.encode())
    more = html(*TEXT).replace(b"</main>", b"</main><aside class='x'>%s</aside>" % TEXT[0].encode())
    corpus = open_corpus(content={"ignore": [".x"], "ignore_patterns": ["second ferry"]})
    corpus.add([PAGE])
    report(corpus, html(*TEXT))
    for body in (aside, more, html(*TEXT, NEWS)):
        clock.pass_seconds(100)
        assert report(corpus, body) == Transition.NONE


def test_sections_become_settings() -> None:
    config = CorpusConfig.from_toml(
        """
        [content]
        select = ["main"]
        ignore_patterns = ['\\d+ "views"']
        ignore_templates = false
        """
    )
    expected = ContentSettings(
        select=("main",), ignore_patterns=('\\d+ "views"',), ignore_templates=False
    )
    assert config.content.content_settings() == expected
    assert CorpusConfig.from_dict(config.to_dict()) == config
    for wrong in (
        {"select": "main"},
        {"enabled": 1},
        {"ignore_patterns": ["("]},
        {"ignore": ["p["]},
    ):
        with pytest.raises(ConfigError, match=r"content\."):
            CorpusConfig.from_dict({"content": wrong})


def test_wrong_types_are_refused_before_anything_is_logged(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    for wrong in ({"body": "text"}, {"text": b"bytes"}, {"body": b"", "content_type": 7}):
        with pytest.raises(TypeError, match="must be"):
            corpus.report([Outcome(url=PAGE, digest=b"1"), Outcome(url=PAGE, **wrong)])
    with pytest.raises(ValueError, match="none of body, text, digest and changed"):
        corpus.report(Outcome(url=PAGE))
    assert corpus.stats().n_outcomes == 0


# ---------------------------------------------------------------------- wrong answers


def test_a_wrong_answer_says_nothing_of_the_page(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(errors={"backoff": 60})
    corpus.add([PAGE])
    report(corpus, html(*TEXT), etag=b'"1"')
    clock.pass_seconds(100)
    reported = corpus.report(
        Outcome(url=PAGE, body=blocked(), content_type=HTML, etag=b'"block"', status=200)
    )
    assert reported.counted.tolist() == [True]
    assert reported.transition.tolist() == [Transition.NONE]
    assert reported.wrong_answer.tolist() == [WrongAnswer.BLOCKED]
    page = corpus.explain(PAGE)
    assert page is not None
    assert page.etag == b'"1"'
    assert (page.n_wrong_answers, page.wrong_answer) == (1, "blocked")
    assert page.group_view.errors == 0
    text = explanation_words(page)
    assert "was not the page but a block page" in text
    assert page.as_dict()["wrong_answer"] == "blocked"
    stats = corpus.stats()
    assert (stats.n_wrong_answers, stats.wrong_answers) == (1, {"blocked": 1})
    clock.pass_seconds(1000)
    assert report(corpus, html(*TEXT)) == Transition.NONE
    page = corpus.explain(PAGE)
    assert page is not None
    assert "Earlier 1 answer was not the page" in explanation_words(page)


def test_wrong_answers_in_a_row_are_asked_for_ever_more_rarely(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(errors={"backoff": 60})
    corpus.add([PAGE])
    report(corpus, html(*TEXT))
    waits = []
    for _ in range(4):
        clock.pass_seconds(100_000)
        report(corpus, blocked())
        page = corpus.explain(PAGE)
        assert page is not None
        assert page.state.not_before_ms is not None
        waits.append((page.state.not_before_ms - clock.wall_ms()) / 1000)
    # The first may be gone soon; what stays lasts for hours.
    expected = [60.0, *(WRONG_AGAIN_SECONDS * 2**n for n in range(3))]
    assert waits == [pytest.approx(wait, abs=1.0) for wait in expected]


def test_a_page_waits_longer_after_a_wrong_answer_where_fetches_are_scarce(
    open_corpus: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = 2 * 86_400.0
    monkeypatch.setattr(Shard, "price_at", lambda *_: price)
    corpus = open_corpus(errors={"backoff": 60})
    corpus.add(PAGES[:3], importance=[1.0, 4.0, 0.0])
    for url in PAGES[:3]:
        report(corpus, html(*TEXT, title=url), url)
    clock.pass_seconds(100_000)
    waits = []
    for url in PAGES[:3]:
        report(corpus, blocked(), url)
        page = corpus.explain(url)
        assert page is not None
        assert page.state.not_before_ms is not None
        waits.append((page.state.not_before_ms - clock.wall_ms()) / 1000)
    # A page of four times the importance waits for a quarter of the time.
    expected = [judging.PRICE_SHARE * price, judging.PRICE_SHARE * price / 4, 60.0]
    assert waits == [pytest.approx(wait, rel=0.01, abs=1.0) for wait in expected]


def test_a_page_after_a_first_answer_that_was_cut_is_in_the_feed_without_a_change(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    whole = html(*TEXT)
    assert report(corpus, whole[: whole.index(b"pilot")]) == Transition.NEW
    clock.pass_seconds(100_000)
    assert report(corpus, whole) == Transition.REVERTED
    *_, change = corpus.changes()
    assert change.what == Transition.REVERTED
    assert change.passages is not None
    assert passage_hash(TEXT[2]) in change.passages.added
    clock.pass_seconds(100_000)
    assert report(corpus, html(*TEXT, NEWS)) == Transition.CHANGED


def test_doctor_names_wrong_answers(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    assert not list(wrong_answers_check(corpus))
    corpus.add(PAGES)
    report(corpus, html(*TEXT), PAGES[0])
    (found,) = wrong_answers_check(corpus)
    assert found.level.name == "OK"
    for _ in range(3):
        clock.pass_seconds(100)
        for url in PAGES[1:]:
            report(corpus, blocked(), url)
    (found,) = wrong_answers_check(corpus)
    assert found.level.name == "WARN"
    assert "15 block pages" in found.what


def test_the_names_are_those_of_the_kinds() -> None:
    assert tuple(kind.name.lower() for kind in WrongAnswer) == WRONG_ANSWER_NAMES


# ---------------------------------------------------------------------- repeats and replays


def bodies_of_a_week(draw: random.Random) -> list[bytes]:
    lines = [*TEXT, NEWS, "The pilot's office moves to the old customs house on Monday."]
    return [
        blocked()
        if draw.random() < 0.2
        else html(*draw.sample(lines, draw.randint(2, 5)), nonce=draw.randint(0, 9))
        for _ in range(40)
    ]


def random_week(corpus: Corpus, clock: ManualClock, seed: int) -> None:
    draw = random.Random(seed)
    corpus.add(PAGES)
    for body in bodies_of_a_week(draw):
        clock.pass_seconds(draw.choice([0, 1, 3_600]))
        url = draw.choice(PAGES)
        given: dict[str, Any] = {"body": body} if draw.random() < 0.9 else {"digest": body[:9]}
        corpus.report([Outcome(url=url, content_type=HTML, **given)] * draw.choice([1, 1, 2]))
        if draw.random() < 0.1:
            corpus.remove([draw.choice(PAGES)])
        if draw.random() < 0.1:
            corpus.add(PAGES)


def test_a_replay_gives_the_same_store(
    open_corpus: Open, clock: ManualClock, tmp_path: Path, seed: int
) -> None:
    corpus = open_corpus(content={"keep_text": True}, snapshots={"every": 1e9})
    random_week(corpus, clock, seed)
    expected = contents(corpus)
    assert expected["content_counts"].n_observed > 10
    assert any(expected["hosts"])
    ledger, shard = corpus.nodes[0].ledger, corpus.nodes[0].shard
    assert ledger.first == 0
    with Store.open(tmp_path / "replayed", update_host=update_host_memory) as store:
        replay = Node(shard=Shard(shard.settings), ledger=ledger, store=store, position=0)
        replay.follow()
        found = contents_of(store, int(shard.tables.registers.n_slots[0]))
    del found["position"]
    assert found == expected


def log_entries(corpus: Corpus) -> list[PagesReported]:
    """Return the reports in the log of a corpus, as a reader finds them."""
    ledger = corpus.nodes[0].ledger
    found = [entry_of(record) for _, record in ledger.read(ledger.first)]
    return [entry for entry in found if isinstance(entry, PagesReported)]


def test_a_page_that_does_not_change_logs_no_content(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    for etag in (b"1", b"2", b"3"):
        clock.pass_seconds(100)
        report(corpus, html(*TEXT), etag=etag)
    first, second, third = log_entries(corpus)
    assert first.sketch.null_count == first.digest.null_count == 0
    for entry in (second, third):
        assert entry.texts is not None
        assert entry.texts.flags[0] & SAME_CONTENT_FLAG
        assert entry.sketch.null_count == entry.digest.null_count == 1
        assert entry.sketch.nbytes < 20
    assert first.texts is not None
    assert second.texts is not None
    assert third.texts is not None
    # At the second fetch the page learns which passages last, at the third nothing.
    assert second.texts.flags[0] & MEMORY_CHANGE_FLAG
    assert third.texts.memory.null_count == 1
    records = corpus.nodes[0].store.records_of(np.array([0]))
    assert records.digests == [first.digest.to_pylist()]
    assert records.sketch == first.sketch.to_pylist()
    assert records.etag == [b"3"]
    clock.pass_seconds(100)
    report(corpus, html(*TEXT))
    assert corpus.nodes[0].store.records_of(np.array([0])).etag == [None]


def test_a_sketch_of_the_user_is_logged_once(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    for digest in (b"one", b"one", b"two"):
        clock.pass_seconds(100)
        corpus.report(Outcome(url=PAGE, digest=digest, sketch=b"sketch"))
    assert [entry.sketch.null_count for entry in log_entries(corpus)] == [0, 1, 0]
    assert corpus.stats().n_texts == 0
    assert corpus.nodes[0].store.records_of(np.array([0])).sketch == [b"sketch"]


def test_short_records_leave_the_same_store_as_whole_ones(
    open_corpus: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    start_ms = clock.wall_ms()
    found = []
    for name in ("short", "whole"):
        corpus = open_corpus(name)
        if name == "whole":
            monkeypatch.setattr(
                reporting, "_leave_out_same_content", lambda _node, _page, *rest: rest
            )
            monkeypatch.setattr(judging, "_shorten_memory", lambda *_: None)
        corpus.add(PAGES)
        draw = random.Random(seed)
        for turn, body in enumerate(bodies_of_a_week(draw)):
            at_ms = start_ms - 1_000 * (1_000 - turn)
            urls = draw.sample(PAGES, 3)
            outcomes = [
                Outcome(url=url, body=body, content_type=HTML, fetched_at_ms=at_ms) for url in urls
            ]
            corpus.report(outcomes)
        found.append((contents(corpus), sum(map(len, log_memories(corpus)))))
    (short, n_short), (whole, n_whole) = found
    assert short["pages"] == whole["pages"]
    assert short["hosts"] == whole["hosts"]
    assert n_short < n_whole / 2


def log_memories(corpus: Corpus) -> list[bytes]:
    return [
        memory
        for entry in log_entries(corpus)
        if entry.texts is not None
        for memory in entry.texts.memory.to_pylist()
        if memory is not None
    ]


def test_records_of_the_first_layout_are_read(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    report(corpus, html(*TEXT))
    (entry,) = log_entries(corpus)
    assert entry.texts is not None
    outcomes, *content, _ = entry
    memory, host_update, passages, wrong_answer, flags = entry.texts
    columns = [*to_arrow(outcomes).columns, *content, memory, host_update, passages]
    columns += [pa.array(wrong_answer), pa.array(flags)]
    batch = pa.RecordBatch.from_arrays(columns, schema=NODE_SCHEMAS[130])
    older = entry_of(Record(130, pack_batch(batch)))
    assert isinstance(older, PagesReported)
    assert older.texts is not None
    assert older.texts.passages == passages
    assert older.texts.memory == memory
    newer = record_of(entry)
    assert newer.schema == 136
    assert len(newer.data) < len(pack_batch(batch))
    damaged = batch.set_column(
        batch.schema.get_field_index("passages"),
        batch.schema.field("passages"),
        pa.array([b"not a stream"], pa.binary()),
    )
    with pytest.raises(EventError, match="passages"):
        entry_of(Record(136, pack_batch(damaged)))


def test_outcomes_in_one_call_mean_the_same_as_one_after_another(
    open_corpus: Open, clock: ManualClock, seed: int
) -> None:
    draw = random.Random(seed)
    together, apart = open_corpus("together"), open_corpus("apart")
    clock.pass_seconds(100_000)
    now_ms = clock.wall_ms()
    outcomes = []
    for body in bodies_of_a_week(draw):
        given: dict[str, Any] = {"body": body} if draw.random() < 0.8 else {"digest": b"1"}
        fetched_at_ms = now_ms - 1_000 * draw.randint(0, 90_000)
        url = draw.choice(PAGES[:2])
        outcomes.append(Outcome(url=url, fetched_at_ms=fetched_at_ms, content_type=HTML, **given))
    outcomes.sort(key=lambda one: one.fetched_at_ms if draw.random() < 0.9 else 0)
    for corpus in (together, apart):
        corpus.add(PAGES[:2])
    whole = together.report(outcomes)
    rows = [apart.report(outcome) for outcome in outcomes]
    assert whole.counted.tolist() == [bool(row.counted[0]) for row in rows]
    assert whole.transition.tolist() == [int(row.transition[0]) for row in rows]
    pages = np.arange(2)
    found = [one.nodes[0].store.page_contents_of(pages).memory for one in (together, apart)]
    assert found[0] == found[1]


def test_a_repeated_report_changes_nothing(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    (order,) = corpus.lease(1)
    outcome = Outcome(handle=order.handle, body=html(*TEXT), content_type=HTML)
    assert corpus.report(outcome).counted.tolist() == [True]
    before = contents(corpus)
    clock.pass_seconds(5)
    other = Outcome(handle=order.handle, body=html(NEWS), content_type=HTML)
    assert corpus.report([outcome, other]).counted.tolist() == [False, False]
    assert contents(corpus) == before


def test_pages_of_one_host_share_a_memory(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(PAGES)
    corpus.report([Outcome(url=url, body=html(*TEXT), content_type=HTML) for url in PAGES])
    store = corpus.nodes[0].store
    groups = store.numbers_of(Names.GROUP, ["a.example"])
    assert store.host_memories_of(groups)[0]


# ---------------------------------------------------------------------- tables, asyncio, erasure


def test_a_table_may_have_bodies(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add(PAGES[:3])
    rows = {
        "url": PAGES[:3],
        "body": pa.array([html(*TEXT), None, None], pa.large_binary()),
        "text": [None, "\n".join(TEXT), None],
        "content_type": [HTML, None, None],
        "status": [200, 200, 304],
    }
    assert corpus.report(pa.table(rows)).counted.all()
    first, second, third = corpus.changes()
    assert first.passages is not None
    assert second.passages is not None
    assert set(second.passages.added) <= set(first.passages.added)
    assert third.passages is None
    with pytest.raises(ValueError, match="columns must be among"):
        corpus.report(pa.table({"url": PAGES[:1], "observation": ["x"]}))


def test_async_corpora_take_bodies(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with recrawl.AsyncCorpus(tmp_path / "async") as corpus:
            await corpus.add([PAGE])
            await corpus.report(Outcome(url=PAGE, body=html(*TEXT), content_type=HTML))
            return [change.what.name for change in await corpus.changes()]

    assert asyncio.run(run()) == ["NEW"]


def test_forgetting_a_page_erases_its_text(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(content={"keep_text": True})
    corpus.add(PAGES[:2])
    for url, word in zip(PAGES[:2], ("Zanzibar", "Valparaiso"), strict=True):
        report(corpus, html(*TEXT, f"A ship from {word} is expected in the harbour."), url)
    clock.pass_seconds(100)
    (state,) = corpus.forget([PAGES[0]])
    assert state.is_complete
    store = corpus.nodes[0].store
    assert store.page_contents_of(np.arange(2)).memory[0] is None
    corpus.close()
    data = b"".join(path.read_bytes() for path in corpus.folder.rglob("*") if path.is_file())
    assert b"Zanzibar" not in data
    with open_corpus(content={"keep_text": True}) as again:
        assert again.nodes[0].store.page_contents_of(np.arange(2)).memory[1] is not None


def test_a_reader_sees_passages(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    report(corpus, html(*TEXT))
    reader = open_corpus(read_only=True)
    assert reader.changes() == corpus.changes()
    assert reader.stats().n_texts == 1


def test_other_processes_read_bodies(open_corpus: Open, clock: ManualClock) -> None:
    corpus, other = open_corpus(), open_corpus("processes", content={"processes": 1})
    rows = [
        Outcome(url=PAGES[0], body=html(*TEXT), content_type=HTML),
        Outcome(url=PAGES[1], text="\n".join(TEXT)),
        Outcome(url=PAGES[2], body=blocked(), content_type=HTML),
        Outcome(url=PAGES[3], digest=b"1"),
    ]
    for one in (corpus, other):
        one.add(PAGES)
        one.report(rows)
    assert corpus.changes() == other.changes()
    assert corpus.stats().wrong_answers == other.stats().wrong_answers


def test_a_restored_backup_has_the_texts(open_corpus: Open, tmp_path: Path) -> None:
    corpus = open_corpus(content={"keep_text": True})
    corpus.add([PAGE])
    report(corpus, html(*TEXT))
    expected = contents(corpus)
    corpus.backup(tmp_path / "backups")
    restore_corpus(tmp_path / "backups", tmp_path / "restored")
    with open_corpus("restored", content={"keep_text": True}) as restored:
        assert contents(restored) == expected


def test_a_body_is_read_the_same_by_handle_and_by_url(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    url = "https://a.example/robots.txt"
    corpus.add([url])
    # Without a type, the name of the page says that this is plain text and not HTML.
    body = b"<p>Disallow: /private and all that is in it\n<p>Allow: /public and nothing else"
    corpus.report(Outcome(url="https://A.example:443/robots.txt", body=body))
    clock.pass_seconds(100)
    (order,) = corpus.lease(1)
    corpus.report(Outcome(handle=order.handle, body=body))
    assert [change.what.name for change in corpus.changes()] == ["NEW"]


def test_bodies_of_errors_and_unknown_pages_are_not_read(
    open_corpus: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    corpus.add(PAGES[:4])
    read: list[str] = []
    monkeypatch.setattr(bodies, "_observe", lambda body, *_, **__: read.append(body.url))
    outcomes = [
        Outcome(url=PAGES[0], status=404, body=b"x"),
        Outcome(url=PAGES[1], status=503, body=b"x"),
        Outcome(url=PAGES[2], status=304, body=b"x"),
        Outcome(url=PAGES[3], disallowed=True, body=b"x"),
        Outcome(url="https://unknown.example/", body=b"x"),
    ]
    reported = corpus.report(outcomes)
    assert reported.counted.tolist() == [True, True, True, True, False]
    assert not read


def test_observations_are_checked_before_anything_is_logged(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    good = observe(html(*TEXT), HTML)
    many = np.arange(600, dtype=np.uint64)
    wrong: list[Any] = [
        "text",
        replace(good, is_main=good.is_main[1:]),
        replace(good, passages=many),
        replace(good, level=300),
        replace(good, shingle_offsets=good.shingle_offsets[:-1]),
    ]
    for observation in wrong:
        outcomes = [Outcome(url=PAGE, digest=b"1"), Outcome(url=PAGE, observation=observation)]
        with pytest.raises((TypeError, ValueError), match="observation"):
            corpus.report(outcomes)
    assert corpus.stats().n_outcomes == 0
    assert corpus.report(Outcome(url=PAGE, observation=good)).counted.all()


def test_validators_wait_while_a_number_is_in_doubt(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])

    def etag() -> bytes | None:
        clock.pass_seconds(100)
        page = corpus.explain(PAGE)
        assert page is not None
        return page.etag

    report(corpus, html(*TEXT, "The ticket is 11 for adults"), etag=b'"1"')
    assert etag() == b'"1"'
    # It may be a clock: the next answer decides, so the server must send it whole.
    report(corpus, html(*TEXT, "The ticket is 99 for adults"), etag=b'"2"')
    assert etag() is None
    assert len(corpus.changes()) == 1
    report(corpus, html(*TEXT, "The ticket is 99 for adults"), etag=b'"2"')
    assert etag() == b'"2"'
    assert len(corpus.changes()) == 2
