"""``recrawl report``: read outcomes of fetches as JSON lines, and report them to the corpus."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from recrawl.cli.support.corpus_access import (
    CorpusPlace,
    corpus_or_service_option,
    open_to_change,
    prepare_kernels,
    value_errors_as_usage,
)
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.outcomes import BadOutcome, lines_of, outcome_of
from recrawl.cli.support.output import (
    Output,
    check_none_unavailable,
    count_unavailable,
    output_option,
)
from recrawl.units import count_text

if TYPE_CHECKING:
    from recrawl.corpus import Corpus, Outcome

__all__ = ["command"]

OUTCOMES_PER_BATCH_MAX = 1_000
BODY_BYTES_PER_BATCH = 32 << 20
"""Outcomes are reported as soon as their bodies have this many bytes together."""
_EXAMPLES_MAX = 5


class _OutcomeReporter:
    """Reports outcomes to a corpus, and counts the results."""

    def __init__(self) -> None:
        self.n_lines = self.n_counted = self.n_failed = self.n_void = self.n_bad = 0
        self.n_dropped = self.n_wrong = self.n_unavailable = 0
        self.transitions: Counter[str] = Counter()
        self.examples: list[str] = []
        # Numbers of the lines of the outcomes that `read` has just yielded.
        self._lines: list[int] = []

    def read(self, lines: list[bytes]) -> "Iterator[list[Outcome]]":
        """Yield the outcomes in lines, in batches, and count the bad lines."""
        outcomes: list[Outcome] = []
        n_bytes = 0
        for line in lines:
            self.n_lines += 1
            if len(outcomes) >= OUTCOMES_PER_BATCH_MAX or n_bytes >= BODY_BYTES_PER_BATCH:
                yield outcomes
                outcomes, self._lines, n_bytes = [], [], 0
            try:
                outcomes.append(outcome_of(line))
                self._lines.append(self.n_lines)
                n_bytes += len(outcomes[-1].body or b"")
            except BadOutcome as error:
                self.n_bad += 1
                self._add_example(self.n_lines, str(error))
        if outcomes:
            yield outcomes
        self._lines = []

    def _add_example(self, line: int, text: str) -> None:
        if len(self.examples) < _EXAMPLES_MAX:
            self.examples.append(f"line {line}: {text}")

    def report(self, corpus: "Corpus", outcomes: "list[Outcome]") -> None:
        """Report outcomes to the corpus, and count how many took effect."""
        from recrawl.corpus import Transition  # noqa: PLC0415

        if corpus.config.corpus.group_by != "key":
            # A fetcher may use the name for something of its own.
            outcomes = [replace(one, key=None) if one.key else one for one in outcomes]
        with value_errors_as_usage():
            reported = corpus.report(outcomes)
        n_counted = int(reported.counted.sum())
        self.n_counted += n_counted
        n_unavailable = count_unavailable(reported.rows)
        self.n_unavailable += n_unavailable
        self.n_void += len(outcomes) - n_counted - n_unavailable
        self.n_dropped += int(reported.has_dropped.sum())
        for line, outcome, is_counted, is_away, number, wrong in zip(
            self._lines,
            outcomes,
            reported.counted.tolist(),
            reported.is_unavailable.tolist(),
            reported.transition.tolist(),
            reported.wrong_answer.tolist(),
            strict=True,
        ):
            if not is_counted:
                of = outcome.url if outcome.url is not None else f"handle {outcome.handle}"
                why = "ignored, unknown page or already reported"
                why = "not reported, its partition cannot be reached" if is_away else why
                self._add_example(line, f"{why}: {of:.200}")
            if is_counted and outcome.is_failure:
                self.n_failed += 1
            elif is_counted and wrong:
                self.n_wrong += 1
            elif is_counted:
                self.transitions[Transition(number).name.lower()] += 1

    def row(self) -> dict[str, Any]:
        """Return the counts, as a row of output."""
        from recrawl.corpus import Transition  # noqa: PLC0415

        counts = {"n_lines": self.n_lines, "n_counted": self.n_counted, "n_void": self.n_void}
        counts |= {"n_bad": self.n_bad, "n_failed": self.n_failed, "n_dropped": self.n_dropped}
        counts |= {"n_wrong_answers": self.n_wrong, "n_unavailable": self.n_unavailable}
        names = [t.name.lower() for t in Transition if t is not Transition.NONE]
        return counts | {f"n_{name}": self.transitions[name] for name in names}

    def summary(self) -> str:
        """Return the counts as a sentence."""
        parts = [f"{count_text(self.n_counted, 'outcome')} counted"]
        changes = [f"{n:,} {name}" for name, n in self.transitions.items() if name != "none"]
        if self.n_failed:
            changes.append(f"{self.n_failed:,} failed")
        if self.n_wrong:
            changes.append(f"{self.n_wrong:,} not the page")
        if n_same := self.transitions["none"]:
            changes.append(f"{n_same:,} without a change")
        parts[0] += f" ({', '.join(changes)})" if changes else ""
        if self.n_void:
            parts.append(f"{self.n_void:,} ignored (unknown page, or already reported)")
        if self.n_bad:
            parts.append(f"{count_text(self.n_bad, 'bad line')}")
        if self.n_dropped:
            parts.append(
                f"{self.n_dropped:,} with headers that were not stored (too long, or with control "
                "characters)"
            )
        return ", ".join(parts) + "."


@example_command(
    "report",
    examples=(
        CommandExample("recrawl lease 100 | python fetch.py | recrawl report"),
        CommandExample("recrawl report outcomes.jsonl"),
        CommandExample(
            """echo '{"url": "https://example.com/", "status": 200, "changed": true}' | """
            "recrawl report"
        ),
    ),
)
@click.argument("file", type=click.File("rb"), default="-")
@corpus_or_service_option
@output_option
def command(file: Any, folder: CorpusPlace, out: Output) -> None:
    """Report what your fetches found: JSON lines from FILE or stdin, one for each fetch.

    A line has the handle from `recrawl lease` (or the url of a page, and its key if the corpus is
    grouped by key) and the HTTP status, 0 if
    there was no answer.  A successful fetch also needs one of: body (the content), body_path (a
    file with it) or body_base64, text (if you extract it yourself, one passage per line), digest (a
    hash of the content), or changed (true or false).  With a body, also give its content_type.

    Optional keys: etag, last_modified and retry_after_seconds (from the headers of the response),
    fetched_at_ms (time of the fetch, now by default), moved_to (target of a permanent redirect),
    disallowed (true if robots.txt forbids the fetch) and divergence (share of the old content that
    is outdated, 0 to 1).  Names may be spelled otherwise: URL, statusCode.  Other keys are ignored,
    so a fetcher can copy the row that lease printed and add its results.
    """
    if _is_keyboard(file):
        out.status(
            "Reading outcomes from the keyboard, one JSON object a line; end with Ctrl-D.  "
            "Usually a fetcher writes them: recrawl lease 10 | python fetch.py | recrawl report"
        )
    reporting = _OutcomeReporter()
    with ExitStack() as stack:
        corpus: Corpus | None = None
        for lines in lines_of(file):
            if corpus is None:
                # The size of the first lines tells small inputs from large ones.
                prepare_kernels(folder, n_bytes_input=sum(map(len, lines)))
            for outcomes in reporting.read(lines):
                corpus = corpus or stack.enter_context(open_to_change(folder))
                reporting.report(corpus, outcomes)
    out.row(reporting.row())
    out.say(reporting.summary() if reporting.n_lines else "There were no outcomes to report.")
    for text in reporting.examples:
        out.note(f"  {text}")
    if reporting.n_bad and reporting.n_bad == reporting.n_lines:
        raise click.ClickException(
            "no line was an outcome.\nRun `recrawl report --help` for the format."
        )
    check_none_unavailable(
        reporting.n_unavailable,
        f"{count_text(reporting.n_unavailable, 'outcome was', 'outcomes were')} not reported",
        "outcomes that were counted are ignored then",
    )


def _is_keyboard(file: Any) -> bool:
    return bool(file.isatty())
