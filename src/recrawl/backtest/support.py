"""What a history can and cannot tell, before anything is claimed from it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from recrawl.backtest.history import History
from recrawl.backtest.replay import Gaps, Replay, gaps_of
from recrawl.units import count_text, instant_text, number_text, seconds_text, share_text

__all__ = ["CHANGES_MIN", "PAGES_MIN", "Finding", "Support", "support_of"]

PAGES_MIN = 20
"""Fewer pages, and chance decides which policy does better."""
CHANGES_MIN = 30
"""Fewer changes, and chance decides too."""
_POLLS_PER_PAGE_MIN = 4
# A page found changed so often has changed more often than anybody saw.
_SATURATED_SHARE, _SATURATED_POLLS_MIN = 0.8, 5
_MANY_SATURATED = 0.1
_MANY_CHANGED = 0.5
_MANY_LEFT_OUT = 0.2
_MANY_ERRORS = 0.1
_MANY_MUTE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a history can or cannot tell."""

    weight: Literal["fact", "caution", "refusal"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Whether a history is enough to judge policies by, and with which reservations."""

    findings: tuple[Finding, ...]

    @property
    def is_enough(self) -> bool:
        """Whether nothing forbids to judge by it."""
        return all(finding.weight != "refusal" for finding in self.findings)

    def texts(self, weight: Literal["fact", "caution", "refusal"]) -> list[str]:
        """Return the findings of one weight."""
        return [finding.text for finding in self.findings if finding.weight == weight]


def _fact(text: str) -> Finding:
    return Finding(weight="fact", text=text)


def _caution(text: str) -> Finding:
    return Finding(weight="caution", text=text)


def _refusal(text: str) -> Finding:
    return Finding(weight="refusal", text=text)


def support_of(history: History, replay: Replay) -> Support:
    """Return what a history can tell, if it is replayed like this."""
    findings = [_fact(_size(history))]
    if history.n_pages:
        findings += _window(replay)
    if not history.is_exact and history.n_pages:
        findings += _polls(history, gaps_of(history))
    findings += _enough(history, replay)
    return Support(findings=tuple(findings))


def _size(history: History) -> str:
    one, many = ("change", "changes") if history.is_exact else ("fetch", "fetches")
    text = count_text(history.n_rows_read, one, many)
    if history.kept_share < 1:
        return (
            f"{text}; {number_text(history.n_pages)} pages, chosen by a hash of their URL, stand "
            f"for all: about one in {round(1 / history.kept_share)}."
        )
    return f"{text} of {count_text(history.n_pages, 'page')}."


def _window(replay: Replay) -> list[Finding]:
    n_pages = replay.pages.size
    if n_pages == 0 or replay.end_ms <= replay.start_ms:
        return []
    n_changing = int(np.count_nonzero(replay.web.changes.counts()))
    findings = [
        _fact(
            f"Replayed are {count_text(n_pages, 'page')} from {instant_text(replay.start_ms)} to "
            f"{instant_text(replay.end_ms)}, {seconds_text(replay.seconds)}; "
            f"{share_text(1 - n_changing / max(n_pages, 1))} of them never changed in that time."
        )
    ]
    left_out = 1 - replay.watched_share
    if left_out > _MANY_LEFT_OUT:
        findings.append(
            _caution(
                f"{share_text(left_out)} of the time for which pages were watched is left out, "
                "with the pages that came later or went earlier: those may change in other ways."
            )
        )
    return findings


def _polls(history: History, gaps: Gaps) -> list[Finding]:
    findings: list[Finding] = []
    if gaps.page.size == 0:
        return findings
    n_polls = np.bincount(gaps.page, minlength=history.n_pages)
    n_changed = np.bincount(gaps.page, weights=gaps.changed, minlength=history.n_pages)
    low, middle, high = np.quantile(gaps.seconds, [0.1, 0.5, 0.9])
    findings.append(
        _fact(
            f"Fetches of a page are {seconds_text(middle)} apart ({seconds_text(low)} to "
            f"{seconds_text(high)} for eight in ten).  A change is known to lie between two of "
            "them, no better: when in between is drawn, as of a page that changes at random."
        )
    )
    share = n_changed / np.maximum(n_polls, 1)
    saturated = (n_polls >= _SATURATED_POLLS_MIN) & (share >= _SATURATED_SHARE)
    n_saturated = int(np.count_nonzero(saturated))
    if n_saturated:
        judged = max(int(np.count_nonzero(n_polls >= _SATURATED_POLLS_MIN)), 1)
        text = (
            f"{number_text(n_saturated)} pages ({share_text(n_saturated / judged)}) were found "
            "changed at four of five fetches or more: they change faster than they were fetched, "
            "and how fast cannot be known."
        )
        is_many = n_saturated / judged > _MANY_SATURATED
        findings.append(_caution(text) if is_many else _fact(text))
    changed_share = float(gaps.changed.mean())
    if changed_share > _MANY_CHANGED:
        findings.append(
            _caution(
                f"{share_text(changed_share)} of all fetches found something else than before.  If "
                "digests are of raw bytes, tokens and time stamps count as changes: digests of "
                "the text would say more."
            )
        )
    if history.n_mute:
        findings.append(
            _caution(
                f"{number_text(history.n_mute)} fetches are left out: neither a digest nor a flag "
                "says whether they found a change."
            )
        )
    n_told = history.page.size + history.n_errors
    if history.n_errors > _MANY_ERRORS * max(n_told, 1):
        findings.append(_caution(f"{share_text(history.n_errors / n_told)} of the fetches failed."))
    return findings


def _mute_share(history: History) -> float:
    return history.n_mute / max(history.page.size + history.n_mute, 1)


def _enough(history: History, replay: Replay) -> list[Finding]:
    findings: list[Finding] = []
    if history.n_pages == 0:
        return [_refusal("There is no page in it.")]
    n_pages = replay.pages.size
    n_changes = int(replay.web.changes.at.size)
    if n_pages < PAGES_MIN:
        findings.append(
            _refusal(
                f"Only {count_text(n_pages, 'page was', 'pages were')} watched all through any one "
                f"time; with fewer than {PAGES_MIN} chance decides which policy does better."
            )
        )
    if not history.is_exact and history.n_pages:
        n_fetches = np.bincount(history.page, minlength=history.n_pages)
        middle = float(np.median(n_fetches))
        if middle < _POLLS_PER_PAGE_MIN:
            findings.append(
                _refusal(
                    f"Half of the pages were fetched {count_text(int(middle), 'time')} or less: "
                    f"too few to tell when they changed; {_POLLS_PER_PAGE_MIN} are needed."
                )
            )
    if n_changes < CHANGES_MIN:
        findings.append(
            _refusal(
                f"Only {count_text(n_changes, 'change was', 'changes were')} seen; with fewer than "
                f"{CHANGES_MIN} chance decides which policy does better."
            )
        )
    if findings and _mute_share(history) > _MANY_MUTE:
        # All the rest comes of it.
        text = (
            f"{share_text(_mute_share(history))} of the fetches do not say whether the page had "
            "changed: each needs a digest of what was fetched, or a flag."
        )
        return [_refusal(text)]
    return findings
