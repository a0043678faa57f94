"""Judge simulated pages with known truth: false and missed changes, wrong answers, by kind.

Each page is polled about every 12 hours, in the order of time, and each poll is judged with all
rules.  The first site of each kind is judged with each rule switched off as well, on fewer polls.
Then the scheduler runs with the errors of each setting, to see what they cost in freshness at an
equal budget.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np

from recrawl.content import ContentSettings, observe
from recrawl.content.judging import ContentVerdict, HostMemory, PageMemory, judge
from recrawl.sim import Bookkeeper, Fetcher, KnownPages, ShardPolicy, make_web
from recrawl.sim.pages import HELD_OUT, KINDS, START_AT, Answer, EditSize, make_site

__all__ = ["SETTINGS", "PageScore", "Score", "as_markdown", "measure", "poll_times", "score_site"]

DAY = 86_400.0
POLL_SECONDS = DAY / 2
# Versions that a page may return to without a change, as the node counts them.
_N_RECENT = 4
# Polls of a page in which rules know little of it.
_N_EARLY = 5

SETTINGS = {
    "all rules": ContentSettings(),
    "without (a) returns": ContentSettings(ignore_returns=False),
    "without (b) volatile passages": ContentSettings(ignore_volatile=False),
    "without (c) host templates": ContentSettings(ignore_templates=False),
    "without (d) wrong answers": ContentSettings(ignore_wrong_answers=False),
    "without any": ContentSettings(
        ignore_returns=False,
        ignore_volatile=False,
        ignore_templates=False,
        ignore_wrong_answers=False,
    ),
}


@dataclass(slots=True)
class Score:
    """Counts of right and wrong judgements.

    Parameters
    ----------
    n_unchanged, n_false
        Polls at which nothing changed, and how many were judged as changed.
    n_unchanged_early, n_false_early
        The same among the first polls of a page, when rules know little of it.
    n_changes, n_missed
        Polls at which something changed, and how many were not judged so.
    n_wrong, n_recognised
        Answers that are not the page, and how many were recognised.
    n_right, n_alarms
        Answers that are the page, and how many were judged as not being it.
    n_damaged, n_damaged_changes
        Truncated and wrongly encoded answers, and how many were judged as changed without reason.
    missed_by_size, changes_by_size
        Missed changes and changes by the size of the edit.
    """

    n_unchanged: int = 0
    n_false: int = 0
    n_unchanged_early: int = 0
    n_false_early: int = 0
    n_changes: int = 0
    n_missed: int = 0
    n_wrong: int = 0
    n_recognised: int = 0
    n_right: int = 0
    n_alarms: int = 0
    n_damaged: int = 0
    n_damaged_changes: int = 0
    changes_by_size: dict[str, int] = field(default_factory=dict)
    missed_by_size: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: "Score") -> "Score":
        found = Score()
        for name in self.__slots__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, dict):
                total = {key: mine.get(key, 0) + theirs.get(key, 0) for key in {**mine, **theirs}}
                setattr(found, name, total)
            else:
                setattr(found, name, mine + theirs)
        return found

    def shares(self) -> dict[str, float]:
        """Return the shares that the counts amount to."""
        return {
            "false_changes": _ratio(self.n_false, self.n_unchanged),
            "missed_changes": _ratio(self.n_missed, self.n_changes),
            "wrong_answers_recognised": _ratio(self.n_recognised, self.n_wrong),
            "false_alarms": _ratio(self.n_alarms, self.n_right),
            "damaged_counted": _ratio(self.n_damaged_changes, self.n_damaged),
            "false_changes_early": _ratio(self.n_false_early, self.n_unchanged_early),
            "false_changes_later": _ratio(
                self.n_false - self.n_false_early, self.n_unchanged - self.n_unchanged_early
            ),
        }


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 5) if whole else 0.0


class PageScore:
    """Compares the verdicts of one page with the truth, in the order of the polls.

    A change counts once, at the first poll that shows it.  A return to one of the last few versions
    is not a change.  An answer that is not the page can only be recognised or not; if it is judged
    as a change, this is a false change as well.
    """

    def __init__(self) -> None:
        self._version: int | None = None
        self._recent: deque[int] = deque(maxlen=_N_RECENT)
        self._missed: int | None = None
        self._n_polls = 0

    def add(self, score: Score, answer: Answer, verdict: ContentVerdict) -> str:
        """Count one poll, and return what was wrong: ``false``, ``missed``, ``alarm`` … or ''."""
        self._n_polls += 1
        is_change = verdict == ContentVerdict.CHANGED
        if answer.fault is not None and not answer.fault.is_damage:
            return self._add_wrong_answer(score, answer, verdict)
        if answer.fault is not None:
            score.n_damaged += 1
            if is_change and answer.version == self._version:
                score.n_damaged_changes += 1
                return self._add_unchanged(score, is_change)
            if is_change:
                self._accept(answer.version)
            return ""
        score.n_right += 1
        if verdict == ContentVerdict.WRONG_ANSWER:
            score.n_alarms += 1
        if self._version is None:
            if verdict != ContentVerdict.WRONG_ANSWER:
                self._version = answer.version
            return "alarm" if verdict == ContentVerdict.WRONG_ANSWER else ""
        if answer.version == self._version:
            found = self._add_unchanged(score, is_change)
        elif answer.version in self._recent:
            found = self._add_unchanged(score, is_change)
            self._accept(answer.version)
        else:
            found = self._add_change(score, answer, verdict)
        return found or ("alarm" if verdict == ContentVerdict.WRONG_ANSWER else "")

    def _add_wrong_answer(self, score: Score, answer: Answer, verdict: ContentVerdict) -> str:
        is_change = verdict == ContentVerdict.CHANGED
        found = self._add_unchanged(score, is_change)
        if answer.is_usual_fault:
            return found
        score.n_wrong += 1
        if verdict == ContentVerdict.WRONG_ANSWER:
            score.n_recognised += 1
            return ""
        return found or "unrecognised"

    def _add_unchanged(self, score: Score, is_change: bool) -> str:
        score.n_unchanged += 1
        score.n_false += is_change
        if self._n_polls <= _N_EARLY:
            score.n_unchanged_early += 1
            score.n_false_early += is_change
        return "false" if is_change else ""

    def _add_change(self, score: Score, answer: Answer, verdict: ContentVerdict) -> str:
        if answer.version != self._missed:
            size = str(answer.edit_size)
            score.n_changes += 1
            score.changes_by_size[size] = score.changes_by_size.get(size, 0) + 1
            if verdict != ContentVerdict.CHANGED:
                score.n_missed += 1
                score.missed_by_size[size] = score.missed_by_size.get(size, 0) + 1
                self._missed = answer.version
                return "missed"
        if verdict == ContentVerdict.CHANGED:
            self._accept(answer.version)
        return ""

    def _accept(self, version: int) -> None:
        if self._version is not None:
            self._recent.append(self._version)
        self._version = version
        self._missed = None


def poll_times(n_pages: int, n_polls: int, seed: int) -> list[tuple[float, int]]:
    """Return instants and pages of all polls of a site, in the order of time."""
    rng = np.random.default_rng(seed)
    jitter = rng.uniform(-0.4, 0.4, size=(n_polls, n_pages)) + rng.uniform(0, 1, n_pages)
    at = START_AT + POLL_SECONDS * (1 + np.arange(n_polls)[:, None] + jitter)
    polls = [(float(at[i, page]), page) for i in range(n_polls) for page in range(n_pages)]
    return sorted(polls)


@dataclass(slots=True)
class _Memories:
    """What a rule set has learned of a site."""

    host: HostMemory
    pages: dict[int, PageMemory]
    scores: dict[int, PageScore]


def site_verdicts(
    kind: str, seed: int, n_pages: int, n_polls: int, settings: Sequence[ContentSettings]
) -> Iterator[tuple[float, int, Answer, list[ContentVerdict]]]:
    """Yield each poll of a site with its answer, and its verdict under each of the settings."""
    site = make_site(kind, seed, n_pages)
    memories = [_Memories(HostMemory(), {}, {}) for _ in settings]
    for at, page in poll_times(n_pages, n_polls, seed):
        answer = site.answer(page, at)
        observation = observe(answer.body, answer.content_type, answer.url)
        verdicts = []
        for memory, chosen in zip(memories, settings, strict=True):
            judgement = judge(observation, memory.pages.get(page), memory.host, chosen)
            memory.pages[page] = judgement.memory
            if judgement.host_update:
                memory.host = memory.host.with_update(judgement.host_update)
            verdicts.append(judgement.verdict)
        yield at, page, answer, verdicts


def score_site(
    kind: str, seed: int, n_pages: int, n_polls: int, names: Sequence[str]
) -> dict[str, Score]:
    """Return the score of each of the named settings on one site."""
    scores = {name: Score() for name in names}
    pages = {name: [PageScore() for _ in range(n_pages)] for name in names}
    chosen = [SETTINGS[name] for name in names]
    for _, page, answer, verdicts in site_verdicts(kind, seed, n_pages, n_polls, chosen):
        for name, verdict in zip(names, verdicts, strict=True):
            pages[name][page].add(scores[name], answer, verdict)
    return scores


def _score_job(job: tuple[str, int, int, int, tuple[str, ...]]) -> dict[str, Score]:
    return score_site(*job)


def measure(
    n_polls: float = 1e5,
    *,
    n_polls_off: float = 2e4,
    n_sites: int = 2,
    n_pages: int = 12,
    kinds: Sequence[str] = tuple(KINDS),
    names: Sequence[str] = tuple(SETTINGS),
    n_processes: int = 1,
    with_freshness: bool = True,
) -> dict[str, Any]:
    """Judge simulated pages, and run the scheduler with the errors.

    Parameters
    ----------
    n_polls, n_polls_off
        Number of polls of all kinds together, with all rules and with rules switched off.
    n_sites, n_pages
        Sites of each kind, and pages of each site.
    kinds
        Names of the kinds.
    names
        Names of the settings to compare, out of `SETTINGS`.
    n_processes
        Number of processes.
    with_freshness
        Whether the scheduler runs with the errors.
    """
    polls_per_page = max(int(np.ceil(n_polls / (len(kinds) * n_sites * n_pages))), 2)
    polls_per_page_off = max(int(np.ceil(n_polls_off / (len(kinds) * n_pages))), 2)
    all_rules = tuple(SETTINGS)[:1]
    jobs = [
        (kind, seed, n_pages, polls_per_page, all_rules)
        for seed in range(n_sites)
        for kind in kinds
    ]
    n_all = len(jobs)
    jobs += [(kind, 0, n_pages, polls_per_page_off, tuple(names)) for kind in kinds]
    if n_processes > 1:
        with ProcessPoolExecutor(n_processes, get_context("spawn")) as pool:
            found = list(pool.map(_score_job, jobs))
    else:
        found = [_score_job(job) for job in jobs]
    by_site = dict(zip([job[:2] for job in jobs[:n_all]], found[:n_all], strict=True))
    with_off = dict(zip([job[:2] for job in jobs[n_all:]], found[n_all:], strict=True))
    (best,) = all_rules
    total = _total(by_site, best, kinds)
    result: dict[str, Any] = {
        "polls": n_all * n_pages * polls_per_page,
        "polls_off": len(kinds) * n_pages * polls_per_page_off,
        "all_kinds": total.shares(),
        "tuned": _total(by_site, best, [k for k in kinds if k not in HELD_OUT]).shares(),
        "held_out": _total(by_site, best, [k for k in kinds if k in HELD_OUT]).shares(),
        "counts": total,
        "settings": {name: _total(with_off, name, kinds).shares() for name in names},
        "kinds": {
            kind: {"held_out": kind in HELD_OUT, **_total(by_site, best, [kind]).shares()}
            for kind in kinds
        },
    }
    if with_freshness:
        result["freshness"] = freshness_with_errors(with_off, names)
    return result


def _total(
    by_site: dict[tuple[str, int], dict[str, Score]], name: str, kinds: Sequence[str]
) -> Score:
    scores = [found[name] for (kind, _), found in by_site.items() if kind in kinds]
    return sum(scores, Score())


# ---------------------------------------------------------------------------- freshness


def freshness_with_errors(
    by_site: dict[tuple[str, int], dict[str, Score]],
    names: Sequence[str],
    *,
    pages_per_site: int = 12,
    days: float = 40.0,
    fetches_per_page_and_day: float = 0.5,
    seed: int = 0,
) -> dict[str, float]:
    """Return the freshness that recrawl's scheduler reaches with the errors of each setting.

    Every site has its own share of false and missed changes.  A false change makes the scheduler
    believe that the page changes more often.  A missed change leaves the reader's copy as it was,
    until a later change is noticed.

    Parameters
    ----------
    by_site
        Scores by kind and seed of the site.
    names
        Names of the settings.
    pages_per_site, days, fetches_per_page_and_day
        Size, length and budget of the run.
    seed
        Random seed of the changes.
    """
    sites = [site for site in by_site if not KINDS[site[0]].is_shell]
    rate = np.repeat([KINDS[kind].changes_per_day / DAY for kind, _ in sites], pages_per_site)
    group = np.repeat(np.arange(len(sites)), pages_per_site)
    web = make_web(seed, days * DAY, rate, group=group)
    budget = fetches_per_page_and_day * rate.size / DAY
    found = {}
    none = np.zeros(len(sites))
    found["no errors"] = _run_with_errors(web, budget, none, none)
    for name in names:
        shares = [by_site[site][name].shares() for site in sites]
        false = np.array([share["false_changes"] for share in shares])
        missed = np.array([share["missed_changes"] for share in shares])
        found[name] = _run_with_errors(web, budget, false, missed)
    return {name: round(value, 4) for name, value in found.items()}


def _run_with_errors(
    web: Any, budget: float, false_share: np.ndarray, missed_share: np.ndarray
) -> float:
    """Return the freshness when outcomes are falsified in these shares of each group's fetches."""
    rng = np.random.default_rng(1)
    burn_in = web.horizon / 4
    books = Bookkeeper(web, burn_in_seconds=burn_in)
    fetcher = Fetcher(web)
    policy = ShardPolicy(budget=budget)
    policy.start(KnownPages(web.importance, web.cost, web.group, web.kind, True), 0.0)
    is_behind = np.zeros(web.n_pages, np.bool_)
    n_per_pick = max(round(budget * 900), 1)
    for k in range(1, int(web.horizon * budget / n_per_pick) + 1):
        now = k * n_per_pick / budget
        pages = policy.pick(now, n_per_pick)
        if pages.size == 0:
            continue
        at = np.full(pages.size, now)
        outcomes = fetcher.fetch(pages, at)
        draw = rng.uniform(size=pages.size)
        group = web.group[pages]
        is_missed = outcomes.changed & (draw < missed_share[group])
        is_false = ~outcomes.changed & (draw < false_share[group])
        is_behind[pages] = (is_behind[pages] & ~outcomes.changed & ~is_false) | is_missed
        changed = (outcomes.changed & ~is_missed) | is_false
        books.record(pages, at, is_behind[pages])
        policy.learn(at, pages, outcomes._replace(changed=changed))
    return float(books.close().freshness)


