"""Simulated pages are reproducible, look like pages, and their truth is the truth."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from recrawl.sim.pages import HELD_OUT, KINDS, START_AT, Answer, AnswerFault, PageSite, make_site

HALF_DAY = 43_200
HTML_KINDS = sorted(name for name, kind in KINDS.items() if kind.content_type == "text/html")
FILLED_KINDS = sorted(name for name, kind in KINDS.items() if not kind.is_shell)


class TextParser(HTMLParser):
    """Collects visible text, and notices tags that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.open: list[str] = []
        self.is_balanced = True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "img", "input", "br", "hr", "path", "circle", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("path", "circle", "rect"):
            return
        if not self.open or self.open.pop() != tag:
            self.is_balanced = False

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open[-1:]):
            self.text.append(data)


def parse_html(body: bytes) -> TextParser:
    parser = TextParser()
    parser.feed(body.decode())
    parser.close()
    return parser


def join_words(text: str) -> str:
    return " ".join(text.split())


def good_answers(site: PageSite, page: int, n: int) -> list[tuple[float, Answer]]:
    polls = [START_AT + HALF_DAY * (i + 0.4) for i in range(n)]
    answers = [(at, site.answer(page, at)) for at in polls]
    return [(at, answer) for at, answer in answers if answer.fault is None]


def test_there_are_forty_kinds_and_a_third_is_held_out() -> None:
    assert len(KINDS) >= 40
    assert len(HELD_OUT) >= len(KINDS) / 3
    assert set(HELD_OUT) < set(KINDS)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_answer_depends_only_on_kind_seed_page_and_instant(kind: str) -> None:
    first = make_site(kind, seed=3, n_pages=5)
    polls = [(page, START_AT + HALF_DAY * i) for i in range(8) for page in (0, 4)]
    expected = [first.answer(page, at) for page, at in polls]
    second = make_site(kind, seed=3, n_pages=9)
    again = [second.answer(page, at) for page, at in reversed(polls)]
    assert again[::-1] == expected
    assert make_site(kind, seed=4).answer(0, START_AT).body != expected[0].body


def test_another_process_makes_the_same_bytes() -> None:
    script = (
        "from hashlib import sha256; from recrawl.sim.pages import KINDS, START_AT, make_site\n"
        "digest = sha256()\n"
        "for kind in KINDS: digest.update(make_site(kind, 1).answer(2, START_AT + 9e5).body)\n"
        "print(digest.hexdigest())"
    )
    # String hashes differ between processes: nothing may depend on them.
    found = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 1


@pytest.mark.parametrize("kind", FILLED_KINDS)
def test_the_version_changes_exactly_when_the_meaningful_texts_do(kind: str) -> None:
    site = make_site(kind, seed=5)
    texts: dict[int, tuple[str, ...]] = {}
    for at in (START_AT + HALF_DAY * i for i in range(300)):
        version = site.version(1, at)
        assert texts.setdefault(version, site.texts(1, at)) == site.texts(1, at)
    assert len(texts) > 1
    assert len(set(texts.values())) == len(texts)
    assert site.answer(1, at).version == version


@pytest.mark.parametrize("kind", sorted(set(FILLED_KINDS) - {"sitemap_xml"}))
def test_a_good_answer_shows_every_meaningful_text(kind: str) -> None:
    for seed in range(3):
        site = make_site(kind, seed=seed)
        for at, answer in good_answers(site, page=2, n=5):
            shown = answer.body.decode()
            if kind == "json_api":
                shown = json.dumps(json.loads(shown), ensure_ascii=False)
            elif kind in HTML_KINDS:
                shown = join_words(" ".join(parse_html(answer.body).text))
            for text in site.texts(2, at):
                assert join_words(text) in shown


@pytest.mark.parametrize("kind", HTML_KINDS)
def test_html_is_well_formed_and_has_a_realistic_size(kind: str) -> None:
    for seed in range(4):
        site = make_site(kind, seed=seed)
        for _, answer in good_answers(site, page=0, n=3):
            parser = parse_html(answer.body)
            assert parser.is_balanced
            assert not parser.open
            assert 5_000 < len(answer.body) < 60_000


@pytest.mark.parametrize("kind", ["rss_feed", "atom_feed", "sitemap_xml"])
def test_xml_is_well_formed(kind: str) -> None:
    for _, answer in good_answers(make_site(kind), page=0, n=20):
        ET.fromstring(answer.body)


