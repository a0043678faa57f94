"""`judge` finds changes of text that counts, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from recrawl.content import (
    HOST_MEMORY_BYTES_MAX,
    PAGE_MEMORY_BYTES_MAX,
    ContentSettings,
    ContentVerdict,
    HostMemory,
    Judgement,
    Observation,
    PageMemory,
    WrongAnswer,
    judge,
    observe,
    observe_bytes,
    observe_text,
    passage_hash,
)
from recrawl.content.extract.words import is_word_sign

FIRST, BASELINE, UNCHANGED = (
    ContentVerdict.FIRST,
    ContentVerdict.BASELINE,
    ContentVerdict.UNCHANGED,
)
CHANGED, REVERTED, WRONG, CORRECTED = (
    ContentVerdict.CHANGED,
    ContentVerdict.REVERTED,
    ContentVerdict.WRONG_ANSWER,
    ContentVerdict.CORRECTED,
)
STORY = [f"Paragraph {word} of the story says something that matters." for word in "abcdefghij"]

_MENU = [f"{one}{other}" for one in ("wood", "rain", "snow", "fire") for other in ("en", "work")]
_MENU = [f"{word}{number}" for word in _MENU for number in range(9)]


class Site:
    """Pages of one host, judged in the order of their answers."""

    def __init__(self, settings: ContentSettings | None = None) -> None:
        self.settings = settings or ContentSettings()
        self.host = HostMemory()
        self.pages: dict[str, PageMemory] = {}

    def poll(self, observation: Observation, page: str = "/") -> Judgement:
        # The memories go through bytes, as in a store.
        memory = self.pages.get(page)
        stored = None if memory is None else PageMemory.from_bytes(memory.to_bytes())
        host = HostMemory.from_bytes(self.host.to_bytes())
        found = judge(observation, stored, host, self.settings)
        self.pages[page] = found.memory
        self.host = host.with_update(found.host_update)
        assert len(found.memory.to_bytes()) <= PAGE_MEMORY_BYTES_MAX
        assert len(self.host.to_bytes()) <= HOST_MEMORY_BYTES_MAX
        return found

    def polls(self, *texts: list[str], page: str = "/") -> list[ContentVerdict]:
        return [self.poll(observe_text("\n".join(text)), page).verdict for text in texts]


def test_a_changed_passage_is_a_change_with_its_hashes() -> None:
    site = Site()
    edited = [*STORY[:4], "A new paragraph.", *STORY[5:]]
    assert site.polls(STORY, STORY) == [FIRST, UNCHANGED]
    found = site.poll(observe_text("\n".join(edited)))
    assert found.verdict == CHANGED
    assert found.added.tolist() == [passage_hash("A new paragraph.")]
    assert found.removed.tolist() == [passage_hash(STORY[4])]
    assert set(found.kept.tolist()) == {passage_hash(text) for text in STORY if text != STORY[4]}
    assert found.observation.passages[found.added_places].tolist() == found.added.tolist()
    assert 0 < found.divergence < 0.5


def test_a_passage_that_moves_is_not_a_change() -> None:
    assert Site().polls(STORY, STORY[::-1]) == [FIRST, UNCHANGED]


def test_unchanged_answers_keep_memory_and_digest() -> None:
    site = Site()
    site.polls(STORY, STORY)
    before = site.pages["/"].to_bytes()
    found = site.poll(observe_text("\n".join(STORY)))
    assert found.verdict == UNCHANGED
    assert found.memory.to_bytes() == before
    assert not found.host_update


def test_a_return_to_a_recent_version_is_not_a_change() -> None:
    banner = ["We use cookies.", *STORY]
    texts = [STORY, banner, STORY, banner, banner, STORY]
    assert Site().polls(*texts) == [FIRST, CHANGED, REVERTED, REVERTED, UNCHANGED, REVERTED]
    settings = ContentSettings(ignore_returns=False)
    assert Site(settings).polls(*texts[:4]) == [FIRST, CHANGED, CHANGED, CHANGED]


def test_a_returning_passage_beside_a_new_one_is_a_change() -> None:
    banner = ["We use cookies.", *STORY]
    edited = ["We use cookies.", *STORY[:-1], "The story ends otherwise."]
    assert Site().polls(STORY, banner, STORY, edited) == [FIRST, CHANGED, REVERTED, CHANGED]


def test_a_clock_stops_counting_and_its_page_still_changes() -> None:
    site = Site()

    def at(clock: str, story: list[str]) -> list[str]:
        return [*story[:5], f"It is {clock}.", *story[5:]]

    found = site.polls(*(at(f"10:0{minute}", STORY) for minute in range(6)))
    assert found[2:] == [UNCHANGED] * 4
    edited = [*STORY[:5], "Something new happened here today, as we heard.", *STORY[5:]]
    assert site.polls(at("10:07", edited), at("10:08", edited)) == [CHANGED, UNCHANGED]
    settings = ContentSettings(ignore_volatile=False)
    without = Site(settings).polls(*(at(f"10:0{minute}", STORY) for minute in range(6)))
    assert without == [FIRST] + [CHANGED] * 5


def test_what_becomes_stable_counts_again() -> None:
    site = Site()
    site.polls(*([*STORY, f"Visitor number {n} is here"] for n in range(5)))
    closed = [*STORY, "Visitor number 7 was here"]
    found = [
        verdict for verdict in site.polls(closed, closed, closed, closed) if verdict == CHANGED
    ]
    assert len(found) == 1
    later = [*STORY, "Visitor number 9 was here last"]
    assert CHANGED in site.polls(later, later, later, later)


def test_passages_of_the_template_do_not_belong_to_the_page() -> None:
    site = Site()

    def page(number: int, menu: str) -> list[str]:
        own = [f"Page {number}: {text}" for text in STORY]
        return ["Home", menu, "Contact", *own, "Imprint"]

    for number in range(6):
        site.polls(page(number, "Products"), page(number, "Products"), page=f"/{number}")
    found = site.poll(observe_text("\n".join(page(0, "Shop for everything"))), "/0")
    assert (found.verdict, found.is_template_change) == (UNCHANGED, True)
    assert site.polls(page(1, "Shop for everything"), page=f"/{1}") == [UNCHANGED]
    edited = [*page(2, "Shop for everything"), "And this is new on the page."]
    assert site.polls(edited, page="/2") == [CHANGED]
    own = passage_hash("Page 1: " + STORY[0])
    assert not site.host.template_of([own or 0])
    settings = ContentSettings(ignore_templates=False)
    other = Site(settings)
    for number in range(6):
        other.polls(page(number, "Products"), page(number, "Products"), page=f"/{number}")
    assert other.polls(page(0, "Shop for everything"), page="/0") == [CHANGED]


@pytest.mark.parametrize(
    ("title", "text", "kind"),
    [
        ("404 Not Found", "The page you requested was not found.", WrongAnswer.SOFT_404),
        ("Just a moment...", "Checking your browser before you go on", WrongAnswer.BLOCKED),
        ("Before you continue", "We value your privacy. Accept all", WrongAnswer.CONSENT),
        ("Sign in", "Sign in to continue. Forgot your password?", WrongAnswer.LOGIN),
        (
            "Shop for everything",
            "Please enable JavaScript to use this page",
            WrongAnswer.EMPTY_SHELL,
        ),
        ("Shop for everything", "", WrongAnswer.EMPTY_SHELL),
    ],
)
def test_wrong_answers_are_not_observations(title: str, text: str, kind: WrongAnswer) -> None:
    site = Site()
    page = observe(f"<title>Story</title>{''.join(f'<p>{text}' for text in STORY)}".encode())
    wrong = observe(f"<title>{title}</title><p>{text}".encode())
    assert site.poll(page).verdict == FIRST
    found = site.poll(wrong)
    assert (found.verdict, found.wrong_answer) == (WRONG, kind)
    assert site.poll(wrong).verdict == WRONG
    assert site.poll(page).verdict == UNCHANGED
    assert Site().poll(wrong).verdict == WRONG
    site = Site(ContentSettings(ignore_wrong_answers=False))
    assert [site.poll(page).verdict, site.poll(wrong).verdict] == [FIRST, CHANGED]


def test_a_page_that_stays_short_is_accepted() -> None:
    site = Site()
    assert site.polls(STORY, STORY) == [FIRST, UNCHANGED]
    short = ["Closed."]
    assert site.polls(short, short, short, short, short) == [WRONG] * 3 + [CHANGED, UNCHANGED]


def test_a_truncated_answer_is_not_a_change() -> None:
    site = Site()
    site.polls(STORY, STORY)
    found = site.poll(observe_text("\n".join([*STORY[:2], "Paragraph c of"])))
    assert (found.verdict, found.wrong_answer) == (WRONG, WrongAnswer.TRUNCATED)


def test_one_text_for_many_pages_is_a_wrong_answer() -> None:
    site = Site()
    for number in range(5):
        site.polls([f"Page {number}: {text}" for text in STORY], page=f"/{number}")
    same = [f"Our offer {word} of the week is not what you asked for." for word in "abcdefgh"]
    verdicts = [site.poll(observe_text("\n".join(same)), f"/{number}") for number in range(5)]
    assert [found.verdict for found in verdicts[2:]] == [WRONG] * 3
    assert verdicts[3].wrong_answer == WrongAnswer.SAME_FOR_MANY


def _document(title: str, paragraphs: list[str]) -> Observation:
    menu = "".join(f"<li><a href=/{word}>{word.title()} and more</a></li>" for word in _MENU)
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return observe(
        f"<html><head><title>{title} | Our site</title></head><body><nav><ul>{menu}</ul></nav>"
        f"<main><h1>{title}</h1>{text}</main></body></html>".encode(),
        "text/html",
    )


def test_a_first_answer_that_other_pages_have_is_a_wrong_answer() -> None:
    site = Site()
    for number in range(60):
        story = [f"Page {number}: {text}" for text in STORY]
        found = site.poll(_document(f"Story {number} of many", story), f"/{number}")
        assert found.verdict == FIRST
    down = _document("We move", ["Our servers move to another city, so please be patient."] * 4)
    verdicts = [site.poll(down, f"/down-{number}").verdict for number in range(4)]
    assert verdicts == [FIRST, FIRST, WRONG, WRONG]
    assert site.poll(_document("Story a", STORY), "/down-3").verdict == FIRST
    # Copies of a page are accepted in the end.
    assert [site.poll(down, "/down-2").verdict for _ in range(3)] == [WRONG, WRONG, FIRST]


def test_a_first_answer_with_a_title_of_its_own_is_the_page() -> None:
    site = Site()
    empty = ["There are no entries in this list yet, but you can add one."] * 4
    verdicts = [
        site.poll(_document(f"List {word}", empty), f"/{word}").verdict for word in "abcdefgh"
    ]
    assert verdicts == [FIRST] * 8


def _site_of_stories(n_pages: int = 8) -> Site:
    site = Site()
    for number in range(n_pages):
        story = [f"Page {number}: {text}" for text in STORY]
        site.poll(_document(f"Story {number} of many", story), f"/{number}")
    return site


_LOGIN = ["Please log in to see what you asked for.", *(" ".join(STORY[i : i + 5]) for i in (0, 5))]
_BARE = observe(b"<html><title>Back soon</title><body><p>We are back soon.</p></body></html>")
_CUT = observe(b"<html><title>Story z</title><body><main><h1>Story z</h1><p>Paragraph a of")


@pytest.mark.parametrize(
    "first", [_BARE, _CUT, _document("Members", _LOGIN)], ids=["bare", "cut", "login"]
)
def test_a_first_answer_that_was_not_the_page_is_corrected(first: Observation) -> None:
    site = _site_of_stories()
    assert site.poll(first, "/z").verdict == FIRST
    found = site.poll(_document("Story z", STORY), "/z")
    assert found.verdict == CORRECTED
    assert passage_hash(STORY[0]) in found.added.tolist()
    shown = set(first.passages.tolist())
    assert set(found.removed.tolist()) <= shown
    assert not set(found.added.tolist()) & set(found.kept.tolist())
    # From then on the page is compared as any other.
    edited = [*STORY[:4], "Something new happened here today, as we heard.", *STORY[5:]]
    assert site.poll(_document("Story z", STORY), "/z").verdict == UNCHANGED
    assert site.poll(_document("Story z", edited), "/z").verdict == CHANGED


def test_the_first_entries_of_an_empty_list_are_a_change() -> None:
    site = _site_of_stories()
    empty = ["There are no entries in this list yet, but you can add one."] * 4
    for word in "abcdefgh":
        site.poll(_document(f"List {word}", empty), f"/{word}")
    assert site.poll(_document("List a", STORY), "/a").verdict == CHANGED


def test_a_sentence_that_pages_share_may_replace_another_at_once() -> None:
    said = [f"Reader {one} says that nobody explains the news as well as we." for one in "pqr"]
    site = Site()
    for number in range(12):
        story = [f"Page {number}: {text}" for text in STORY]
        site.poll(_document(f"Story {number}", [*story, said[number % 3]]), f"/{number}")
    story = [f"Page 0: {text}" for text in STORY]
    assert site.poll(_document("Story 0", [*story, said[1]]), "/0").verdict == UNCHANGED
    own = "Nobody else has this sentence, which is as long as those of readers."
    story = [f"Page 1: {text}" for text in STORY]
    assert site.poll(_document("Story 1", [*story, own]), "/1").verdict == CHANGED


def test_a_counter_that_moved_is_still_in_doubt_when_it_differs_again() -> None:
    def page(number: int, name: str, text: list[str]) -> Observation:
        paragraphs = "".join(f"<p>{one}</p>" for one in text)
        return observe(
            f"<html><title>Story</title><body><main><h1>Story</h1>{paragraphs}"
            f"<div class={name}>{number} people are viewing this page</div></main></body>"
            "</html>".encode(),
            "text/html",
        )

    site = Site()
    edited = ["Something new happened here today, as we heard.", *STORY[1:]]
    assert site.poll(page(1_098, "readers", STORY)).verdict == FIRST
    assert site.poll(page(3_374, "viewers", edited)).verdict == CHANGED
    assert site.poll(page(3_423, "viewers", edited)).verdict == UNCHANGED


def test_a_long_menu_does_not_hide_that_a_first_answer_is_not_found() -> None:
    wrong = _document("Oops!", ["Oops! That page can't be found."])
    assert int(wrong.n_words.sum()) > 150
    found = Site().poll(wrong)
    assert (found.verdict, found.wrong_answer) == (WRONG, WrongAnswer.SOFT_404)


def test_a_passage_of_a_reported_version_is_no_change_when_it_lasts() -> None:
    site = Site()
    site.polls(*([*STORY[:5], f"Teaser {one} about the {one}s", *STORY[5:]] for one in "kmnpqr"))
    edited = [*STORY[:2], "Something new happened here today, as we heard.", *STORY[2:]]
    stays = [*edited[:6], "Teaser z about the zs", *edited[6:]]
    teaser = passage_hash("Teaser z about the zs")
    found = site.poll(observe_text("\n".join(stays)))
    assert found.verdict == CHANGED
    assert teaser not in found.added.tolist()
    assert site.polls(*[stays] * 5) == [UNCHANGED] * 5
    # It is announced with the next change.
    later = [*stays, "And then something else happened, which we heard of yesterday."]
    found = site.poll(observe_text("\n".join(later)))
    assert found.verdict == CHANGED
    assert teaser in found.added.tolist()


@pytest.mark.parametrize(
    ("sign", "is_word"), [("变", True), ("の", True), ("a", False), ("д", False)]
)
def test_signs_of_scripts_without_spaces_count_as_words(sign: str, is_word: bool) -> None:
    assert is_word_sign(sign) == is_word
    assert int(observe_text(3 * sign).n_words.sum()) == (3 if is_word else 1)


def test_a_body_that_could_not_be_read_is_not_an_observation() -> None:
    site = Site()
    site.polls(STORY, STORY)
    found = site.poll(observe_bytes(b"<p>anything", problems=("timed_out",)))
    assert (found.verdict, found.wrong_answer) == (WRONG, WrongAnswer.UNREADABLE)
    assert not found.added.size
    assert site.polls(STORY) == [UNCHANGED]


def test_another_extractor_or_other_settings_set_a_baseline() -> None:
    site = Site()
    site.polls(STORY, STORY)
    site.settings = ContentSettings(ignore_patterns=("matters",))
    assert site.polls(STORY, [*STORY, "New"]) == [BASELINE, CHANGED]
    newer = replace(observe_text("\n".join(STORY)), extractor=99)
    assert site.poll(newer).verdict == BASELINE


def test_a_suppressed_removal_is_announced_with_the_next_change() -> None:
    site = Site()
    told: set[int] = set()
    texts = [[*STORY[:5], f"It is 10:0{minute}.", *STORY[5:]] for minute in range(8)]
    texts.append([*texts[-1], "The story goes on with one more paragraph of text."])
    for text in texts:
        found = site.poll(observe_text("\n".join(text)))
        told = (told - set(found.removed.tolist())) | set(found.added.tolist())
    assert told <= {passage_hash(line) for line in texts[-1]}


def test_memories_survive_bytes_and_damage() -> None:
    site = Site()
    rng = np.random.default_rng(3)
    for _ in range(30):
        site.polls([" ".join(rng.choice(STORY, 2)) for _ in range(40)])
    memory, host = site.pages["/"], site.host
    assert PageMemory.from_bytes(memory.to_bytes()).to_bytes() == memory.to_bytes()  # type: ignore[union-attr]
    assert HostMemory.from_bytes(host.to_bytes()).to_bytes() == host.to_bytes()
    for data in (b"", b"\0", memory.to_bytes()[:-1], b"x" * 200, memory.to_bytes() + b"\0"):
        assert PageMemory.from_bytes(data) is None
        assert HostMemory.from_bytes(data).n_pages == 0
        assert host.with_update(data).to_bytes() == host.to_bytes()


def test_very_long_pages_and_many_passages_stay_within_the_limits() -> None:
    site = Site()
    for start in range(0, 6_000, 700):
        site.polls([f"Item {number} is for sale" for number in range(start, start + 700)])
    for number in range(80):
        site.polls([f"{number} {k} words" for k in range(120)], page=str(number))
    assert site.host.n_pages <= 48


def test_no_stable_text_is_hidden_for_ever(seed: int) -> None:
    """Whatever came before, a text that stays is reported within a few polls."""
    rng = np.random.default_rng(seed)
    site = Site()
    told: set[int] = set()
    pool = [f"Teaser {k} about something" for k in range(30)]
    final = [*STORY, "This is how the story ends."]
    for text in [
        *([*rng.choice(pool, 3), *STORY, f"Counter {n}"] for n in range(40)),
        *([final] * 8),
    ]:
        found = site.poll(observe_text("\n".join(text)))
        told = (told - set(found.removed.tolist())) | set(found.added.tolist())
    assert passage_hash(final[-1]) in told


def test_a_page_that_reads_like_an_error_is_accepted_in_the_end() -> None:
    login = "<title>Sign in</title><h1>Sign in</h1><p>Forgot your password?<p>It is 10:{:02d}"
    site = Site()
    verdicts = [site.poll(observe(login.format(i).encode())).verdict for i in range(20)]
    assert verdicts[:3] == [WRONG] * 3
    assert WRONG not in verdicts[10:]
    # Also if its text is another one each time.
    site = Site()
    texts = [f"Sign in to continue. Forgot your password? {STORY[i % 10]}" for i in range(60)]
    verdicts = [
        site.poll(observe(f"<title>Log in</title><p>{text}".encode())).verdict for text in texts
    ]
    assert verdicts[0] == WRONG
    assert set(verdicts[20:40]) != {WRONG}


def test_a_page_that_shrinks_is_accepted_although_it_has_a_clock() -> None:
    site = Site()
    site.polls(*([*STORY, f"Generated at 10:0{i}:01"] for i in range(3)))
    closed = [["We have closed for good.", f"Generated at 11:{i}:01"] for i in range(10, 30)]
    verdicts = site.polls(*closed)
    assert verdicts[0] == WRONG
    assert CHANGED in verdicts[:6]
    assert WRONG not in verdicts[6:]


@pytest.mark.parametrize(
    "title", ["Robot vacuum X5", "Bus 502 timetable", "Planned maintenance", "Informed consent"]
)
def test_a_title_alone_does_not_make_a_wrong_answer(title: str) -> None:
    story = "".join(f"<p>{text}" for text in STORY)
    assert Site().poll(observe(f"<title>{title}</title>{story}".encode())).verdict == FIRST


def test_one_huge_answer_does_not_make_a_page_coarse_for_ever() -> None:
    site = Site()
    site.polls(STORY, STORY)
    assert site.polls([f"line {i} of a dump" for i in range(9000)]) == [BASELINE]
    assert site.pages["/"].level >= 2
    assert site.polls(STORY, STORY) == [BASELINE, UNCHANGED]
    assert site.pages["/"].level == 0
    assert site.polls([*STORY, "Something is new here."]) == [CHANGED]


def test_copies_of_a_page_on_one_host_do_not_hide_its_changes() -> None:
    site = Site()
    urls = ("/a", "/a?print=1", "/a?utm=x", "/a?b")
    for _ in range(3):
        for url in urls:
            site.polls(STORY, page=url)
    edited = [*STORY[:4], "Another paragraph that is new and says more.", *STORY[5:]]
    assert [site.polls(edited, page=url) for url in urls] == [[CHANGED]] * 4


def test_a_number_outside_the_main_text_counts_if_other_pages_have_it_too() -> None:
    def page(i: int, price: int) -> bytes:
        story = "".join(f"<p>{text} {text} Page {i}." for text in STORY)
        facts = f"<table><tr><td>Price<td>{price}.99</table><table><tr><td>Seats<td>{7 + i}</table>"
        return f"<title>Page {i}</title><main>{story}</main><aside>{facts}</aside>".encode()

    site = Site()
    for _ in range(4):
        for i in range(8):
            site.poll(observe(page(i, 5 + i % 3)), f"/{i}")
    assert site.poll(observe(page(1, 7)), "/1").verdict == CHANGED
