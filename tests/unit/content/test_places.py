"""Where a passage stands decides whether it counts: rows with counters, states, designs, clocks."""

import random
from collections.abc import Callable

import pytest

from recrawl.content import (
    ContentVerdict,
    HostMemory,
    Judgement,
    PageMemory,
    WrongAnswer,
    judge,
    observe,
    passage_hash,
)
from recrawl.content.judging.page_memory import PassageFlag

CHANGED, UNCHANGED = ContentVerdict.CHANGED, ContentVerdict.UNCHANGED
WRONG = ContentVerdict.WRONG_ANSWER
N_PAGES = 8
WORDS = [
    "amber",
    "birch",
    "cedar",
    "dune",
    "ember",
    "fern",
    "grove",
    "heath",
    "iris",
    "juniper",
    "kelp",
    "larch",
]


class Host:
    """A host whose pages are polled in turn; a body is a function of the page and the poll."""

    def __init__(self, body: Callable[[int, int], str]) -> None:
        self.body = body
        self.memory = HostMemory()
        self.pages: dict[int, PageMemory] = {}

    def poll(self, page: int, body: str, content_type: str = "text/html") -> Judgement:
        memory = self.pages.get(page)
        found = judge(observe(body.encode(), content_type), memory, self.memory)
        self.pages[page] = found.memory
        self.memory = self.memory.with_update(found.host_update)
        return found

    def run(self, n_polls: int, start: int = 0) -> list[list[ContentVerdict]]:
        return [
            [self.poll(page, self.body(page, poll)).verdict for page in range(N_PAGES)]
            for poll in range(start, start + n_polls)
        ]


def document(page: int, content: str, *, before: str = "", after: str = "") -> str:
    return (
        f"<html><head><title>Board of {WORDS[page]}</title></head><body><div class=top><a href=/>"
        f"Start</a><p>Welcome to our little board</p></div>{before}<main><h1>Board of "
        f"{WORDS[page]}</h1>{content}</main><footer><p>Imprint and privacy of the board</p>{after}"
        "</footer></body></html>"
    )


def topics(page: int, poll: int, titles: list[str]) -> str:
    rows = "".join(
        f"<tr class=topic><td><a>{title}</a></td><td>Ann</td><td>{100 * len(title) + 7 * poll}</td>"
        "</tr>"
        for title in titles
    )
    return document(page, f"<table class=topics>{rows}</table>")


def titles_of(page: int) -> list[str]:
    return [f"What about the {WORDS[page]} near the {word}" for word in WORDS]


def test_a_counter_in_each_row_does_not_count_and_a_new_row_does() -> None:
    host = Host(lambda page, poll: topics(page, poll, titles_of(page)))
    verdicts = host.run(6)
    assert not any(CHANGED in row for row in verdicts)
    added = host.poll(3, topics(3, 6, ["A question that is new here", *titles_of(3)]))
    assert added.verdict == CHANGED
    removed = host.poll(4, topics(4, 6, titles_of(4)[1:]))
    assert removed.verdict == CHANGED


def test_the_number_of_equal_states_counts() -> None:
    def states(page: int, good: int) -> str:
        rows = "".join(
            f"<div class=part><h3>{word} {page}</h3><b>{'fine' if i < good else 'out of order'}</b>"
            "</div>"
            for i, word in enumerate(WORDS[:6])
        )
        return document(page, rows)

    host = Host(lambda page, _: states(page, 3))
    host.run(3)
    found = host.poll(2, states(2, 4))
    assert found.verdict == CHANGED
    # No text is new or gone, so an index has nothing to do.
    assert found.added.size == found.removed.size == 0


def test_a_term_and_its_definition_are_one_passage() -> None:
    body = b"<dl><dt>Price<dd>5 euros<dt>Size</dt><dd>Small</dd><dd>Large</dd></dl>"
    page = observe(body, "text/html")
    assert page.passages.tolist() == [
        passage_hash("Price 5 euros"),
        passage_hash("Size Small"),
        passage_hash("Large"),
    ]


