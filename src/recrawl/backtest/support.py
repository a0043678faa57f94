"""Check whether a history is large and complete enough to compare policies on."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from recrawl.backtest.history import History
from recrawl.backtest.replay import Gaps, Replay, gaps_of
from recrawl.units import count_text, instant_text, number_text, seconds_text, share_text

__all__ = ["CHANGES_MIN", "PAGES_MIN", "Support", "SupportFinding", "support_of"]

PAGES_MIN = 20
"""Fewest pages to compare policies on; with fewer, the result is chance."""
CHANGES_MIN = 30
"""Fewest changes to compare policies on; with fewer, the result is chance."""
_POLLS_PER_PAGE_MIN = 4
# A page is saturated if at least this share of its fetches found a change: it changes faster than
# it was fetched.  Pages with fewer fetches than the second number are not judged.
_SATURATED_SHARE, _SATURATED_POLLS_MIN = 0.8, 5
# Shares above which a finding is a caution.
_MANY_SATURATED = 0.1
_MANY_CHANGED = 0.5
_MANY_LEFT_OUT = 0.2
_MANY_ERRORS = 0.1
# Share of fetches that do not show a change or its absence, above which this is the only refusal.
_MANY_UNDECIDED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportFinding:
    """One fact about a history, one caution, or one reason to refuse it."""

    weight: Literal["fact", "caution", "refusal"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Whether policies can be compared on a history, and with which cautions."""

    findings: tuple[SupportFinding, ...]

    @property
    def is_enough(self) -> bool:
        """Whether there is no reason to refuse the history."""
        return all(finding.weight != "refusal" for finding in self.findings)

    def texts(self, weight: Literal["fact", "caution", "refusal"]) -> list[str]:
        """Return the findings of one weight."""
        return [finding.text for finding in self.findings if finding.weight == weight]


def _fact(text: str) -> SupportFinding:
    return SupportFinding(weight="fact", text=text)


def _caution(text: str) -> SupportFinding:
    return SupportFinding(weight="caution", text=text)


def _refusal(text: str) -> SupportFinding:
    return SupportFinding(weight="refusal", text=text)


def support_of(history: History, replay: Replay) -> Support:
    """Return facts, cautions and refusals about a history and its replay."""
    findings = [_fact(_size_text(history))]
    if history.n_pages:
        findings += _window_findings(replay)
    if not history.is_exact and history.n_pages:
        findings += _fetch_findings(history, gaps_of(history))
    findings += _refusals(history, replay)
    return Support(findings=tuple(findings))


def _size_text(history: History) -> str:
    singular, plural = ("change", "changes") if history.is_exact else ("fetch", "fetches")
    text = count_text(history.n_rows_read, singular, plural)
    if history.kept_share < 1:
        return (
            f"{text}.  The backtest uses a sample of {number_text(history.n_pages)} pages, about "
            f"one in {round(1 / history.kept_share)}, chosen by a hash of the URL."
        )
    return f"{text} of {count_text(history.n_pages, 'page')}."


def _window_findings(replay: Replay) -> list[SupportFinding]:
    n_pages = replay.pages.size
    if n_pages == 0 or replay.end_ms <= replay.start_ms:
        return []
    n_changing = int(np.count_nonzero(replay.web.changes.counts()))
    findings = [
        _fact(
            f"The backtest replays {count_text(n_pages, 'page')} from "
            f"{instant_text(replay.start_ms)} to {instant_text(replay.end_ms)} "
            f"({seconds_text(replay.seconds)}); "
            f"{share_text(1 - n_changing / max(n_pages, 1))} of them never changed."
        )
    ]
    left_out = 1 - replay.watched_share
    if left_out > _MANY_LEFT_OUT:
        findings.append(
            _caution(
                f"{share_text(left_out)} of the observed page time is not replayed, because some "
                "pages were added later or removed earlier.  Those pages may change differently."
            )
        )
    return findings