# ---------------------------------------------------------------------------- tables


def as_markdown(result: dict[str, Any]) -> str:
    """Return the result as the tables of the documentation."""
    head = "| {} | false changes | missed changes | wrong answers recognised | false alarms |{}\n"
    rule = "|---|---|---|---|---|{}\n"
    lines = [f"{result['polls_off']:,} polls, rules switched off:\n\n"]
    lines += [head.format("rules", " freshness |"), rule.format("---|")]
    freshness = result.get("freshness", {})
    for name, shares in result["settings"].items():
        lines.append(f"{_cells(name, shares)} {freshness.get(name, 0):.4f} |\n")
    if freshness:
        lines.append(f"| no errors | 0 | 0 | 100 % | 0 | {freshness['no errors']:.4f} |\n")
    counts = result["counts"]
    lines += ["\n| size of the edit | changes | missed |\n|---|---|---|\n"]
    for size in EditSize:
        n_changes = counts.changes_by_size.get(size, 0)
        lines.append(f"| {size} | {n_changes:,} | {counts.missed_by_size.get(size, 0):,} |\n")
    shares = result["all_kinds"]
    lines.append(
        f"\n{result['polls']:,} polls. False changes in the first {_N_EARLY} polls of a page: "
        f"{100 * shares['false_changes_early']:.2f} %, later: "
        f"{100 * shares['false_changes_later']:.2f} %. Damaged answers judged as changes: "
        f"{100 * shares['damaged_counted']:.1f} %.\n\n"
    )
    lines += [head.format("kinds, all rules", ""), rule.format("")]
    for name in ("all_kinds", "tuned", "held_out"):
        lines.append(f"{_cells(name.replace('_', ' '), result[name])}\n")
    for kind, shares in result["kinds"].items():
        mark = " (held out)" if shares["held_out"] else ""
        lines.append(f"{_cells(f'`{kind}`{mark}', shares)}\n")
    return "".join(lines)


def _cells(name: str, shares: dict[str, float]) -> str:
    percent = [
        f"{100 * shares[column]:.2f} %"
        for column in (
            "false_changes",
            "missed_changes",
            "wrong_answers_recognised",
            "false_alarms",
        )
    ]
    return f"| {name} | {' | '.join(percent)} |"