def test_a_price_counts_even_if_it_changes_often() -> None:
    host = Host(
        lambda page, poll: document(
            page, f"<p>Tea of {WORDS[page]}</p><p class=price>€ {poll + page}.50</p>"
        )
    )
    verdicts = host.run(4)
    assert all(row == [CHANGED] * N_PAGES for row in verdicts[1:])


def test_a_clock_and_rotating_teasers_do_not_count() -> None:
    def body(page: int, poll: int) -> str:
        teasers = "".join(
            f"<li>{WORDS[(poll * 5 + page + k) % 12]} and {WORDS[(poll * 7 + k) % 12]}</li>"
            for k in range(4)
        )
        return document(
            page,
            "".join(f"<p>All there is to say of {WORDS[page]} and {word}.</p>" for word in WORDS),
            before=f"<div class=clock>Today is day {poll}, {poll % 24}:0{page}</div>",
            after=f"<ul class=teasers>{teasers}</ul>",
        )

    host = Host(body)
    verdicts = host.run(12)
    assert sum(row.count(CHANGED) for row in verdicts) <= 1
    edited = body(5, 12).replace("All there is to say of fern and kelp.", "Fern and kelp differ.")
    assert host.poll(5, edited).verdict == CHANGED


def test_a_new_design_is_not_a_change() -> None:
    def body(page: int, poll: int) -> str:
        story = "".join(f"<p>Whoever saw {WORDS[page]} saw {word} as well.</p>" for word in WORDS)
        plain = document(page, story)
        if poll < 4:
            return plain
        return (
            plain.replace("<main>", "<div class=layout><section class=new>")
            .replace("</main>", "</section></div>")
            .replace("Welcome to our little board", "The board for everybody, now with a search")
        )

    host = Host(body)
    assert not any(CHANGED in row for row in host.run(6))


def shop(page: int, prices: list[str], class_name: str) -> str:
    rows = "".join(
        f"<div class={class_name}><h3>{word} from {WORDS[page]} in a box</h3><b>{price}</b></div>"
        for word, price in zip(WORDS, prices, strict=True)
    )
    return document(page, f"<section class={class_name}s>{rows}</section>")


def test_a_change_beside_new_names_of_classes_counts() -> None:
    def prices(page: int) -> list[str]:
        return [f"€ {k}.5{page}" for k in range(10, 22)]

    host = Host(lambda page, _: shop(page, prices(page), "offer"))
    host.run(4)
    assert host.poll(1, shop(1, prices(1), "card")).verdict == UNCHANGED
    assert host.poll(2, shop(2, [*prices(2)[:-1], "€ 99.50"], "card")).verdict == CHANGED
    renamed = shop(3, prices(3), "card").replace(f"{WORDS[5]} from", "willow from")
    assert host.poll(3, renamed).verdict == CHANGED
    # The places are known by their new names.
    assert host.poll(1, shop(1, ["€ 1.00", *prices(1)[1:]], "card")).verdict == CHANGED


def test_one_number_of_a_short_list_that_is_edited_twice_counts() -> None:
    def facts(page: int, months: int) -> str:
        rows = f"<dt>Weight<dd>{7 + page} kg<dt>Length<dd>3{page} cm<dt>Width<dd>1{page} cm"
        return document(page, f"<dl class=facts>{rows}<dt>Warranty<dd>{months} months</dl>")

    host = Host(lambda page, _: facts(page, 20 + page))
    host.run(4)
    verdicts = [host.poll(2, facts(2, months)).verdict for months in (12, 36, 48)]
    assert verdicts[0] == verdicts[1] == CHANGED


def test_a_state_that_other_pages_have_too_is_the_state_of_this_page() -> None:
    def answer(page: int, state: str, poll: int) -> str:
        return (
            f'{{"data": {{"id": {page}, "name": "{WORDS[page]}", "state": "{state}"}},'
            f' "meta": {{"took_ms": {37 * poll % 101}}}}}'
        )

    host = Host(lambda page, poll: answer(page, ["active", "paused"][page % 2], poll))
    kind = "application/json"
    for poll in range(4):
        for page in range(N_PAGES):
            state = ["active", "paused"][page % 2]
            host.poll(page, answer(page, state, poll), kind)
    assert host.poll(2, answer(2, "active", 5), kind).verdict == UNCHANGED
    assert host.poll(2, answer(2, "paused", 6), kind).verdict == CHANGED