def test_bytes_differ_at_every_poll_of_a_page_that_did_not_change() -> None:
    site = make_site("legal_terms", seed=1)
    bodies = [answer.body for _, answer in good_answers(site, page=0, n=10)]
    assert len(set(bodies)) == len(bodies)


@pytest.mark.slow_without_jit
def test_every_fault_occurs_and_most_answers_have_none() -> None:
    faults = [
        make_site(kind, seed).answer(page, START_AT + HALF_DAY * i).fault
        for kind in ("prerendered_app", "multilingual_article", "product")
        for seed in range(4)
        for page in range(4)
        for i in range(0, 100, 3)
    ]
    assert set(faults) == {None, *AnswerFault}
    assert 0.9 < faults.count(None) / len(faults) < 0.99


def test_a_redesign_changes_the_markup_and_not_the_truth() -> None:
    site = make_site("government_notice", seed=2, n_pages=1)
    seen = [
        (re.findall(rb'href="/[0-9a-f]{5}/"', answer.body), answer.version)
        for _, answer in good_answers(site, page=0, n=300)
    ]
    redesigns = [(old, new) for old, new in pairwise(seen) if old[0] != new[0]]
    assert 1 <= len(redesigns) < 10
    assert any(old[1] == new[1] for old, new in redesigns)


def test_answers_that_are_not_the_page_are_html() -> None:
    site = make_site("json_api", seed=0)
    wrong = [
        answer
        for i in range(300)
        for answer in [site.answer(i % 12, START_AT + 3_600 * i)]
        if answer.fault is not None and not answer.fault.is_damage
    ]
    assert wrong
    assert all(answer.content_type == "text/html; charset=utf-8" for answer in wrong)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="kind must be one of"):
        make_site("no such kind")
    with pytest.raises(ValueError, match="page must be from 0 to 11"):
        make_site("faq").answer(12, START_AT)


def test_the_versions_are_those_that_answers_show() -> None:
    site = make_site("news_front", seed=3)
    until = START_AT + 20 * 86_400
    versions = site.versions(2, until)
    assert versions[0] == (float(START_AT), 0)
    assert len(versions) > 20
    for (at, version), (next_at, _) in pairwise(versions):
        assert site.current(2, at) == (at, version)
        assert site.current(2, next_at - 0.001) == (at, version)
        assert site.version(2, next_at - 0.001) in [number for _, number in versions]


def test_a_wrong_answer_has_the_fault_that_was_asked_for() -> None:
    site = make_site("product")
    answer = site.wrong_answer(AnswerFault.BLOCKED, 1, START_AT + 60)
    assert answer.fault is AnswerFault.BLOCKED
    with pytest.raises(ValueError, match="page must be from 0 to 11"):
        site.wrong_answer(AnswerFault.BLOCKED, 12, START_AT)


def test_rates_of_pages_differ_by_their_spread() -> None:
    """Counts of 40 pages in 200 days are within five standard errors of their rates."""
    site = make_site("product", seed=1, n_pages=40, rate_spread=1.0)
    rates = [site.edits_per_day(page) for page in range(40)]
    assert max(rates) > 5 * min(rates)
    for page, rate in enumerate(rates):
        n_edits = len(site.versions(page, START_AT + 200 * 86_400)) - 1
        assert abs(n_edits - 200 * rate) < 5 * (200 * rate) ** 0.5 + 1
    same = make_site("product", seed=1)
    assert {same.edits_per_day(page) for page in range(12)} == {same.kind.changes_per_day}


def test_shocks_change_pages_together() -> None:
    site = make_site("empty_app", seed=1, n_pages=50, shocks_per_day=1.0, shock_share=0.4)
    assert site.kind.changes_per_day == 0
    until = START_AT + 30 * 86_400
    instants = [{at for at, _ in site.versions(page, until)[1:]} for page in range(50)]
    shocks = set().union(*instants)
    # Five standard errors of 30 shocks are 27, and of 1,500 draws with a share of 0.4 are 0.063.
    assert 3 <= len(shocks) <= 57
    share = sum(map(len, instants)) / (50 * len(shocks))
    assert share == pytest.approx(0.4, abs=0.15)
    assert site.edits_per_day(0) == pytest.approx(0.4)
