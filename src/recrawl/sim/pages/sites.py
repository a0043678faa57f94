"""Simulated sites: what a server answers for a page at any instant, with the truth about it."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from hashlib import blake2b

from recrawl.sim.pages.articles import ARTICLE_KINDS
from recrawl.sim.pages.chrome import Traits, draw_traits, render_document
from recrawl.sim.pages.draws import Draws
from recrawl.sim.pages.language import LANGUAGES
from recrawl.sim.pages.listings import LISTING_KINDS
from recrawl.sim.pages.material import EditSize, Material, edit_material
from recrawl.sim.pages.plain_formats import PLAIN_KINDS
from recrawl.sim.pages.records import RECORD_KINDS
from recrawl.sim.pages.view import DAY, PageKind, View
from recrawl.sim.pages.wrong_answers import AnswerFault, render_wrong_answer

__all__ = ["HELD_OUT", "KINDS", "START_AT", "Answer", "PageSite", "make_site"]

KINDS = {kind.name: kind for kind in (*ARTICLE_KINDS, *LISTING_KINDS, *RECORD_KINDS, *PLAIN_KINDS)}
HELD_OUT = tuple(name for name, kind in KINDS.items() if kind.is_held_out)

START_AT = 1_767_225_600
"""Instant at which the histories of all sites begin: 1 January 2026, in seconds since 1970."""

_HTML = "text/html"
# A new design comes every 80 days or so, and never in the first days of a site.
_DESIGN_DAYS_MEAN = 80.0
_DESIGN_DAYS_MIN = 6.0
# After some changes a second server still answers with the version before for a while.
_OLD_COPY_SHARE = 0.1
_OLD_COPY_SECONDS = DAY
# A page that no shock changes within this time is changed by none.
_SHOCK_DAYS_MAX = 3_650

# Wrong answers come in episodes: (fault, episode in seconds, is it the whole host's, share of
# episodes, share of requests in an episode).
_EPISODES = (
    (AnswerFault.BLOCKED, 6 * 3_600, True, 0.010, 0.8),
    (AnswerFault.SAME_FOR_MANY, 6 * 3_600, True, 0.006, 1.0),
    (AnswerFault.CONSENT, DAY, True, 0.008, 0.6),
    (AnswerFault.LOGIN, DAY, False, 0.005, 1.0),
    (AnswerFault.SOFT_404, 2 * DAY, False, 0.012, 1.0),
)
_SHELL_SHARE = 0.03
_TRUNCATED_SHARE = 0.003
_MISENCODED_SHARE = 0.004


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server sent, and the truth about it.

    Parameters
    ----------
    url
        Address of the page.
    body, content_type
        The answer; its status is always 200.
    version
        Version of the meaningful content that the page has at this instant.  Two versions are
        equal exactly when their `PageSite.texts` are.
    edit_size
        Size of the edit that made this version; ``None`` for version 0.
    fault
        Fault of the answer; ``None`` if it shows this version.
    is_usual_fault
        Whether every answer of this site has this fault, so no other is known.
    """

    url: str
    body: bytes
    content_type: str
    version: int
    edit_size: EditSize | None
    fault: AnswerFault | None
    is_usual_fault: bool = False


@dataclass(slots=True)
class _History:
    """The versions of one page as far as they have been made."""

    draws: Draws
    material: list[Material]
    version: list[int]  # the number of the first edit that led to the same texts
    changed_at: list[float]
    edit_sizes: list[EditSize | None]
    next_at: float
    first_rows: dict[bytes, int]  # by the digest of the content, the first row that has it