def test_what_comes_back_after_another_change_is_a_change() -> None:
    def facts(*rows: str) -> str:
        items = "".join(f"<li>{row}" for row in rows)
        return document(0, f"<ul><li>Made of wood from the {WORDS[0]} forest{items}</ul>")

    host = Host(lambda *_: "")
    offer = "Now with a lamp for the desk"
    steps = [(offer,), (offer,), (), (), ("Comes in red and white",), ("Comes in red and white",)]
    verdicts = [host.poll(0, facts(*rows)).verdict for rows in steps]
    assert verdicts[2] == verdicts[4] == CHANGED
    assert host.poll(0, facts("Comes in red and white", offer)).verdict == CHANGED


def test_a_number_that_may_be_a_clock_counts_if_it_lasts() -> None:
    def offer(price: int, clock: int) -> str:
        text = "<p>A table of oak for six, made in the north and sent to all countries</p>"
        now = f"<div class=clock>It is {clock} minutes past noon now</div>"
        return document(0, f"{text}<p>Its price is {price} at the moment</p>{now}")

    host = Host(lambda *_: "")
    host.poll(0, offer(11, 1))
    # Nothing is known yet: each of the two may be a clock.
    assert host.poll(0, offer(99, 2)).verdict == UNCHANGED
    later = host.poll(0, offer(99, 3))
    assert later.verdict == CHANGED
    assert passage_hash("Its price is 99 at the moment") in later.added.tolist()
    assert host.poll(0, offer(99, 4)).verdict == UNCHANGED


def test_an_edit_of_the_only_paragraph_is_not_a_wrong_answer() -> None:
    banner = "<p>We and our partners use cookies. Accept all cookies to continue</p>"
    words = " ".join(WORDS * 4)

    def page_text(page: int, text: str) -> str:
        content = f"<p>{WORDS[page]} {text}</p>"
        return document(page, content, after=banner)

    host = Host(lambda page, _: page_text(page, words))
    host.run(3)
    edited = words.replace("iris juniper", "lily heather")
    assert host.poll(2, page_text(2, edited)).verdict == CHANGED


def test_an_announcement_on_all_pages_is_not_a_change() -> None:
    def body(page: int, poll: int) -> str:
        story = "".join(f"<p>Whoever saw {WORDS[page]} saw {word} as well.</p>" for word in WORDS)
        text = "<div class=notice>We move to another hall in the first week of May.</div>"
        return document(page, story, before=text if 4 <= poll < 10 else "")

    host = Host(body)
    assert not any(CHANGED in row for row in host.run(12))


def test_a_page_whose_end_is_missing_was_cut() -> None:
    host = Host(lambda page, _: document(page, "".join(f"<p>{w} {w} {w}.</p>" for w in WORDS)))
    host.run(3)
    whole = host.body(1, 3)
    found = host.poll(1, whole[: whole.index("<p>heath")])
    assert (found.verdict, found.wrong_answer) == (WRONG, WrongAnswer.TRUNCATED)
    assert host.poll(1, whole).verdict == UNCHANGED


def test_a_web_page_instead_of_a_feed_is_not_the_feed() -> None:
    feed = (
        "<rss><channel><title>News</title><item><title>Tea is late</title></item></channel></rss>"
    )
    host = Host(lambda *_: feed)
    assert host.poll(0, feed, "application/rss+xml").verdict == ContentVerdict.FIRST
    found = host.poll(0, document(0, "<p>Something else entirely.</p>"))
    assert (found.verdict, found.wrong_answer) == (WRONG, WrongAnswer.OTHER_KIND)
    # Whoever answers with a web page again and again has one.
    verdicts = [
        host.poll(0, document(0, "<p>Something else entirely.</p>")).verdict for _ in range(3)
    ]
    assert verdicts[-1] == ContentVerdict.BASELINE