def _fetch_findings(history: History, gaps: Gaps) -> list[SupportFinding]:
    findings: list[SupportFinding] = []
    if gaps.page.size == 0:
        return findings
    n_polls = np.bincount(gaps.page, minlength=history.n_pages)
    n_changed = np.bincount(gaps.page, weights=gaps.changed, minlength=history.n_pages)
    low, middle, high = np.quantile(gaps.seconds, [0.1, 0.5, 0.9])
    findings.append(
        _fact(
            f"Fetches of a page are {seconds_text(middle)} apart ({seconds_text(low)} to "
            f"{seconds_text(high)} for eight in ten).  The log shows only between which two "
            "fetches a page changed; the exact time is simulated."
        )
    )
    share = n_changed / np.maximum(n_polls, 1)
    saturated = (n_polls >= _SATURATED_POLLS_MIN) & (share >= _SATURATED_SHARE)
    n_saturated = int(np.count_nonzero(saturated))
    if n_saturated:
        judged = max(int(np.count_nonzero(n_polls >= _SATURATED_POLLS_MIN)), 1)
        text = (
            f"{number_text(n_saturated)} pages ({share_text(n_saturated / judged)}) had changed "
            "at four of five fetches or more.  They change faster than they were fetched, so "
            "their true change rate is unknown."
        )
        is_many = n_saturated / judged > _MANY_SATURATED
        findings.append(_caution(text) if is_many else _fact(text))
    changed_share = float(gaps.changed.mean())
    if changed_share > _MANY_CHANGED:
        findings.append(
            _caution(
                f"{share_text(changed_share)} of all fetches found a change.  If the digests are "
                "of raw bytes, tokens and time stamps count as changes; digests of the text are "
                "more reliable."
            )
        )
    if history.n_mute:
        findings.append(
            _caution(
                f"{number_text(history.n_mute)} fetches are ignored: they have neither a "
                "digest nor a flag that says whether the page had changed."
            )
        )
    n_fetches = history.page.size + history.n_errors
    if history.n_errors > _MANY_ERRORS * max(n_fetches, 1):
        findings.append(
            _caution(f"{share_text(history.n_errors / n_fetches)} of the fetches failed.")
        )
    return findings


def _undecided_share(history: History) -> float:
    return history.n_mute / max(history.page.size + history.n_mute, 1)


def _refusals(history: History, replay: Replay) -> list[SupportFinding]:
    findings: list[SupportFinding] = []
    if history.n_pages == 0:
        return [_refusal("The log contains no pages.")]
    n_pages = replay.pages.size
    n_changes = int(replay.web.changes.at.size)
    if n_pages < PAGES_MIN:
        findings.append(
            _refusal(
                f"Only {count_text(n_pages, 'page was', 'pages were')} observed during a common "
                f"period; at least {PAGES_MIN} are needed to compare policies."
            )
        )
    if not history.is_exact and history.n_pages:
        n_fetches = np.bincount(history.page, minlength=history.n_pages)
        middle = float(np.median(n_fetches))
        if middle < _POLLS_PER_PAGE_MIN:
            findings.append(
                _refusal(
                    f"Half of the pages were fetched {count_text(int(middle), 'time')} or fewer; "
                    f"at least {_POLLS_PER_PAGE_MIN} are needed to tell when they changed."
                )
            )
    if n_changes < CHANGES_MIN:
        findings.append(
            _refusal(
                f"Only {count_text(n_changes, 'change was', 'changes were')} seen; at least "
                f"{CHANGES_MIN} are needed to compare policies."
            )
        )
    if findings and _undecided_share(history) > _MANY_UNDECIDED:
        # The other reasons follow from this one.
        text = (
            f"{share_text(_undecided_share(history))} of the fetches do not say whether the page "
            "had changed.  Each fetch needs a digest of the content, or a flag."
        )
        return [_refusal(text)]
    return findings