class PageSite:
    """A host with pages of one kind; each answer depends only on kind, seed, page and instant.

    Parameters
    ----------
    kind
        Kind of its pages.
    seed
        Random seed of the site.
    n_pages
        Number of pages.
    rate_spread, shocks_per_day, shock_share
        See `make_site`.

    Examples
    --------
    >>> site = make_site("product", seed=1)
    >>> answer = site.answer(page=3, at=START_AT + 3_600)
    >>> answer.content_type, answer.version, answer.fault
    ('text/html; charset=utf-8', 0, None)
    """

    def __init__(
        self,
        kind: PageKind,
        seed: int,
        n_pages: int,
        *,
        rate_spread: float = 0.0,
        shocks_per_day: float = 0.0,
        shock_share: float = 0.0,
    ) -> None:
        self.kind = kind
        self.seed = seed
        self.n_pages = n_pages
        self.rate_spread = rate_spread
        self.shocks_per_day = shocks_per_day
        self.shock_share = shock_share
        draws = Draws(kind.name, seed)
        self.host = f"{kind.name.replace('_', '-')}-{seed}.example"
        self.language = LANGUAGES[draws.choose(kind.languages)]
        self._traits = draw_traits(draws)
        self._designs = _draw_designs(kind, draws)
        self._histories: dict[int, _History] = {}
        self._shock_draws = Draws(self.host, "shocks")
        self._shocks = [float(START_AT)]  # instants at which several pages change, and the start

    def url(self, page: int) -> str:
        """Return the address of a page."""
        return f"https://{self.host}/{page}"

    def texts(self, page: int, at: float) -> tuple[str, ...]:
        """Return the meaningful texts that a page has at an instant in seconds since 1970."""
        history, row = self._row(page, at)
        return history.material[row].texts()

    def version(self, page: int, at: float) -> int:
        """Return the version that `answer` has, without making the body."""
        history, row = self._row(page, at)
        return history.version[row]

    def versions(self, page: int, until: float) -> list[tuple[float, int]]:
        """Return the versions of a page until an instant, each with the instant of its edit.

        This is the truth about the page, also while a server still answers with an old copy.
        """
        history = self._history(page, until)
        end = bisect_right(history.changed_at, until)
        return list(zip(history.changed_at[:end], history.version[:end], strict=True))

    def current(self, page: int, at: float) -> tuple[float, int]:
        """Return the instant of the last edit of a page, and the version that it made."""
        history = self._history(page, at)
        row = max(bisect_right(history.changed_at, at) - 1, 0)
        return history.changed_at[row], history.version[row]

    def edits_per_day(self, page: int) -> float:
        """Return the mean number of edits of a page per day."""
        own = self.kind.changes_per_day * self._rate_factor(page)
        return own + self.shocks_per_day * self.shock_share

    def answer(self, page: int, at: float) -> Answer:
        """Return what the server answers at an instant in seconds since 1970."""
        self._check(page)
        return self._answer(page, at, self._fault(page, at))

    def wrong_answer(self, fault: AnswerFault, page: int, at: float) -> Answer:
        """Return an answer with a given fault, whether or not the site has it at this instant."""
        self._check(page)
        return self._answer(page, at, fault)

    def _check(self, page: int) -> None:
        if not 0 <= page < self.n_pages:
            raise ValueError(f"page must be from 0 to {self.n_pages - 1}, got {page!r}")

    def _answer(self, page: int, at: float, fault: AnswerFault | None) -> Answer:
        history, row = self._row(page, at)
        design_name, epoch = self._design(at)
        view = View(
            self.host,
            page,
            int(at),
            self.language,
            Draws(self.host, "request", page, int(1_000 * at)),
            (self.host, "design", epoch),
        )
        text = self._render(history.material[row], view, design_name, fault)
        is_html = self.kind.content_type == _HTML or (fault is not None and not fault.is_damage)
        body, charset = self._encode(text, view, fault)
        media_type = _HTML if is_html else self.kind.content_type
        return Answer(
            self.url(page),
            body,
            f"{media_type}; charset={charset}",
            history.version[row],
            history.edit_sizes[row],
            fault,
            self.kind.is_shell,
        )

    def _render(
        self, material: Material, view: View, design_name: str, fault: AnswerFault | None
    ) -> str:
        kind = self.kind
        if fault is not None and not fault.is_damage:
            return render_wrong_answer(
                fault, view, design_name, self._traits, is_held_out=kind.is_held_out
            )
        main = kind.render(material, view)
        if kind.content_type != _HTML:
            return main
        return render_document(
            main, material.title, view, design_name, self._traits, kind=kind.name
        )

    def _encode(self, text: str, view: View, fault: AnswerFault | None) -> tuple[bytes, str]:
        body = text.encode()
        if fault is AnswerFault.TRUNCATED:
            share = 0.15 + 0.8 * view.request.uniform()
            return body[: int(share * len(body))], "utf-8"
        if fault is AnswerFault.MISENCODED:
            # The server names the wrong charset, or has converted the text to it and back.
            if view.request.chance(0.5):
                return body, self.language.legacy_charset
            return body.decode("latin-1").encode(), "utf-8"
        return body, "utf-8"

    def _history(self, page: int, until: float) -> _History:
        history = self._histories.get(page)
        if history is None:
            history = self._histories[page] = self._first_version(page)
        while history.next_at <= until:
            self._add_version(page, history)
        return history

    def _row(self, page: int, at: float) -> tuple[_History, int]:
        history = self._history(page, at)
        row = bisect_right(history.changed_at, at) - 1
        if row > 0 and at - history.changed_at[row] < _OLD_COPY_SECONDS:
            draws = Draws(self.host, "old copy", page, row)
            requests = Draws(self.host, "server", page, int(1_000 * at))
            if draws.chance(_OLD_COPY_SHARE) and requests.chance(0.5):
                row -= 1
        return history, max(row, 0)

    def _first_version(self, page: int) -> _History:
        draws = Draws(self.host, "history", page)
        age = int(draws.integer(10, 400) * DAY)
        material = self.kind.make(draws, self.language, START_AT - age)
        first_rows = {_digest(material): 0}
        history = _History(draws, [material], [0], [float(START_AT)], [None], 0.0, first_rows)
        history.next_at = self._next_edit(page, draws, float(START_AT))
        return history

    def _next_edit(self, page: int, draws: Draws, after: float) -> float:
        own = float("inf")
        if self.kind.changes_per_day != 0:
            mean = DAY / self.kind.changes_per_day
            own = after + draws.exponential(mean) / self._rate_factor(page)
        return min(own, self._next_shock(page, after, own))

    def _rate_factor(self, page: int) -> float:
        """Return the rate of a page relative to its kind: log-normal with mean 1."""
        if self.rate_spread == 0:
            return 1.0
        normal = Draws(self.host, "rate", page).normal()
        return math.exp(self.rate_spread * (normal - 0.5 * self.rate_spread))

    def _next_shock(self, page: int, after: float, until: float) -> float:
        """Return the next shock that changes a page, if it comes before ``until``."""
        if self.shocks_per_day == 0 or self.shock_share == 0:
            return float("inf")
        until = min(until, after + _SHOCK_DAYS_MAX * DAY)
        row = bisect_right(self._shocks, after)
        while True:
            if row == len(self._shocks):
                wait = self._shock_draws.exponential(DAY / self.shocks_per_day)
                self._shocks.append(self._shocks[-1] + wait)
            if self._shocks[row] > until:
                return float("inf")
            if Draws(self.host, "shock", row, page).chance(self.shock_share):
                return self._shocks[row]
            row += 1

    def _add_version(self, page: int, history: _History) -> None:
        at = history.next_at
        material, size = edit_material(
            history.material[-1],
            history.draws.choose(self.kind.edits),
            history.draws,
            self.language,
            int(at),
            facts=self.kind.facts,
            n_sentences=self.kind.n_sentences,
        )
        row = len(history.material)
        history.version.append(history.first_rows.setdefault(_digest(material), row))
        history.material.append(material)
        history.changed_at.append(at)
        history.edit_sizes.append(size)
        history.next_at = self._next_edit(page, history.draws, at)

    def _design(self, at: float) -> tuple[str, int]:
        for epoch in range(len(self._designs) - 1, -1, -1):
            since, name = self._designs[epoch]
            if at >= since:
                return name, epoch
        return self._designs[0][1], 0

    def _fault(self, page: int, at: float) -> AnswerFault | None:
        if self.kind.is_shell:
            return AnswerFault.EMPTY_SHELL
        request = Draws(self.host, "fault", page, int(1_000 * at))
        for fault, seconds, is_whole_host, share, share_of_requests in _EPISODES:
            episode = int(at // seconds)
            draws = Draws(self.host, fault, -1 if is_whole_host else page, episode)
            if draws.chance(share) and request.chance(share_of_requests):
                return fault
        if self.kind.is_prerendered and request.chance(_SHELL_SHARE):
            return AnswerFault.EMPTY_SHELL
        if request.chance(_TRUNCATED_SHARE):
            return AnswerFault.TRUNCATED
        if request.chance(_MISENCODED_SHARE):
            return AnswerFault.MISENCODED
        return None

    @property
    def traits(self) -> Traits:
        """What the site shows around its content."""
        return self._traits


def _digest(material: Material) -> bytes:
    """Return a digest of the meaningful texts: equal exactly if they are."""
    return blake2b("\x1f".join(material.texts()).encode(), digest_size=16).digest()


def _draw_designs(kind: PageKind, draws: Draws) -> tuple[tuple[float, str], ...]:
    """Return the designs of ten years with the instant from which each is used."""
    designs: list[tuple[float, str]] = [(0.0, draws.choose(kind.designs))]
    at = float(START_AT)
    while at < START_AT + 3_650 * DAY:
        at += (_DESIGN_DAYS_MIN + draws.exponential(_DESIGN_DAYS_MEAN)) * DAY
        designs.append((at, draws.choose(kind.designs)))
    return tuple(designs)


def make_site(
    kind: str,
    seed: int = 0,
    n_pages: int = 12,
    *,
    rate_spread: float = 0.0,
    shocks_per_day: float = 0.0,
    shock_share: float = 0.0,
) -> PageSite:
    """Return a simulated site with pages of one kind.

    Parameters
    ----------
    kind
        Name of the kind, one of `KINDS`.
    seed
        Random seed: the same kind and seed always give the same answers, byte by byte.
    n_pages
        Number of pages, which changes no page.
    rate_spread
        Standard deviation of the logarithm of the rates at which pages change; 0 if all pages of
        the site change at the rate of their kind.
    shocks_per_day, shock_share
        Mean number of instants per day at which pages of the site change together, and the share
        of its pages that each of them changes.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    return PageSite(
        KINDS[kind],
        seed,
        n_pages,
        rate_spread=rate_spread,
        shocks_per_day=shocks_per_day,
        shock_share=shock_share,
    )