def test_an_advertisement_that_no_other_replaces_is_one() -> None:
    """Two pages have shown that nothing lasts there; on the others it is just gone."""

    def body(page: int, poll: int) -> str:
        story = "".join(f"<p>Whoever saw {WORDS[page]} saw {word} as well.</p>" for word in WORDS)
        text = f"<div class=ad><a>Buy {WORDS[page]} and {WORDS[page - poll - 1]} today</a></div>"
        return document(page, story, after=text if poll == 0 or page < 2 else "")

    host = Host(body)
    verdicts = [
        [host.poll(page, body(page, poll)).verdict for page in range(len(WORDS))]
        for poll in range(2)
    ]
    assert CHANGED not in verdicts[1]


@pytest.mark.parametrize("ending", ["", " | Our little board"])
def test_a_title_counts_however_often_it_is_edited(ending: str) -> None:
    """Other headings that differ at each poll are taken for teasers."""

    def body(page: int, poll: int) -> str:
        story = "".join(f"<p>Whoever saw {WORDS[page]} saw {word} as well.</p>" for word in WORDS)
        title = f"News of {WORDS[poll]}" if page == 3 else f"Board of {WORDS[page]}"
        teaser = f"<h2>More about {WORDS[(poll + page) % 12]}</h2>"
        text = document(page, story, after=teaser).replace(f"Board of {WORDS[page]}", title)
        return text.replace("</title>", f"{ending}</title>")

    verdicts = Host(body).run(8)[1:]
    assert [row[3] for row in verdicts] == [CHANGED] * 7
    assert not any(CHANGED in (*row[:3], *row[4:]) for row in verdicts[2:])


def test_a_counter_in_a_new_design_is_the_counter_that_it_was() -> None:
    """Only its words tell that it is the same: nothing that lasts stands in its elements."""

    def body(page: int, poll: int) -> str:
        name = "old" if poll < 4 else "new"
        n_people = random.Random(f"{page} {poll}").randrange(1_000, 4_000)
        story = "".join(
            f"<p class={name}-text>Whoever saw {WORDS[page]} saw {word} as well.</p>"
            for word in WORDS
        )
        seen = f"<p class={name}-seen>{n_people} people look at this page</p>"
        return document(page, f"{story}<div class={name}-facts>{seen}</div>")

    host = Host(body)
    assert not any(CHANGED in row for row in host.run(9))
    changed = body(3, 9).replace("saw amber as well", "saw nothing at all")
    assert host.poll(3, changed).verdict == CHANGED


@pytest.mark.parametrize("text", ["Größe: 5 €", "目次 – 東京", "Où est l’été ?"])
def test_a_text_that_was_encoded_twice_is_the_same_text(text: str) -> None:
    page = f"<html><body><p>{text}</p></body></html>"
    once, twice = page.encode(), page.encode().decode("latin-1").encode()
    assert once != twice
    passages = observe(once, "text/html").passages.tolist()
    assert observe(twice, "text/html").passages.tolist() == passages


@pytest.mark.parametrize("number", range(4))
def test_an_index_that_follows_the_judgements_has_what_counts(number: int) -> None:
    draws = random.Random(number)
    lines = [f"{word} is what the {other} says" for word in WORDS for other in WORDS[:4]]
    host, index = HostMemory(), set[int]()
    page: PageMemory | None = None
    shown = lines[:20]
    for poll in range(120):
        if draws.random() < 0.5:
            shown = [line for line in shown if draws.random() < 0.95] + draws.sample(lines, 1)
        body = "".join(f"<p class=c{draws.randrange(2)}>{line}</p>" for line in shown)
        clock = f"<div class=clock>{poll}:30</div><p class=n>{draws.randrange(99)} readers</p>"
        answer = observe(f"<html><body>{clock}{body}</body></html>".encode(), "text/html")
        found = judge(answer, page, host)
        page, host = found.memory, host.with_update(found.host_update)
        added, removed = set(found.added.tolist()), set(found.removed.tolist())
        assert not added & removed
        assert removed <= index
        assert not added & index
        index = (index - removed) | added
        assert added <= set(answer.passages.tolist())
        if found.verdict == CHANGED:
            assert index == {
                passage
                for passage, flag in zip(page.passages.tolist(), page.flags.tolist(), strict=True)
                if flag & PassageFlag.TOLD and not flag & PassageFlag.VOLATILE
            }
